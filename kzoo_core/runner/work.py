"""The scratch directories of attempts: made fresh for each, removed after it, whatever is inside.

Nothing here is durable on purpose: a crash leaves only what the next start removes.
"""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kzoo_core.runner.backends.base import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kzoo_core.contract.records import Package

_OWNER_ONLY = 0o700
_FILE = 0o644
_EXECUTABLE = 0o755
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def lay_out(root: Path, package: Package) -> Place:
    """Write the package below ``root`` and make its empty surroundings; raises ``OSError``.

    The package lies under its kernel_id, so that a script which reads its own path finds it there.
    ``root`` must not exist: what an attempt sees is made for it alone.
    """
    place = Place(
        root=root,
        package=root / "package" / package.kernel_id,
        workdir=root / "workdir",
        home=root / "scratch" / "home",
        tmp=root / "scratch" / "tmp",
    )
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=_OWNER_ONLY)
    for directory in (place.package, place.workdir, place.home, place.tmp):
        directory.mkdir(parents=True)
    for path, file in package.files.items():
        target = place.package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _EXECUTABLE if file.executable else _FILE
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.data)
    return place


def remove(root: Path) -> None:
    """Remove a directory with all it holds, also what an attempt has made unreadable, or deep.

    Links are removed, never followed, not even one that an attempt put in the place of ``root``.
    Raises ``OSError`` when something stays.
    """
    if root.is_symlink() or not root.is_dir():
        root.unlink(missing_ok=True)
        return
    root.chmod(_OWNER_ONLY)
    top = os.open(root, _DIRECTORY)
    try:
        _empty(top)
    finally:
        os.close(top)
    root.rmdir()


def _empty(top: int) -> None:
    """Empty an open directory: what lies two levels down is moved up by one, until there is none.

    So however deep an attempt has nested its directories, no path grows longer than the system's
    bound, no stack deeper than Python's, and two files are open (``shutil.rmtree`` fails by each).
    """
    directories = _remove_files(top)
    taken = frozenset(directories)
    free = (name for name in map(str, itertools.count()) if name not in taken)
    while directories:
        for name in directories:
            with _opened(name, top) as inner:
                for below in _remove_files(inner):
                    os.chmod(below, _OWNER_ONLY, dir_fd=inner)  # a move writes its ".." anew
                    os.rename(below, next(free), src_dir_fd=inner, dst_dir_fd=top)
            os.rmdir(name, dir_fd=top)
        directories = _remove_files(top)


def _remove_files(directory: int) -> list[str]:
    """Remove everything in an open directory that is no directory; return the names of the rest."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in found if is_directory]


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    os.chmod(name, _OWNER_ONLY, dir_fd=parent)
    descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_all(directory: Path) -> list[str]:
    """Remove every attempt that an earlier process left in ``directory``; return their names."""
    if not directory.is_dir():
        return []
    names = sorted(path.name for path in directory.iterdir())
    for name in names:
        remove(directory / name)
    return names
