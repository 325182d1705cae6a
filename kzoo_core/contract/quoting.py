"""How foreign text and values appear in a message: short, on one line, without control characters.

Package files and benchmark output are written by strangers and end up in terminals, logs and commit
messages; nothing of theirs is repeated there raw.
"""

from __future__ import annotations

import unicodedata
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EXCERPT_CHARACTERS = 80


def printable(text: str, limit: int = EXCERPT_CHARACTERS) -> str:
    """Return ``text`` on one line, control and format characters removed, cut to ``limit``."""
    head = text[: limit * 4]
    clean = "".join(
        " " if character in "\n\t" else character
        for character in head
        if character in "\n\t" or unicodedata.category(character)[0] != "C"
    )
    if len(clean) <= limit and len(head) == len(text):
        return clean
    return clean[: limit - 1] + "…"


def describe(value: object) -> str:
    """Say what a loaded YAML or JSON value is, in a few words and never more than 80 characters."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return f'"{printable(value, EXCERPT_CHARACTERS - 2)}"'
    if isinstance(value, date):
        return f"the time {value.isoformat()}"
    if isinstance(value, dict):
        return f"a mapping of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"a {type(value).__name__}"


def _number(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)


def listed(items: Iterable[str], limit: int = 8) -> str:
    """Return ``items`` joined by commas; what is over ``limit`` is counted, not named."""
    named = [printable(item, 120) for item in items]
    rest = len(named) - limit
    shown = ", ".join(named[:limit])
    return f"{shown} and {rest} more" if rest > 0 else shown
