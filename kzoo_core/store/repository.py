"""The kernel repository: a plain git repository, bare or a checkout, opened to own or to read.

Opening and reading change nothing on disk. Only ``init`` and ``advance`` write; they are
for the one process that holds ``lock``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dulwich.objects import ObjectID
from dulwich.repo import Repo

from kzoo_core import durable
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.errors import BadInput
from kzoo_core.ids import CommitId, KernelId
from kzoo_core.store import packs
from kzoo_core.store.objects import (
    EXECUTABLE_MODE,
    FILE_MODE,
    Entry,
    GitObjects,
    is_kernel,
    object_id,
    walk_tree,
)
from kzoo_core.store.parsed import ParsedFiles
from kzoo_core.store.refs import Refs
from kzoo_core.store.settings import check_format, own_settings
from kzoo_core.store.walk import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from kzoo_core.store.draft import Draft

LOCK_NAME = "kernel-zoo.lock"
DEFAULT_BRANCH = b"main"


class KernelRepository:
    """One open repository; belongs to one thread. Close it, or use it in a ``with`` statement.

    ``git_directory`` holds the objects and refs; ``worktree`` is ``None`` for a bare repository.
    Raises ``BadInput`` with code ``NOT_A_REPOSITORY`` or ``REPOSITORY_UNSUPPORTED``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git_directory, self.worktree = _locate(path)
        check_format(self.git_directory, opened_as_bare=self.worktree is None)
        self.refs = Refs(self.git_directory)
        self.objects = GitObjects(self.git_directory / "objects")
        self.parsed = ParsedFiles(self.objects)
        self._newest: tuple[CommitId | None, ObjectID | None] = (None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back the open packs."""
        self.objects.close()

    @staticmethod
    def init(path: Path, *, bare: bool = True) -> KernelRepository:
        """Make a repository with an unborn branch ``main`` at ``path``, or open the one there.

        Raises ``BadInput`` with code ``NOT_EMPTY`` for a directory that holds something else, and
        ``REPOSITORY_UNSUPPORTED`` for a repository of the other kind (bare or not).
        """
        if not _is_repository(path):
            _make(path, bare=bare)
        repository = KernelRepository(path)
        if bare != (repository.worktree is None):
            repository.close()
            found, wanted = ("a checkout", "a bare one") if bare else ("bare", "a checkout")
            raise BadInput(
                "REPOSITORY_UNSUPPORTED",
                f"there is already a repository at {path}: it is {found}, {wanted} was asked for",
                hint="serve it as it is, or choose another directory",
            )
        own_settings(repository.git_directory)
        return repository

    @property
    def bare(self) -> bool:
        """Whether there is no worktree."""
        return self.worktree is None

    def lock(self) -> AbstractContextManager[None]:
        """Hold the repository as its one writing process.

        Raises ``Conflict`` with code ``LOCKED`` when another process does.
        """
        return durable.exclusive_lock(self.git_directory / LOCK_NAME, owner="kzoo-server")

    def head(self) -> CommitId | None:
        """Return the newest commit of the branch that HEAD names, ``None`` while it is unborn.

        Read from the disk each time, so that commits made by others are seen. Raises ``Broken``.
        """
        return self.refs.head()[1]

    def advance(self, branch: str, old: CommitId | None, new: CommitId, draft: Draft) -> bool:
        """Write ``draft`` and move ``branch`` from ``old`` to ``new``; both are durable on return.

        Returns whether the branch still was at ``old``; if not, nothing is left behind. Raises
        ``OSError`` and ``Retryable`` with the branch where it was (unless only the last fsync, that
        of the ref's directory, failed).
        """
        directory = self.objects.directory / "pack"
        pack = packs.write_pack(directory, draft.made)
        moved = None
        try:
            moved = self.refs.compare_and_swap(branch, old, new)
        finally:
            packs.release_pack(directory, pack)
        if not moved:
            packs.remove_pack(directory, pack)
            return False
        self.objects.adopt(pack)
        draft.settle()
        self._newest = (new, tree_of(draft.made[object_id(new)].data))
        return True

    def root(self, commit: CommitId) -> ObjectID:
        """Return the name of a commit's topmost tree; raises ``Broken``."""
        newest, tree = self._newest
        if commit == newest and tree is not None:
            return tree
        return tree_of(self.objects.raw_commit(object_id(commit)))

    def entry(self, commit: CommitId, path: str) -> Entry | None:
        """Return what lies at ``path`` in a commit, ``None`` if nothing does; raises ``Broken``."""
        return self.entry_below(self.root(commit), path)

    def entry_below(self, root: ObjectID, path: str) -> Entry | None:
        """Return what lies at ``path`` below the tree ``root``; raises ``Broken``."""
        *parents, last = path.encode("utf-8").split(b"/")
        tree = self.objects.tree(root)
        for segment in parents:
            step = tree.get(segment)
            if step is None or not step.is_directory:
                return None
            tree = self.objects.tree(step.sha)
        return tree.get(last)

    def kernel_tree(self, commit: CommitId, kernel_id: KernelId) -> str | None:
        """Return the git name of a kernel's directory, ``None`` if there is no such kernel."""
        entry = self.entry(commit, kernel_id)
        if entry is None or not entry.is_directory:
            return None
        return entry.sha.decode("ascii") if is_kernel(self.objects.tree(entry.sha)) else None

    def read_file(self, commit: CommitId, path: str) -> bytes | None:
        """Return a regular file's bytes, ``None`` if ``path`` is none; raises ``Broken``."""
        entry = self.entry(commit, path)
        if entry is None or not entry.is_file:
            return None
        return self.objects.blob(entry.sha)

    def read_package(self, commit: CommitId | None, kernel_id: KernelId) -> Package | None:
        """Return a kernel's regular files, bench_result.yaml among them, or ``None``.

        Links and nested repositories are left out. Raises ``Broken``.
        """
        if commit is None:
            return None
        tree = self.kernel_tree(commit, kernel_id)
        if tree is None:
            return None
        files = {
            path: self.package_file(entry)
            for path, entry in self.files(ObjectID(tree.encode("ascii")))
            if entry.is_file
        }
        return Package(kernel_id, files)

    def package_file(self, entry: Entry) -> PackageFile:
        """Return a regular file as a package holds it; raises ``Broken``."""
        return PackageFile(self.objects.blob(entry.sha), entry.mode & 0o111 != 0)

    def files(self, tree: ObjectID) -> Iterator[tuple[str, Entry]]:
        """Yield everything below ``tree`` that is no directory, by POSIX path, in git's order."""
        for path, entry in walk_tree(self.objects, self.objects.tree(tree)):
            if not entry.is_directory:
                yield path, entry

    def kernel_ids(self, commit: CommitId | None) -> tuple[KernelId, ...]:
        """Return the paths of all kernel directories, in git's order; raises ``Broken``."""
        if commit is None:
            return ()
        everything = walk_tree(self.objects, self.objects.tree(self.root(commit)))
        return tuple(
            KernelId(path)
            for path, entry in everything
            if entry.is_directory and is_kernel(self.objects.tree(entry.sha))
        )


def mode_of(file: PackageFile) -> int:
    """Return the git mode of a package's file (D23)."""
    return EXECUTABLE_MODE if file.executable else FILE_MODE


def is_bare_repository(path: Path) -> bool:
    """Say whether ``path`` itself holds git's objects and refs."""
    return (path / "objects").is_dir() and (path / "refs").is_dir()


def _is_repository(path: Path) -> bool:
    return is_bare_repository(path) or is_bare_repository(path / ".git")


def _locate(path: Path) -> tuple[Path, Path | None]:
    hidden = path / ".git"
    if hidden.is_file():
        raise BadInput(
            "REPOSITORY_UNSUPPORTED",
            f"{path} is a linked worktree or a submodule",
            hint="serve the repository that it belongs to",
        )
    if not _is_repository(path):
        raise BadInput(
            "NOT_A_REPOSITORY",
            f"there is no git repository at {path}",
            hint=f"make one: kzoo-server init --repo {path}",
        )
    if hidden.is_dir():
        return hidden, path
    return path, None


def _make(path: Path, *, bare: bool) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(
            "NOT_EMPTY",
            f"{path} is there already and is no git repository",
            hint="name a new or an empty directory",
        )
    durable.make_directory(path)
    make = Repo.init_bare if bare else Repo.init
    make(str(path), default_branch=DEFAULT_BRANCH).close()
    for directory, _, _ in os.walk(path):
        durable.fsync_directory(Path(directory))
