"""The one owner of the branch: order, bounds, faults, and the tidying between steps."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Conflict, Retryable
from kzoo_core.store.accept import KernelMoved
from kzoo_core.store.gather import TOGETHER
from kzoo_core.store.worktree import WorktreeState, WorktreeStatus
from kzoo_core.store.writer import StoreWriter, WriterState
from tests.core.store.samples import KERNEL, OTHER, fsck, git, package, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kzoo_core.store.repository import KernelRepository


@pytest.fixture
async def writer(repository: KernelRepository) -> AsyncIterator[StoreWriter]:
    made = StoreWriter(repository)
    yield made
    await made.close()


class Gate:
    """A step that runs until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, _: KernelRepository) -> str:
        self.begun.set()
        assert self.go.wait(30)
        return "done"


async def test_an_accept_goes_through_the_thread(
    writer: StoreWriter, repository: KernelRepository
) -> None:
    done = await writer.accept(request(repository))

    assert repository.refs.head()[1] == done.bench_commit
    assert (writer.state, writer.queued, writer.fault) == (WriterState.IDLE, 0, None)
    assert writer.worktree == WorktreeState(WorktreeStatus.NONE)


async def test_steps_run_one_after_another_in_the_order_asked(writer: StoreWriter) -> None:
    seen: list[int] = []
    threads: set[int] = set()

    def step(number: int, _: KernelRepository) -> None:
        seen.append(number)
        threads.add(threading.get_ident())

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(writer.run(partial(step, number)))

    assert seen == list(range(20))
    assert len(threads) == 1


async def test_accepts_of_two_kernels_at_once_both_stand(
    writer: StoreWriter, repository: KernelRepository
) -> None:
    first = request(repository, 1)
    second = request(repository, 2, submitted=package(OTHER))

    await asyncio.gather(writer.accept(first), writer.accept(second))

    subjects = git(repository.path, "log", "--format=%s").splitlines()
    assert len(subjects) == 4
    assert fsck(repository.path) == ""


async def test_it_says_that_it_is_busy_and_how_many_wait(writer: StoreWriter) -> None:
    gate = Gate()
    steps = [asyncio.create_task(writer.run(gate)) for _ in range(3)]
    await asyncio.to_thread(gate.begun.wait, 30)

    assert (writer.state, writer.queued) == (WriterState.BUSY, 3)

    gate.go.set()
    assert await asyncio.gather(*steps) == ["done"] * 3
    assert (writer.state, writer.queued) == (WriterState.IDLE, 0)


async def test_a_full_queue_refuses_and_says_when_to_come_back(
    repository: KernelRepository,
) -> None:
    writer = StoreWriter(repository, queue_limit=2)
    gate = Gate()
    steps = [asyncio.create_task(writer.run(gate)) for _ in range(2)]
    await asyncio.to_thread(gate.begun.wait, 30)

    with pytest.raises(Retryable) as caught:
        await writer.run(gate)

    assert caught.value.code == "WRITER_BUSY"
    assert caught.value.message == "2 commits are waiting to be made"
    assert caught.value.retry_after_s == 5.0
    gate.go.set()
    await asyncio.gather(*steps)
    await writer.close()


async def test_closing_finishes_what_was_taken_and_takes_no_more(
    repository: KernelRepository,
) -> None:
    writer = StoreWriter(repository)
    gate = Gate()
    blocked = asyncio.create_task(writer.run(gate))
    waiting = asyncio.create_task(writer.accept(request(repository)))
    await asyncio.to_thread(gate.begun.wait, 30)

    closing = asyncio.create_task(writer.close())
    await asyncio.to_thread(gate.go.set)
    await closing

    assert await blocked == "done"
    assert repository.refs.head()[1] == (await waiting).bench_commit
    with pytest.raises(Retryable) as caught:
        await writer.accept(request(repository, 2))
    assert caught.value.code == "WRITER_CLOSED"


async def test_a_caller_that_gives_up_takes_its_waiting_step_along(writer: StoreWriter) -> None:
    gate = Gate()
    seen: list[str] = []
    blocked = asyncio.create_task(writer.run(gate))
    given_up = asyncio.create_task(writer.run(lambda _: seen.append("given up")))
    await asyncio.to_thread(gate.begun.wait, 30)

    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    gate.go.set()
    await blocked
    await writer.run(lambda _: seen.append("after"))

    assert seen == ["after"]
    assert writer.queued == 0


async def test_a_caller_that_gives_up_does_not_stop_a_step_that_runs(
    writer: StoreWriter, repository: KernelRepository
) -> None:
    gate = Gate()
    given_up = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.begun.wait, 30)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    gate.go.set()

    done = await writer.accept(request(repository))

    assert repository.refs.head()[1] == done.bench_commit


