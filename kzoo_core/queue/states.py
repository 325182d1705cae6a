"""The life of one submission as pure functions: record, fact and time in, the next record out.

::

    pending --claim--> running --report--> reported --finish--> done
       ^  ^               |                    |
       |  +-- release, expire, infrastructure -+-- requeue_moved, infrastructure
       +----- report of the newest attempt after its lease ran out goes to reported directly
    pending --cancel, refuse--> done

A function that has nothing to change returns the very record it was given. One that may not happen
raises a ``Conflict`` whose detail says what was found and what was expected. ``revision`` rises
with every change that a reader can see; a renewed lease is none.

``charged`` and ``uncharged`` are always recounted from how the attempts ended. So a result that
arrives after its lease ran out takes the charge back, and no attempt is ever charged twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kzoo_core.clock import format_time
from kzoo_core.errors import Conflict, NotFound, Problem
from kzoo_core.queue.records import (
    Attempt,
    AttemptEnd,
    Mode,
    Outcome,
    Phase,
    Reason,
    State,
    Submission,
)

if TYPE_CHECKING:
    from datetime import datetime

    from kzoo_core.contract.records import Record
    from kzoo_core.ids import ClaimId, CommitId, RunnerId, Sha256
    from kzoo_core.queue.settings import QueueSettings

CHARGED_ENDS = frozenset({AttemptEnd.LOST, AttemptEnd.INFRASTRUCTURE})
UNCHARGED_ENDS = (AttemptEnd.UNCONFIRMED, AttemptEnd.RELEASED, AttemptEnd.REQUEUED)

RESUME_REVISIONS = 8
"""By how much a restart lifts the revision of a running submission.

