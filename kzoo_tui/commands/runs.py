"""``kzoo runs``: submissions, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.paging import pages
from kzoo_tui.rendering.submission import runs_table
from kzoo_tui.rendering.words import plural
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import SubmissionPage
    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the submissions that the filters leave, at most ``--limit`` of them."""

    async def ask(client: KzooClient) -> SubmissionPage:
        return await pages(
            lambda limit, cursor: client.submissions(
                submitter=arguments.of_submitter,
                kernel_id=arguments.kernel_id,
                state=arguments.status,
                limit=limit,
                cursor=cursor,
            ),
            arguments.limit,
        )

    page = call(arguments, context, ask)
    if arguments.json:
        context.print_json(page)
        return ExitCode.OK
    if page["items"]:
        context.print(runs_table(page["items"], context.clock.now(), width=context.width))
    more = "; --limit N shows more" if page["next_cursor"] is not None else ""
    context.say(safe_line(f"{plural(len(page['items']), 'submission')}{more}"))
    return ExitCode.OK
