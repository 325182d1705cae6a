"""The one seam through which durable state reaches the disk.

Queue, store and runner spool write here and nowhere else: a file is acknowledged only after its
bytes, its name and the directory that holds the name are fsynced. Every function is synchronous;
asyncio callers run it in the thread that owns the resource.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from kzoo_core.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fsync_directory(path: Path) -> None:
    """Make the names inside ``path`` durable; raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make the bytes of a file that was written elsewhere durable; raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make ``path`` and its missing parents, each durable in the directory above it.

    Raises ``OSError``; ``NotADirectoryError`` names the part of the path that is a file.
    """
    missing = []
    step = path
    while not step.exists():
        missing.append(step)
        step = step.parent
    if not step.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(step))
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        fsync_directory(directory.parent)


def write_stream(stream: BinaryIO, data: bytes) -> None:
    """Write ``data`` to a file that its owner opened, and make the bytes durable."""
    stream.write(data)
    stream.flush()
    os.fsync(stream.fileno())


def rename(source: Path, target: Path) -> None:
    """Give ``source`` the name ``target``; the caller makes that durable in the directory."""
    source.replace(target)


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write ``path`` whole or not at all: temporary name, fsync, rename, fsync of the directory.

    Raises ``OSError``; the temporary file is then gone and an earlier ``path`` is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            write_stream(stream, data)
        rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def move(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target`` on one file system and make both directories durable."""
    rename(source, target)
    fsync_directory(target.parent)
    if source.parent != target.parent:
        fsync_directory(source.parent)


def remove_file(path: Path) -> None:
    """Remove ``path`` if it is there and make that durable."""
    path.unlink(missing_ok=True)
    fsync_directory(path.parent)


def remove_tree(path: Path) -> None:
    """Remove the directory ``path`` with all it holds, if it is there, and make that durable."""
    if path.exists():
        shutil.rmtree(path)
    fsync_directory(path.parent)


@contextmanager
def exclusive_lock(path: Path, *, owner: str) -> Iterator[None]:
    """Hold ``path`` as the one owner of a directory for as long as the block runs.

    Raises ``Conflict`` with code ``LOCKED`` when another process holds it.
    """
    with path.open("a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                "LOCKED",
                f"{path.parent} is in use by another {owner}",
                hint="stop the other process, or give this one a directory of its own",
            ) from error
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n".encode())
        stream.flush()
        yield
