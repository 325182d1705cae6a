"""What survives a stop, a kill, and a jump of the clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kzoo_core.clock import ManualClock
from kzoo_core.errors import Broken, Conflict, Gone, Retryable
from kzoo_core.queue.exchange import Beat, Order
from kzoo_core.queue.records import Phase, State
from kzoo_core.queue.service import SubmissionQueue
from tests.core.queue.samples import (
    ALICE,
    BOB,
    DIGEST,
    NODE,
    REPORT,
    SETTINGS,
    T0,
    at,
    new_submission,
    seeded_bytes,
    started,
    uuid_of,
    with_settings,
)

if TYPE_CHECKING:
    from pathlib import Path


class JumpingClock(ManualClock):
    """A clock whose wall time can be set without any time going by."""

    def jump(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


async def test_everything_is_there_again_in_the_same_order(tmp_path: Path) -> None:
    async with started(tmp_path) as harness:
        made = [await harness.submitted(n, kernel_id=f"a/k{n}") for n in range(6)]
        await harness.done(7, kernel_id="a/k7")
        await harness.reported(8, kernel_id="a/k8")
        before = harness.queue.list().items
        counts = harness.queue.counts()
        positions = [harness.queue.position(item.uuid) for item in made]
    async with started(tmp_path, seed=8) as harness:
        assert harness.queue.list().items == before
        assert harness.queue.counts() == counts
        assert [harness.queue.position(item.uuid) for item in made] == positions
        assert len(harness.queue.reported()) == 1


async def test_a_claim_asked_again_after_a_restart_gives_the_same_attempt(
    tmp_path: Path,
) -> None:
    async with started(tmp_path) as harness:
        await harness.submitted(1, kernel_id="a/k1")
        await harness.submitted(2, kernel_id="a/k2")
        first = await harness.claim(claim_id="c")
        assert first is not None
    async with started(tmp_path, seed=8) as harness:
        again = await harness.claim(claim_id="c")
        assert again is not None
        assert again.submission.uuid == first.submission.uuid
        assert (again.attempt.number, again.token) == (1, first.token)
        await harness.report(again)


async def test_a_running_attempt_has_its_grace_and_goes_on(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        made = await harness.running()
    clock.advance(3600)
    async with started(tmp_path, clock=clock, seed=8) as harness:
        uuid = made.submission.uuid
        lease = harness.queue.get(uuid).attempts[0].lease_expires_at
        assert lease == at(3600 + SETTINGS.restart_grace_s)
        clock.advance(SETTINGS.restart_grace_s - 1)
        await harness.queue.sweep()
        reply = await harness.queue.heartbeat(NODE.runner_id, [Beat(uuid, 1, Phase.BENCHMARK)])
        assert reply.directives[0].do is Order.CONTINUE
        receipt = await harness.queue.report(uuid, 1, made.token, REPORT, DIGEST)
        assert receipt.submission.state is State.REPORTED


async def test_a_runner_that_died_with_the_server_loses_its_attempt_after_the_grace(
    tmp_path: Path,
) -> None:
    clock = ManualClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        made = await harness.running()
    async with started(tmp_path, clock=clock, seed=8) as harness:
        clock.advance(SETTINGS.restart_grace_s)
        await harness.queue.sweep()
        after = harness.queue.get(made.submission.uuid)
        assert (after.state, after.charged) == (State.PENDING, 1)


async def test_a_reader_who_saw_a_phase_that_memory_lost_is_not_ahead_of_the_record(
    tmp_path: Path,
) -> None:
    seen = 0
    async with started(tmp_path) as harness:
        made = await harness.running()
    for seed in range(8, 12):
        async with started(tmp_path, seed=seed) as harness:
            uuid = made.submission.uuid
            assert harness.queue.get(uuid).revision > seen
            for phase in (Phase.BUILD, Phase.BENCHMARK):
                await harness.queue.heartbeat(NODE.runner_id, [Beat(uuid, 1, phase)])
            seen = harness.queue.get(uuid).revision


async def test_a_key_survives_a_restart(tmp_path: Path) -> None:
    async with started(tmp_path) as harness:
        first = await harness.queue.submit(new_submission(1), "key")
    async with started(tmp_path, seed=8) as harness:
        assert await harness.queue.submit(new_submission(1), "key") == first
        with pytest.raises(Conflict):
            await harness.queue.submit(new_submission(2), "key")


async def test_whose_turn_it_is_survives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        for number in range(2):
            await harness.submitted(number, kernel_id=f"a/k{number}", submitter=ALICE)
        await harness.submitted(5, kernel_id="a/k5", submitter=BOB)
        first = await harness.claim()
        assert first is not None
        assert first.submission.submitter_id == ALICE
        await harness.report(first)
    async with started(tmp_path, clock=clock, seed=8) as harness:
        second = await harness.claim()
        assert second is not None
        assert second.submission.submitter_id == BOB


async def test_evicted_submissions_stay_gone(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(keep_done=1)) as harness:
        old, new = await harness.done(1), await harness.done(2)
        await harness.queue.sweep()
    async with started(tmp_path, settings=with_settings(keep_done=1), seed=8) as harness:
        await harness.queue.sweep()
        assert harness.queue.get(new.uuid) == new
        with pytest.raises(Gone):
            harness.queue.get(old.uuid)


async def test_a_key_outlives_its_evicted_submission_and_a_restart(tmp_path: Path) -> None:
    settings = with_settings(keep_done=0)
    async with started(tmp_path, settings=settings) as harness:
        made = await harness.queue.submit(new_submission(1), "key")
        await harness.queue.cancel(made.uuid, by="alice")
        await harness.queue.sweep()
    async with started(tmp_path, settings=settings, seed=8) as harness:
        with pytest.raises(Gone) as gone:
            await harness.queue.submit(new_submission(1), "key")
        assert made.uuid in gone.value.message
        with pytest.raises(Conflict) as other:
            await harness.queue.submit(new_submission(2), "key")
        assert other.value.code == "IDEMPOTENCY_MISMATCH"
        assert harness.queue.counts().pending == 0
        # A second eviction keeps the first one's key.
        second = await harness.queue.submit(new_submission(3), "second")
        await harness.queue.cancel(second.uuid, by="alice")
        await harness.queue.sweep()
    async with started(tmp_path, settings=settings, seed=9) as harness:
        for number, key in ((1, "key"), (3, "second")):
            with pytest.raises(Gone):
                await harness.queue.submit(new_submission(number), key)
        harness.clock.advance(24 * 3600 + 1)
        again = await harness.queue.submit(new_submission(1), "key")
        assert again.uuid != made.uuid


async def test_keys_that_cannot_be_read_are_set_aside_and_said(tmp_path: Path) -> None:
    async with started(tmp_path):
        pass
    (tmp_path / "keys.json").write_text("{}")
    async with started(tmp_path, seed=8) as harness:
        assert harness.queue.counts().pending == 0
    assert (tmp_path / "corrupt" / "keys.json").read_text() == "{}"


async def test_smaller_bounds_evict_what_ended_first_after_the_start(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        first = await harness.running(1, kernel_id="a/k1")
        second = await harness.done(2, kernel_id="a/k2")
        clock.advance(1)
        last = await harness.queue.cancel((await harness.submitted(3)).uuid, by="alice")
        await harness.report(first)
    async with started(
        tmp_path, clock=clock, settings=with_settings(keep_done=1), seed=8
    ) as harness:
        await harness.queue.sweep()
        assert harness.queue.get(last.uuid) == last
        assert harness.queue.get(first.submission.uuid).state is State.REPORTED
        with pytest.raises(Gone):
            harness.queue.get(second.uuid)


async def test_a_start_says_what_it_put_right(tmp_path: Path) -> None:
    async with started(tmp_path):
        pass
    (tmp_path / "pending" / "stranger").mkdir()
    queue = SubmissionQueue(
        tmp_path, SETTINGS, ManualClock(T0), token_bytes=seeded_bytes().randbytes
    )
    recovery = await queue.start()
    assert recovery.corrupt == 1
    assert recovery.notes == (
        "pending/stranger: it has no submission.json; moved to corrupt/stranger",
    )
    await queue.close()


async def test_a_start_that_fails_leaves_the_directory_free(tmp_path: Path) -> None:
    async with started(tmp_path) as harness:
        made = await harness.submitted()
    queue = SubmissionQueue(
        tmp_path, SETTINGS, ManualClock(T0), token_bytes=seeded_bytes().randbytes
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kzoo_core.queue.core.recover", lambda _spool: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await queue.start()
    async with started(tmp_path, seed=8) as harness:
        assert harness.queue.get(made.uuid) == made
    await queue.close()


async def test_a_second_server_is_refused(tmp_path: Path) -> None:
    async with started(tmp_path):
        second = SubmissionQueue(
            tmp_path, SETTINGS, ManualClock(T0), token_bytes=seeded_bytes().randbytes
        )
        with pytest.raises(Conflict) as caught:
            await second.start()
        assert caught.value.code == "LOCKED"
        await second.close()


async def test_a_newer_state_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("9")
    queue = SubmissionQueue(
        tmp_path, SETTINGS, ManualClock(T0), token_bytes=seeded_bytes().randbytes
    )
    with pytest.raises(Broken) as caught:
        await queue.start()
    assert caught.value.code == "STATE_TOO_NEW"
    await queue.close()


async def test_before_the_start_nothing_is_known_and_nothing_is_taken(tmp_path: Path) -> None:
    queue = SubmissionQueue(
        tmp_path, SETTINGS, ManualClock(T0), token_bytes=seeded_bytes().randbytes
    )
    with pytest.raises(Retryable) as reading:
        queue.get(uuid_of(1))
    with pytest.raises(Retryable) as submitting:
        await queue.submit(new_submission(1))
    for caught in (reading, submitting):
        assert (caught.value.code, caught.value.retry_after_s) == ("STARTING", 1)
    await queue.close()


async def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    async with started(tmp_path) as harness:
        made = await harness.submitted()
        queue = harness.queue
    with pytest.raises(Retryable) as caught:
        await queue.submit(new_submission(2))
    assert caught.value.code == "STOPPING"
    assert await queue.wait(made.uuid, wait_s=60) == made


async def test_a_result_that_overtakes_the_clocks_jump_stands(tmp_path: Path) -> None:
    clock = JumpingClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        made = await harness.running()
        clock.jump(7200)
        async with harness.queue._ledger._lock:
            report = asyncio.create_task(harness.report(made))
            await asyncio.sleep(0)
            sweep = asyncio.create_task(harness.queue.sweep())
            await asyncio.sleep(0)
        after = await report
        await sweep
        assert after.state is State.REPORTED
        assert harness.queue.get(made.submission.uuid) == after


@pytest.mark.parametrize("jump", [7200.0, -7200.0])
async def test_a_jump_of_the_wall_clock_costs_no_attempt(tmp_path: Path, jump: float) -> None:
    clock = JumpingClock(T0)
    async with started(tmp_path, clock=clock) as harness:
        made = await harness.running()
        clock.jump(jump)
        await harness.queue.sweep()
        running = harness.queue.get(made.submission.uuid)
        assert running.state is State.RUNNING
        assert running.attempts[0].lease_expires_at == at(jump + SETTINGS.restart_grace_s)
        clock.advance(SETTINGS.restart_grace_s)
        await harness.queue.sweep()
        assert harness.queue.get(made.submission.uuid).state is State.PENDING
