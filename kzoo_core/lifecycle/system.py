"""The system: every owner composed once, started and stopped in order."""

from __future__ import annotations

import base64
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from kzoo_core import durable
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.lifecycle.admission import Admission
from kzoo_core.lifecycle.board import Board
from kzoo_core.lifecycle.claims import Claims
from kzoo_core.lifecycle.past import PastAccepts
from kzoo_core.lifecycle.settlement import Settlement
from kzoo_core.queue.runners import RunnerRegistry
from kzoo_core.queue.service import SubmissionQueue
from kzoo_core.queue.settings import QueueSettings
from kzoo_core.store.reader import StoreReader
from kzoo_core.store.repository import KernelRepository
from kzoo_core.store.sweep import make_ready
from kzoo_core.store.writer import StoreWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kzoo_core.clock import Clock

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    """Where things lie, and the bounds and times of every room."""

    repository: Path
    state: Path
    index_path: Path
    queue: QueueSettings = field(default_factory=QueueSettings)
    limits: PackageLimits = field(default_factory=PackageLimits)
    board_poll_s: float = 0.5


class System:
    """One kernel repository with its queue, writer, board and settlement.

    ``token_bytes`` returns that many random bytes. Constructing opens the repository and raises
    what that raises; ``start`` takes the locks, mends what a crash left and builds the board, which
    may take long on a big repository.
    """

    def __init__(
        self,
        settings: SystemSettings,
        clock: Clock,
        *,
        token_bytes: Callable[[int], bytes],
    ) -> None:
        def token_urlsafe(count: int) -> str:
            return base64.urlsafe_b64encode(token_bytes(count)).rstrip(b"=").decode("ascii")

        self.settings = settings
        self._clock = clock
        self._started = AsyncExitStack()
        self._told: str | None = None
        self.repository = KernelRepository(settings.repository)
        durable.make_directory(settings.state)
        self.queue = SubmissionQueue(settings.state, settings.queue, clock, token_bytes=token_bytes)
        self.runners = RunnerRegistry(settings.queue, token_urlsafe)
        self.writer = StoreWriter(self.repository)
        self.board = Board(
            reader=StoreReader(KernelRepository(settings.repository), "board-reader"),
            builder=StoreReader(KernelRepository(settings.repository), "board-builder"),
            index_path=settings.index_path,
            cache_path=settings.state / "index-cache",
            clock=clock,
            poll_s=settings.board_poll_s,
        )
        self.past = PastAccepts(self.board)
        self.admission = Admission(self.queue, self.board, settings.limits)
        self.claims = Claims(self.queue, self.board, settings.limits)
        self.settlement = Settlement(self.queue, self.board, self.writer, settings.limits, clock)

    async def start(self) -> None:
        """Start every owner; raises ``Conflict`` ``LOCKED``, ``Broken`` and ``OSError``.

        After a failure, as at any time, ``close`` undoes what was begun.
        """
        self._started.callback(self.repository.close)
        self._started.push_async_callback(self.board.close)
        self._started.push_async_callback(self.writer.close)
        self._started.enter_context(self.repository.lock())
        recovery = await self.queue.start()
        self._started.push_async_callback(self.queue.close)
        for line in recovery.notes:
            log.warning("queue.recovered", what=line)
        for line in await self.writer.run(make_ready):
            log.warning("store.swept", what=line)
        await self.writer.start()
        await self.board.start()
        await self.settlement.start()
        self._started.push_async_callback(self.settlement.close)

    async def sweep(self) -> None:
        """Do what time asks for: leases, forgotten runners, unsettled reports, a dirty worktree."""
        now = self._clock.now()
        await self.queue.sweep(now)
        self.runners.prune(now=now)
        self.settlement.resume()
        self.writer.follow_again()
        self._tell_worktree()

    async def close(self) -> None:
        """Stop in the reverse order: what was reported is settled or waits, no git step is cut."""
        self.queue.stop_waiting()
        await self._started.aclose()

    def _tell_worktree(self) -> None:
        """Log that a checkout's files stopped following, once for each reason."""
        message = self.writer.worktree.message
        if message is not None and message != self._told:
            log.warning("worktree_dirty", message=message)
        self._told = message
