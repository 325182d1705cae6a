"""``kzoo submit``: check, send, and with ``--wait`` stay for the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.client.problems import problems_from_json
from kzoo_core.ids import SubmissionId
from kzoo_tui.connection import call, required_identity
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.packing import pack_directory, say_what_was_packed, take_archive
from kzoo_tui.rendering.problems import problem_lines
from kzoo_tui.safe_text import safe_line
from kzoo_tui.waiting import await_verdict, how_to_go_on, report

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_core.client import KzooClient
    from kzoo_core.client.views import SubmissionView, SubmittedView
    from kzoo_core.ids import SubmitterId
    from kzoo_tui.context import Context
    from kzoo_tui.packing import Packed


def run(arguments: Namespace, context: Context) -> int:
    """Send a package and print its uuid, or with ``--wait`` its verdict.

    A package with errors is not sent (exit 2). One Idempotency-Key stands for this run of the
    command, so that a try after a lost answer cannot make a second submission.
    """
    submitter_id = required_identity(arguments, context)
    path, check = Path(arguments.path), not arguments.no_check
    read = pack_directory if path.is_dir() else take_archive
    packed = read(path, arguments.kernel_id, check=check)
    say_what_was_packed(packed, context)
    submission = _Submission(arguments, context, packed, submitter_id)
    try:
        return call(arguments, context, submission.send)
    except KeyboardInterrupt:
        if submission.uuid is not None:
            context.say(safe_line(how_to_go_on(submission.uuid)))
        raise


class _Submission:
    """One package on its way; ``uuid`` is known once the server has it."""

    def __init__(
        self, arguments: Namespace, context: Context, packed: Packed, submitter_id: SubmitterId
    ) -> None:
        self._arguments = arguments
        self._context = context
        self._packed = packed
        self._submitter_id = submitter_id
        self.uuid: SubmissionId | None = None

    async def send(self, client: KzooClient) -> int:
        """Send it, tell what the server says, and wait for the verdict where that is asked."""
        submitted = await client.submit(
            self._packed.archive,
            kernel_id=self._packed.kernel_id,
            submitter_id=self._submitter_id,
            mode=self._arguments.mode,
            summary=self._arguments.summary,
            idempotency_key=self._context.new_key(),
        )
        self.uuid = SubmissionId(submitted["uuid"])
        self._tell(submitted)
        if not self._arguments.wait:
            return self._hand_over(submitted)
        view: SubmissionView = await await_verdict(
            client, self.uuid, self._context, timeout_s=self._arguments.timeout
        )
        return report(view, self._context, as_json=self._arguments.json, waited=True)

    def _tell(self, submitted: SubmittedView) -> None:
        known = {(problem.code, problem.file) for problem in self._packed.warnings}
        new = [
            problem
            for problem in problems_from_json(submitted["warnings"])
            if (problem.code, problem.file) not in known
        ]
        self._context.say(*problem_lines(new))
        place = submitted["position"]
        where = f", position {place}" if place is not None else ""
        self._context.say(
            safe_line(f"submitted {self._packed.kernel_id} as {submitted['uuid']}{where}")
        )

    def _hand_over(self, submitted: SubmittedView) -> int:
        if self._arguments.json:
            self._context.print_json(submitted)
        else:
            self._context.print([safe_line(submitted["uuid"])])
        return ExitCode.OK
