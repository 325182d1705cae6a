"""The thread of the spool."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Retryable
from kzoo_core.queue.disk import Disk
from kzoo_core.queue.spool import SpoolFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk(timeout_s=30)
    yield disk
    await disk.close()


class Gate:
    """A step that waits in the thread until it is let through."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._open = threading.Event()
        self._error = error

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self._open.wait(30)
        if self._error is not None:
            raise self._error
        return "done"

    def open(self) -> None:
        self._open.set()


def fail() -> None:
    raise SpoolFailed("SPOOL_FAILED", "injected")


async def test_steps_run_in_one_thread_that_is_not_the_loops(disk: Disk) -> None:
    threads = {await disk.run(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_what_a_step_returns_is_handed_on_and_told(disk: Disk) -> None:
    told: list[int] = []
    assert await disk.run(lambda: 3, told.append) == 3
    assert told == [3]


async def test_what_a_step_raises_is_raised_and_nothing_is_told(disk: Disk) -> None:
    told: list[None] = []

    def step() -> None:
        raise Retryable("DISK_FULL", "injected")

    with pytest.raises(Retryable, match="injected"):
        await disk.run(step, told.append)
    assert told == []
    assert disk.failure is None


async def test_a_step_that_has_begun_happens_though_its_caller_is_cancelled(disk: Disk) -> None:
    told: list[str] = []
    gate = Gate()
    caller = asyncio.create_task(disk.run(gate, told.append))
    await gate.begun.wait()
    for _ in range(2):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert told == ["done"]


async def test_a_cancelled_caller_is_cancelled_even_when_the_step_fails(disk: Disk) -> None:
    gate = Gate(Retryable("DISK_FULL", "injected"))
    caller = asyncio.create_task(disk.run(gate))
    await gate.begun.wait()
    caller.cancel()
    await asyncio.sleep(0)
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_timeout_around_a_step_is_seen_once_the_step_is_over(disk: Disk) -> None:
    gate = Gate()

    async def call() -> None:
        async with asyncio.timeout(0):
            await disk.run(gate)

    caller = asyncio.create_task(call())
    await gate.begun.wait()
    gate.open()
    with pytest.raises(TimeoutError):
        await caller


async def test_nothing_runs_after_the_spool_has_failed(disk: Disk) -> None:
    watcher = asyncio.create_task(disk.failed())
    await asyncio.sleep(0)
    for _ in range(2):
        with pytest.raises(SpoolFailed, match="injected"):
            await disk.run(fail)
    with pytest.raises(SpoolFailed, match="injected"):
        await disk.run(lambda: None)
    assert (await watcher).code == "SPOOL_FAILED"
    assert disk.failure is await watcher


async def test_giving_up_the_watch_does_not_end_it_for_others(disk: Disk) -> None:
    gone = asyncio.create_task(disk.failed())
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    with pytest.raises(SpoolFailed):
        await disk.run(fail)
    assert (await disk.failed()).code == "SPOOL_FAILED"


async def test_a_disk_that_does_not_answer_counts_as_failed() -> None:
    disk = Disk(timeout_s=0.01)
    gate = Gate()
    with pytest.raises(SpoolFailed) as caught:
        await disk.run(gate)
    assert caught.value.code == "SPOOL_STALLED"
    assert caught.value.message == "the disk has not answered for 0.01 s"
    assert disk.failure is not None
    gate.open()
    disk._timeout_s = 30
    await disk.close()


async def test_after_the_end_nothing_runs_and_what_had_begun_is_done() -> None:
    disk = Disk(timeout_s=30)
    gate = Gate()
    caller = asyncio.create_task(disk.run(gate))
    await gate.begun.wait()
    closing = asyncio.create_task(disk.close())
    await asyncio.sleep(0)
    with pytest.raises(Retryable) as caught:
        await disk.run(lambda: None)
    assert (caught.value.code, caught.value.message) == ("STOPPING", "the server is stopping")
    gate.open()
    await closing
    assert await caller == "done"
