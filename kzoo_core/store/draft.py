"""Objects made for one change and not yet on disk: what a commit adds to a repository."""

from __future__ import annotations

import hashlib
from binascii import unhexlify
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dulwich.objects import Commit, ObjectID

from kzoo_core.store.objects import (
    BLOB,
    COMMIT,
    DIRECTORY_MODE,
    TREE,
    Entry,
    Tree,
    walk_tree,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kzoo_core.store.objects import GitObjects

PLATFORM = "kernel_zoo"
"""Who commits (D22)."""
MAIL_DOMAIN = "kernel-zoo.invalid"

_TYPE_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob"}


@dataclass(frozen=True, slots=True)
class NewObject:
    """One object of a draft; ``like`` names an earlier version that it is probably close to."""

    sha: ObjectID
    type_number: int
    data: bytes
    like: ObjectID | None


def identity(name: str) -> str:
    """Return the author line of a submitter or of the platform itself (D22)."""
    return f"{name} <{name}@{MAIL_DOMAIN}>"


class Draft:
    """New objects over those of a repository; nothing is written until it is packed."""

    def __init__(self, objects: GitObjects) -> None:
        self._objects = objects
        self._trees: dict[ObjectID, Tree] = {}
        self._known: set[ObjectID] = set()
        self.made: dict[ObjectID, NewObject] = {}

    def tree(self, sha: ObjectID) -> Tree:
        """Return a tree of the draft or of the repository; raises ``Broken``."""
        made = self._trees.get(sha)
        return made if made is not None else self._objects.tree(sha)

    def reuse(self, tree: ObjectID) -> None:
        """Note that all below ``tree`` is reachable already and need not be written again."""
        self._known.add(tree)
        below = walk_tree(self._objects, self._objects.tree(tree))
        self._known.update(entry.sha for _, entry in below)

    def add_blob(self, data: bytes) -> ObjectID:
        """Add a file's bytes and return their name."""
        return self._add(BLOB, data, None)

    def add_tree(self, tree: Tree, like: ObjectID | None = None) -> ObjectID:
        """Add a tree whose entries are in git's order and return its name."""
        data = b"".join(
            b"%o %s\0%s" % (entry.mode, name, unhexlify(entry.sha)) for name, entry in tree.items()
        )
        sha = self._add(TREE, data, like)
        self._trees[sha] = tree
        return sha

    def graft(self, root: ObjectID | None, entries: Mapping[str, Entry]) -> ObjectID:
        """Return the tree ``root`` (``None``: empty) with ``entries``, given by POSIX path, put in.

        Only the trees along the paths are made anew. A file in the middle of a path gives way.
        """
        before = self.tree(root) if root is not None else {}
        tree = dict(before)
        below: dict[bytes, dict[str, Entry]] = {}
        for path, entry in entries.items():
            first, _, rest = path.partition("/")
            if rest:
                below.setdefault(first.encode("utf-8"), {})[rest] = entry
            else:
                tree[first.encode("utf-8")] = entry
        for name, inner in below.items():
            present = tree.get(name)
            base = present.sha if present is not None and present.is_directory else None
            tree[name] = Entry(DIRECTORY_MODE, self.graft(base, inner))
        return self.add_tree(tree if _same_order(before, tree) else _in_order(tree), like=root)

    def add_commit(
        self, tree: ObjectID, parent: ObjectID | None, *, author: str, when: datetime, message: str
    ) -> ObjectID:
        """Add a commit by ``author``, committed by the platform, both at ``when`` (D22)."""
        commit = Commit()
        commit.tree = tree
        commit.parents = [parent] if parent is not None else []
        commit.author = identity(author).encode("utf-8")
        commit.committer = identity(PLATFORM).encode("utf-8")
        commit.author_time = commit.commit_time = int(when.timestamp())
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = message.encode("utf-8")
        return self._add(COMMIT, commit.as_raw_string(), None)

    def settle(self) -> None:
        """Hand the draft's trees to the repository's cache once they are on disk."""
        for sha, tree in self._trees.items():
            self._objects.remember(sha, tree)

    def _add(self, type_number: int, data: bytes, like: ObjectID | None) -> ObjectID:
        header = b"%s %d\0" % (_TYPE_NAMES[type_number], len(data))
        digest = hashlib.sha1(header + data, usedforsecurity=False).hexdigest()
        sha = ObjectID(digest.encode("ascii"))
        if sha not in self._known and sha != like and sha not in self.made:
            self.made[sha] = NewObject(sha, type_number, data, like)
        return sha


def _same_order(before: Tree, after: Tree) -> bool:
    return len(before) == len(after) and all(
        entry.is_directory == after[name].is_directory for name, entry in before.items()
    )


def _in_order(tree: Tree) -> Tree:
    """Sort as git does: a directory's name counts with a slash at its end."""

    def key(item: tuple[bytes, Entry]) -> bytes:
        name, entry = item
        return name + b"/" if entry.is_directory else name

    return dict(sorted(tree.items(), key=key))
