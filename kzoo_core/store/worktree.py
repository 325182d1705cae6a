"""Keeping a checkout's files in step with the branch, without touching what people edit there.

Without it the index is behind the branch, and the next ``git commit -a`` of a person would silently
take an accept back. ``git read-tree -m -u`` with two trees moves files and index from the last
synced commit to the head; a file that someone changed stops it before anything is written. Which
commit was synced last stands in a ref of our own. git has to be on the search path.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.errors import KzooError

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.ids import CommitId
    from kzoo_core.store.repository import KernelRepository

MARKER = "refs/kernel-zoo/worktree"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GIT_TIMEOUT_S = 120.0

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
"""git sees nobody's configuration but the repository's own."""

_OPTIONS = (
    # The operator named this repository, whoever owns its files.
    *("-c", "safe.directory=*"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
)


class WorktreeStatus(StrEnum):
    """``none``: a bare repository; ``dirty``: the files could not follow the branch."""

    NONE = "none"
    CLEAN = "clean"
    DIRTY = "dirty"


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """How the files stand to the branch; ``message`` says what to do when they are ``dirty``."""

    status: WorktreeStatus
    message: str | None = None


def follow(repository: KernelRepository) -> WorktreeState:
    """Bring files and index of a checkout to the branch's newest commit.

    Never raises for what people did to the files: that is ``dirty``, nothing was touched, and the
    next call tries again. Safe to repeat after a crash at any point.
    """
    if repository.worktree is None:
        return WorktreeState(WorktreeStatus.NONE)
    try:
        return _follow(repository, repository.worktree)
    except (OSError, subprocess.SubprocessError, KzooError) as error:
        return _dirty(repository.worktree, str(error))


def start_following(repository: KernelRepository) -> None:
    """Take the files of a checkout that is served for the first time to be at its head.

    A checkout without an index has no files yet: its first sync brings them all.
    """
    head = repository.head()
    has_files = not repository.bare and (repository.git_directory / "index").exists()
    if has_files and head is not None and repository.refs.read(MARKER) is None:
        repository.refs.compare_and_swap(MARKER, None, head)


def _follow(repository: KernelRepository, worktree: Path) -> WorktreeState:
    head, synced = repository.head(), repository.refs.read(MARKER)
    if head is None or head == synced:
        return WorktreeState(WorktreeStatus.CLEAN)
    # Files whose times changed but whose bytes did not must not count as edited.
    _git(worktree, "update-index", "-q", "--refresh")
    moved = _git(worktree, "read-tree", "-m", "-u", synced or EMPTY_TREE, head)
    if moved.returncode != 0:
        return _dirty(worktree, moved.stderr.strip())
    _mark(repository, synced, head)
    return WorktreeState(WorktreeStatus.CLEAN)


def _mark(repository: KernelRepository, synced: CommitId | None, head: CommitId) -> None:
    # Nobody else moves our marker; should it be lost, the next sync finds the files in place.
    repository.refs.compare_and_swap(MARKER, synced, head)


def _git(worktree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(worktree), *_OPTIONS, *arguments],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=GIT_TIMEOUT_S,
        check=False,
    )


def _dirty(worktree: Path, why: str) -> WorktreeState:
    message = (
        f"the files in {worktree} do not follow the branch: {why}. Accepted submissions are "
        "committed; commit, move or discard the edits (git stash), and do not use git commit -a "
        "before git status is clean"
    )
    return WorktreeState(WorktreeStatus.DIRTY, message)
