"""Time as a thing that is handed in: rooms below an entry point never read the wall clock."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that only rise, from no particular beginning."""


class SystemClock:
    """The machine's own clock; made by entry points only."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()


class ManualClock:
    """A clock that moves when it is told to: for tests of everything that waits."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 8, 2, 12, 0, 0, tzinfo=UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the wall time that the test has reached."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds that the test has advanced."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both times forward by ``seconds``."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


def format_time(moment: datetime) -> str:
    """Return RFC 3339 in UTC with whole seconds, as every artifact of the product writes it."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be written")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Return the aware UTC time of an RFC 3339 text; raises ``ValueError`` for anything else."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-08-02T00:00:00Z")
    return datetime.fromisoformat(text.upper()).astimezone(UTC)
