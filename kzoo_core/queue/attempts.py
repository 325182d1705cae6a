"""The runner's side of an attempt: signs of life, log, result, and handing it back.

Every call but the heartbeat carries the attempt's token; a wrong one is ``Forbidden``
``BAD_ATTEMPT_TOKEN``. Each is a sign of life: it confirms the claim, durably, and renews the lease,
in memory, because after a restart every lease begins anew anyhow.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.errors import Forbidden
from kzoo_core.queue import states
from kzoo_core.queue.core import QueueCore
from kzoo_core.queue.exchange import Beat, Directive, HeartbeatReply, Order, ReportReceipt
from kzoo_core.queue.logs import AttemptLog
from kzoo_core.queue.records import AttemptEnd, Phase, State, Submission
from kzoo_core.queue.spool import attempt_package_name, disk_errors, report_files
from kzoo_core.queue.tokens import token_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kzoo_core.contract.records import RunReport
    from kzoo_core.ids import RunnerId, Sha256, SubmissionId

Result = TypeVar("Result")

_RESULT_STILL_TAKEN = frozenset({AttemptEnd.LOST, AttemptEnd.UNCONFIRMED})


class Attempts(QueueCore):
    """What a runner with an attempt asks of the queue."""

    async def heartbeat(self, runner_id: RunnerId, beats: Sequence[Beat]) -> HeartbeatReply:
        """Take a runner's word for what it works on, and say of each attempt what to do.

        An attempt whose lease ran out may go on as long as nobody claimed a newer one: its result
        is still taken. Any other that is not this runner's to work on is to be aborted.
        """
        directives = []
        unknown = []
        for beat in beats:
            submission = self._ledger.book.get(beat.uuid)
            if submission is None or not 1 <= beat.attempt <= len(submission.attempts):
                unknown.append(beat)
                continue
            if submission.attempts[beat.attempt - 1].runner_id == runner_id:
                submission = await self._alive(beat.uuid, beat.attempt, beat.phase)
            order = _order(submission, beat.attempt, runner_id)
            directives.append(Directive(beat.uuid, beat.attempt, order))
        return HeartbeatReply(tuple(directives), tuple(unknown))

    async def attempt_package(self, uuid: SubmissionId, attempt: int, token: str) -> bytes:
        """Return the frozen archive that an attempt runs (D13).

        Raises ``Forbidden``, ``NotFound``, ``Gone``, ``StaleAttempt`` for an older attempt.
        """
        self._check_token(uuid, attempt, token)
        states.newest_attempt(self._ledger.get(uuid), attempt)
        await self._alive(uuid, attempt, None)
        read = partial(self._spool.read, uuid, attempt_package_name(attempt))
        return await self._disk.run(read)

    async def append_log(
        self,
        uuid: SubmissionId,
        attempt: int,
        token: str,
        *,
        offset: int,
        data: bytes,
        phase: Phase | None = None,
    ) -> int:
        """Take a chunk of the log that begins at byte ``offset``; return the log's size.

        ``phase`` says that the chunk begins that phase. Raises ``LogGap``, ``TooLarge``
        ``LOG_TOO_LARGE``, ``Conflict`` ``LOG_CLOSED``, ``StaleAttempt`` for an older attempt,
        ``Retryable`` ``DISK_FULL``, ``Forbidden``, ``NotFound``, ``Gone``.
        """
        self._check_token(uuid, attempt, token)
        states.newest_attempt(self._ledger.get(uuid), attempt)
        await self._alive(uuid, attempt, phase)
        append = partial(AttemptLog.append, offset=offset, data=data, phase=phase)
        return await self._with_log(uuid, attempt, append)

    async def close_log(
        self, uuid: SubmissionId, attempt: int, token: str, *, size: int, sha256: Sha256
    ) -> None:
        """End the log durably, if it is what the runner sent.

        Raises ``LogMismatch`` after emptying one that is not, and what ``append_log`` raises.
        """
        self._check_token(uuid, attempt, token)
        states.newest_attempt(self._ledger.get(uuid), attempt)
        await self._alive(uuid, attempt, None)
        await self._with_log(uuid, attempt, partial(AttemptLog.close, size=size, sha256=sha256))

    async def release(
        self, uuid: SubmissionId, attempt: int, token: str, *, why: str
    ) -> Submission:
        """Take back an attempt that was not begun; asked again, do nothing.

        Raises ``Conflict`` ``ATTEMPT_BEGUN``, ``StaleAttempt``, ``Forbidden``, ``NotFound``,
        ``Gone``.
        """
        self._check_token(uuid, attempt, token)
        transition = partial(
            states.release,
            number=attempt,
            now=self._clock.now(),
            settings=self._settings,
            why=why,
        )
        _, after = await self._ledger.change(uuid, transition)
        return after

    async def report(
        self,
        uuid: SubmissionId,
        attempt: int,
        token: str,
        report: RunReport,
        digest: Sha256,
        *,
        log: bytes | None = None,
    ) -> ReportReceipt:
        """Take a result durably: ``digest`` tells one result of an attempt from another.

        ``log`` is kept when no chunk of one was sent before. Raises ``Conflict``
        ``RESULT_CONFLICT``; ``StaleAttempt``, whose ``stored`` says whether the late result was
        kept; ``Retryable`` ``DISK_FULL``; ``Forbidden``, ``NotFound``, ``Gone``, ``SpoolFailed``.
        """
        self._check_token(uuid, attempt, token)
        transition = partial(states.report, number=attempt, digest=digest, now=self._clock.now())
        try:
            held = self._ledger.get(uuid)
            if log is not None and transition(held) is not held:
                await self._with_log(uuid, attempt, partial(AttemptLog.put_whole, text=log))
            before, after = await self._ledger.change(
                uuid, transition, report_files(attempt, report, digest)
            )
        except states.StaleAttempt as stale:
            keep = partial(self._spool.keep_late, uuid, attempt, report, digest)
            raise stale.with_stored(stored=await self._disk.run(keep)) from None
        return ReportReceipt(after, repeated=after is before)

    def _check_token(self, uuid: SubmissionId, number: int, token: str) -> None:
        attempt = states.attempt_of(self._ledger.get(uuid), number)
        if not token_matches(token, attempt.token_sha256):
            raise Forbidden(
                "BAD_ATTEMPT_TOKEN",
                f"the token is not that of attempt {number} of submission {uuid}",
                hint="send the attempt_token that the claim's answer gave",
            )

    async def _alive(self, uuid: SubmissionId, number: int, phase: Phase | None) -> Submission:
        def beat(submission: Submission) -> Submission:
            if not _is_open(submission, number):
                return submission
            return states.heartbeat(
                submission,
                number=number,
                now=self._clock.now(),
                settings=self._settings,
                phase=phase,
            )

        submission = self._ledger.get(uuid)
        if _is_open(submission, number) and not submission.attempts[-1].confirmed:
            _, after = await self._ledger.change(uuid, beat)
            return after
        return await self._ledger.touch(uuid, beat)

    async def _with_log(
        self, uuid: SubmissionId, number: int, use: Callable[[AttemptLog], Result]
    ) -> Result:
        def step() -> Result:
            with disk_errors():
                directory = self._spool.directory(uuid)
                return use(AttemptLog(directory, number, limit_bytes=self._settings.log_bytes))

        try:
            return await self._disk.run(step)
        finally:
            self._ledger.logged.notify(uuid)


def _is_open(submission: Submission, number: int) -> bool:
    return submission.state is State.RUNNING and number == len(submission.attempts)


def _order(submission: Submission, number: int, runner_id: RunnerId) -> Order:
    attempt = submission.attempts[number - 1]
    if attempt.runner_id != runner_id or number != len(submission.attempts):
        return Order.ABORT
    waits_for_it = submission.state is State.PENDING and attempt.end in _RESULT_STILL_TAKEN
    delivered = attempt.result_sha256 is not None
    if submission.state is State.RUNNING or waits_for_it or delivered:
        return Order.CONTINUE
    return Order.ABORT
