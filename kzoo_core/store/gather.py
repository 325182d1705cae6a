"""Gathering the packs of many accepts into few: every pack more makes every read a little slower.

Entries are copied as they are, so nothing is compressed again. Packs are gathered sixteen of about
one size at a time, which copies each object at most a handful of times in a repository's life.
Packs that git wrote (a push, a repack) have entries that point at each other by distance; they
stay.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.store.packs import PackBody, remove_pack

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.store.repository import KernelRepository

TOGETHER = 16
"""Packs of one size class that are gathered, and the factor between two classes."""
SMALLEST_CLASS_BYTES = 64 * 1024
LARGEST_PACK_BYTES = 256 * 1024 * 1024
"""What is larger stays: the gain is small and the copy is in memory."""

_NOT_OURS = (".keep", ".promisor", ".mtimes")
"""Marks of packs with a meaning of their own: kept, a partial clone's, of unreachable objects."""
_OFS_DELTA = 6
_INDEX_MAGIC = b"\377tOc\0\0\0\2"


class Gatherer:
    """Gathers the packs of one repository; for the process that holds its lock."""

    def __init__(self, repository: KernelRepository) -> None:
        self._repository = repository
        self._foreign: set[str] = set()

    def gather(self) -> int:
        """Gather small packs if there are enough; return how many fewer packs there are.

        To be called between commits. The new pack is durable before the old ones go. Raises
        ``OSError`` with every object still there.
        """
        directory = self._repository.objects.directory / "pack"
        if (directory / "multi-pack-index").exists():
            return 0
        body = PackBody()
        taken = [path for path in self._choose(directory) if self._copy(path, body)]
        if len(taken) < TOGETHER:
            return 0
        name = body.write(directory)
        for path in taken:
            if path.stem != name:
                remove_pack(directory, path.stem)
        durable.fsync_directory(directory)
        self._repository.objects.rescan()
        return len(taken) - 1

    def _choose(self, directory: Path) -> list[Path]:
        """Return the packs of the smallest full size class with all smaller ones."""
        classes: dict[int, list[Path]] = {}
        for path in sorted(directory.glob("pack-*.idx")):
            pack = path.with_suffix(".pack")
            size = pack.stat().st_size
            kept = any(path.with_suffix(suffix).exists() for suffix in _NOT_OURS)
            if size <= LARGEST_PACK_BYTES and not kept and pack.name not in self._foreign:
                classes.setdefault(_size_class(size), []).append(pack)
        chosen: list[Path] = []
        for size_class in sorted(classes):
            chosen += classes[size_class]
            if len(classes[size_class]) >= TOGETHER:
                return chosen
        return []

    def _copy(self, path: Path, body: PackBody) -> bool:
        copied = _copy(path, body)
        if not copied:
            self._foreign.add(path.name)
        return copied


def _size_class(size: int) -> int:
    size_class, bound = 0, SMALLEST_CLASS_BYTES
    while size > bound:
        size_class, bound = size_class + 1, bound * TOGETHER
    return size_class


def _copy(path: Path, body: PackBody) -> bool:
    """Copy a pack's entries into ``body`` and say so; ``False``: it is not one that we can copy."""
    pack, index = path.read_bytes(), path.with_suffix(".idx").read_bytes()
    if not index.startswith(_INDEX_MAGIC) or index[-40:-20] != pack[-20:]:
        return False
    count = struct.unpack_from(">L", index, 8 + 255 * 4)[0]
    names_at = 8 + 256 * 4
    checksums = struct.unpack_from(f">{count}L", index, names_at + 20 * count)
    offsets = struct.unpack_from(f">{count}L", index, names_at + 24 * count)
    ends = dict(zip(sorted(offsets), [*sorted(offsets)[1:], len(pack) - 20], strict=True))
    if any(pack[offset] >> 4 & 7 == _OFS_DELTA for offset in offsets):
        return False
    for position, (offset, checksum) in enumerate(zip(offsets, checksums, strict=True)):
        at = names_at + 20 * position
        name = index[at : at + 20]
        if name not in body:
            body.add(name, pack[offset : ends[offset]], checksum)
    return True