Phases reach memory only, and an attempt passes at most two of them: a reader who waits for more
than the last revision it saw is never ahead of the record that was read back.
"""

_PHASE_ORDER = (Phase.CLAIMED, Phase.BUILD, Phase.BENCHMARK)


class StaleAttempt(Conflict):
    """The call names an attempt that is over; ``stored`` says whether its result was kept."""

    def __init__(
        self, message: str, *, found: str, expected: str, hint: str, stored: bool = False
    ) -> None:
        kept = "the result is kept for audit in late/" if stored else "nothing was kept"
        details = (
            Problem(
                code="stale_attempt",
                message=f"{message}; {kept}",
                found=found,
                expected=expected,
                hint=hint,
            ),
        )
        super().__init__("STALE_ATTEMPT", message, hint=hint, details=details)
        self.stored = stored
        self.found = found
        self.expected = expected

    def with_stored(self, *, stored: bool) -> StaleAttempt:
        """Return the same refusal, saying whether the late result was kept."""
        return StaleAttempt(
            self.message,
            found=self.found,
            expected=self.expected,
            hint=self.hint or "",
            stored=stored,
        )


def attempt_of(submission: Submission, number: int) -> Attempt:
    """Return the attempt with this number; raises ``NotFound`` when there never was one."""
    if 1 <= number <= len(submission.attempts):
        return submission.attempts[number - 1]
    raise NotFound(
        "UNKNOWN_ATTEMPT",
        f"submission {submission.uuid} has no attempt {number}, "
        f"its newest is {len(submission.attempts)}",
        hint="claim again",
    )


def newest_attempt(submission: Submission, number: int) -> Attempt:
    """Return attempt ``number`` if it is the newest; raises ``NotFound`` or ``StaleAttempt``."""
    attempt = attempt_of(submission, number)
    if number != len(submission.attempts):
        raise _stale(submission, attempt)
    return attempt


def open_attempt(submission: Submission, number: int) -> Attempt:
    """Return attempt ``number`` if it runs now; raises ``NotFound`` or ``StaleAttempt``."""
    attempt = newest_attempt(submission, number)
    if submission.state is not State.RUNNING:
        raise _stale(submission, attempt)
    return attempt


def claim(
    submission: Submission,
    *,
    now: datetime,
    settings: QueueSettings,
    runner_id: RunnerId,
    claim_id: ClaimId,
    token_sha256: Sha256,
    arch: str,
    isolation: str,
    package_sha256: Sha256,
    base_tree: str | None,
) -> Submission:
    """Give a pending submission its next attempt, which has ``confirm_s`` to show a sign of life.

    ``package_sha256`` is of the frozen bytes (D13). Raises ``Conflict`` ``NOT_PENDING``.
    """
    if submission.state is not State.PENDING:
        raise _refused(submission, "NOT_PENDING", "cannot be claimed", "pending", "claim again")
    attempt = Attempt(
        number=len(submission.attempts) + 1,
        runner_id=runner_id,
        claim_id=claim_id,
        token_sha256=token_sha256,
        arch=arch,
        isolation=isolation,
        package_sha256=package_sha256,
        base_tree=base_tree,
        claimed_at=now,
        lease_expires_at=now + timedelta(seconds=settings.confirm_s),
    )
    return _changed(submission, state=State.RUNNING, attempts=(*submission.attempts, attempt))


def heartbeat(
    submission: Submission,
    *,
    number: int,
    now: datetime,
    settings: QueueSettings,
    phase: Phase | None = None,
) -> Submission:
    """Renew the lease of a running attempt, confirm its claim, and move its phase forward.

    A phase never goes back; one that is no phase of a run (``queued``, ``reported``) changes
    nothing. Raises ``NotFound`` or ``StaleAttempt``.
    """
    attempt = open_attempt(submission, number)
    renewed = replace(
        attempt,
        confirmed=True,
        lease_expires_at=now + timedelta(seconds=settings.lease_s),
        phase=_later(attempt.phase, phase),
    )
    if renewed == attempt:
        return submission
    attempts = (*submission.attempts[:-1], renewed)
    if renewed.phase is attempt.phase:
        return replace(submission, attempts=attempts)
    return _changed(submission, attempts=attempts)


def resume(submission: Submission, *, now: datetime, settings: QueueSettings) -> Submission:
    """Give a running attempt its time anew after the server, or the clock, made a jump.

    Its runner could not reach us meanwhile, or time went by that it never had.
    """
    attempt = open_attempt(submission, len(submission.attempts))
    lease = timedelta(seconds=max(settings.restart_grace_s, settings.lease_s))
    attempts = (*submission.attempts[:-1], replace(attempt, lease_expires_at=now + lease))
    return replace(submission, attempts=attempts, revision=submission.revision + RESUME_REVISIONS)


def report(submission: Submission, *, number: int, digest: Sha256, now: datetime) -> Submission:
    """Take the result of an attempt while the attempt is still the newest.

    That holds even when the lease has run out and the submission waits again: nobody has claimed it
    since, and the work is done. The same digest again returns the record unchanged. Raises
    ``Conflict`` ``RESULT_CONFLICT`` for another digest, ``StaleAttempt`` when a newer attempt was
    claimed or the submission has ended, ``NotFound`` for an attempt that never was.
    """
    attempt = attempt_of(submission, number)
    if attempt.result_sha256 == digest:
        return submission
    if attempt.result_sha256 is not None:
        raise Conflict(
            "RESULT_CONFLICT",
            f"attempt {number} of submission {submission.uuid} has another result already",
            hint="an attempt has one result; the first one stands",
            details=(
                Problem(
                    code="result_conflict",
                    message="a second result with another digest",
                    found=digest,
                    expected=attempt.result_sha256,
                ),
            ),
        )
    if number != len(submission.attempts) or submission.state is State.DONE:
        raise _stale(submission, attempt)
    taken = replace(
        attempt,
        confirmed=True,
        phase=Phase.REPORTED,
        ended_at=now,
        end=AttemptEnd.REPORTED,
        detail=None,
        result_sha256=digest,
    )
    return _with_newest(submission, taken, state=State.REPORTED)


def finish(
    submission: Submission,
    *,
    now: datetime,
    outcome: Outcome,
    reason: Reason | None = None,
    commit_sha: CommitId | None = None,
    bench_commit_sha: CommitId | None = None,
    records: tuple[Record, ...] = (),
) -> Submission:
    """End a reported submission as accepted, rejected or failed (D16).

    Raises ``Conflict`` ``NOT_REPORTED``; ``ValueError`` for an outcome that is not reached by a
    verdict, and for commits that do not go with it: an accepted ranked submission has both, any
    other none (D19).
    """
    if submission.state is not State.REPORTED:
        raise _refused(submission, "NOT_REPORTED", "has no verdict to reach", "reported", None)
    if outcome not in {Outcome.ACCEPTED, Outcome.REJECTED, Outcome.FAILED}:
        raise ValueError(f"a verdict cannot end a submission as {outcome}")
    committed = outcome is Outcome.ACCEPTED and submission.mode is Mode.RANKED
    if {commit_sha is not None, bench_commit_sha is not None} != {committed}:
        raise ValueError(f"{outcome} in mode {submission.mode} with commits {commit_sha}")
    return _ended(
        submission,
        now=now,
        outcome=outcome,
        reason=reason,
        commit_sha=commit_sha,
        bench_commit_sha=bench_commit_sha,
        records=records,
    )


def refuse(submission: Submission, *, now: datetime, reason: Reason) -> Submission:
    """Reject a pending submission without a run, as for a kernel frozen meanwhile (D17).

    Raises ``Conflict`` ``NOT_PENDING``.
    """
    if submission.state is not State.PENDING:
        raise _refused(submission, "NOT_PENDING", "cannot be refused", "pending", None)
    return _ended(submission, now=now, outcome=Outcome.REJECTED, reason=reason)


def cancel(submission: Submission, *, now: datetime, by: str) -> Submission:
    """End a submission that waits in the queue; raises ``Conflict`` ``NOT_CANCELLABLE``."""
    if submission.state is not State.PENDING:
        hint = "it is over" if submission.state is State.DONE else "wait until the run is over"
        raise _refused(submission, "NOT_CANCELLABLE", "cannot be cancelled", "queued", hint)
    reason = Reason(code="cancelled", message=f"cancelled by {by} while it waited in the queue")
    return _ended(submission, now=now, outcome=Outcome.CANCELLED, reason=reason)


def release(
    submission: Submission, *, number: int, now: datetime, settings: QueueSettings, why: str
) -> Submission:
    """Hand back an attempt that was not begun: uncharged, and bounded.

    Asked again, the record is returned unchanged. Raises ``Conflict`` ``ATTEMPT_BEGUN``,
    ``StaleAttempt`` or ``NotFound``.
    """
    attempt = newest_attempt(submission, number)
    if attempt.end is AttemptEnd.RELEASED:
        return submission
    open_attempt(submission, number)
    if attempt.phase is not Phase.CLAIMED:
        raise Conflict(
            "ATTEMPT_BEGUN",
            f"attempt {number} of submission {submission.uuid} cannot be handed back: it has begun",
            hint="report its result, or a failure of the runner",
            details=(
                Problem(
                    code="attempt_begun",
                    message="the attempt has begun",
                    found=f"phase {attempt.phase}",
                    expected=f"phase {Phase.CLAIMED}",
                ),
            ),
        )
    return _handed_back(submission, now=now, settings=settings, end=AttemptEnd.RELEASED, detail=why)


def lease_ran_out(submission: Submission, *, now: datetime) -> bool:
    """Whether the running attempt's lease is over at ``now``."""
    attempt = submission.attempt
    return (
        submission.state is State.RUNNING
        and attempt is not None
        and attempt.lease_expires_at <= now
    )


