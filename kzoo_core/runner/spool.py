"""Results on the runner's own disk, from the end of a run until the server has them.

One file a result: a line of JSON that says whose it is, then the body exactly as it is posted. The
line holds the attempt's token, so files are readable by their owner alone. Nothing that cannot be
read is deleted; it is set aside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.clock import format_time, parse_time
from kzoo_core.errors import KzooError
from kzoo_core.ids import parse_submission_id
from kzoo_core.runner.records import AttemptKey

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from kzoo_core.clock import Clock

FORMAT = 1
KEEP_S = 24 * 3600.0
"""How long an undelivered result is kept and sent again."""

_SUFFIX = ".result"
_SET_ASIDE = ".unreadable"


@dataclass(frozen=True, slots=True)
class SpooledResult:
    """A result that waits; ``saved_at`` is when the run ended."""

    key: AttemptKey
    token: str
    saved_at: datetime
    body: bytes


class ResultSpool:
    """The directory of undelivered results; synchronous, one owner."""

    def __init__(self, directory: Path, *, clock: Clock, keep_s: float = KEEP_S) -> None:
        self._directory = directory
        self._clock = clock
        self._keep_s = keep_s

    def new(self, key: AttemptKey, token: str, body: bytes) -> SpooledResult:
        """Return a result that ended now, not saved yet."""
        return SpooledResult(key, token, self._clock.now(), body)

    def save(self, result: SpooledResult) -> None:
        """Make a result durable; raises ``OSError``."""
        head = {
            "format": FORMAT,
            "uuid": result.key.uuid,
            "attempt": result.key.number,
            "attempt_token": result.token,
            "saved_at": format_time(result.saved_at),
        }
        durable.make_directory(self._directory)
        data = json.dumps(head).encode() + b"\n" + result.body
        durable.write_file(self._path(result.key), data, mode=0o600)

    def load(self) -> list[SpooledResult]:
        """Return what an earlier process left, oldest first; too old is removed, broken set aside.

        Half-written files are leftovers of a crash before anything was acknowledged: removed.
        """
        if not self._directory.is_dir():
            return []
        for path in self._directory.glob(f".*{_SUFFIX}.tmp"):
            durable.remove_file(path)
        results = []
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            result = _read(path)
            if result is None:
                durable.move(path, path.with_name(path.name + _SET_ASIDE))
            elif self.keep_left_s(result) <= 0:
                durable.remove_file(path)
            else:
                results.append(result)
        return sorted(results, key=lambda result: result.saved_at)

    def keep_left_s(self, result: SpooledResult) -> float:
        """Return the seconds until a result is too old to be sent."""
        until = result.saved_at + timedelta(seconds=self._keep_s)
        return (until - self._clock.now()).total_seconds()

    def remove(self, key: AttemptKey) -> None:
        """Remove a result, if it is there: the server has it or does not want it."""
        if self._directory.is_dir():
            durable.remove_file(self._path(key))

    def _path(self, key: AttemptKey) -> Path:
        return self._directory / f"{key}{_SUFFIX}"


def _read(path: Path) -> SpooledResult | None:
    line, _, body = path.read_bytes().partition(b"\n")
    try:
        head = json.loads(line)
        if head["format"] != FORMAT or not body:
            return None
        key = AttemptKey(parse_submission_id(head["uuid"]), int(head["attempt"]))
        return SpooledResult(key, str(head["attempt_token"]), parse_time(head["saved_at"]), body)
    except (ValueError, KeyError, TypeError, KzooError):
        return None
