"""What readers ask of the queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Broken, Gone, NotFound
from kzoo_core.queue.exchange import Beat, Claimed, QueueCounts
from kzoo_core.queue.logs import LogSlice
from kzoo_core.queue.records import Outcome, Phase, Reason, State
from tests.core.queue.samples import BOB, NODE, Harness, sha256, started, uuid_of, with_settings

if TYPE_CHECKING:
    from pathlib import Path

REASON = Reason(code="schema", message="no")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def beat(harness: Harness, made: Claimed, phase: Phase | None = None) -> None:
    await harness.queue.heartbeat(NODE.runner_id, [Beat(made.submission.uuid, 1, phase)])


# records


async def test_a_submission_that_never_was_is_not_found(harness: Harness) -> None:
    with pytest.raises(NotFound) as caught:
        harness.queue.get(uuid_of(1))
    assert caught.value.code == "SUBMISSION_NOT_FOUND"
    assert caught.value.message == f"there is no submission {uuid_of(1)}"
    assert caught.value.hint == "check the uuid: kzoo runs, or GET /api/submissions, lists them"


async def test_a_submission_that_was_evicted_is_gone(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(keep_done=1)) as harness:
        old, new = await harness.done(1), await harness.done(2)
        await harness.queue.sweep()
        with pytest.raises(Gone) as caught:
            harness.queue.get(old.uuid)
        assert caught.value.code == "SUBMISSION_EVICTED"
        assert caught.value.message == (
            f"submission {old.uuid} is finished and its files are no longer kept"
        )
        assert caught.value.hint == "what was accepted is in the kernel's history"
        for read in (harness.queue.package, harness.queue.output, harness.queue.read_log):
            with pytest.raises(Gone):
                await read(old.uuid)
        assert harness.queue.get(new.uuid) == new
        assert harness.queue.counts().done == 1
        assert [item.uuid for item in harness.queue.list().items] == [new.uuid]


async def test_finished_submissions_are_evicted_by_bytes_too(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(keep_done_bytes=1)) as harness:
        made = await harness.done()
        waiting = await harness.submitted(2)
        await harness.queue.sweep()
        with pytest.raises(Gone):
            harness.queue.get(made.uuid)
        assert harness.queue.get(waiting.uuid) == waiting


async def test_the_list_is_newest_first_and_filtered(harness: Harness) -> None:
    made = [await harness.submitted(n, kernel_id=f"a/k{n}") for n in range(5)]
    theirs = await harness.submitted(9, kernel_id="a/k9", submitter=BOB)
    page = harness.queue.list(limit=4)
    rest = harness.queue.list(limit=4, cursor=page.next_cursor)
    listed = [item.uuid for item in page.items + rest.items]
    assert listed == [item.uuid for item in [theirs, *reversed(made)]]
    assert rest.next_cursor is None
    assert harness.queue.list(submitter_id=BOB).items == (theirs,)
    assert harness.queue.list(kernel_id=made[2].kernel_id).items == (made[2],)
    assert harness.queue.list(status="running").items == ()


async def test_counts_and_running_attempts_are_told(harness: Harness) -> None:
    await harness.submitted(1, kernel_id="a/k1")
    made = await harness.running(2, kernel_id="a/k2")
    await harness.reported(3, kernel_id="a/k3")
    await harness.done(4, kernel_id="a/k4")
    assert harness.queue.counts() == QueueCounts(pending=1, running=1, reported=1, done=1)
    assert [item.uuid for item in harness.queue.running_on(NODE.runner_id)] == [
        made.submission.uuid
    ]


async def test_a_submission_without_a_result_has_no_output(harness: Harness) -> None:
    made = await harness.running()
    with pytest.raises(NotFound) as caught:
        await harness.queue.output(made.submission.uuid)
    assert caught.value.code == "NO_OUTPUT"
    assert caught.value.message == (
        f"no attempt of submission {made.submission.uuid} has reported; it is running"
    )
    assert caught.value.hint == "wait until an attempt has reported"


# waiting


async def test_without_a_revision_the_wait_is_for_the_end(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    waiting = asyncio.create_task(harness.queue.wait(uuid, wait_s=60))
    await beat(harness, made, Phase.BUILD)
    await harness.report(made)
    await settle()
    assert not waiting.done()
    after = await harness.queue.finish(uuid, Outcome.REJECTED, reason=REASON)
    assert await waiting == after
    assert await harness.queue.wait(uuid, wait_s=60) == after


async def test_with_a_revision_the_wait_is_for_the_next_change(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    revision = harness.queue.get(uuid).revision
    assert (await harness.queue.wait(uuid, since=revision - 1, wait_s=60)).revision == revision
    waiting = asyncio.create_task(harness.queue.wait(uuid, since=revision, wait_s=60))
    await settle()
    await beat(harness, made)
    await settle()
    assert not waiting.done()
    await beat(harness, made, Phase.BUILD)
    assert (await waiting).phase is Phase.BUILD


async def test_a_wait_in_vain_returns_what_is(harness: Harness) -> None:
    made = await harness.submitted()
    assert await harness.queue.wait(made.uuid, wait_s=0) == made
    assert await harness.queue.wait(made.uuid, since=1, wait_s=0.001) == made


async def test_a_change_wakes_only_those_who_wait_for_that_submission(harness: Harness) -> None:
    one = await harness.submitted(1, kernel_id="a/k1")
    other = await harness.submitted(2, kernel_id="a/k2")
    for_one = [asyncio.create_task(harness.queue.wait(one.uuid, wait_s=60)) for _ in range(500)]
    for_other = asyncio.create_task(harness.queue.wait(other.uuid, wait_s=60))
    await settle()
    await harness.queue.cancel(one.uuid, by="alice")
    assert {item.outcome for item in await asyncio.gather(*for_one)} == {Outcome.CANCELLED}
    assert not for_other.done()
    harness.queue.stop_waiting()
    assert await for_other == other


async def test_a_wait_for_what_never_was_is_refused(harness: Harness) -> None:
    with pytest.raises(NotFound):
        await harness.queue.wait(uuid_of(1), wait_s=60)


async def test_the_eviction_of_what_is_waited_for_ends_the_wait(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(keep_done=0)) as harness:
        made = await harness.done()
        waiting = asyncio.create_task(harness.queue.wait(made.uuid, since=made.revision, wait_s=60))
        await settle()
        await harness.queue.sweep()
        with pytest.raises(Gone):
            await waiting


async def test_subscribers_hear_of_every_visible_change_in_order(harness: Harness) -> None:
    heard: list[tuple[State, Phase]] = []
    stop = harness.queue.subscribe(lambda item: heard.append((item.state, item.phase)))
    made = await harness.running()
    await beat(harness, made, Phase.BUILD)
    await beat(harness, made)
    await harness.report(made)
    await settle()
    assert heard == [
        (State.PENDING, Phase.QUEUED),
        (State.RUNNING, Phase.CLAIMED),
        (State.RUNNING, Phase.BUILD),
        (State.REPORTED, Phase.REPORTED),
    ]
    stop()
    stop()
    await harness.queue.finish(made.submission.uuid, Outcome.REJECTED, reason=REASON)
    await settle()
    assert len(heard) == 4


# logs


async def test_a_log_is_read_as_it_grows(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    waiting = asyncio.create_task(harness.queue.read_log(uuid, wait_s=60))
    await settle()
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"one\n")
    part = await waiting
    assert (part.attempt, part.start, part.data, part.next_offset) == (1, 0, b"one\n", 4)
    assert not part.complete
    waiting = asyncio.create_task(harness.queue.read_log(uuid, start=4, wait_s=60))
    await settle()
    await harness.queue.append_log(uuid, 1, made.token, offset=4, data=b"two\n")
    assert (await waiting).data == b"two\n"
    waiting = asyncio.create_task(harness.queue.read_log(uuid, start=8, wait_s=60))
    await settle()
    await harness.queue.close_log(uuid, 1, made.token, size=8, sha256=sha256(b"one\ntwo\n"))
    part = await waiting
    assert (part.data, part.complete, part.size) == (b"", True, 8)


async def test_a_log_is_read_in_slices(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"0123456789")
    part = await harness.queue.read_log(uuid, start=3, limit=4)
    assert (part.data, part.next_offset, part.size) == (b"3456", 7, 10)


async def test_a_queued_submission_has_no_log_until_its_first_attempt_writes_one(
    harness: Harness,
) -> None:
    made = await harness.submitted()
    assert await harness.queue.read_log(made.uuid) == LogSlice(
        attempt=None, start=0, data=b"", size=0, complete=False
    )
    waiting = asyncio.create_task(harness.queue.read_log(made.uuid, wait_s=60))
    await settle()
    claim = await harness.claim()
    assert claim is not None
    await harness.queue.append_log(made.uuid, 1, claim.token, offset=0, data=b"x")
    assert (await waiting).attempt == 1


async def test_a_submission_that_ended_without_an_attempt_has_an_empty_complete_log(
    harness: Harness,
) -> None:
    made = await harness.submitted()
    waiting = asyncio.create_task(harness.queue.read_log(made.uuid, wait_s=60))
    await settle()
    await harness.queue.cancel(made.uuid, by="alice")
    assert (await waiting).complete


async def test_the_log_of_an_attempt_that_is_over_ends_where_it_is(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"0123456789")
    await harness.report(made)
    assert not (await harness.queue.read_log(uuid)).complete
    await harness.queue.finish(uuid, Outcome.REJECTED, reason=REASON)
    assert (await harness.queue.read_log(uuid)).complete
    assert not (await harness.queue.read_log(uuid, limit=3)).complete


async def test_the_log_of_an_older_attempt_is_complete(harness: Harness) -> None:
    made = await harness.running()
    uuid = made.submission.uuid
    await harness.queue.append_log(uuid, 1, made.token, offset=0, data=b"first")
    await harness.queue.infrastructure_failure(uuid, kind="gpu_fault", detail="")
    assert not (await harness.queue.read_log(uuid, attempt=1)).complete
    assert await harness.claim() is not None
    assert (await harness.queue.read_log(uuid, attempt=1)).complete
    assert (await harness.queue.read_log(uuid)).attempt == 2


async def test_the_log_of_an_attempt_that_never_was_is_not_found(harness: Harness) -> None:
    made = await harness.running()
    with pytest.raises(NotFound) as caught:
        await harness.queue.read_log(made.submission.uuid, attempt=2, wait_s=60)
    assert caught.value.code == "UNKNOWN_ATTEMPT"


async def test_the_end_of_all_waiting_answers_held_reads(harness: Harness) -> None:
    made = await harness.running()
    waiting = asyncio.create_task(harness.queue.read_log(made.submission.uuid, wait_s=60))
    await settle()
    harness.queue.stop_waiting()
    assert (await waiting).data == b""


async def test_a_package_that_cannot_be_read_does_not_stop_the_queue(harness: Harness) -> None:
    made = await harness.submitted()
    path = harness.queue._spool.directory(made.uuid) / "package.tar.gz"
    path.unlink()
    path.mkdir()
    with pytest.raises(Broken) as caught:
        await harness.queue.package(made.uuid)
    assert caught.value.code == "SPOOL_UNREADABLE"
    assert await harness.submitted(2) is not None
