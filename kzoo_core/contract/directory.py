"""A package that lies in a directory: read for validation and for packing (D11)."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.contract.desc import parse_desc
from kzoo_core.contract.layout import CONTRACT_DIRECTORY, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.quoting import listed, printable
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.contract.scoreboard_file import parse_scoreboard
from kzoo_core.contract.tar import problems as fault_of
from kzoo_core.contract.tar.format import Kind
from kzoo_core.contract.tar.names import name_problem, twin_problems
from kzoo_core.errors import Broken, NotFound, Problem, Severity
from kzoo_core.ids import KernelId, kernel_id_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kzoo_core.contract.limits import PackageLimits

_LEFT_OUT_NAMES = frozenset({"__pycache__", ".git", ".DS_Store"})
_LEFT_OUT_SUFFIX = ".pyc"
_AXES = 4


@dataclass(frozen=True, slots=True)
class DirectoryReading:
    """What a directory holds. ``left_out`` are paths that no archive of it would hold (D11).

    ``problems`` are those of the directory itself: links, special files, sizes, where it lies.
    """

    package: Package
    left_out: tuple[str, ...]
    problems: tuple[Problem, ...]

    def for_submission(self) -> DirectoryReading:
        """Return the reading without the scoreboard, which a submission must not hold (D10)."""
        if SCOREBOARD_PATH not in self.package.files:
            return self
        files = {path: file for path, file in self.package.files.items() if path != SCOREBOARD_PATH}
        package = Package(self.package.kernel_id, files)
        return replace(self, package=package, left_out=(*self.left_out, SCOREBOARD_PATH))


def read_directory(
    path: Path, kernel_id: KernelId | None, limits: PackageLimits
) -> DirectoryReading:
    """Return the package in the directory ``path``; with ``None`` its kernel_id is looked for.

    Links and special files are problems, never followed. Raises ``NotFound`` when there is no such
    directory, and ``Broken`` when a file cannot be read.
    """
    if not path.is_dir():
        raise NotFound(
            "NO_SUCH_DIRECTORY",
            f"there is no directory {printable(str(path), 240)}",
            hint="name the directory that holds .kernel_package",
        )
    try:
        intake = _Intake(path, limits)
        intake.read_all()
    except OSError as error:
        raise Broken(
            "IO_ERROR", f"cannot read {printable(str(error.filename), 240)}: {error.strerror}"
        ) from error
    problems = intake.problems
    if kernel_id is None:
        kernel_id, placed = _kernel_id(path, intake.files)
        problems = [*problems, *placed]
    problems = [*problems, *(_left_out_problem(name) for name in intake.left_out)]
    package = Package(kernel_id, intake.files)
    return DirectoryReading(package, tuple(intake.left_out), tuple(problems))


def kernel_id_of_directory(path: Path) -> tuple[KernelId, list[Problem]]:
    """Return the kernel_id of the package in the directory ``path``, and how sure that is.

    A kernel_id is a path in a kernel repository, and a directory does not say where its repository
    begins. In this order: where the four axes of desc.yaml's category stand in the directory's
    path, from there to its end; the path's last five segments, when two of the four axes agree, so
    that a wrong category is found; the scoreboard's kernel_id, or the category and the directory's
    name, with a warning that the directory lies elsewhere.
    """
    files: dict[str, PackageFile] = {}
    for name in (DESC_PATH, SCOREBOARD_PATH):
        if (path / name).is_file():
            files[name] = PackageFile((path / name).read_bytes())
    return _kernel_id(path, files)


def _kernel_id(path: Path, files: dict[str, PackageFile]) -> tuple[KernelId, list[Problem]]:
    parts = path.resolve().parts
    desc_file, board_file = files.get(DESC_PATH), files.get(SCOREBOARD_PATH)
    desc = parse_desc(desc_file.data)[0] if desc_file is not None else None
    board = parse_scoreboard(board_file.data)[0] if board_file is not None else None
    tail = "/".join(parts[-(_AXES + 1) :])
    if desc is not None:
        axes = desc.category.segments()
        for start in reversed(range(len(parts) - _AXES)):
            if parts[start : start + _AXES] == axes:
                return KernelId("/".join(parts[start:])), []
        agreeing = sum(one == other for one, other in zip(tail.split("/"), axes, strict=False))
        if agreeing >= 2 and kernel_id_problem(tail) is None:
            return KernelId(tail), []
    if board is not None:
        guess = board.kernel_id
    elif desc is not None:
        guess = KernelId("/".join((*desc.category.segments(), parts[-1])))
    else:
        return KernelId(tail.strip("/")), []
    if "/".join(parts).endswith(f"/{guess}"):
        return guess, []
    return guess, [_lies_elsewhere(path, guess)]


class _Intake:
    """One walk over a directory, in sorted order."""

    def __init__(self, root: Path, limits: PackageLimits) -> None:
        self.files: dict[str, PackageFile] = {}
        self.left_out: list[str] = []
        self.problems: list[Problem] = []
        self._root = root
        self._limits = limits
        self._bytes = 0

    def read_all(self) -> None:
        """Read every file until a bound is passed."""
        for name, entry in _walk(self._root, self.left_out):
            if len(self.files) >= self._limits.files:
                self.problems.append(fault_of.too_many_files(self._limits))
                return
            if not self._take(name, entry):
                return
        self.problems.extend(twin_problems(self.files))

    def _take(self, name: str, entry: os.DirEntry[str]) -> bool:
        """Take one file in; say whether to go on."""
        facts = entry.stat(follow_symlinks=False)
        shown = printable(name, 240)
        kind = _kind(facts.st_mode)
        if kind is not Kind.FILE:
            self.problems.append(fault_of.not_regular(shown, kind))
            return True
        if facts.st_size > self._limits.file_bytes:
            self.problems.append(fault_of.file_too_large(shown, facts.st_size, self._limits))
            return True
        bad_name = name_problem(name, path_bytes=self._limits.path_bytes)
        if bad_name is not None:
            self.problems.append(bad_name)
            return True
        self._bytes += facts.st_size
        if self._bytes > self._limits.package_bytes:
            self.problems.append(fault_of.package_too_large(shown, self._limits))
            return False
        data = Path(entry.path).read_bytes()
        self.files[name] = PackageFile(data, bool(facts.st_mode & stat.S_IXUSR))
        return True


def _walk(root: Path, left_out: list[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Give each entry that is no directory, by its path below ``root``; note what is left out."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(root / prefix) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        below = []
        for entry in found:
            name = f"{prefix}{entry.name}"
            if entry.name in _LEFT_OUT_NAMES or entry.name.endswith(_LEFT_OUT_SUFFIX):
                left_out.append(name)
            elif entry.is_dir(follow_symlinks=False):
                below.append(f"{name}/")
            else:
                yield name, entry
        waiting.extend(reversed(below))


def _kind(mode: int) -> Kind:
    kinds = {
        stat.S_IFREG: Kind.FILE,
        stat.S_IFLNK: Kind.SYMBOLIC_LINK,
        stat.S_IFIFO: Kind.FIFO,
        stat.S_IFCHR: Kind.CHARACTER_DEVICE,
        stat.S_IFBLK: Kind.BLOCK_DEVICE,
    }
    return kinds.get(stat.S_IFMT(mode), Kind.OTHER)


def _left_out_problem(name: str) -> Problem:
    shown = printable(name, 240)
    return Problem(
        code="left_out",
        severity=Severity.WARNING,
        message=f"{shown} does not belong to the package and is left out of an archive",
        file=shown,
        found=shown,
        expected="sources only",
        hint="an archive that holds it is refused; `kzoo pack` and `kzoo submit` leave it out",
    )


def _lies_elsewhere(path: Path, guess: KernelId) -> Problem:
    tail = listed(["/".join(path.resolve().parts[-(_AXES + 1) :])])
    return Problem(
        code="directory_not_at_kernel_id",
        severity=Severity.WARNING,
        message=f"the directory does not lie at its kernel_id, taken to be {guess}",
        file=CONTRACT_DIRECTORY,
        found=f"…/{tail.lstrip('/')}",
        expected=f"…/{guess}",
        hint="move it there, or say --kernel-id",
    )
