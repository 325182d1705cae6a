"""index.json: every kernel of a repository at one revision, derived from its files alone.

There is no wall time in it: the same revision gives the same bytes, whether built from nothing or
from the listing before (``schemas/index.json``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from kzoo_core.contract.package import check_committed
from kzoo_core.errors import NotFound, Retryable
from kzoo_core.ids import KernelId
from kzoo_core.store.entries import IndexEntry, entry_of_report
from kzoo_core.store.folders import DiskFolder, GitFolder
from kzoo_core.store.index_cache import IndexCache
from kzoo_core.store.listing import Listed, Scanned, scan
from kzoo_core.store.repository import KernelRepository, is_bare_repository

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.records import Package
    from kzoo_core.errors import Problem
    from kzoo_core.ids import CommitId
    from kzoo_core.store.listing import Folder

__all__ = ["Index", "IndexBuilder", "IndexEntry"]

SCHEMA_VERSION = "1.0.0"
DIRECTORY_REVISION = "worktree-"


@dataclass(frozen=True, slots=True)
class Index:
    """The kernels, sorted by kernel_id.

    ``revision`` is the commit, ``worktree-<digest>`` for a plain directory, or empty for a
    repository without a commit.
    """

    revision: str
    listed: tuple[Listed, ...]

    @property
    def entries(self) -> tuple[IndexEntry, ...]:
        """The kernels' entries."""
        return tuple(item.entry for item in self.listed)

    def to_bytes(self) -> bytes:
        """Return index.json, one line a kernel."""
        revision = f'"{self.revision}"' if self.revision else "null"
        head = f'{{"schema_version":"{SCHEMA_VERSION}","revision":{revision},"kernels":['
        lines = b",\n".join(item.line for item in self.listed)
        return head.encode("ascii") + b"\n" + lines + b"\n]}\n"


class IndexBuilder:
    """Builds the index of one repository again and again, reading only what changed.

    ``cache`` is a file that makes a restart cheap; it is never trusted. Belongs to one thread, but
    for ``stop``.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = IndexCache(cache)
        self._reader = _Remembering(self._cache)
        self._scanned: Scanned | None = None

    def build(self, repository: KernelRepository, commit: CommitId | None) -> Index:
        """Return the index of ``commit`` (``None``: of an unborn branch).

        Raises ``Broken``, and ``Retryable`` with code ``STOPPING`` once ``stop`` was called.
        """
        if commit is None:
            return Index("", ())
        folder = GitFolder(repository, repository.root(commit))
        self._scanned = scan(folder, "", self._scanned, self._reader)
        return Index(commit, _sorted(self._scanned))

    def save(self, *, force: bool = False) -> None:
        """Write the cache, now and then or with ``force`` in any case; raises ``OSError``.

        What a first build had read when it was stopped is kept too: the next one goes on there.
        """
        listed = self._scanned.listed if self._scanned is not None else None
        kernel_ids = None if listed is None else [item.entry.kernel_id for item in listed]
        self._cache.save(kernel_ids, force=force)

    def stop(self) -> None:
        """End the build under way at the next kernel; from any thread."""
        self._reader.stopped.set()


def index_of(path: Path, limits: PackageLimits) -> Index:
    """Return the index of whatever lies at ``path``, built from nothing.

    Of a bare repository its newest commit counts; of a checkout, as of any other directory, the
    files that lie there, so that an author sees a package before it is committed. Raises as
    ``build_directory`` does, and ``Broken`` for a repository that cannot be read.
    """
    if not is_bare_repository(path):
        return build_directory(path, limits)
    with KernelRepository(path) as repository:
        return IndexBuilder().build(repository, repository.head())


def build_directory(path: Path, limits: PackageLimits) -> Index:
    """Return the index of the packages that lie below ``path``, committed or not.

    Raises ``NotFound`` with code ``NO_DIRECTORY``, ``Broken`` and ``OSError`` for what cannot be
    read.
    """
    if not path.is_dir():
        raise NotFound(
            "NO_DIRECTORY",
            f"there is no directory {path}",
            hint="name a kernel repository, or a directory with packages in it",
        )
    reader = _Digesting()
    scanned = scan(DiskFolder(path, limits), "", None, reader)
    return Index(DIRECTORY_REVISION + reader.digest.hexdigest(), _sorted(scanned))


class _Remembering:
    """Reads kernels of a repository, each content once."""

    def __init__(self, cache: IndexCache) -> None:
        self._cache = cache
        self.stopped = Event()

    def recall(self, path: str, key: bytes | None) -> Listed | None:
        return self._cache.get(path, key) if key is not None else None

    def read(self, path: str, folder: Folder, *, alone: bool) -> Listed:
        if self.stopped.is_set():
            raise Retryable("STOPPING", "the index is not built to its end: the server stops")
        listed = _listing(*folder.package(KernelId(path)))
        if alone and folder.key is not None:
            self._cache.put(path, folder.key, listed.line)
        return listed


class _Digesting:
    """Reads kernels on disk and names all that it read."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def recall(self, _path: str, _key: bytes | None) -> Listed | None:
        return None

    def read(self, path: str, folder: Folder, *, alone: bool) -> Listed:
        del alone
        package, problems = folder.package(KernelId(path))
        for name in sorted(package.files):
            data = package.files[name].data
            self.digest.update(f"{path}/{name}\0{len(data)}\0".encode() + data)
        return _listing(package, problems)


def _listing(package: Package, problems: list[Problem]) -> Listed:
    entry = entry_of_report(check_committed(package), problems)
    return Listed(entry, entry.to_bytes())


def _sorted(scanned: Scanned) -> tuple[Listed, ...]:
    return tuple(sorted(scanned.listed, key=lambda item: item.entry.kernel_id))
