"""The pure transitions: what each does, and how each refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.records import Record
from kzoo_core.errors import Conflict, NotFound
from kzoo_core.ids import ClaimId, CommitId, RunnerId, Sha256
from kzoo_core.queue import states
from kzoo_core.queue.records import (
    AttemptEnd,
    Mode,
    Outcome,
    Phase,
    Reason,
    State,
    Submission,
)
from tests.core.queue.samples import (
    ALICE,
    BENCH,
    DIGEST,
    OTHER_DIGEST,
    SETTINGS,
    SOURCE,
    T0,
    TREE,
    accepted,
    at,
    claimed,
    confirmed,
    pending,
    reported,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def expired(submission: Submission, *, now: float) -> Submission:
    return states.expire(submission, now=at(now), settings=SETTINGS)


def infra(submission: Submission, kind: str = "gpu_fault", detail: str = "ECC") -> Submission:
    return states.infrastructure_failure(
        submission, now=at(5), settings=SETTINGS, kind=kind, detail=detail
    )


def moved(submission: Submission) -> Submission:
    return states.requeue_moved(submission, now=at(5), settings=SETTINGS, detail="moved")


def released(submission: Submission) -> Submission:
    number = len(submission.attempts)
    return states.release(submission, number=number, now=at(5), settings=SETTINGS, why="drain")


def refusal(act: Callable[[], object]) -> tuple[str, str, str | None, str | None, str | None]:
    with pytest.raises(Conflict) as caught:
        act()
    (problem,) = caught.value.details
    return (
        caught.value.code,
        caught.value.message,
        problem.found,
        problem.expected,
        caught.value.hint,
    )


# claim, confirm, heartbeat


def test_a_claim_opens_the_next_attempt_with_the_time_to_confirm() -> None:
    after = claimed(now=at(3))
    (attempt,) = after.attempts
    assert after.state is State.RUNNING
    assert after.phase is Phase.CLAIMED
    assert after.revision == 2
    assert attempt.number == 1
    assert attempt.claimed_at == at(3)
    assert attempt.lease_expires_at == at(3 + SETTINGS.confirm_s)
    assert not attempt.confirmed
    assert attempt.base_tree == TREE


def test_the_attempt_number_rises_with_every_claim() -> None:
    twice = claimed(infra(confirmed()))
    assert [attempt.number for attempt in twice.attempts] == [1, 2]


def test_a_submission_that_does_not_wait_cannot_be_claimed() -> None:
    assert refusal(lambda: claimed(claimed())) == (
        "NOT_PENDING",
        f"submission {pending().uuid} cannot be claimed: it is running, not pending",
        "running",
        "pending",
        "claim again",
    )
    assert refusal(lambda: claimed(accepted()))[2] == "done (accepted)"


def test_a_confirmation_gives_the_lease_and_is_no_visible_change() -> None:
    before = claimed()
    after = states.heartbeat(before, number=1, now=at(10), settings=SETTINGS)
    assert after.attempts[0].confirmed
    assert after.attempts[0].lease_expires_at == at(10 + SETTINGS.lease_s)
    assert after.revision == before.revision


def test_a_heartbeat_confirms_renews_and_moves_the_phase_forward() -> None:
    before = claimed()
    after = states.heartbeat(before, number=1, now=at(20), settings=SETTINGS, phase=Phase.BUILD)
    assert after.attempts[0].confirmed
    assert after.attempts[0].lease_expires_at == at(20 + SETTINGS.lease_s)
    assert after.phase is Phase.BUILD
    assert after.revision == before.revision + 1


def test_a_heartbeat_that_only_renews_is_no_visible_change() -> None:
    before = confirmed()
    after = states.heartbeat(before, number=1, now=at(20), settings=SETTINGS)
    assert after.attempts[0].lease_expires_at > before.attempts[0].lease_expires_at
    assert after.revision == before.revision


def test_the_very_same_heartbeat_returns_the_very_same_record() -> None:
    once = states.heartbeat(claimed(), number=1, now=at(20), settings=SETTINGS)
    assert states.heartbeat(once, number=1, now=at(20), settings=SETTINGS) is once


@pytest.mark.parametrize("told", [Phase.CLAIMED, Phase.BUILD, Phase.REPORTED, Phase.QUEUED])
def test_a_phase_never_goes_back_nor_to_one_that_no_run_has(told: Phase) -> None:
    before = states.heartbeat(
        claimed(), number=1, now=at(1), settings=SETTINGS, phase=Phase.BENCHMARK
    )
    after = states.heartbeat(before, number=1, now=at(2), settings=SETTINGS, phase=told)
    assert after.phase is Phase.BENCHMARK
    assert after.revision == before.revision


def test_a_heartbeat_of_an_older_attempt_is_stale() -> None:
    second = claimed(infra(confirmed()))
    code, message, found, expected, hint = refusal(
        lambda: states.heartbeat(second, number=1, now=at(9), settings=SETTINGS)
    )
    assert code == "STALE_ATTEMPT"
    assert message == f"attempt 1 of submission {second.uuid} is over: infrastructure"
    assert found == "attempt 1, which ended as infrastructure"
    assert expected == "attempt 2, the newest"
    assert hint == "stop working on it and claim again"


def test_a_heartbeat_of_an_attempt_that_ended_is_stale_though_it_is_the_newest() -> None:
    waiting = infra(confirmed())
    _, _, found, expected, _ = refusal(
        lambda: states.heartbeat(waiting, number=1, now=at(9), settings=SETTINGS)
    )
    assert found == "attempt 1, which ended as infrastructure"
    assert expected == "an attempt that is open; the submission is pending"


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_an_attempt_that_never_was_is_not_found(number: int) -> None:
    with pytest.raises(NotFound) as caught:
        states.heartbeat(claimed(), number=number, now=at(9), settings=SETTINGS)
    assert caught.value.code == "UNKNOWN_ATTEMPT"
    assert caught.value.message.endswith(f"has no attempt {number}, its newest is 1")
    assert caught.value.hint == "claim again"


# resume


def test_a_restart_gives_the_grace_and_lifts_the_revision_over_what_memory_lost() -> None:
    before = confirmed()
    after = states.resume(before, now=at(500), settings=SETTINGS)
    assert after.attempts[0].lease_expires_at == at(500 + SETTINGS.restart_grace_s)
    assert after.revision == before.revision + states.RESUME_REVISIONS


def test_a_restart_never_gives_less_than_a_lease() -> None:
    patient = replace(SETTINGS, lease_s=600)
    after = states.resume(confirmed(), now=at(0), settings=patient)
    assert after.attempts[0].lease_expires_at == at(600)


# report


def test_a_report_ends_the_attempt_and_leaves_the_submission_reported() -> None:
    after = states.report(confirmed(), number=1, digest=DIGEST, now=at(40))
    (attempt,) = after.attempts
    assert after.state is State.REPORTED
    assert after.phase is Phase.REPORTED
    assert attempt.end is AttemptEnd.REPORTED
    assert attempt.ended_at == at(40)
    assert attempt.result_sha256 == DIGEST
    assert after.charged == 0


def test_a_report_of_a_claim_that_was_never_confirmed_is_taken() -> None:
    after = states.report(claimed(), number=1, digest=DIGEST, now=at(40))
    assert after.state is State.REPORTED
    assert after.attempts[0].confirmed


def test_the_same_report_again_changes_nothing_in_whatever_state() -> None:
    taken = states.report(confirmed(), number=1, digest=DIGEST, now=at(40))
    later = claimed(moved(taken))
    assert states.report(taken, number=1, digest=DIGEST, now=at(41)) is taken
    assert states.report(later, number=1, digest=DIGEST, now=at(41)) is later


def test_another_report_of_the_same_attempt_conflicts() -> None:
    taken = states.report(confirmed(), number=1, digest=DIGEST, now=at(40))
    assert refusal(lambda: states.report(taken, number=1, digest=OTHER_DIGEST, now=at(41))) == (
        "RESULT_CONFLICT",
        f"attempt 1 of submission {taken.uuid} has another result already",
        OTHER_DIGEST,
        DIGEST,
        "an attempt has one result; the first one stands",
    )


@pytest.mark.parametrize("begin", [claimed, confirmed], ids=["unconfirmed", "lost"])
def test_a_late_report_of_the_newest_attempt_is_taken_and_its_end_taken_back(
    begin: Callable[[], Submission],
) -> None:
    waiting = expired(begin(), now=900)
    assert waiting.state is State.PENDING
    assert waiting.charged + sum(waiting.uncharged.values()) == 1
    after = states.report(waiting, number=1, digest=DIGEST, now=at(901))
    assert after.state is State.REPORTED
    assert after.attempts[0].end is AttemptEnd.REPORTED
    assert after.attempts[0].detail is None
    assert after.charged == 0
    assert after.uncharged == {}
    assert after.revision == waiting.revision + 1


def test_a_late_report_is_stale_once_a_newer_attempt_was_claimed() -> None:
    second = claimed(expired(confirmed(), now=900))
    code, message, found, expected, _ = refusal(
        lambda: states.report(second, number=1, digest=DIGEST, now=at(901))
    )
    assert code == "STALE_ATTEMPT"
    assert message == f"attempt 1 of submission {second.uuid} is over: lost"
    assert found == "attempt 1, which ended as lost"
    assert expected == "attempt 2, the newest"


def test_a_late_report_is_stale_once_the_submission_is_over() -> None:
    gone = states.cancel(expired(confirmed(), now=900), now=at(901), by=ALICE)
    code, _, found, expected, _ = refusal(
        lambda: states.report(gone, number=1, digest=DIGEST, now=at(902))
    )
    assert code == "STALE_ATTEMPT"
    assert found == "attempt 1, which ended as lost"
    assert expected == "an attempt that is open; the submission is done"


def test_a_stale_refusal_can_say_that_the_result_was_kept() -> None:
    second = claimed(expired(confirmed(), now=900))
    with pytest.raises(states.StaleAttempt) as caught:
        states.report(second, number=1, digest=DIGEST, now=at(901))
    assert not caught.value.stored
    assert caught.value.details[0].message.endswith("; nothing was kept")
    kept = caught.value.with_stored(stored=True)
    assert kept.stored
    assert kept.message == caught.value.message
    assert kept.details[0].message.endswith("; the result is kept for audit in late/")


# the ends


def test_an_accept_keeps_commits_records_and_the_time() -> None:
    record = Record(test_case_id="small", metric="latency", unit="us", value=1.0, previous=2.0)
    after = states.finish(
        reported(),
        now=at(60),
        outcome=Outcome.ACCEPTED,
        commit_sha=SOURCE,
        bench_commit_sha=BENCH,
        records=(record,),
    )
    assert after.state is State.DONE
    assert after.public_status == "done"
    assert after.outcome is Outcome.ACCEPTED
    assert (after.commit_sha, after.bench_commit_sha) == (SOURCE, BENCH)
    assert after.records == (record,)
    assert after.finished_at == at(60)


def test_a_rejection_keeps_its_reason() -> None:
    reason = Reason(code="build_failed", message="exit 1")
    after = states.finish(reported(), now=at(60), outcome=Outcome.REJECTED, reason=reason)
    assert after.outcome is Outcome.REJECTED
    assert after.reason == reason


def test_a_check_is_accepted_without_commits() -> None:
    check = reported(replace(pending(), mode=Mode.CHECK))
    assert states.finish(check, now=at(6), outcome=Outcome.ACCEPTED).commit_sha is None


@pytest.mark.parametrize(
    ("mode", "outcome", "commit", "bench"),
    [
        (Mode.RANKED, Outcome.ACCEPTED, None, None),
        (Mode.RANKED, Outcome.ACCEPTED, SOURCE, None),
        (Mode.RANKED, Outcome.REJECTED, SOURCE, BENCH),
        (Mode.RANKED, Outcome.FAILED, None, BENCH),
        (Mode.CHECK, Outcome.ACCEPTED, SOURCE, BENCH),
    ],
)
def test_commits_that_do_not_go_with_the_outcome_are_a_bug(
    mode: Mode, outcome: Outcome, commit: CommitId | None, bench: CommitId | None
) -> None:
    submission = reported(replace(pending(), mode=mode))
    with pytest.raises(ValueError, match=f"{outcome} in mode {mode} with commits"):
        states.finish(
            submission, now=at(6), outcome=outcome, commit_sha=commit, bench_commit_sha=bench
        )


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.CANCELLED])
def test_an_outcome_that_no_verdict_reaches_is_a_bug(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match=f"a verdict cannot end a submission as {outcome}"):
        states.finish(reported(), now=at(6), outcome=outcome)


def test_only_a_reported_submission_can_be_finished() -> None:
    assert refusal(lambda: states.finish(confirmed(), now=at(6), outcome=Outcome.REJECTED)) == (
        "NOT_REPORTED",
        f"submission {pending().uuid} has no verdict to reach: it is running, not reported",
        "running",
        "reported",
        None,
    )
    again = refusal(lambda: states.finish(accepted(), now=at(6), outcome=Outcome.REJECTED))
    assert again[2] == "done (accepted)"


def test_a_pending_submission_can_be_refused_without_a_run() -> None:
    reason = Reason(code="frozen", message="frozen meanwhile")
    after = states.refuse(pending(), now=at(6), reason=reason)
    assert (after.state, after.outcome, after.reason) == (State.DONE, Outcome.REJECTED, reason)
    assert after.attempts == ()
    assert refusal(lambda: states.refuse(claimed(), now=at(6), reason=reason))[:4] == (
        "NOT_PENDING",
        f"submission {pending().uuid} cannot be refused: it is running, not pending",
        "running",
        "pending",
    )


def test_a_queued_submission_can_be_cancelled() -> None:
    after = states.cancel(pending(), now=at(6), by=ALICE)
    assert after.outcome is Outcome.CANCELLED
    assert after.reason == Reason(
        code="cancelled", message="cancelled by alice while it waited in the queue"
    )
    assert after.finished_at == at(6)


@pytest.mark.parametrize(
    ("make", "found", "hint"),
    [
        (claimed, "running", "wait until the run is over"),
        (reported, "reported", "wait until the run is over"),
        (accepted, "done (accepted)", "it is over"),
    ],
)
def test_what_does_not_wait_cannot_be_cancelled(
    make: Callable[[], Submission], found: str, hint: str
) -> None:
    assert refusal(lambda: states.cancel(make(), now=at(6), by=ALICE)) == (
        "NOT_CANCELLABLE",
        f"submission {pending().uuid} cannot be cancelled: it is {found}, not queued",
        found,
        "queued",
        hint,
    )


# back to the queue


def test_a_lease_that_ran_out_is_charged() -> None:
    after = expired(confirmed(now=at(0)), now=SETTINGS.lease_s)
    (attempt,) = after.attempts
    assert after.state is State.PENDING
    assert after.phase is Phase.QUEUED
    assert after.charged == 1
    assert attempt.end is AttemptEnd.LOST
    assert attempt.detail == "no heartbeat until 2026-08-02T12:01:30Z"
    assert attempt.ended_at == at(SETTINGS.lease_s)


def test_a_claim_that_nobody_confirmed_is_not_charged() -> None:
    after = expired(claimed(now=at(0)), now=SETTINGS.confirm_s)
    assert after.charged == 0
    assert after.uncharged == {"unconfirmed": 1}
    assert after.attempts[0].detail == "the claim was never confirmed until 2026-08-02T12:00:30Z"


@pytest.mark.parametrize(
    ("make", "found"),
    [(pending, "pending"), (confirmed, "running"), (reported, "reported")],
)
def test_a_lease_that_lives_does_not_expire(make: Callable[[], Submission], found: str) -> None:
    code, _, seen, expected, _ = refusal(lambda: expired(make(), now=SETTINGS.lease_s - 1))
    assert (code, seen) == ("LEASE_ALIVE", found)
    assert expected == "running, with a lease that is over at 2026-08-02T12:01:29Z"


@pytest.mark.parametrize("make", [confirmed, reported])
def test_an_infrastructure_failure_is_charged_and_tried_again(
    make: Callable[[], Submission],
) -> None:
    after = infra(make())
    assert after.state is State.PENDING
    assert after.charged == 1
    assert after.attempts[0].end is AttemptEnd.INFRASTRUCTURE
    assert after.attempts[0].detail == "gpu_fault: ECC"


def test_an_infrastructure_failure_without_a_detail_is_named_by_its_kind() -> None:
    assert infra(confirmed(), "engine_error", "").attempts[0].detail == "engine_error"


def test_only_an_attempt_can_fail_by_infrastructure() -> None:
    code, message, found, expected, _ = refusal(lambda: infra(pending()))
    assert (code, found, expected) == ("NOT_RUNNING", "pending", "running or reported")
    assert message == (
        f"submission {pending().uuid} has no attempt to charge: it is pending, "
        "not running or reported"
    )


def test_the_third_charged_attempt_ends_it_as_lost_and_names_each_end() -> None:
    one = expired(confirmed(now=at(0)), now=100)
    two = infra(reported(one, now=at(200)))
    three = expired(confirmed(two, now=at(300)), now=400)
    assert three.state is State.DONE
    assert three.outcome is Outcome.LOST
    assert three.charged == 3
    assert three.finished_at == at(400)
    assert three.reason is not None
    assert three.reason.code == "lost"
    assert three.reason.message == (
        "no runner finished it: "
        "attempt 1 on node.12345678: lost (no heartbeat until 2026-08-02T12:01:30Z); "
        "attempt 2 on node.12345678: infrastructure (gpu_fault: ECC); "
        "attempt 3 on node.12345678: lost (no heartbeat until 2026-08-02T12:06:30Z)"
    )
    assert [problem.code for problem in three.reason.details] == [
        "attempt_lost",
        "attempt_infrastructure",
        "attempt_lost",
    ]


def test_no_attempt_is_charged_twice() -> None:
    late = states.report(expired(confirmed(), now=900), number=1, digest=DIGEST, now=at(901))
    assert infra(late).charged == 1


def test_an_attempt_not_begun_can_be_handed_back_uncharged() -> None:
    after = released(confirmed())
    assert after.state is State.PENDING
    assert after.charged == 0
    assert after.uncharged == {"released": 1}
    assert after.attempts[0].end is AttemptEnd.RELEASED
    assert after.attempts[0].detail == "drain"
    assert released(after) is after


def test_an_attempt_that_has_begun_cannot_be_handed_back() -> None:
    building = states.heartbeat(
        claimed(), number=1, now=at(1), settings=SETTINGS, phase=Phase.BUILD
    )
    assert refusal(lambda: released(building)) == (
        "ATTEMPT_BEGUN",
        f"attempt 1 of submission {building.uuid} cannot be handed back: it has begun",
        "phase build",
        "phase claimed",
        "report its result, or a failure of the runner",
    )


def test_an_attempt_that_is_over_cannot_be_handed_back() -> None:
    assert refusal(lambda: released(reported()))[0] == "STALE_ATTEMPT"


@pytest.mark.parametrize(
    ("again", "end", "outcome", "reason"),
    [
        (lambda s: released(claimed(s)), "released", Outcome.LOST, "lost"),
        (lambda s: expired(claimed(s), now=900), "unconfirmed", Outcome.LOST, "lost"),
        (lambda s: moved(reported(s)), "requeued", Outcome.REJECTED, "superseded"),
    ],
)
def test_five_uncharged_ends_of_a_kind_are_tried_again_and_the_sixth_is_not(
    again: Callable[[Submission], Submission], end: str, outcome: Outcome, reason: str
) -> None:
    submission = pending()
    for count in range(1, 6):
        submission = again(submission)
        assert submission.state is State.PENDING
        assert submission.uncharged == {end: count}
    last = again(submission)
    assert last.state is State.DONE
    assert last.outcome is outcome
    assert last.finished_at is not None
    assert last.reason is not None
    assert last.reason.code == reason
    assert len(last.reason.details) == 6
    assert last.charged == 0


def test_a_kernel_that_moves_too_often_supersedes_the_submission() -> None:
    submission = pending()
    for _ in range(6):
        submission = moved(reported(submission))
    assert submission.reason is not None
    assert submission.reason.message == "6 attempts were overtaken: moved"


def test_only_a_reported_submission_can_be_overtaken() -> None:
    assert refusal(lambda: moved(confirmed()))[:2] == (
        "NOT_REPORTED",
        f"submission {pending().uuid} cannot be re-queued: it is running, not reported",
    )


def test_the_lease_is_over_at_its_very_end_and_only_while_it_runs() -> None:
    end = T0 + timedelta(seconds=SETTINGS.lease_s)
    assert states.lease_ran_out(confirmed(now=T0), now=end)
    assert not states.lease_ran_out(confirmed(now=T0), now=end - timedelta(microseconds=1))
    assert not states.lease_ran_out(pending(), now=end)
    assert not states.lease_ran_out(reported(now=T0), now=end)


def test_a_claim_by_another_runner_keeps_the_first_ones_attempt() -> None:
    second = states.claim(
        infra(confirmed()),
        now=at(9),
        settings=SETTINGS,
        runner_id=RunnerId("other.87654321"),
        claim_id=ClaimId("c"),
        token_sha256=Sha256("9" * 64),
        arch="gfx928",
        isolation="container",
        package_sha256=Sha256("8" * 64),
        base_tree=None,
    )
    assert [attempt.runner_id for attempt in second.attempts] == [
        "node.12345678",
        "other.87654321",
    ]
