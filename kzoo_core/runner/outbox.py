"""The results that wait for delivery, as the machine sees them: due when, too old when."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.runner.backoff import Backoff
    from kzoo_core.runner.records import AttemptKey


class Undelivered:
    """One result on disk; ``cuts`` counts what was left out because the whole was too large."""

    def __init__(self, key: AttemptKey, *, due_at: float, expires_at: float, pace: Backoff) -> None:
        self.key = key
        self.due_at = due_at
        self.expires_at = expires_at
        self.pace = pace
        self.tries = 0
        self.cuts = 0


class Outbox:
    """Undelivered results, oldest first; all times are monotonic seconds."""

    def __init__(self, new_pace: Callable[[], Backoff]) -> None:
        self._new_pace = new_pace
        self._entries: list[Undelivered] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def keys(self) -> tuple[AttemptKey, ...]:
        """The attempts whose results wait."""
        return tuple(entry.key for entry in self._entries)

    @property
    def all_tried(self) -> bool:
        """Whether each of them has been sent at least once, in vain."""
        return all(entry.tries for entry in self._entries)

    def keep(self, key: AttemptKey, *, now: float, keep_s: float) -> None:
        """Take a result in, due at once and too old after ``keep_s``."""
        pace = self._new_pace()
        self._entries.append(Undelivered(key, due_at=now, expires_at=now + keep_s, pace=pace))

    def find(self, key: AttemptKey | None) -> Undelivered | None:
        """Return the result of ``key``, if it waits."""
        return next((entry for entry in self._entries if entry.key == key), None)

    def forget(self, key: AttemptKey) -> None:
        """Let a result go."""
        self._entries = [entry for entry in self._entries if entry.key != key]

    def expired(self, now: float) -> tuple[AttemptKey, ...]:
        """Return the results that are too old."""
        return tuple(entry.key for entry in self._entries if entry.expires_at <= now)

    def first(self) -> Undelivered | None:
        """Return the result that is due first."""
        return min(self._entries, key=lambda entry: entry.due_at, default=None)

    def postpone(self, entry: Undelivered, *, now: float, retry_after_s: float | None) -> None:
        """Make ``entry`` due after its own back-off."""
        entry.due_at = now + entry.pace.next(retry_after_s)

    def count_try(self) -> None:
        """Count a try for each: one was interrupted, and there will be no other."""
        for entry in self._entries:
            entry.tries += 1
