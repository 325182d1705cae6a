"""Plain tables: columns as wide as their widest cell, folded at the terminal's edge."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
CUT = "…"
_LEAST_LAST_COLUMN = 8


def display_width(text: str) -> int:
    """Return how many columns ``text`` takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def cut(text: SafeText, width: int) -> SafeText:
    """Return ``text`` in at most ``width`` columns, its end marked where something is missing."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += display_width(char)
        if used > width - 1:
            break
        kept += char
    return SafeText(kept + CUT) if width > 0 else SafeText("")


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None
) -> list[SafeText]:
    """Return the lines of a table; every row has a cell for each header, each one safe line.

    With a ``width``, rows that do not fit are folded between the same two columns and go on
    indented; only the last column is ever cut, for an id that is cut is of no use.
    """
    cells = [[safe_line(cell) for cell in row] for row in (headers, *rows)]
    sizes = [max(display_width(cell) for cell in column) for column in zip(*cells, strict=True)]
    parts = _fold(sizes, width)
    lines = []
    for row in cells:
        folded = [_line(row[part], sizes[part], indent=part.start > 0) for part in parts]
        if width is not None:
            folded[-1] = cut(folded[-1], max(width, _LEAST_LAST_COLUMN))
        lines += folded
    return lines


def _fold(sizes: Sequence[int], width: int | None) -> list[slice]:
    """Return which columns share a line: as many as fit, the last one if a little of it does."""
    parts, start, used = [], 0, 0
    for column, size in enumerate(sizes):
        least = min(size, _LEAST_LAST_COLUMN) if column == len(sizes) - 1 else size
        if width is not None and column > start and used + least > width:
            parts.append(slice(start, column))
            start, used = column, len(GAP)
        used += size + len(GAP)
    return [*parts, slice(start, len(sizes))]


def _line(cells: Sequence[SafeText], sizes: Sequence[int], *, indent: bool) -> SafeText:
    padded = GAP.join(
        cell + " " * (size - display_width(cell)) for cell, size in zip(cells, sizes, strict=True)
    )
    return SafeText((GAP if indent else "") + padded.rstrip())
