"""Plain tables: columns as wide as their widest cell, cut at the terminal's edge."""

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

    With a ``width`` the last column is cut to what is left of it. Where next to nothing is left the
    lines stay whole and the terminal wraps them: an id that is cut is of no use.
    """
    cells = [[safe_line(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(display_width(cell) for cell in column) for column in zip(*cells, strict=True)]
    before_last = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    cuts = width is not None and width - before_last >= _LEAST_LAST_COLUMN
    lines = []
    for row in cells:
        padded = GAP.join(
            cell + " " * (size - display_width(cell))
            for cell, size in zip(row, widths, strict=True)
        )
        line = SafeText(padded.rstrip())
        lines.append(cut(line, width) if width is not None and cuts else line)
    return lines
