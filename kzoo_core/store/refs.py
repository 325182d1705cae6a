"""The repository's refs: read as they are on disk, moved by one compare-and-swap.

dulwich's own container is not used for this: it takes an unreadable ref for a missing one, its
``set_if_equals(name, None, …)`` overwrites without asking, and it raises at once when another git
process holds the ref's lock for a moment.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.errors import Broken, Retryable
from kzoo_core.ids import CommitId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCK_TRIES = 100
LOCK_PAUSE_S = 0.02
SYMREF_DEPTH = 5

_OBJECT_NAME = re.compile(rb"[0-9a-f]{40}")


class Refs:
    """The refs of one git directory; every read goes to the disk, so foreign moves are seen."""

    def __init__(self, git_directory: Path, sleep: Callable[[float], None] = time.sleep) -> None:
        self._git_directory = git_directory
        self._sleep = sleep

    def head(self) -> tuple[str, CommitId | None]:
        """Return the full name of the branch that HEAD names, and what it points at.

        ``None`` stands for an unborn branch. Raises ``Broken`` with code ``HEAD_DETACHED`` when
        HEAD names a commit instead, and ``REF_UNREADABLE``.
        """
        name = "HEAD"
        for _ in range(SYMREF_DEPTH):
            value = self._loose(name)
            if value is None or not value.startswith(b"ref:"):
                break
            name = value[4:].strip().decode("utf-8", "surrogateescape")
        else:
            value = None
        if name == "HEAD":
            raise Broken(
                "HEAD_DETACHED",
                f"HEAD of {self._git_directory} does not name a branch",
                hint="check out the branch that is served, e.g. git symbolic-ref HEAD "
                "refs/heads/main",
            )
        return name, self._parse(name, value if value is not None else self._packed(name))

    def read(self, name: str) -> CommitId | None:
        """Return what the full ref ``name`` points at, or ``None`` when there is no such ref.

        Raises ``Broken`` with code ``REF_UNREADABLE`` for a ref that holds no object name.
        """
        value = self._loose(name)
        return self._parse(name, value if value is not None else self._packed(name))

    def compare_and_swap(self, name: str, old: CommitId | None, new: CommitId) -> bool:
        """Move ``name`` from ``old`` (``None``: not there yet) to ``new``, durably.

        Returns whether it was ``old`` when we held its lock. Follows git's own protocol
        (``<ref>.lock`` made exclusively, renamed over the ref), so git processes and we exclude
        each other. Raises ``Retryable`` with code ``REF_LOCKED`` when the lock stays taken for
        about two seconds.
        """
        path = self._path(name)
        durable.make_directory(path.parent)
        lock = path.with_name(f"{path.name}.lock")
        descriptor = self._take(lock)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if self.read(name) != old:
                    lock.unlink()
                    return False
                durable.write_stream(stream, f"{new}\n".encode("ascii"))
            durable.rename(lock, path)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        durable.fsync_directory(path.parent)
        return True

    def _take(self, lock: Path) -> int:
        for _ in range(LOCK_TRIES):
            try:
                return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                self._sleep(LOCK_PAUSE_S)
        raise Retryable(
            "REF_LOCKED",
            f"another process holds {lock}",
            hint="if no git process runs there, a crash left it: remove the file, or restart the "
            "server, which does it",
        )

    def _parse(self, name: str, value: bytes | None) -> CommitId | None:
        if value is None:
            return None
        if not _OBJECT_NAME.fullmatch(value):
            raise Broken(
                "REF_UNREADABLE",
                f"{name} in {self._git_directory} holds {value[:60]!r}, not an object name",
                hint=f"set it to the last good commit: git update-ref {name} <commit>",
            )
        return CommitId(value.decode("ascii"))

    def _path(self, name: str) -> Path:
        return self._git_directory / name

    def _loose(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes().strip()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def _packed(self, name: str) -> bytes | None:
        try:
            lines = (self._git_directory / "packed-refs").read_bytes().splitlines()
        except FileNotFoundError:
            return None
        wanted = name.encode("utf-8", "surrogateescape")
        for line in lines:
            value, _, found = line.partition(b" ")
            if found == wanted:
                return value
        return None
