"""``kzoo kernels``: the board, filtered and sorted by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.paging import pages
from kzoo_tui.rendering.kernels import kernels_table
from kzoo_tui.rendering.words import plural
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import KernelPage
    from kzoo_tui.context import Context

_FILTERS = ("arch", "op_class", "sub_class", "quant", "status", "tag", "owner", "q", "valid")


def run(arguments: Namespace, context: Context) -> int:
    """Print the kernels that the filters leave, at most ``--limit`` of them."""
    filters = {name: getattr(arguments, name) for name in _FILTERS}

    async def ask(client: KzooClient) -> KernelPage:
        return await pages(
            lambda limit, cursor: client.kernels(
                filters, sort=arguments.sort, limit=limit, cursor=cursor
            ),
            arguments.limit,
        )

    page = call(arguments, context, ask)
    if arguments.json:
        context.print_json(page)
        return ExitCode.OK
    shown, total = len(page["items"]), page["total"]
    if shown:
        context.print(kernels_table(page["items"], context.clock.now(), width=context.width))
    more = "; --limit N shows more" if shown < total else ""
    context.say(safe_line(f"{shown} of {plural(total, 'kernel')}{more}"))
    return ExitCode.OK
