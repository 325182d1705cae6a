"""Settlement: from a durable report to a verdict, and from an accept to two commits.

A report is judged when it arrives, in the runner's own call, so that the runner hears the verdict.
What is accepted is then committed one after another by one loop; a crash at any point leaves the
submission in ``reported``, from where ``start`` takes it up again and finds in git whether the
commits were already made.
"""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from kzoo_core.contract.archive import read_archive
from kzoo_core.contract.package import check_submission
from kzoo_core.contract.verdict import (
    FailureKind,
    Verdict,
    VerdictContext,
    VerdictReason,
    judge,
)
from kzoo_core.errors import Broken, KzooError, Retryable
from kzoo_core.queue.records import Mode, Outcome, Reason, State
from kzoo_core.store.accept import (
    AcceptRequest,
    FrozenAtHead,
    KernelIdConflict,
    KernelMoved,
    find_accept,
)

if TYPE_CHECKING:
    from kzoo_core.clock import Clock
    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.records import Desc, Package, RunReport, TestCaseMeta
    from kzoo_core.ids import Sha256, SubmissionId
    from kzoo_core.lifecycle.board import Board, HeadFacts
    from kzoo_core.queue.records import Attempt, Submission
    from kzoo_core.queue.service import SubmissionQueue
    from kzoo_core.store.accept import Accepted
    from kzoo_core.store.writer import StoreWriter

log = structlog.get_logger()

JUDGE_TIMEOUT_S = 60.0
COMMIT_BACKOFF_S = (0.2, 1.0, 5.0, 15.0)
"""Pauses between tries of a git step that failed for want of disk or a free ref."""


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """What a runner is told about its report: no ``verdict`` for an infrastructure failure.

    ``repeated`` says that the very same report had arrived before.
    """

    submission: Submission
    verdict: Verdict | None
    repeated: bool


@dataclass(frozen=True, slots=True)
class _Judged:
    verdict: Verdict
    package: Package
    desc: Desc
    metas: tuple[TestCaseMeta, ...]


@dataclass(frozen=True, slots=True)
class _Due:
    uuid: SubmissionId
    judged: _Judged | None
    recovered: bool


