"""``kzoo show``: one kernel's cases, results and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.ids import KernelId
from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.rendering.kernels import history_table, kernel_lines
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import HistoryPage, KernelView
    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the kernel; with ``--history N`` also its newest accepted attempts."""
    kernel_id = KernelId(arguments.kernel_id)

    async def ask(client: KzooClient) -> tuple[KernelView, HistoryPage | None]:
        view = await client.kernel(kernel_id)
        if arguments.history is None:
            return view, None
        return view, await client.history(kernel_id, limit=arguments.history)

    view, history = call(arguments, context, ask)
    if arguments.json:
        more = {} if history is None else {"history": history["items"]}
        context.print_json({**view, **more})
        return ExitCode.OK
    now = context.clock.now()
    context.print(kernel_lines(view, now, width=context.width))
    if history is not None:
        context.print([safe_line("")])
        context.print(history_table(history["items"], now, width=context.width))
    return ExitCode.OK
