"""The two kinds of directories that an index is built from: trees of a commit, files on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.contract.directory import read_directory
from kzoo_core.contract.layout import CONTRACT_DIRECTORY
from kzoo_core.contract.records import Package
from kzoo_core.errors import Problem
from kzoo_core.store.objects import PACKAGE_DIRECTORY, is_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dulwich.objects import ObjectID

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.ids import KernelId
    from kzoo_core.store.repository import KernelRepository

_NO_FOLDERS = frozenset({CONTRACT_DIRECTORY, ".git"})


@dataclass(frozen=True, slots=True)
class GitFolder:
    """A tree of a repository; its key is the tree's name."""

    repository: KernelRepository
    tree: ObjectID

    @property
    def key(self) -> bytes | None:
        """The tree's name."""
        return self.tree

    def is_kernel(self) -> bool:
        """Whether it holds a directory ``.kernel_package``."""
        return is_kernel(self.repository.objects.tree(self.tree))

    def folders(self) -> Mapping[str, GitFolder]:
        """Return the trees in it by name, in git's order."""
        return {
            name.decode("utf-8", "backslashreplace"): GitFolder(self.repository, entry.sha)
            for name, entry in self.repository.objects.tree(self.tree).items()
            if entry.is_directory and name != PACKAGE_DIRECTORY
        }

    def package(self, kernel_id: KernelId) -> tuple[Package, list[Problem]]:
        """Return the regular files below it; links and nested repositories are problems."""
        files, problems = {}, []
        for path, entry in self.repository.files(self.tree):
            if entry.is_file:
                files[path] = self.repository.package_file(entry)
            else:
                problems.append(_not_a_file(path, f"git mode {entry.mode:06o}"))
        return Package(kernel_id, files), problems


@dataclass(frozen=True, slots=True)
class DiskFolder:
    """A directory of files; it has no key, so it is read anew each time."""

    path: Path
    limits: PackageLimits

    @property
    def key(self) -> bytes | None:
        """Nothing names the content of a directory."""
        return None

    def is_kernel(self) -> bool:
        """Whether it holds a directory ``.kernel_package``."""
        return (self.path / CONTRACT_DIRECTORY).is_dir()

    def folders(self) -> Mapping[str, DiskFolder]:
        """Return the directories in it by name, sorted; links are not followed."""
        return {
            path.name: DiskFolder(path, self.limits)
            for path in sorted(self.path.iterdir())
            if path.is_dir() and not path.is_symlink() and path.name not in _NO_FOLDERS
        }

    def package(self, kernel_id: KernelId) -> tuple[Package, list[Problem]]:
        """Return what validation reads of it, and the problems of the directory itself."""
        reading = read_directory(self.path, kernel_id, self.limits)
        return reading.package, list(reading.problems)


def _not_a_file(path: str, found: str) -> Problem:
    return Problem(
        code="not_a_regular_file",
        message=f"{path} is neither a file nor a directory",
        file=path,
        found=found,
        expected="regular files and directories",
        hint="put the file itself there, in place of a link or a nested repository",
    )
