"""What a stop, clean or not, leaves behind is taken up again, once."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.records import RunFailure
from kzoo_core.errors import Broken, Conflict, Retryable
from kzoo_core.queue.records import Outcome, State
from kzoo_core.store import index as index_module
from tests.packages import KERNEL_ID, output_bytes, valid_package

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.records import Package
    from kzoo_core.errors import Problem
    from kzoo_core.lifecycle.system import System
    from kzoo_core.store.listing import Listed
    from tests.core.lifecycle.conftest import Bench


def commits(directory: Path) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(directory / "kernel_data"), "log", "--format=%s"],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


async def restarted(bench: Bench) -> System:
    await bench.system.close()
    system = bench.reopened()
    await system.start()
    bench.system = system
    return system


async def settled(bench: Bench) -> None:
    """Wait until nobody is being settled, whatever came of it."""
    async with asyncio.timeout(10):
        while bench.system.settlement._known:
            await asyncio.sleep(0.01)


class LostPower(BaseException):
    """The process ends here; nothing that catches errors may see it."""


async def test_a_report_whose_commit_never_began_is_committed_after_a_restart(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(bench.system.settlement, "_enqueue", lambda *_, **__: never)
    await bench.report(claimed)
    assert bench.system.queue.get(submission.uuid).state is State.REPORTED
    await restarted(bench)
    done = await bench.done(submission)
    assert done.outcome is Outcome.ACCEPTED
    assert len(commits(bench.directory)) == 2


async def test_commits_made_just_before_a_crash_are_found_and_not_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    reached = asyncio.Event()

    async def crash(*_: object, **__: object) -> None:
        reached.set()
        raise LostPower

    monkeypatch.setattr(bench.system.queue, "finish", crash)
    await bench.report(claimed)
    async with asyncio.timeout(10):
        await reached.wait()
    assert len(commits(bench.directory)) == 2
    assert bench.system.queue.get(submission.uuid).state is State.REPORTED
    await restarted(bench)
    done = await bench.done(submission)
    assert done.outcome is Outcome.ACCEPTED
    assert len(commits(bench.directory)) == 2
    assert [record.value for record in done.records] == [1.5, 3.25]


async def test_a_rejection_that_was_not_written_down_is_reached_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()

    async def crash(*_: object, **__: object) -> None:
        raise LostPower

    monkeypatch.setattr(bench.system.queue, "finish", crash)
    with pytest.raises(LostPower):
        await bench.report(claimed, b"{}{}")
    await restarted(bench)
    done = await bench.done(submission)
    assert done.reason is not None
    assert (done.outcome, done.reason.code) == (Outcome.REJECTED, "output_not_json")


async def test_an_infrastructure_failure_that_was_not_written_down_is_charged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()

    async def crash(*_: object, **__: object) -> None:
        raise LostPower

    monkeypatch.setattr(bench.system.queue, "infrastructure_failure", crash)
    with pytest.raises(LostPower):
        await bench.report(claimed, failure=RunFailure("engine_error", "no engine"))
    await restarted(bench)
    async with asyncio.timeout(10):
        while bench.system.queue.get(submission.uuid).state is not State.PENDING:
            await asyncio.sleep(0.01)
    assert bench.system.queue.get(submission.uuid).charged == 1


async def test_a_git_step_that_fails_for_a_moment_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    real = bench.system.writer.accept
    tries = 0

    async def accept(request: object) -> object:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(28, "No space left on device")
        return await real(request)  # type: ignore[arg-type]

    monkeypatch.setattr(bench.system.writer, "accept", accept)
    await bench.report(claimed)
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED
    assert tries == 2


async def test_commits_whose_record_found_no_room_are_recorded_once_there_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    tried = asyncio.Event()

    async def finish(*_: object, **__: object) -> object:
        tried.set()
        raise Retryable("DISK_FULL", "the server's disk is full: nothing was changed")

    with monkeypatch.context() as full:
        full.setattr(bench.system.queue, "finish", finish)
        await bench.report(claimed)
        async with asyncio.timeout(10):
            await tried.wait()
        await settled(bench)
    assert bench.system.queue.get(submission.uuid).state is State.REPORTED
    assert len(commits(bench.directory)) == 2

    await bench.system.sweep()
    done = await bench.done(submission)
    assert (done.outcome, done.reason) == (Outcome.ACCEPTED, None)
    assert len(commits(bench.directory)) == 2


async def test_a_disk_that_stays_full_beyond_the_tries_costs_no_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    tries = 0

    async def accept(_: object) -> object:
        nonlocal tries
        tries += 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kzoo_core.lifecycle.settlement.COMMIT_BACKOFF_S", (0.0, 0.0))
    with monkeypatch.context() as full:
        full.setattr(bench.system.writer, "accept", accept)
        await bench.report(claimed)
        await settled(bench)
    assert tries == 3
    assert bench.system.queue.get(submission.uuid).state is State.REPORTED

    await bench.system.sweep()
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED


async def test_a_failure_that_cannot_be_recorded_stops_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await bench.submit()
    claimed = await bench.claim()

    async def accept(_: object) -> object:
        raise Broken("SCOREBOARD_UNREADABLE", "the head's scoreboard is not valid")

    async def finish(*_: object, **__: object) -> object:
        raise Retryable("DISK_FULL", "the server's disk is full: nothing was changed")

    with monkeypatch.context() as full:
        full.setattr(bench.system.writer, "accept", accept)
        full.setattr(bench.system.queue, "finish", finish)
        await bench.report(claimed)
        await settled(bench)
    assert bench.system.queue.get(first.uuid).state is State.REPORTED
    second = await bench.accepted(valid_package("gfx928/Norm/RMSNorm/fp32/second"))
    assert second.outcome is Outcome.ACCEPTED


async def test_a_commit_that_cannot_be_made_ends_as_failed_and_keeps_the_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()

    async def accept(_: object) -> object:
        raise Broken("SCOREBOARD_UNREADABLE", "the head's scoreboard is not valid")

    monkeypatch.setattr(bench.system.writer, "accept", accept)
    await bench.report(claimed)
    done = await bench.done(submission)
    assert done.outcome is Outcome.FAILED
    assert done.reason is not None
    assert done.reason.code == "commit_failed"
    assert "the head's scoreboard is not valid" in done.reason.message
    assert (await bench.system.queue.output(submission.uuid)).report.stdout == output_bytes()


async def test_a_lost_index_and_cache_are_built_again_to_the_same_bytes(bench: Bench) -> None:
    await bench.accepted()
    index = bench.directory / "state" / "index.json"
    before = index.read_bytes()
    await bench.system.close()
    index.unlink()
    (bench.directory / "state" / "index-cache").unlink()
    system = bench.reopened()
    await system.start()
    bench.system = system
    assert index.read_bytes() == before


async def test_two_systems_on_one_state_directory_are_refused(bench: Bench) -> None:
    other = bench.reopened()
    with pytest.raises(Conflict) as caught:
        await other.start()
    await other.close()
    assert caught.value.code == "LOCKED"
    assert caught.value.hint


async def test_a_repository_without_its_objects_says_what_to_do(bench: Bench) -> None:
    await bench.accepted()
    await bench.system.close()
    shutil.rmtree(bench.directory / "kernel_data" / "objects" / "pack")
    (bench.directory / "kernel_data" / "objects" / "pack").mkdir()
    system = bench.reopened()
    with pytest.raises(Broken) as caught:
        await system.start()
    await system.close()
    assert caught.value.hint


async def test_the_board_goes_on_serving_when_a_refresh_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.accepted()
    snapshot = bench.system.board.snapshot
    real = bench.system.board.refresh

    async def refresh() -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(bench.system.board, "refresh", refresh)
    async with asyncio.timeout(10):
        while bench.system.board.fault is None:
            await asyncio.sleep(0.01)
    assert bench.system.board.fault == "OSError: [Errno 5] Input/output error"
    assert bench.system.board.snapshot is snapshot
    monkeypatch.setattr(bench.system.board, "refresh", real)
    async with asyncio.timeout(10):
        while bench.system.board.fault is not None:
            await asyncio.sleep(0.01)


async def test_an_accept_stands_even_when_the_board_cannot_be_built(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()

    async def refresh() -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(bench.system.board, "refresh", refresh)
    await bench.report(claimed)
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED


async def test_a_sweep_takes_up_what_nobody_settles(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    with monkeypatch.context() as patched:
        patched.setattr(bench.system.settlement, "_enqueue", lambda *_, **__: None)
        await bench.report(claimed)
    bench.system.settlement._known.discard(submission.uuid)
    await bench.system.sweep()
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED
    assert valid_package().kernel_id == KERNEL_ID


async def test_a_system_closed_while_its_board_is_built_stops_at_the_next_kernel(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        await bench.accepted(valid_package(f"gfx928/Norm/RMSNorm/fp32/{name}"))
    await bench.system.close()
    (bench.directory / "state" / "index-cache").unlink()
    loop = asyncio.get_running_loop()
    reached, go_on = asyncio.Event(), threading.Event()
    read = []
    real = index_module._listing

    def listing(package: Package, problems: list[Problem]) -> Listed:
        read.append(package.kernel_id)
        loop.call_soon_threadsafe(reached.set)
        assert go_on.wait(10)
        return real(package, problems)

    monkeypatch.setattr(index_module, "_listing", listing)
    bench.system = bench.reopened()
    starting = asyncio.create_task(bench.system.start())
    async with asyncio.timeout(10):
        await reached.wait()
        starting.cancel()
        closing = asyncio.create_task(bench.system.close())
        await asyncio.gather(starting, return_exceptions=True)
        while not bench.system.board._index._reader.stopped.is_set():
            await asyncio.sleep(0.001)
        go_on.set()
        await closing
    assert len(read) == 1
