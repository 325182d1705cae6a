"""The sweep at start: what a crash may have left in a repository is put right before serving.

Only the process that holds the repository's lock sweeps. git processes of other people may be at
work meanwhile, so what may be theirs is judged by age, on the file system's own clock.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.errors import Broken
from kzoo_core.store.objects import SUBMODULE_MODE, object_id
from kzoo_core.store.packs import KEEP_MARK, TEMPORARY_PREFIX
from kzoo_core.store.repository import LOCK_NAME
from kzoo_core.store.settings import own_settings
from kzoo_core.store.walk import first_parents, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dulwich.objects import ObjectID

    from kzoo_core.ids import CommitId
    from kzoo_core.store.objects import GitObjects
    from kzoo_core.store.repository import KernelRepository

LOCK_SETTLE_S = 1.0
"""How long git may hold the lock of a ref or a small file: one that outlasts this is stale."""
LONG_LIVED_S = 3600.0
"""How old a lock of the index (held while a person's editor is open) or a pack of git's own that is
not finished must be to be stale."""

_INDEX_LOCK = "index.lock"


def make_ready(
    repository: KernelRepository, sleep: Callable[[float], None] = time.sleep
) -> list[str]:
    """Give the repository our settings and sweep it; the caller holds its lock.

    Returns a sentence for each thing done; run twice, the second has nothing to say. Raises as
    ``sweep``.
    """
    return own_settings(repository.git_directory) + sweep(repository, sleep)


def sweep(repository: KernelRepository, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Remove stale locks, empty objects and unfinished packs, then read the head.

    Returns a sentence for each thing done. Waits about a second when it finds a lock that is young
    enough to be held by a git process. Raises ``Broken`` with code ``HEAD_UNREADABLE``.
    """
    git = repository.git_directory
    done = [*_stale_locks(git, sleep), *_unfinished_packs(git)]
    emptied = list(_empty_objects(git / "objects"))
    done += [f"removed the empty object {path.name}" for path in emptied]
    for directory in {path.parent for path in emptied}:
        durable.fsync_directory(directory)
    cut_off = list(_empty_packs(git / "objects" / "pack"))
    done += [f"removed {path.name}, the index of an empty pack" for path in cut_off]
    _read_head(repository, everything=bool(emptied or cut_off))
    return done


def _stale_locks(git: Path, sleep: Callable[[float], None]) -> Iterator[str]:
    locks = {path: _identity(path) for path in _short_lived_locks(git)}
    if any(_age_s(path, git) <= LOCK_SETTLE_S for path in locks):
        sleep(LOCK_SETTLE_S)
    stale = [path for path, identity in locks.items() if _identity(path) == identity]
    if _age_s(git / _INDEX_LOCK, git) > LONG_LIVED_S:
        stale.append(git / _INDEX_LOCK)
    for path in stale:
        durable.remove_file(path)
        yield f"removed the stale lock {path.relative_to(git)}"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_mtime_ns


def _short_lived_locks(git: Path) -> list[Path]:
    found = [*git.glob("*.lock"), *(git / "refs").rglob("*.lock")]
    return sorted(path for path in found if path.name not in {LOCK_NAME, _INDEX_LOCK})


def _unfinished_packs(git: Path) -> Iterator[str]:
    packs = git / "objects" / "pack"
    for path in sorted(packs.glob("tmp_*")):
        ours = path.name.startswith(TEMPORARY_PREFIX)
        if ours or _age_s(path, git) > LONG_LIVED_S:
            durable.remove_file(path)
            yield f"removed the unfinished pack {path.name}"
    for path in sorted(packs.glob("pack-*.pack")):
        indexed = path.with_suffix(".idx").exists()
        if not indexed and _age_s(path, git) > LONG_LIVED_S:
            durable.remove_file(path)
            yield f"removed {path.name}, a pack without an index"
    for path in sorted(packs.glob("*.keep")):
        if path.read_bytes() == KEEP_MARK:
            durable.remove_file(path)
            yield f"removed the keep mark {path.name}"


def _empty_objects(objects: Path) -> Iterator[Path]:
    for directory in sorted(objects.glob("[0-9a-f][0-9a-f]")):
        for path in sorted(directory.iterdir()):
            if path.stat().st_size == 0:
                path.unlink()
                yield path


def _empty_packs(packs: Path) -> Iterator[Path]:
    """Take away indexes that would make every read fail; without one, a pack is not looked at."""
    for index in sorted(packs.glob("*.idx")):
        pack = index.with_suffix(".pack")
        if index.stat().st_size == 0 or (pack.exists() and pack.stat().st_size == 0):
            durable.remove_file(index)
            yield index


def _age_s(path: Path, git: Path) -> float:
    """Return how long ago ``path`` was written, negative if it is gone, by the disk's clock."""
    probe = git / LOCK_NAME
    probe.touch()
    try:
        return probe.stat().st_mtime - path.stat().st_mtime
    except FileNotFoundError:
        return -1.0


def _read_head(repository: KernelRepository, *, everything: bool) -> None:
    """Read the newest commit and the trees by which it differs from the one before its parent.

    A crash can only have hurt what was written last; after an empty object was found, all is read.
    """
    head = repository.head()
    if head is None:
        return
    try:
        root = repository.root(head)
        before = None if everything else _root_two_back(repository, head)
        _read_trees(repository.objects, root, before)
    except Broken as error:
        raise Broken(
            "HEAD_UNREADABLE",
            f"the newest commit {head} of {repository.path} cannot be read: {error.message}",
            hint="run git fsck --full there; copy the missing objects back from a clone, or move "
            f"the branch back: git update-ref {repository.refs.head()[0]} <last good commit>",
        ) from error


def _root_two_back(repository: KernelRepository, head: CommitId) -> ObjectID | None:
    steps = first_parents(repository.objects, object_id(head))
    earlier = next(islice(steps, 2, None), None)
    return tree_of(earlier[1]) if earlier is not None else None


def _read_trees(objects: GitObjects, tree: ObjectID, before: ObjectID | None) -> None:
    waiting = [(tree, before)]
    while waiting:
        now, earlier = waiting.pop()
        known = objects.tree(earlier) if earlier is not None else {}
        for name, entry in objects.tree(now).items():
            same = known.get(name)
            if entry == same or entry.mode == SUBMODULE_MODE:
                continue
            if entry.is_directory:
                below = same.sha if same is not None and same.is_directory else None
                waiting.append((entry.sha, below))
            elif not objects.has(entry.sha):
                objects.blob(entry.sha)  # says what is wrong with it
