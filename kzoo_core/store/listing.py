"""Finding the kernels below a directory, in git or on disk, and what is wrong with where they lie.

What is found below a directory depends on its content and path alone. So directories are compared
by key with those of the scan before, and only what changed is read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kzoo_core.errors import Problem
from kzoo_core.ids import KERNEL_ID_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kzoo_core.contract.records import Package
    from kzoo_core.ids import KernelId
    from kzoo_core.store.entries import IndexEntry


class Folder(Protocol):
    """A directory of either kind. Folders with the same ``key`` that is not ``None`` are equal."""

    @property
    def key(self) -> bytes | None:
        """Name of the content, as far as the kind of directory has one."""

    def is_kernel(self) -> bool:
        """Whether it holds a directory ``.kernel_package``."""

    def folders(self) -> Mapping[str, Folder]:
        """Return the directories in it by name, without ``.kernel_package`` and ``.git``."""

    def package(self, kernel_id: KernelId) -> tuple[Package, list[Problem]]:
        """Return its files, and problems of what could not be read as a file."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A kernel in a listing: its entry, and the line that the index file has for it."""

    entry: IndexEntry
    line: bytes


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was found below one directory."""

    key: bytes | None
    listed: tuple[Listed, ...]
    below: Mapping[str, Scanned]


class Reader(Protocol):
    """Makes the listing of one kernel's directory, or remembers it."""

    def recall(self, path: str, key: bytes | None) -> Listed | None:
        """Return what ``read`` said of the same content at the same path, where it was alone."""

    def read(self, path: str, folder: Folder, *, alone: bool) -> Listed:
        """Return the listing of a kernel; ``alone``: no other one lies inside it."""


def scan(folder: Folder, path: str, before: Scanned | None, reader: Reader) -> Scanned:
    """Return what lies below ``folder``.

    ``before`` is what an earlier scan found at the same path: its unchanged parts are taken over.
    """
    if before is not None and before.key is not None and before.key == folder.key:
        return before
    if len(path) > KERNEL_ID_MAX_BYTES:  # no kernel can be that deep, and Python's stack is not
        return Scanned(folder.key, (), {})
    known = reader.recall(path, folder.key)
    if known is not None:
        return Scanned(folder.key, (known,), {})
    below = {
        name: scan(
            inner,
            f"{path}/{name}" if path else name,
            before.below.get(name) if before is not None else None,
            reader,
        )
        for name, inner in folder.folders().items()
    }
    listed = _without_twins(path, below)
    if path and folder.is_kernel():
        own = reader.read(path, folder, alone=not listed)  # its own check says what it holds
        listed = [own, *(_with(item, _lies_inside(item.entry.kernel_id, path)) for item in listed)]
    return Scanned(folder.key, tuple(listed), below)


def _without_twins(path: str, below: Mapping[str, Scanned]) -> list[Listed]:
    """Return the kernels of all directories, a problem added where two differ in case only."""
    names = [name for name, inner in below.items() if inner.listed]
    by_folded: dict[str, list[str]] = {}
    for name in names:
        by_folded.setdefault(name.casefold(), []).append(name)
    listed: list[Listed] = []
    for name in names:
        twins = by_folded[name.casefold()]
        found = below[name].listed
        if len(twins) > 1:
            other = next(twin for twin in twins if twin != name)
            where = f"{path}/{other}" if path else other
            found = tuple(_with(item, _twin(item.entry.kernel_id, where)) for item in found)
        listed += found
    return listed


def _with(listed: Listed, problem: Problem) -> Listed:
    entry = listed.entry.with_problems([problem])
    return Listed(entry, entry.to_bytes())


def _twin(kernel_id: str, other: str) -> Problem:
    return Problem(
        code="kernel_id_case_twin",
        message=f"{kernel_id} lies in a directory that differs only in letter case from {other}",
        found=other,
        expected="names that differ by more than letter case",
        hint="rename one of them in the repository",
    )


def _lies_inside(kernel_id: str, outer: str) -> Problem:
    return Problem(
        code="kernel_inside_kernel",
        message=f"{kernel_id} lies inside the kernel {outer}",
        found=outer,
        expected="a directory that no other kernel holds",
        hint="move one of them in the repository",
    )