async def test_a_refusal_is_no_fault(writer: StoreWriter, repository: KernelRepository) -> None:
    await writer.accept(request(repository, 1))

    with pytest.raises(KernelMoved):
        await writer.accept(request(repository, 2, base_tree="12" * 20))

    assert (writer.state, writer.fault) == (WriterState.IDLE, None)


async def test_a_fault_is_kept_until_a_step_succeeds(
    writer: StoreWriter, repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kzoo_core.store.packs.write_pack", no_space)
    with pytest.raises(OSError, match="No space left"):
        await writer.accept(request(repository))
    assert (writer.state, writer.fault) == (
        WriterState.FAILED,
        "OSError: [Errno 28] No space left on device",
    )
    monkeypatch.undo()

    await writer.accept(request(repository))

    assert (writer.state, writer.fault) == (WriterState.IDLE, None)


async def test_a_slow_step_times_out_for_its_caller_alone(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.store.writer.WRITE_TIMEOUT_S", 0.01)
    gate = Gate()

    with pytest.raises(TimeoutError):
        await writer.run(gate)

    gate.go.set()


async def test_a_checkouts_files_follow_after_the_last_accept_of_a_burst(
    checkout: KernelRepository,
) -> None:
    writer = StoreWriter(checkout)
    await writer.start()
    other = request(checkout, 1, submitted=package(OTHER))
    await asyncio.gather(writer.accept(other), writer.accept(request(checkout, 2)))
    await writer.close()

    assert writer.worktree == WorktreeState(WorktreeStatus.CLEAN)
    assert git(checkout.path, "status", "--short") == ""
    assert (checkout.path / KERNEL / "src/kernel.py").read_bytes() == b"# round 2\n"


async def test_a_checkout_that_cannot_follow_is_reported(checkout: KernelRepository) -> None:
    before = StoreWriter(checkout)
    await before.accept(request(checkout, 1))
    await before.close()
    writer = StoreWriter(checkout)
    (checkout.path / KERNEL / "src/kernel.py").write_text("mine\n")
    await writer.accept(request(checkout, 2))
    await writer.close()

    assert writer.worktree.status is WorktreeStatus.DIRTY
    assert writer.state is WriterState.IDLE


async def tidied(writer: StoreWriter) -> None:
    """Wait until the thread is through with all that it has to do, tidying included."""
    await asyncio.wrap_future(writer._thread.submit(lambda: None))


async def test_a_checkout_follows_again_when_the_edit_is_taken_back(
    checkout: KernelRepository,
) -> None:
    writer = StoreWriter(checkout)
    await writer.accept(request(checkout, 1))
    await tidied(writer)
    (checkout.path / KERNEL / "src/kernel.py").write_text("mine\n")
    await writer.accept(request(checkout, 2))
    await tidied(writer)
    assert writer.worktree.status is WorktreeStatus.DIRTY
    git(checkout.path, "checkout", "HEAD", "--", KERNEL)
    writer.follow_again()
    await tidied(writer)
    assert writer.worktree == WorktreeState(WorktreeStatus.CLEAN)

    await writer.accept(request(checkout, 3))
    await writer.close()
    writer.follow_again()  # too late: it does nothing
    assert git(checkout.path, "status", "--short") == ""
    assert (checkout.path / KERNEL / "src/kernel.py").read_bytes() == b"# round 3\n"


async def test_many_accepts_leave_few_packs(repository: KernelRepository) -> None:
    writer = StoreWriter(repository)
    for number in range(1, 3 * TOGETHER + 1):
        await writer.accept(request(repository, number))
    await writer.close()

    packs = list((repository.git_directory / "objects/pack").glob("*.pack"))
    assert len(packs) < 2 * TOGETHER
    assert len(git(repository.path, "log", "--format=%H").split()) == 6 * TOGETHER
    assert fsck(repository.path) == ""


async def test_a_gathering_that_fails_is_a_fault_and_stops_no_accept(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kzoo_core.store.gather.Gatherer.gather", no_space)
    writer = StoreWriter(repository)
    await writer.accept(request(repository, 1))
    await writer.accept(request(repository, 2))
    await writer.close()

    assert writer.fault == "gathering packs: OSError: [Errno 28] No space left on device"


async def test_the_repositorys_lock_is_not_the_writers_business(
    repository: KernelRepository,
) -> None:
    with repository.lock():
        writer = StoreWriter(repository)
        await writer.accept(request(repository))
        await writer.close()
        with pytest.raises(Conflict), repository.lock():
            pass
