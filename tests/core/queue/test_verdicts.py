"""How reported submissions end."""

from __future__ import annotations

import pytest

from kzoo_core.contract.records import Record
from kzoo_core.errors import Conflict
from kzoo_core.queue.records import Outcome, Reason, State
from tests.core.queue.samples import BENCH, SOURCE, Harness, at

REASON = Reason(code="schema", message="no")


async def test_an_accepted_submission_is_done_and_says_so(harness: Harness) -> None:
    made = await harness.reported()
    harness.clock.advance(3)
    record = Record(test_case_id="small", metric="latency", unit="us", value=1.0, previous=2.0)
    after = await harness.queue.finish(
        made.submission.uuid,
        Outcome.ACCEPTED,
        commit_sha=SOURCE,
        bench_commit_sha=BENCH,
        records=(record,),
    )
    assert after == harness.queue.get(made.submission.uuid)
    assert (after.state, after.outcome, after.finished_at) == (
        State.DONE,
        Outcome.ACCEPTED,
        at(3),
    )
    assert (after.commit_sha, after.bench_commit_sha, after.records) == (SOURCE, BENCH, (record,))
    assert harness.queue.reported() == ()
    assert harness.queue.counts().done == 1


async def test_what_has_not_reported_cannot_be_finished(harness: Harness) -> None:
    made = await harness.running()
    with pytest.raises(Conflict) as caught:
        await harness.queue.finish(made.submission.uuid, Outcome.REJECTED, reason=REASON)
    assert caught.value.code == "NOT_REPORTED"
    with pytest.raises(Conflict) as caught:
        await harness.queue.requeue_moved(made.submission.uuid)
    assert caught.value.code == "NOT_REPORTED"


async def test_the_reported_are_listed_as_they_came(harness: Harness) -> None:
    first = await harness.running(1, kernel_id="a/k1")
    second = await harness.running(2, kernel_id="a/k2")
    await harness.report(second)
    await harness.report(first)
    assert [item.uuid for item in harness.queue.reported()] == [
        second.submission.uuid,
        first.submission.uuid,
    ]


async def test_an_overtaken_submission_runs_again_in_its_old_place(harness: Harness) -> None:
    made = await harness.reported(1)
    await harness.submitted(2)
    after = await harness.queue.requeue_moved(made.submission.uuid)
    assert after.uncharged == {"requeued": 1}
    assert after.attempts[0].detail == "the kernel changed since the claim"
    assert harness.queue.position(made.submission.uuid) == 1
    again = await harness.claim()
    assert again is not None
    assert (again.submission.uuid, again.attempt.number) == (made.submission.uuid, 2)


async def test_an_infrastructure_failure_is_tried_three_times(harness: Harness) -> None:
    made = await harness.submitted()
    for number in (1, 2, 3):
        claim = await harness.claim()
        assert claim is not None
        await harness.report(claim)
        await harness.queue.infrastructure_failure(made.uuid, kind="image_pull", detail="timeout")
        assert harness.queue.get(made.uuid).charged == number
    after = harness.queue.get(made.uuid)
    assert after.outcome is Outcome.LOST
    assert after.reason is not None
    assert after.reason.message.count("infrastructure (image_pull: timeout)") == 3
    with pytest.raises(Conflict) as caught:
        await harness.queue.infrastructure_failure(made.uuid, kind="image_pull", detail="")
    assert caught.value.code == "NOT_RUNNING"
