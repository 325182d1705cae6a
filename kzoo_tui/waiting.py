"""Waiting for a verdict in front of a person or a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.exit_codes import ExitCode, of_outcome
from kzoo_tui.rendering.progress import ProgressLine
from kzoo_tui.rendering.submission import progress_words, submission_lines
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import StatusView, SubmissionView
    from kzoo_core.errors import Retryable
    from kzoo_core.ids import SubmissionId
    from kzoo_tui.context import Context


async def await_verdict(
    client: KzooClient, uuid: SubmissionId, context: Context, *, timeout_s: float | None
) -> SubmissionView:
    """Wait until ``uuid`` is done or the time is up, with a progress line on a terminal."""
    progress = ProgressLine(context)

    def on_change(view: StatusView) -> None:
        progress.show(progress_words(view))

    def on_trouble(error: Retryable) -> None:
        progress.show(f"the server does not answer ({error.code}); trying again")

    async with progress.ticking():
        await client.wait_done(
            uuid,
            clock=context.clock,
            timeout_s=timeout_s,
            on_change=on_change,
            on_trouble=on_trouble,
        )
    return await client.submission(uuid)


def report(view: SubmissionView, context: Context, *, as_json: bool, waited: bool) -> ExitCode:
    """Print a submission and return the exit code that its outcome stands for.

    One that was waited for and is not over says so and is ``UNUSABLE``: nothing is decided yet.
    """
    if as_json:
        context.print_json(view)
    else:
        context.print(submission_lines(view, context.clock.now()))
    if waited and view["status"] != "done":
        context.say(
            safe_line(f"error: not done when the time was up: {progress_words(view)}"),
            safe_line(f"hint: {how_to_go_on(view['uuid'])}"),
        )
        return ExitCode.UNUSABLE
    return of_outcome(view["outcome"])


def how_to_go_on(uuid: str) -> str:
    """Return what a person types to wait for a submission that goes on without them."""
    return f"the submission goes on; wait for it with 'kzoo status {uuid} --wait'"
