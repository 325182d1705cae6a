"""Finding the kernels below a directory, in git or on disk, and what is wrong with where they lie.

What is found below a directory depends on its content and path alone. So directories are compared
by key with those of the scan before, and only what changed is read again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


def scan(
    folder: Folder, path: str, before: Scanned | None, read: Callable[[str, Folder], Listed]
) -> Scanned:
    """Return what lies below ``folder``; ``read`` makes the listing of one kernel's directory.

    ``before`` is what an earlier scan found at the same path: its unchanged parts are taken over.
    """
    if before is not None and before.key is not None and before.key == folder.key:
        return before
    below = {
        name: scan(
            inner,
            f"{path}/{name}" if path else name,
            before.below.get(name) if before is not None else None,
            read,
        )
        for name, inner in folder.folders().items()
    }
    listed = [item for name, inner in below.items() for item in _placed(name, inner, path, below)]
    if path and folder.is_kernel():
        # The outer one's own check says that it holds others.
        inside = [_with(item, _lies_inside(item.entry.kernel_id, path)) for item in listed]
        listed = [read(path, folder), *inside]
    return Scanned(folder.key, tuple(listed), below)


def _placed(
    name: str, inner: Scanned, path: str, siblings: Mapping[str, Scanned]
) -> Iterable[Listed]:
    """Return the kernels of one directory, each with a problem if another differs in case only."""
    twins = _twins(siblings).get(name) if inner.listed else None
    if twins is None:
        return inner.listed
    above = f"{path}/" if path else ""
    return [_with(item, _twin(item.entry.kernel_id, f"{above}{twins}")) for item in inner.listed]


def _twins(siblings: Mapping[str, Scanned]) -> dict[str, str]:
    """Return for each directory with kernels the name that differs from its own in case only."""
    names = [name for name, inner in siblings.items() if inner.listed]
    count = Counter(name.casefold() for name in names)
    if len(count) == len(names):
        return {}
    return {
        name: next(
            other for other in names if other != name and other.casefold() == name.casefold()
        )
        for name in names
        if count[name.casefold()] > 1
    }


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