class Settlement:
    """Judges reports and settles what they say: rejected, checked, or committed."""

    def __init__(
        self,
        queue: SubmissionQueue,
        board: Board,
        writer: StoreWriter,
        limits: PackageLimits,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._board = board
        self._writer = writer
        self._limits = limits
        self._clock = clock
        self._due: asyncio.Queue[_Due] = asyncio.Queue()
        self._known: set[SubmissionId] = set()
        self._closing = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up what had been reported before the last stop, and begin to settle."""
        self.resume()
        self._loop = asyncio.create_task(self._run(), name="settlement")

    async def close(self) -> None:
        """Let the git step that runs finish; the rest stays reported for the next start."""
        self._closing.set()
        if self._loop is not None:
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    def resume(self) -> None:
        """Take up every reported submission that nobody is settling."""
        for submission in self._queue.reported():
            if submission.uuid not in self._known:
                self._enqueue(submission.uuid, judged=None, recovered=True)

    async def report(
        self,
        uuid: SubmissionId,
        attempt: int,
        token: str,
        report: RunReport,
        digest: Sha256,
        *,
        log: bytes | None = None,
    ) -> ReportAnswer:
        """Keep a runner's report durably, judge it and answer.

        ``log`` counts only if no chunk of one was sent before. Raises ``Conflict``
        (``STALE_ATTEMPT``, ``RESULT_CONFLICT``) and what the queue refuses with.
        """
        self._known.add(uuid)  # until judged, no sweep may take it up beside this call
        enqueued = False
        try:
            receipt = await self._queue.report(uuid, attempt, token, report, digest, log=log)
            submission = receipt.submission
            if submission.state is not State.REPORTED:
                return ReportAnswer(submission, None, repeated=receipt.repeated)
            if _is_infrastructure(report):
                submission = await self._try_again(uuid, report)
                return ReportAnswer(submission, None, repeated=receipt.repeated)
            judged = await self._judge(submission, report)
            if receipt.repeated:
                return ReportAnswer(submission, judged.verdict, repeated=True)
            if judged.verdict.accepted:
                self._enqueue(uuid, judged=judged, recovered=False)
                enqueued = True
            else:
                submission = await self._reject(submission, judged.verdict)
            return ReportAnswer(submission, judged.verdict, repeated=False)
        finally:
            if not enqueued:
                self._known.discard(uuid)

    def _enqueue(self, uuid: SubmissionId, *, judged: _Judged | None, recovered: bool) -> None:
        self._known.add(uuid)
        self._due.put_nowait(_Due(uuid, judged, recovered))

    async def _run(self) -> None:
        stop = asyncio.create_task(self._closing.wait())
        try:
            while not self._closing.is_set():
                due = asyncio.create_task(self._due.get())
                await asyncio.wait({due, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not due.done():
                    due.cancel()
                    return
                await self._settle(due.result())
        finally:
            stop.cancel()

    async def _settle(self, due: _Due) -> None:
        try:
            submission = self._queue.get(due.uuid)
            if submission.state is not State.REPORTED:
                return
            judged = due.judged
            if judged is None:
                report = (await self._queue.output(due.uuid)).report
                if _is_infrastructure(report):
                    await self._try_again(due.uuid, report)
                    return
                judged = await self._judge(submission, report)
            if not judged.verdict.accepted:
                await self._reject(submission, judged.verdict)
            elif submission.mode is Mode.CHECK:
                await self._queue.finish(due.uuid, Outcome.ACCEPTED)
            else:
                await self._commit(submission, judged, recovered=due.recovered)
        except (OSError, Retryable) as error:
            # Disk or git, not the submission: the report is durable, a sweep takes it up again.
            log.warning("settlement.postponed", uuid=due.uuid, error=str(error))
        except Exception as error:  # one submission's trouble must not stop the others
            log.exception("settlement.failed", uuid=due.uuid)
            await self._fail(due.uuid, error)
        finally:
            self._known.discard(due.uuid)

    async def _commit(self, submission: Submission, judged: _Judged, *, recovered: bool) -> None:
        try:
            accepted = await self._accept(submission, judged, recovered=recovered)
        except KernelMoved:
            await self._queue.requeue_moved(submission.uuid)
            return
        except FrozenAtHead as error:
            await self._reject(submission, _refusal(VerdictReason.FROZEN, error.message))
            return
        except KernelIdConflict as error:
            await self._reject(
                submission, _refusal(VerdictReason.KERNEL_ID_CONFLICT, error.message)
            )
            return
        if accepted is None:
            return
        await self._refresh_board()
        await self._queue.finish(
            submission.uuid,
            Outcome.ACCEPTED,
            commit_sha=accepted.source_commit,
            bench_commit_sha=accepted.bench_commit,
            records=accepted.records,
        )

    async def _accept(
        self, submission: Submission, judged: _Judged, *, recovered: bool
    ) -> Accepted | None:
        """Make the two commits; ``None`` when the process stops before they were made."""
        request = _accept_request(submission, judged, self._clock)
        for pause in (*COMMIT_BACKOFF_S, None):
            if recovered:
                found = await self._board.read(
                    lambda repository: find_accept(
                        repository, submission.uuid, since=submission.submitted_at
                    )
                )
                if found is not None:
                    return found
            try:
                return await self._writer.accept(request)
            except (OSError, Retryable) as error:
                if pause is None:
                    raise
                log.warning("settlement.commit_retry", uuid=submission.uuid, error=str(error))
                recovered = True  # the failed step may have reached the ref
            try:
                async with asyncio.timeout(pause):
                    await self._closing.wait()
                    return None
            except TimeoutError:
                continue
        return None

    async def _refresh_board(self) -> None:
        try:
            await self._board.refresh()
        except Exception:  # the commits stand; the board's own watch tries again
            log.exception("settlement.board_refresh_failed")

    async def _reject(self, submission: Submission, verdict: Verdict) -> Submission:
        code = verdict.reason.value if verdict.reason is not None else Outcome.REJECTED.value
        reason = Reason(code=code, message=verdict.message, details=verdict.details)
        return await self._queue.finish(submission.uuid, Outcome.REJECTED, reason=reason)

    async def _try_again(self, uuid: SubmissionId, report: RunReport) -> Submission:
        failure = report.failure
        if failure is None:
            raise Broken("NO_FAILURE", f"the report of {uuid} names no failure")
        return await self._queue.infrastructure_failure(
            uuid, kind=failure.kind, detail=failure.detail
        )

    async def _fail(self, uuid: SubmissionId, error: Exception) -> None:
        reason = Reason(code="commit_failed", message=f"{type(error).__name__}: {error}")
        try:
            await self._queue.finish(uuid, Outcome.FAILED, reason=reason)
        except (KzooError, OSError):
            log.exception("settlement.cannot_record_failure", uuid=uuid)

    async def _judge(self, submission: Submission, report: RunReport) -> _Judged:
        archive = await self._queue.package(submission.uuid)
        facts = await self._board.head_facts(submission.kernel_id)
        async with asyncio.timeout(JUDGE_TIMEOUT_S):
            return await asyncio.to_thread(
                judge_report, submission, archive, report, facts, self._limits
            )


def judge_report(
    submission: Submission,
    archive: bytes,
    report: RunReport,
    facts: HeadFacts,
    limits: PackageLimits,
) -> _Judged:
    """Read the submission's own package and judge the report of its newest attempt by it."""
    package = read_archive(io.BytesIO(archive), limits, kernel_id=submission.kernel_id)
    checked = check_submission(package)
    if checked.desc is None or checked.metas is None:
        raise Broken(
            "PACKAGE_UNREADABLE",
            f"the stored package of {submission.uuid} no longer passes its checks",
            details=checked.problems,
        )
    context = VerdictContext(
        kernel_id=submission.kernel_id,
        desc=checked.desc,
        metas=checked.metas,
        package_paths=frozenset(package.files),
        runner_arch=_newest(submission).arch,
        frozen=facts.frozen,
        kernel_id_conflict=facts.conflict,
        superseded=False,
    )
    return _Judged(judge(report, context), package, checked.desc, checked.metas)


def _accept_request(submission: Submission, judged: _Judged, clock: Clock) -> AcceptRequest:
    attempt = _newest(submission)
    if judged.verdict.output is None:
        raise Broken("NO_OUTPUT", f"the accepted report of {submission.uuid} has no output")
    return AcceptRequest(
        package=judged.package,
        submission_id=submission.uuid,
        attempt=attempt.number,
        submitter=submission.submitter_id,
        runner_id=attempt.runner_id,
        arch=attempt.arch,
        isolation=attempt.isolation,
        package_sha256=submission.package_sha256,
        summary=submission.optimization_summary,
        desc_summary=judged.desc.summary,
        output=judged.verdict.output,
        metas=judged.metas,
        recorded_at=clock.now().replace(microsecond=0),
        base_tree=attempt.base_tree,
    )


def _is_infrastructure(report: RunReport) -> bool:
    """Whether the runner, not the package, is what failed: only the runner's own word says so."""
    return report.failure is not None and FailureKind(report.failure.kind).is_infrastructure


def _newest(submission: Submission) -> Attempt:
    attempt = submission.attempt
    if attempt is None:
        raise Broken("NO_ATTEMPT", f"{submission.uuid} was reported without an attempt")
    return attempt


def _refusal(reason: VerdictReason, message: str) -> Verdict:
    return Verdict(accepted=False, reason=reason, message=message, details=(), output=None)
