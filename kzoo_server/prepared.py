"""What the board's readers get, as bytes made once for each snapshot and not for each request.

A listing of 10,000 kernels that is serialized and compressed anew each time costs a hundred times
the CPU. An entry's JSON is kept as long as the entry itself; pages of the unfiltered list and
index.json are compressed once, in a thread, when they are first asked for.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_server.answers import json_bytes
from kzoo_server.listing import KernelFilter, Place, page_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.lifecycle.board import BoardSnapshot
    from kzoo_core.store.index import IndexEntry

FORMAT = 1
"""Version of what these bytes look like: a part of every ETag, raised when the form changes."""

KEPT_SELECTIONS = 32
KEPT_PAGES = 64
COMPRESS_FROM_BYTES = 1024
GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class PreparedBody:
    """A body as it is and, where that is worth it, compressed."""

    plain: bytes
    compressed: bytes | None


class PreparedBoard:
    """Bytes for the snapshot that was asked for last; a new one drops what was made for the old.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._snapshot: BoardSnapshot | None = None
        self._entries: dict[str, tuple[IndexEntry, bytes]] = {}
        self._selections: OrderedDict[KernelFilter, tuple[IndexEntry, ...]] = OrderedDict()
        self._bodies: OrderedDict[tuple[object, ...], asyncio.Future[PreparedBody]] = OrderedDict()

    async def index(self, snapshot: BoardSnapshot) -> PreparedBody:
        """Return index.json."""
        self._turn_to(snapshot)
        return await self._compressed(("index",), snapshot.index_bytes)

    async def page(
        self, snapshot: BoardSnapshot, wanted: KernelFilter, *, cursor: str | None, limit: int
    ) -> PreparedBody:
        """Return one page of kernels; a filtered one is put together, never compressed.

        Raises ``BadInput`` with code ``BAD_CURSOR``.
        """
        self._turn_to(snapshot)
        if not wanted.lists_all:
            return PreparedBody(self._page(snapshot, wanted, cursor, limit), None)
        key = ("page", cursor, limit)
        kept = self._bodies.get(key)
        if kept is not None:
            self._bodies.move_to_end(key)
            return await asyncio.shield(kept)
        return await self._compressed(key, self._page(snapshot, wanted, cursor, limit))

    def _page(
        self, snapshot: BoardSnapshot, wanted: KernelFilter, cursor: str | None, limit: int
    ) -> bytes:
        entries = self._selection(snapshot, wanted)
        begin, end = page_bounds(entries, wanted.sort, cursor, limit)
        last = Place.of(entries[end - 1], wanted.sort).write() if end < len(entries) else None
        head = json_bytes(
            {"revision": snapshot.revision or None, "total": len(entries), "next_cursor": last}
        )
        return head[:-1] + b',"items":[' + self._joined(entries[begin:end]) + b"]}"

    def _selection(self, snapshot: BoardSnapshot, wanted: KernelFilter) -> tuple[IndexEntry, ...]:
        kept = self._selections.get(wanted)
        if kept is None:
            kept = self._selections[wanted] = wanted.select(snapshot.entries)
            if len(self._selections) > KEPT_SELECTIONS:
                self._selections.popitem(last=False)
        else:
            self._selections.move_to_end(wanted)
        return kept

    def _joined(self, entries: Sequence[IndexEntry]) -> bytes:
        return b",".join(self._entry(entry) for entry in entries)

    def _entry(self, entry: IndexEntry) -> bytes:
        kept = self._entries.get(entry.kernel_id)
        if kept is not None and kept[0] is entry:
            return kept[1]
        data = entry.to_bytes()
        self._entries[entry.kernel_id] = (entry, data)
        return data

    async def _compressed(self, key: tuple[object, ...], plain: bytes) -> PreparedBody:
        making = self._bodies.get(key)
        if making is None:
            making = asyncio.ensure_future(asyncio.to_thread(_prepare, plain))
            self._bodies[key] = making
            if len(self._bodies) > KEPT_PAGES:
                self._bodies.popitem(last=False)
        return await asyncio.shield(making)

    def _turn_to(self, snapshot: BoardSnapshot) -> None:
        if self._snapshot is snapshot:
            return
        self._snapshot = snapshot
        self._selections.clear()
        self._bodies.clear()
        gone = self._entries.keys() - snapshot.by_id.keys()
        for kernel_id in gone:
            del self._entries[kernel_id]


def etag(snapshot: BoardSnapshot) -> str:
    """Return the ETag of everything that one snapshot answers: format and revision."""
    return f'"{FORMAT}-{snapshot.revision}"'


def _prepare(plain: bytes) -> PreparedBody:
    if len(plain) < COMPRESS_FROM_BYTES:
        return PreparedBody(plain, None)
    return PreparedBody(plain, gzip.compress(plain, GZIP_LEVEL, mtime=0))
