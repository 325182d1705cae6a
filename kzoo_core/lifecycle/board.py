"""The board: what readers see of the kernel repository's head, kept current.

Two threads read git, each with a repository object of its own (one of dulwich is not shared between
threads): one builds the index, which may take long, the other answers everybody's questions
meanwhile. A snapshot is immutable and replaced whole.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog

from kzoo_core import durable
from kzoo_core.contract.desc import parse_desc
from kzoo_core.contract.layout import BENCHMARK_PATH, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.metas import read_metas
from kzoo_core.contract.records import Status
from kzoo_core.contract.scoreboard_file import parse_scoreboard
from kzoo_core.ids import CommitId
from kzoo_core.store.conflicts import kernel_id_conflict
from kzoo_core.store.history import HistoryPage, history
from kzoo_core.store.index import IndexBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_core.contract.records import Desc, Scoreboard, TestCaseMeta
    from kzoo_core.ids import KernelId
    from kzoo_core.store.index import Index, IndexEntry
    from kzoo_core.store.reader import StoreReader
    from kzoo_core.store.repository import KernelRepository

log = structlog.get_logger()
Result = TypeVar("Result")

BUILD_TIMEOUT_S = 3600.0
"""A first build reads every kernel; 10,000 take about a minute."""
DETAIL_CACHE = 256


@dataclass(frozen=True, slots=True)
class BoardSnapshot:
    """The index of one head: ``revision`` names it, ``index_bytes`` is index.json."""

    revision: str
    entries: tuple[IndexEntry, ...]
    by_id: Mapping[str, IndexEntry]
    index_bytes: bytes
    built_at: datetime


@dataclass(frozen=True, slots=True)
class KernelDetail:
    """One kernel at the head: its index entry and the parsed parts that could be read."""

    entry: IndexEntry
    revision: str
    tree: str
    desc: Desc | None
    metas: tuple[TestCaseMeta, ...]
    scoreboard: Scoreboard | None


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What the head says about a kernel_id when a submission is admitted, claimed or judged.

    ``tree`` is the git id of the kernel's directory, ``None`` for a new kernel; ``conflict`` says
    in one sentence why the id cannot exist beside others (D1).
    """

    tree: str | None
    frozen: bool
    deprecated: bool
    conflict: str | None
    scoreboard: Scoreboard | None


