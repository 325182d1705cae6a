"""How long to wait before asking again: doubling, jittered, never shorter than the server asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

RETRY_AFTER_MAX_S = 300.0
"""A server cannot send a runner away for longer than this with one ``Retry-After``."""


class Backoff:
    """Delays that double from ``least_s`` to ``most_s``; jitter takes up to half of each away.

    Jitter keeps a hundred runners that lost the same server from coming back in one instant.
    """

    def __init__(self, *, least_s: float, most_s: float, random: Random) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._random = random
        self._step_s = least_s

    def next(self, retry_after_s: float | None = None) -> float:
        """Return the seconds to wait now; ``retry_after_s`` is a floor with jitter on top."""
        delay = self._random.uniform(self._step_s / 2, self._step_s)
        self._step_s = min(self._step_s * 2, self._most_s)
        if retry_after_s is None:
            return delay
        floor = min(max(retry_after_s, 0.0), RETRY_AFTER_MAX_S)
        return max(delay, floor + self._random.uniform(0.0, floor / 10))

    def reset(self) -> None:
        """Begin at ``least_s`` again: the last call went through."""
        self._step_s = self._least_s
