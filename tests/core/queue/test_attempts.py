"""What runners with an attempt ask of the queue."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kzoo_core import durable
from kzoo_core.errors import Conflict, Forbidden, NotFound, Retryable
from kzoo_core.ids import RunnerId
from kzoo_core.queue.exchange import Beat, Claimed, Directive, HeartbeatReply, Order
from kzoo_core.queue.logs import LogGap, LogMismatch, PhaseMark
from kzoo_core.queue.records import AttemptEnd, Outcome, Phase, State
from kzoo_core.queue.states import StaleAttempt
from tests.core.queue.samples import (
    DIGEST,
    NODE,
    OTHER_DIGEST,
    REPORT,
    SETTINGS,
    Harness,
    at,
    sha256,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


async def order_of(
    harness: Harness, made: Claimed, phase: Phase | None = None, runner_id: RunnerId | None = None
) -> Order:
    """Send a heartbeat for one attempt and return what it is told to do."""
    uuid, number = made.submission.uuid, made.attempt.number
    reply = await harness.queue.heartbeat(runner_id or NODE.runner_id, [Beat(uuid, number, phase)])
    assert reply.unknown == ()
    (directive,) = reply.directives
    assert (directive.uuid, directive.attempt) == (uuid, number)
    return directive.do


async def expire(harness: Harness) -> None:
    harness.clock.advance(SETTINGS.lease_s + 1)
    await harness.queue.sweep()


# signs of life


async def test_a_heartbeat_confirms_renews_and_shows_the_phase(harness: Harness) -> None:
    made = await harness.claimed()
    harness.clock.advance(20)
    assert await order_of(harness, made, Phase.BUILD) is Order.CONTINUE
    after = harness.queue.get(made.submission.uuid)
    assert after.attempts[0].confirmed
    assert after.attempts[0].lease_expires_at == at(20 + SETTINGS.lease_s)
    assert after.phase is Phase.BUILD
    assert after.revision == made.submission.revision + 1


async def test_a_renewed_lease_is_not_written_and_a_confirmation_is(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await harness.claimed()
    writes: list[str] = []
    real = durable.write_file

    def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
        writes.append(path.name)
        real(path, data, mode=mode)

    monkeypatch.setattr(durable, "write_file", write_file)
    await order_of(harness, made)
    assert writes == ["submission.json"]
    for phase in (None, Phase.BUILD, Phase.BENCHMARK):
        harness.clock.advance(1)
        await order_of(harness, made, phase)
    assert writes == ["submission.json"]


async def test_a_runner_that_beats_keeps_its_attempt_and_one_that_stops_loses_it(
    harness: Harness,
) -> None:
    made = await harness.running()
    for _ in range(20):
        harness.clock.advance(SETTINGS.heartbeat_s)
        await order_of(harness, made)
        await harness.queue.sweep()
    assert harness.queue.get(made.submission.uuid).state is State.RUNNING
    await expire(harness)
    after = harness.queue.get(made.submission.uuid)
    assert after.state is State.PENDING
    assert after.charged == 1
    assert after.attempts[0].end is AttemptEnd.LOST


async def test_a_heartbeat_that_overtakes_the_sweep_keeps_the_attempt(harness: Harness) -> None:
    made = await harness.running()
    harness.clock.advance(SETTINGS.lease_s)
    async with harness.queue._ledger._lock:
        beat = asyncio.create_task(order_of(harness, made))
        await asyncio.sleep(0)
        sweep = asyncio.create_task(harness.queue.sweep())
        await asyncio.sleep(0)
    assert await beat is Order.CONTINUE
    await sweep
    assert harness.queue.get(made.submission.uuid).state is State.RUNNING


async def test_three_lost_attempts_end_a_submission(harness: Harness) -> None:
    made = await harness.submitted()
    for _ in range(3):
        claim = await harness.claim()
        assert claim is not None
        await order_of(harness, claim)
        await expire(harness)
    after = harness.queue.get(made.uuid)
    assert (after.outcome, after.charged) == (Outcome.LOST, 3)
    assert after.reason is not None
    assert after.reason.message.count("lost (no heartbeat until") == 3


async def test_an_attempt_that_never_was_is_unknown(harness: Harness) -> None:
    made = await harness.running()
    beats = [
        Beat(uuid_of(1), 1),
        Beat(made.submission.uuid, 2),
        Beat(made.submission.uuid, 0),
        Beat(made.submission.uuid, 1),
    ]
    reply = await harness.queue.heartbeat(NODE.runner_id, beats)
    assert reply == HeartbeatReply(
        (Directive(made.submission.uuid, 1, Order.CONTINUE),), tuple(beats[:3])
    )


async def test_another_runners_attempt_is_to_be_aborted_and_is_not_renewed(
    harness: Harness,
) -> None:
    made = await harness.claimed()
    before = harness.queue.get(made.submission.uuid)
    other = RunnerId("other.00000000")
    assert await order_of(harness, made, runner_id=other) is Order.ABORT
    assert harness.queue.get(made.submission.uuid) == before


async def test_an_attempt_whose_lease_ran_out_goes_on_until_a_newer_one_is_claimed(
    harness: Harness,
) -> None:
    made = await harness.running()
    await expire(harness)
    assert await order_of(harness, made) is Order.CONTINUE
    assert harness.queue.get(made.submission.uuid).state is State.PENDING
    assert await harness.claim() is not None
    assert await order_of(harness, made) is Order.ABORT


async def test_an_attempt_that_delivered_goes_on_and_one_without_a_use_is_aborted(
    harness: Harness,
) -> None:
    delivered = await harness.reported(1, kernel_id="a/k1")
    assert await order_of(harness, delivered, Phase.REPORTED) is Order.CONTINUE
    handed_back = await harness.claimed(2, kernel_id="a/k2")
    await harness.queue.release(handed_back.submission.uuid, 1, handed_back.token, why="drain")
    assert await order_of(harness, handed_back) is Order.ABORT
    lost = await harness.running(3, kernel_id="a/k3")
    await expire(harness)
    await harness.queue.cancel(lost.submission.uuid, by="alice")
    assert await order_of(harness, lost) is Order.ABORT


def calls_of_an_attempt() -> list[object]:
    def log(harness: Harness, made: Claimed) -> Awaitable[object]:
        return harness.queue.append_log(
            made.submission.uuid, made.attempt.number, made.token, offset=0, data=b"x"
        )

    def close(harness: Harness, made: Claimed) -> Awaitable[object]:
        return harness.queue.close_log(
            made.submission.uuid, made.attempt.number, made.token, size=0, sha256=sha256(b"")
        )

    def package(harness: Harness, made: Claimed) -> Awaitable[object]:
        return harness.queue.attempt_package(made.submission.uuid, made.attempt.number, made.token)

    def report(harness: Harness, made: Claimed) -> Awaitable[object]:
        return harness.queue.report(
            made.submission.uuid, made.attempt.number, made.token, REPORT, DIGEST
        )

    def release(harness: Harness, made: Claimed) -> Awaitable[object]:
        return harness.queue.release(
            made.submission.uuid, made.attempt.number, made.token, why="drain"
        )

    calls = (log, close, package, report, release)
    return [pytest.param(call, id=call.__name__) for call in calls]


@pytest.mark.parametrize("call", calls_of_an_attempt())
async def test_every_call_needs_the_token_of_that_very_attempt(
    harness: Harness, call: Callable[[Harness, Claimed], Awaitable[object]]
) -> None:
    made = await harness.claimed(1, kernel_id="a/k1")
    other = await harness.claimed(2, kernel_id="a/k2")
    before = harness.queue.get(made.submission.uuid)
    for token in ("", other.token, made.token + "x"):
        with pytest.raises(Forbidden) as caught:
            await call(harness, replace(made, token=token))
        assert caught.value.code == "BAD_ATTEMPT_TOKEN"
        assert caught.value.message == (
            f"the token is not that of attempt 1 of submission {made.submission.uuid}"
        )
        assert caught.value.hint == "send the attempt_token that the claim's answer gave"
    assert harness.queue.get(made.submission.uuid) == before
    with pytest.raises(NotFound) as missing:
        await call(harness, replace(made, attempt=replace(made.attempt, number=7)))
    assert missing.value.code == "UNKNOWN_ATTEMPT"


@pytest.mark.parametrize("call", calls_of_an_attempt()[:3])
async def test_any_call_of_an_attempt_confirms_its_claim(
    harness: Harness, call: Callable[[Harness, Claimed], Awaitable[object]]
) -> None:
    made = await harness.claimed()
    await call(harness, made)
    assert harness.queue.get(made.submission.uuid).attempts[0].confirmed


@pytest.mark.parametrize("call", calls_of_an_attempt()[:3])
async def test_a_call_of_an_older_attempt_is_stale(
    harness: Harness, call: Callable[[Harness, Claimed], Awaitable[object]]
) -> None:
    made = await harness.running()
    await expire(harness)
    assert await harness.claim() is not None
    with pytest.raises(StaleAttempt) as caught:
        await call(harness, made)
    assert caught.value.code == "STALE_ATTEMPT"
    assert caught.value.details[0].expected == "attempt 2, the newest"


async def test_a_sign_of_life_of_an_attempt_that_is_over_changes_nothing(
    harness: Harness,
) -> None:
    made = await harness.reported()
    before = harness.queue.get(made.submission.uuid)
    await harness.queue.attempt_package(made.submission.uuid, 1, made.token)
    assert harness.queue.get(made.submission.uuid) == before


# release


async def test_an_attempt_not_begun_is_handed_back_once(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    for _ in range(2):
        after = await harness.queue.release(uuid, 1, made.token, why="drain")
        assert after.state is State.PENDING
        assert after.uncharged == {"released": 1}
    again = await harness.claim()
    assert again is not None
    assert again.attempt.number == 2


async def test_an_attempt_that_has_begun_is_not_handed_back(harness: Harness) -> None:
    made = await harness.claimed()
    await order_of(harness, made, Phase.BUILD)
    with pytest.raises(Conflict) as caught:
        await harness.queue.release(made.submission.uuid, 1, made.token, why="drain")
    assert caught.value.code == "ATTEMPT_BEGUN"


# result


async def test_a_result_is_taken_and_can_be_read(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    receipt = await harness.queue.report(uuid, 1, made.token, REPORT, DIGEST)
    assert not receipt.repeated
    assert receipt.submission == harness.queue.get(uuid)
    assert receipt.submission.state is State.REPORTED
    assert harness.queue.reported() == (receipt.submission,)
    output = await harness.queue.output(uuid)
    assert (output.attempt, output.report) == (1, REPORT)


async def test_the_same_result_again_is_the_same_also_when_all_is_over(harness: Harness) -> None:
    made = await harness.reported()
    uuid = made.submission.uuid
    first = await harness.queue.report(uuid, 1, made.token, REPORT, DIGEST)
    await harness.queue.requeue_moved(uuid)
    again = await harness.queue.report(uuid, 1, made.token, REPORT, DIGEST)
    assert first.repeated
    assert again.repeated
    assert again.submission.state is State.PENDING


async def test_another_result_of_the_attempt_conflicts_and_changes_nothing(
    harness: Harness,
) -> None:
    made = await harness.reported()
    other = replace(REPORT, stdout=b"other")
    with pytest.raises(Conflict) as caught:
        await harness.queue.report(
            made.submission.uuid, 1, made.token, other, OTHER_DIGEST, log=b"other"
        )
    assert caught.value.code == "RESULT_CONFLICT"
    assert (await harness.queue.output(made.submission.uuid)).report == REPORT
    assert (await harness.queue.read_log(made.submission.uuid)).size == 0


async def test_a_late_result_is_taken_while_its_attempt_is_the_newest(harness: Harness) -> None:
    made = await harness.running()
    await expire(harness)
    assert harness.queue.get(made.submission.uuid).charged == 1
    after = await harness.report(made)
    assert after.state is State.REPORTED
    assert after.charged == 0
    assert await harness.claim() is None


async def test_a_later_result_is_kept_aside_and_said_to_be_stale(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    await expire(harness)
    second = await harness.claim()
    assert second is not None
    for _ in range(2):
        with pytest.raises(StaleAttempt) as caught:
            await harness.queue.report(uuid, 1, made.token, REPORT, DIGEST, log=b"log")
        assert caught.value.stored
        assert caught.value.details[0].message.endswith("kept for audit in late/")
    with pytest.raises(StaleAttempt) as caught:
        await harness.queue.report(uuid, 1, made.token, REPORT, OTHER_DIGEST)
    assert not caught.value.stored
    late = harness.queue._spool.root / "late" / uuid
    assert sorted(path.name for path in late.iterdir()) == ["report-1.json", "stdout-1"]
    assert harness.queue.get(uuid) == second.submission
    with pytest.raises(NotFound):
        await harness.queue.output(uuid)


async def test_a_result_after_the_end_is_kept_aside(harness: Harness) -> None:
    made = await harness.running()
    await expire(harness)
    await harness.queue.cancel(made.submission.uuid, by="alice")
    with pytest.raises(StaleAttempt) as caught:
        await harness.report(made)
    assert caught.value.stored
    assert harness.queue.get(made.submission.uuid).outcome is Outcome.CANCELLED


async def test_a_full_disk_leaves_the_attempt_running_and_the_result_can_come_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await harness.running()
    before = harness.queue.get(made.submission.uuid)

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", fail)
        with pytest.raises(Retryable) as caught:
            await harness.report(made)
    assert caught.value.code == "DISK_FULL"
    assert harness.queue.get(made.submission.uuid) == before
    assert (await harness.report(made)).state is State.REPORTED


async def test_older_attempts_keep_their_results_and_logs(harness: Harness) -> None:
    first = await harness.running()
    uuid = first.submission.uuid
    await harness.queue.append_log(uuid, 1, first.token, offset=0, data=b"first")
    await harness.report(first)
    await harness.queue.infrastructure_failure(uuid, kind="gpu_fault", detail="ECC")
    assert (await harness.queue.output(uuid)).attempt == 1
    second = await harness.claim()
    assert second is not None
    assert (await harness.queue.output(uuid)).attempt == 1
    await harness.queue.append_log(uuid, 2, second.token, offset=0, data=b"second")
    report = replace(REPORT, stdout=b"second")
    await harness.queue.report(uuid, 2, second.token, report, OTHER_DIGEST)
    output = await harness.queue.output(uuid)
    assert (output.attempt, output.report) == (2, report)
    assert (await harness.queue.read_log(uuid, attempt=1)).data == b"first"
    assert (await harness.queue.read_log(uuid)).data == b"second"


# log


async def test_a_log_grows_by_chunks_and_shows_the_phase_at_once(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    size = await harness.queue.append_log(
        uuid, 1, made.token, offset=0, data=b"cc x.cpp\n", phase=Phase.BUILD
    )
    assert size == 9
    assert harness.queue.get(uuid).phase is Phase.BUILD
    await harness.queue.append_log(
        uuid, 1, made.token, offset=9, data=b"run\n", phase=Phase.BENCHMARK
    )
    part = await harness.queue.read_log(uuid)
    assert part.data == b"cc x.cpp\nrun\n"
    assert part.marks == (PhaseMark(0, Phase.BUILD), PhaseMark(9, Phase.BENCHMARK))
    with pytest.raises(LogGap) as caught:
        await harness.queue.append_log(uuid, 1, made.token, offset=20, data=b"x")
    assert caught.value.size == 13


async def test_a_log_is_closed_after_its_result_too_and_a_wrong_one_is_sent_again(
    harness: Harness,
) -> None:
    made = await harness.reported()
    uuid = made.submission.uuid
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"one")
    with pytest.raises(LogMismatch):
        await harness.queue.close_log(uuid, 1, made.token, size=3, sha256=sha256(b"two"))
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"two")
    await harness.queue.close_log(uuid, 1, made.token, size=3, sha256=sha256(b"two"))
    assert (await harness.queue.read_log(uuid)).complete


async def test_the_log_that_came_with_the_result_is_used_when_none_was_sent(
    harness: Harness,
) -> None:
    one = await harness.running(1, kernel_id="a/k1")
    two = await harness.running(2, kernel_id="a/k2")
    await harness.queue.append_log(two.submission.uuid, 1, two.token, offset=0, data=b"sent")
    for made in (one, two):
        await harness.queue.report(
            made.submission.uuid, 1, made.token, REPORT, DIGEST, log=b"whole"
        )
    part = await harness.queue.read_log(one.submission.uuid)
    assert (part.data, part.complete) == (b"whole", True)
    assert (await harness.queue.read_log(two.submission.uuid)).data == b"sent"


async def test_a_full_disk_at_a_chunk_is_said(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await harness.running()

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    monkeypatch.setattr("kzoo_core.queue.logs.AttemptLog.append", fail)
    with pytest.raises(Retryable) as caught:
        await harness.queue.append_log(made.submission.uuid, 1, made.token, offset=0, data=b"x")
    assert caught.value.code == "DISK_FULL"
