"""The reader's side of the queue: records, lists, logs and outputs, at once or as they come."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kzoo_core.errors import NotFound
from kzoo_core.queue import states
from kzoo_core.queue.codec import read_report
from kzoo_core.queue.core import QueueCore
from kzoo_core.queue.exchange import AttemptOutput, QueueCounts, SubmissionPage
from kzoo_core.queue.logs import AttemptLog, LogSlice
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.spool import PACKAGE, disk_errors, report_name, stdout_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.contract.records import RunReport
    from kzoo_core.ids import KernelId, RunnerId, SubmissionId, SubmitterId

LOG_SLICE_BYTES = 256 * 1024


class Reading(QueueCore):
    """What everybody may ask of the queue."""

    def list(
        self,
        *,
        submitter_id: SubmitterId | None = None,
        kernel_id: KernelId | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SubmissionPage:
        """Return submissions newest first; ``status`` is queued, running or done.

        Raises ``BadInput`` for a cursor that no page gave.
        """
        return self._ledger.book.page(
            submitter_id=submitter_id,
            kernel_id=kernel_id,
            status=status,
            limit=limit,
            cursor=cursor,
        )

    def counts(self) -> QueueCounts:
        """Return how many submissions are in each state."""
        return self._ledger.book.counts()

    def position(self, uuid: SubmissionId) -> int | None:
        """Return the rank of a pending submission among those of its arch, 1 is next.

        ``None`` for any other.
        """
        return self._ledger.lineup.position(uuid)

    def running_on(self, runner_id: RunnerId) -> tuple[Submission, ...]:
        """Return the submissions whose open attempt is this runner's."""
        running = self._ledger.book.in_state(State.RUNNING)
        return tuple(item for item in running if item.attempts[-1].runner_id == runner_id)

    def subscribe(self, callback: Callable[[Submission], None]) -> Callable[[], None]:
        """Call back, on the loop, with every visible change in its order; returns how to stop."""
        return self._ledger.subscribe(callback)

    async def wait(
        self, uuid: SubmissionId, *, since: int | None = None, wait_s: float
    ) -> Submission:
        """Wait until ``revision`` is over ``since``, or without it until done, or time is up.

        Returns the record as it is then. Raises ``NotFound`` or ``Gone``.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait_s(wait_s)
        while True:
            with self._ledger.changed.listen(uuid) as change:
                submission = self._ledger.get(uuid)
                over = (
                    submission.state is State.DONE
                    if since is None
                    else (submission.revision > since)
                )
                if over or not await change.wait(end - loop.time()):
                    return self._ledger.get(uuid)

    async def read_log(
        self,
        uuid: SubmissionId,
        *,
        attempt: int | None = None,
        start: int = 0,
        limit: int = LOG_SLICE_BYTES,
        wait_s: float = 0,
    ) -> LogSlice:
        """Return at most ``limit`` bytes from ``start``, waiting up to ``wait_s`` for some.

        ``attempt`` is the newest when it is ``None``. The log of an attempt that is over ends where
        it is, closed or not. Raises ``NotFound``, ``Gone``, ``Broken``.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._wait_s(wait_s)
        while True:
            with self._ledger.logged.listen(uuid) as more:
                part = await self._log_slice(uuid, attempt, start, limit)
                if part.data or part.complete or not await more.wait(end - loop.time()):
                    return part

    async def output(self, uuid: SubmissionId) -> AttemptOutput:
        """Return the newest result; raises ``NotFound`` ``NO_OUTPUT`` while there is none."""
        submission = self._ledger.get(uuid)
        for attempt in reversed(submission.attempts):
            if attempt.result_sha256 is not None:
                read = partial(self._read_report, uuid, attempt.number)
                return AttemptOutput(attempt.number, await self._disk.run(read))
        raise NotFound(
            "NO_OUTPUT",
            f"no attempt of submission {uuid} has reported; it is {submission.public_status}",
            hint="wait until an attempt has reported",
        )

    async def package(self, uuid: SubmissionId) -> bytes:
        """Return the canonical archive as it was submitted; raises ``NotFound`` or ``Gone``."""
        self._ledger.get(uuid)
        return await self._disk.run(partial(self._spool.read, uuid, PACKAGE))

    async def _log_slice(
        self, uuid: SubmissionId, number: int | None, start: int, limit: int
    ) -> LogSlice:
        submission = self._ledger.get(uuid)
        done = submission.state is State.DONE
        newest = len(submission.attempts)
        if number is None and newest == 0:
            return LogSlice(attempt=None, start=start, data=b"", size=0, complete=done)
        attempt = states.attempt_of(submission, newest if number is None else number)

        def read() -> LogSlice:
            with disk_errors():
                log = AttemptLog(
                    self._spool.directory(uuid),
                    attempt.number,
                    limit_bytes=self._settings.log_bytes,
                )
                return log.read(start, limit)

        part = await self._disk.run(read)
        if (done or attempt.number < newest) and part.next_offset >= part.size:
            return replace(part, complete=True)
        return part

    def _read_report(self, uuid: SubmissionId, number: int) -> RunReport:
        stdout = partial(self._spool.read, uuid, stdout_name(number))
        return read_report(self._spool.read(uuid, report_name(number)), stdout)
