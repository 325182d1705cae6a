"""Walking a branch along first parents, reading no more of a commit than the question needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dulwich.objects import ObjectID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kzoo_core.store.objects import GitObjects

# "tree <40>\n" comes first in every commit, then the parents, one a line.
_PARENT_AT = 46
_PARENT = b"parent "


def first_parents(objects: GitObjects, start: ObjectID | None) -> Iterator[tuple[ObjectID, bytes]]:
    """Yield commits with their raw bytes from ``start`` back to the root; raises ``Broken``."""
    sha = start
    while sha is not None:
        raw = objects.raw_commit(sha)
        yield sha, raw
        sha = parent_of(raw)


def parent_of(raw: bytes) -> ObjectID | None:
    """Return the first parent of a raw commit."""
    if raw[_PARENT_AT : _PARENT_AT + len(_PARENT)] != _PARENT:
        return None
    at = _PARENT_AT + len(_PARENT)
    return ObjectID(raw[at : at + 40])


def tree_of(raw: bytes) -> ObjectID:
    """Return the topmost tree of a raw commit."""
    return ObjectID(raw[5:45])


def committed_at(raw: bytes) -> int:
    """Return when a raw commit was made, in seconds since 1970; 0 for a malformed one."""
    line = raw.partition(b"\ncommitter ")[2].partition(b"\n")[0]
    fields = line.rsplit(b" ", 2)
    return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else 0


def message_of(raw: bytes) -> str:
    """Return a raw commit's message; bytes that are no UTF-8 are replaced."""
    return raw.partition(b"\n\n")[2].decode("utf-8", "replace")
