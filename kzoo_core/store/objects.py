"""Reading git objects: trees, blobs and commits by name, without a worktree or an index.

Objects never change, so parsed trees are kept; packs that this process writes are adopted without a
new look at the directory, and packs or loose objects that others write are found on the first miss.
One ``GitObjects`` belongs to one thread.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dulwich.errors import ChecksumMismatch, ObjectFormatException
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.object_store import DiskObjectStore
from dulwich.objects import EmptyFileException, ObjectID, parse_tree
from dulwich.pack import Pack

from kzoo_core.errors import Broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kzoo_core.ids import CommitId

COMMIT, TREE, BLOB = 1, 2, 3
"""git's numbers of the object types."""

DIRECTORY_MODE = 0o040000
FILE_MODE = 0o100644
EXECUTABLE_MODE = 0o100755
SUBMODULE_MODE = 0o160000
PACKAGE_DIRECTORY = b".kernel_package"
_FILE_TYPE = 0o170000
_REGULAR = 0o100000

TREE_CACHE_ENTRIES = 50_000
"""Bound of the cache of parsed trees, in tree entries; about 12 MB."""

_UNREADABLE = (
    AssertionError,
    ChecksumMismatch,
    EmptyFileException,
    ObjectFormatException,
    ValueError,
    struct.error,
    zlib.error,
)


class Entry(NamedTuple):
    """One name in a tree."""

    mode: int
    sha: ObjectID

    @property
    def is_directory(self) -> bool:
        """Whether it is a tree of its own."""
        return self.mode == DIRECTORY_MODE

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file: neither a link nor another repository's commit."""
        return self.mode & _FILE_TYPE == _REGULAR


Tree = dict[bytes, Entry]
"""A parsed tree, by name in git's order. Shared between readers: copy it before a change."""


def object_id(commit: CommitId) -> ObjectID:
    """Return a commit's name in the form that the object store takes."""
    return ObjectID(commit.encode("ascii"))


def is_kernel(tree: Tree) -> bool:
    """Say whether a directory is a kernel: it holds a directory ``.kernel_package``."""
    entry = tree.get(PACKAGE_DIRECTORY)
    return entry is not None and entry.is_directory


class TreeReader(Protocol):
    """Whatever trees can be read from: the repository, or a draft over it."""

    def tree(self, sha: ObjectID) -> Tree:
        """Return the parsed tree ``sha``."""


def walk_tree(trees: TreeReader, tree: Tree, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield all that lies below ``tree`` by POSIX path, directories before what they hold.

    Bytes that are no UTF-8 are shown as escapes. With a stack of our own, because anybody may push
    a tree that is deeper than Python's.
    """
    waiting = [(prefix, iter(tree.items()))]
    while waiting:
        prefix, entries = waiting[-1]
        name, entry = next(entries, (b"", None))
        if entry is None:
            waiting.pop()
            continue
        path = prefix + name.decode("utf-8", "backslashreplace")
        yield path, entry
        if entry.is_directory:
            waiting.append((f"{path}/", iter(trees.tree(entry.sha).items())))


class _Store(DiskObjectStore):
    """dulwich's store, with the largest pack asked first: it most likely has the object."""

    def adopt(self, basename: str) -> None:
        """Make a pack that was just written visible without listing the directory."""
        pack = Pack(f"{self.pack_dir}/{basename}", object_format=self.object_format)
        self._add_cached_pack(basename, pack)

    def rescan(self) -> None:
        """Look at the directory of packs again."""
        self._update_pack_cache()

    def _update_pack_cache(self) -> list[Pack]:
        new = super()._update_pack_cache()
        if new:
            by_size = sorted(self._pack_cache.items(), key=lambda item: -self._size(item[0]))
            self._pack_cache = dict(by_size)
        return new

    def _size(self, basename: str) -> int:
        try:
            return Path(self.pack_dir, f"{basename}.pack").stat().st_size
        except FileNotFoundError:  # repacked away a moment ago
            return 0


class GitObjects:
    """The objects of one repository, whoever wrote them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._store = _Store(str(directory), object_format=DEFAULT_OBJECT_FORMAT)
        self._trees: OrderedDict[ObjectID, Tree] = OrderedDict()
        self._tree_entries = 0

    def close(self) -> None:
        """Give back the open packs."""
        self._store.close()

    def has(self, sha: ObjectID) -> bool:
        """Say whether the object is there (and, if loose, whether it can be read)."""
        try:
            return sha in self._store
        except _UNREADABLE:
            return False

    def raw(self, sha: ObjectID, type_number: int) -> bytes:
        """Return an object's bytes.

        Raises ``Broken`` with code ``OBJECT_UNREADABLE`` when it is missing, damaged or of another
        type.
        """
        try:
            found, data = self._store.get_raw(sha)
        except KeyError as error:
            raise self._broken(sha, "is missing") from error
        except _UNREADABLE as error:
            raise self._broken(sha, f"cannot be read ({type(error).__name__})") from error
        if found != type_number:
            raise self._broken(sha, f"is of type {found}, expected {type_number}")
        return data

    def blob(self, sha: ObjectID) -> bytes:
        """Return a file's bytes; raises ``Broken``."""
        return self.raw(sha, BLOB)

    def tree(self, sha: ObjectID) -> Tree:
        """Return a parsed tree; raises ``Broken``."""
        known = self._trees.get(sha)
        if known is not None:
            self._trees.move_to_end(sha)
            return known
        data = self.raw(sha, TREE)
        try:
            tree = {
                name: Entry(mode, ObjectID(entry)) for name, mode, entry in parse_tree(data, 20)
            }
        except (ObjectFormatException, ValueError) as error:
            raise self._broken(sha, "is no well-formed tree") from error
        self.remember(sha, tree)
        return tree

    def raw_commit(self, sha: ObjectID) -> bytes:
        """Return a commit's bytes, for the functions of ``walk``; raises ``Broken``."""
        return self.raw(sha, COMMIT)

    def remember(self, sha: ObjectID, tree: Tree) -> None:
        """Keep a parsed tree for later reads."""
        if sha in self._trees:
            return
        self._trees[sha] = tree
        self._tree_entries += len(tree)
        while self._tree_entries > TREE_CACHE_ENTRIES and len(self._trees) > 1:
            _, dropped = self._trees.popitem(last=False)
            self._tree_entries -= len(dropped)

    def adopt(self, pack: str) -> None:
        """Make the pack of base name ``pack``, just written by us, readable at once."""
        self._store.adopt(pack)

    def rescan(self) -> None:
        """Give back packs that are gone, take in those that are new."""
        self._store.rescan()

    def _broken(self, sha: ObjectID, what: str) -> Broken:
        return Broken(
            "OBJECT_UNREADABLE",
            f"object {sha.decode('ascii')} in {self.directory} {what}",
            hint="run git fsck --full there; copy the missing objects back from a clone, or move "
            "the branch to the last commit that reads",
        )
