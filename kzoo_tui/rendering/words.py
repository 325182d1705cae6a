"""Values as words: numbers, ages, durations, states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.clock import parse_time

if TYPE_CHECKING:
    from datetime import datetime

NOTHING = "-"

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def number(value: float) -> str:
    """Return a measured value with six significant digits, as far as they say something."""
    return f"{value:.6g}"


def age(moment: str | None, now: datetime) -> str:
    """Return how long ago an RFC 3339 time was; a text that is none is shown as it is."""
    if moment is None:
        return NOTHING
    try:
        seconds = int((now - parse_time(moment)).total_seconds())
    except ValueError:
        return moment
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return "now"


def elapsed(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours where there are any."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def plural(count: int, word: str) -> str:
    """Return ``1 problem``, ``2 problems``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
