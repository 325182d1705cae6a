"""``kzoo status``: where a submission is, or how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.ids import SubmissionId
from kzoo_tui.connection import call
from kzoo_tui.safe_text import safe_line
from kzoo_tui.waiting import await_verdict, how_to_go_on, report

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import SubmissionView
    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the submission; the exit code is its outcome's, 0 while there is none."""
    uuid = SubmissionId(arguments.uuid)

    async def ask(client: KzooClient) -> SubmissionView:
        if not arguments.wait:
            return await client.submission(uuid)
        return await await_verdict(client, uuid, context, timeout_s=arguments.timeout)

    try:
        view = call(arguments, context, ask)
    except KeyboardInterrupt:
        context.say(safe_line(how_to_go_on(uuid)))
        raise
    return report(view, context, as_json=arguments.json, waited=arguments.wait)