def expire(submission: Submission, *, now: datetime, settings: QueueSettings) -> Submission:
    """Take a running attempt from a runner that has not been heard of.

    A claim that was never confirmed is not charged: its answer may never have arrived. Raises
    ``Conflict`` ``LEASE_ALIVE``.
    """
    attempt = submission.attempt
    if attempt is None or not lease_ran_out(submission, now=now):
        expected = f"running, with a lease that is over at {format_time(now)}"
        raise _refused(submission, "LEASE_ALIVE", "has no lease that ran out", expected, None)
    end = AttemptEnd.LOST if attempt.confirmed else AttemptEnd.UNCONFIRMED
    what = "no heartbeat" if attempt.confirmed else "the claim was never confirmed"
    detail = f"{what} until {format_time(attempt.lease_expires_at)}"
    return _handed_back(submission, now=now, settings=settings, end=end, detail=detail)


def infrastructure_failure(
    submission: Submission, *, now: datetime, settings: QueueSettings, kind: str, detail: str
) -> Submission:
    """Charge the newest attempt to the infrastructure and try again, or end as lost.

    ``kind`` is the runner's word for it. Raises ``Conflict`` ``NOT_RUNNING`` unless the submission
    runs or its attempt has reported.
    """
    if submission.state not in {State.RUNNING, State.REPORTED}:
        expected = "running or reported"
        raise _refused(submission, "NOT_RUNNING", "has no attempt to charge", expected, None)
    return _handed_back(
        submission,
        now=now,
        settings=settings,
        end=AttemptEnd.INFRASTRUCTURE,
        detail=f"{kind}: {detail}" if detail else kind,
    )


