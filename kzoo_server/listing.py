"""Which kernels a listing shows, in which order, and where its next page begins: pure."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from kzoo_core.clock import format_time, parse_time
from kzoo_core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kzoo_core.store.index import IndexEntry

Value: TypeAlias = str | datetime | None
"""What kernels are sorted by: all of one sort have the same type, or are missing."""

SORTS = ("kernel_id", "-kernel_id", "name", "-name", "updated_at", "-updated_at")
CATEGORY_FILTERS = ("arch", "op_class", "sub_class", "quant")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFilter:
    """What a kernel must be to be listed; ``None`` asks for nothing."""

    arch: str | None = None
    op_class: str | None = None
    sub_class: str | None = None
    quant: str | None = None
    status: str | None = None
    tag: str | None = None
    owner: str | None = None
    q: str | None = None
    valid: bool | None = None
    sort: str = "kernel_id"

    @property
    def lists_all(self) -> bool:
        """Whether every kernel is listed, in the order of the index."""
        return self == _EVERYTHING

    def select(self, entries: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
        """Return the entries that fit, in order; ``entries`` come sorted by kernel_id."""
        if self.lists_all:
            return tuple(entries)
        words = (self.q or "").casefold().split()
        chosen = [entry for entry in entries if self._fits(entry, words)]
        return tuple(_sorted(chosen, self.sort))

    def _fits(self, entry: IndexEntry, words: Sequence[str]) -> bool:
        return (
            self.valid in {None, entry.valid}
            and self.status in {None, entry.status}
            and self.owner in {None, entry.owner}
            and (self.tag is None or self.tag in entry.tags)
            and self._category_fits(entry)
            and (not words or _mentions(entry, words))
        )

    def _category_fits(self, entry: IndexEntry) -> bool:
        wanted = (self.arch, self.op_class, self.sub_class, self.quant)
        if wanted == (None, None, None, None):
            return True
        if entry.category is None:
            return False
        segments = entry.category.segments()
        return all(want in {None, have} for want, have in zip(wanted, segments, strict=True))


_EVERYTHING = KernelFilter()


@dataclass(frozen=True, slots=True)
class Place:
    """The last entry of a page: by its sort value and kernel_id the next page finds its beginning.

    It stays good when kernels come and go between two pages.
    """

    sort: str
    value: Value
    kernel_id: str

    def write(self) -> str:
        """Return the cursor that a client hands back."""
        value = format_time(self.value) if isinstance(self.value, datetime) else self.value
        data = json.dumps([self.sort, value, self.kernel_id], separators=(",", ":"))
        return base64.urlsafe_b64encode(data.encode()).decode("ascii").rstrip("=")

    @classmethod
    def read(cls, cursor: str, sort: str) -> Place:
        """Read a cursor; raises ``BadInput`` when no page of this order gave it."""
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            found = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
            given_sort, text, kernel_id = found
            texts = isinstance(kernel_id, str) and (text is None or isinstance(text, str))
            timed = texts and text is not None and sort.endswith("updated_at")
            value: Value = parse_time(text) if timed else text
        except (binascii.Error, ValueError, TypeError, RecursionError) as error:
            raise _bad_cursor(cursor) from error
        if not texts or given_sort != sort:
            raise _bad_cursor(cursor)
        return cls(sort, value, kernel_id)

    @classmethod
    def of(cls, entry: IndexEntry, sort: str) -> Place:
        """Return the place of an entry."""
        return cls(sort, _value(sort)(entry), entry.kernel_id)


def page_bounds(
    entries: Sequence[IndexEntry], sort: str, cursor: str | None, limit: int
) -> tuple[int, int]:
    """Return where a page begins and ends in ``entries``; raises ``BadInput`` for a bad cursor."""
    begin = 0
    if cursor is not None:
        place = Place.read(cursor, sort)
        begin = bisect_left(entries, True, key=lambda entry: _behind(entry, place))
    return begin, min(begin + limit, len(entries))


def _behind(entry: IndexEntry, place: Place) -> bool:
    """Whether an entry stands behind a place in the place's order: none last, ties by kernel_id."""
    value: Any = _value(place.sort)(entry)
    if value != place.value:
        if value is None or place.value is None:
            return value is None
        return bool(value < place.value if place.sort.startswith("-") else value > place.value)
    return entry.kernel_id > place.kernel_id


def _sorted(entries: list[IndexEntry], sort: str) -> list[IndexEntry]:
    value: Callable[[IndexEntry], Any] = _value(sort)
    known = [entry for entry in entries if value(entry) is not None]
    unknown = [entry for entry in entries if value(entry) is None]
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + unknown


def _value(sort: str) -> Callable[[IndexEntry], Value]:
    return _VALUES[sort.removeprefix("-")]


def _mentions(entry: IndexEntry, words: Sequence[str]) -> bool:
    parts = (entry.kernel_id, entry.name, entry.summary, entry.owner, *entry.tags)
    text = "\n".join(part for part in parts if part).casefold()
    return all(word in text for word in words)


def _bad_cursor(cursor: str) -> BadInput:
    return BadInput(
        "BAD_CURSOR",
        f"cursor is {cursor[:80]!r}",
        hint="give the next_cursor of the page before, with the same sort",
    )


_VALUES: dict[str, Callable[[IndexEntry], Value]] = {
    "kernel_id": lambda entry: entry.kernel_id,
    "name": lambda entry: entry.name,
    "updated_at": lambda entry: entry.updated_at,
}