class Board:
    """The readers' live view; ``start`` builds it, a watch notices commits made by others."""

    def __init__(
        self,
        *,
        reader: StoreReader,
        builder: StoreReader,
        index_path: Path,
        cache_path: Path,
        clock: Clock,
        poll_s: float = 0.5,
    ) -> None:
        self._reader = reader
        self._builder = builder
        self._index_path = index_path
        self._index = IndexBuilder(cache_path)
        self._clock = clock
        self._poll_s = poll_s
        self._refreshing = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._details: OrderedDict[tuple[str, str], KernelDetail] = OrderedDict()
        self.snapshot: BoardSnapshot | None = None
        self.fault: str | None = None

    async def start(self) -> None:
        """Build the first snapshot and begin to watch the head."""
        await self.refresh()
        self._watch = asyncio.create_task(self._watch_head(), name="board-watch")

    async def close(self) -> None:
        """Stop watching, keep what was read for the next start, and give the repositories back."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        self._index.stop()
        await self._builder.run(lambda _: self._keep_cache(), timeout_s=BUILD_TIMEOUT_S)
        await self._builder.close()
        await self._reader.close()

    async def refresh(self) -> BoardSnapshot:
        """Return a snapshot of the head as it is now, built if it is not the one at hand.

        Also writes index.json. Raises what reading git or writing the file raises.
        """
        async with self._refreshing:
            head = await self._builder.run(lambda repository: repository.head())
            if self.snapshot is not None and self.snapshot.revision == _revision(head):
                return self.snapshot
            snapshot = await self._builder.run(
                lambda repository: self._build(repository, head), timeout_s=BUILD_TIMEOUT_S
            )
            self.snapshot = snapshot
            return snapshot

    async def read(self, call: Callable[[KernelRepository], Result]) -> Result:
        """Run ``call`` on the thread that answers questions; see ``StoreReader.run``."""
        return await self._reader.run(call)

    async def head_facts(self, kernel_id: KernelId) -> HeadFacts:
        """Return what the head says about ``kernel_id`` now."""
        return await self.read(lambda repository: head_facts(repository, kernel_id))

    async def kernel(self, kernel_id: KernelId) -> KernelDetail | None:
        """Return one kernel as the current snapshot lists it, or ``None``."""
        snapshot = self.snapshot or await self.refresh()
        entry = snapshot.by_id.get(kernel_id)
        if entry is None:
            return None
        key = (kernel_id, snapshot.revision)
        detail = self._details.get(key)
        if detail is None:
            detail = await self.read(lambda repository: _detail(repository, entry, snapshot))
            if detail is not None:
                self._details[key] = detail
                if len(self._details) > DETAIL_CACHE:
                    self._details.popitem(last=False)
        return detail

    async def history(
        self, kernel_id: KernelId, *, limit: int, cursor: CommitId | None
    ) -> HistoryPage:
        """Return one page of a kernel's accepted submissions, newest first."""
        return await self.read(
            lambda repository: history(repository, kernel_id, limit=limit, cursor=cursor)
        )

    def _build(self, repository: KernelRepository, head: CommitId | None) -> BoardSnapshot:
        index = self._index.build(repository, head)
        return self._publish(index)

    def _publish(self, index: Index) -> BoardSnapshot:
        data = index.to_bytes()
        durable.make_directory(self._index_path.parent)
        durable.write_file(self._index_path, data)
        self._index.save()
        return BoardSnapshot(
            revision=index.revision,
            entries=index.entries,
            by_id={entry.kernel_id: entry for entry in index.entries},
            index_bytes=data,
            built_at=self._clock.now(),
        )

    def _keep_cache(self) -> None:
        try:
            self._index.save(force=True)
        except OSError:  # a cache alone: the next start reads git instead
            log.exception("board.cache_not_saved")

    async def _watch_head(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self.refresh()
                self.fault = None
            except Exception as error:  # the last snapshot goes on serving; the watch must live
                self.fault = f"{type(error).__name__}: {error}"
                log.exception("board.refresh_failed")


def head_facts(repository: KernelRepository, kernel_id: KernelId) -> HeadFacts:
    """Read what the head says about ``kernel_id``; unreadable metadata restricts nothing."""
    head = repository.head()
    conflict = kernel_id_conflict(repository, head, kernel_id)
    tree = repository.kernel_tree(head, kernel_id) if head is not None else None
    if head is None or tree is None:
        return HeadFacts(None, frozen=False, deprecated=False, conflict=conflict, scoreboard=None)
    desc_bytes = repository.read_file(head, f"{kernel_id}/{DESC_PATH}")
    desc = parse_desc(desc_bytes)[0] if desc_bytes is not None else None
    board_bytes = repository.read_file(head, f"{kernel_id}/{SCOREBOARD_PATH}")
    scoreboard = parse_scoreboard(board_bytes)[0] if board_bytes is not None else None
    status = desc.status if desc is not None else Status.NORMAL
    return HeadFacts(
        tree,
        frozen=status is Status.FROZEN,
        deprecated=status is Status.DEPRECATED,
        conflict=conflict,
        scoreboard=scoreboard,
    )


def _revision(head: CommitId | None) -> str:
    return head or ""


def _detail(
    repository: KernelRepository, entry: IndexEntry, snapshot: BoardSnapshot
) -> KernelDetail | None:
    kernel_id = entry.kernel_id
    commit = CommitId(snapshot.revision)
    tree = repository.kernel_tree(commit, kernel_id)
    if tree is None:
        return None
    desc_bytes = repository.read_file(commit, f"{kernel_id}/{DESC_PATH}")
    board_bytes = repository.read_file(commit, f"{kernel_id}/{SCOREBOARD_PATH}")
    benchmark = repository.read_file(commit, f"{kernel_id}/{BENCHMARK_PATH}")
    metas = read_metas(benchmark, BENCHMARK_PATH)[0] if benchmark is not None else None
    return KernelDetail(
        entry=entry,
        revision=snapshot.revision,
        tree=tree,
        desc=parse_desc(desc_bytes)[0] if desc_bytes is not None else None,
        metas=metas or (),
        scoreboard=parse_scoreboard(board_bytes)[0] if board_bytes is not None else None,
    )