def requeue_moved(
    submission: Submission, *, now: datetime, settings: QueueSettings, detail: str
) -> Submission:
    """Put a reported submission back because its kernel moved under it: uncharged, and bounded.

    Beyond the bound it is rejected as ``superseded``. Raises ``Conflict`` ``NOT_REPORTED``.
    """
    if submission.state is not State.REPORTED:
        raise _refused(submission, "NOT_REPORTED", "cannot be re-queued", "reported", None)
    return _handed_back(
        submission, now=now, settings=settings, end=AttemptEnd.REQUEUED, detail=detail
    )


def _changed(submission: Submission, **changes: Any) -> Submission:
    return replace(submission, revision=submission.revision + 1, **changes)


def _ended(submission: Submission, *, now: datetime, **changes: Any) -> Submission:
    return _changed(submission, state=State.DONE, finished_at=now, **changes)


def _with_newest(submission: Submission, attempt: Attempt, **changes: Any) -> Submission:
    attempts = (*submission.attempts[:-1], attempt)
    counts = {end: sum(item.end is end for item in attempts) for end in UNCHARGED_ENDS}
    return _changed(
        submission,
        attempts=attempts,
        charged=sum(item.end in CHARGED_ENDS for item in attempts),
        uncharged={end.value: count for end, count in counts.items() if count},
        **changes,
    )


def _handed_back(
    submission: Submission,
    *,
    now: datetime,
    settings: QueueSettings,
    end: AttemptEnd,
    detail: str,
) -> Submission:
    attempt = submission.attempts[-1]
    over = replace(attempt, ended_at=now, end=end, detail=detail)
    again = _with_newest(submission, over, state=State.PENDING)
    if end is AttemptEnd.REQUEUED and again.uncharged[end] > settings.max_requeued:
        reason = Reason(
            code="superseded",
            message=f"{again.uncharged[end]} attempts were overtaken: {detail}",
            details=_ends(again),
        )
        return replace(
            again, state=State.DONE, finished_at=now, outcome=Outcome.REJECTED, reason=reason
        )
    if not _used_up(again, end, settings):
        return again
    ends = _ends(again)
    reason = Reason(
        code="lost",
        message=f"no runner finished it: {'; '.join(item.message for item in ends)}",
        details=ends,
    )
    return replace(again, state=State.DONE, finished_at=now, outcome=Outcome.LOST, reason=reason)


def _used_up(submission: Submission, end: AttemptEnd, settings: QueueSettings) -> bool:
    if end in CHARGED_ENDS:
        return submission.charged >= settings.max_charged
    most = {
        AttemptEnd.RELEASED: settings.max_released,
        AttemptEnd.UNCONFIRMED: settings.max_unconfirmed,
    }
    return end in most and submission.uncharged[end] > most[end]


def _ends(submission: Submission) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            code=f"attempt_{attempt.end}",
            message=f"attempt {attempt.number} on {attempt.runner_id}: "
            f"{attempt.end} ({attempt.detail})",
        )
        for attempt in submission.attempts
        if attempt.end is not None
    )


def _later(now: Phase, told: Phase | None) -> Phase:
    if told not in _PHASE_ORDER or _PHASE_ORDER.index(told) <= _PHASE_ORDER.index(now):
        return now
    return told


def _stale(submission: Submission, attempt: Attempt) -> StaleAttempt:
    newest = len(submission.attempts)
    end = attempt.end or submission.outcome
    if attempt.number < newest:
        expected = f"attempt {newest}, the newest"
    else:
        expected = f"an attempt that is open; the submission is {submission.state}"
    return StaleAttempt(
        f"attempt {attempt.number} of submission {submission.uuid} is over: {end}",
        found=f"attempt {attempt.number}, which ended as {end}",
        expected=expected,
        hint="stop working on it and claim again",
    )


def _refused(
    submission: Submission, code: str, what: str, expected: str, hint: str | None
) -> Conflict:
    found = submission.state.value
    if submission.outcome is not None:
        found = f"{found} ({submission.outcome})"
    message = f"submission {submission.uuid} {what}: it is {found}, not {expected}"
    problem = Problem(code=code.lower(), message=message, found=found, expected=expected, hint=hint)
    return Conflict(code, message, hint=hint, details=(problem,))
