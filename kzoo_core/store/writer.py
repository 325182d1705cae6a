"""The one owner of the branch: accepts go through one bounded queue and one thread, in order."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from kzoo_core.errors import Conflict, Retryable
from kzoo_core.store.accept import accept
from kzoo_core.store.gather import Gatherer
from kzoo_core.store.worktree import WorktreeState, WorktreeStatus, follow, start_following

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.store.accept import Accepted, AcceptRequest
    from kzoo_core.store.repository import KernelRepository

QUEUE_LIMIT = 1000
TIDY_AFTER = 50
BUSY_RETRY_AFTER_S = 5.0
WRITE_TIMEOUT_S = 300.0
"""How long a caller waits for its own step; the step itself goes on and may still go through."""

Result = TypeVar("Result")


class WriterState(StrEnum):
    """``failed``: the last step ended with a fault of the disk, of git or of our own."""

    IDLE = "idle"
    BUSY = "busy"
    FAILED = "failed"


class StoreWriter:
    """Runs every write to one repository. The repository object belongs to its thread alone.

    Between the steps, and after at most ``TIDY_AFTER`` of them, the files of a checkout follow the
    branch and small packs are gathered. ``fault`` says why the state is ``failed``; ``worktree``
    how a checkout's files stand.
    """

    def __init__(self, repository: KernelRepository, *, queue_limit: int = QUEUE_LIMIT) -> None:
        self._repository = repository
        self._queue_limit = queue_limit
        self._gatherer = Gatherer(repository)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._pending: set[Future[Any]] = set()
        self._untidy_steps = 0
        self._closed = False
        self._again: Future[None] = Future()
        self._again.set_result(None)
        self.fault: str | None = None
        status = WorktreeStatus.NONE if repository.bare else WorktreeStatus.CLEAN
        self.worktree = WorktreeState(status)

    @property
    def state(self) -> WriterState:
        """What it is doing."""
        if self._pending:
            return WriterState.BUSY
        return WriterState.FAILED if self.fault is not None else WriterState.IDLE

    @property
    def queued(self) -> int:
        """How many steps are not over, the one that runs among them."""
        return len(self._pending)

    async def start(self) -> None:
        """Bring the files of a checkout to the head: what a stop or a crash left undone."""
        await self.run(start_following)

    async def close(self) -> None:
        """Take no more, finish what was taken, end the thread and close the repository."""
        if not self._closed:
            self._closed = True
            self._thread.submit(self._repository.close)
        await asyncio.to_thread(self._thread.shutdown)

    def follow_again(self) -> None:
        """Try once more where edits kept a checkout's files from following: they may be gone now.

        Returns at once; the outcome stands in ``worktree``.
        """
        dirty = self.worktree.status is WorktreeStatus.DIRTY
        if dirty and not self._closed and self._again.done():
            self._again = self._thread.submit(self._follow)

    async def accept(self, request: AcceptRequest) -> Accepted:
        """Commit an accepted submission; raises as ``accept`` of this package and as ``run``."""
        return await self.run(lambda repository: accept(repository, request))

    async def run(self, call: Callable[[KernelRepository], Result]) -> Result:
        """Run ``call`` on the writing thread after all that was asked before.

        A caller that gives up takes its step out of the queue unless it has begun. Raises
        ``Retryable`` with code ``WRITER_BUSY`` or ``WRITER_CLOSED``, ``TimeoutError``, and what
        ``call`` raises.
        """
        if self._closed:
            raise Retryable("WRITER_CLOSED", "the server is stopping and takes no more commits")
        if len(self._pending) >= self._queue_limit:
            raise Retryable(
                "WRITER_BUSY",
                f"{len(self._pending)} commits are waiting to be made",
                retry_after_s=BUSY_RETRY_AFTER_S,
            )
        outcome: Future[Result] = Future()
        self._pending.add(outcome)
        outcome.add_done_callback(self._pending.discard)
        self._thread.submit(self._step, call, outcome)
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            return await asyncio.wrap_future(outcome)

    def _step(self, call: Callable[[KernelRepository], Result], outcome: Future[Result]) -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            result = call(self._repository)
        except BaseException as error:  # noqa: BLE001 - it is the caller who gets it
            self.fault = None if isinstance(error, Conflict) else _sentence(error)
            outcome.set_exception(error)
        else:
            self.fault = None
            outcome.set_result(result)
        self._untidy_steps += 1
        if not self._pending or self._untidy_steps >= TIDY_AFTER:
            self._untidy_steps = 0
            self._tidy()

    def _follow(self) -> None:
        self.worktree = follow(self._repository)

    def _tidy(self) -> None:
        self._follow()
        try:
            self._gatherer.gather()
        except OSError as error:
            self.fault = f"gathering packs: {_sentence(error)}"


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
