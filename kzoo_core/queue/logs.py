"""The log of one attempt: bytes that grow at the end, phase marks beside them, a closing digest.

Chunks are not fsynced: the runner keeps its own copy and sends again from wherever the server says
it is, until the closing call, which compares the whole with the runner's digest and fsyncs it. So a
crash costs some sending, never a log that is wrong.

``log-<n>`` holds the text alone; ``log-<n>.json`` the marks and, once closed, size and digest.
Nothing is kept in memory, because a submission's directory moves and files tell their own size.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.errors import Conflict, Problem, TooLarge
from kzoo_core.ids import Sha256
from kzoo_core.queue.records import Phase

if TYPE_CHECKING:
    from pathlib import Path


class LogGap(Conflict):
    """A chunk begins behind the end of the log; ``size`` is where to go on from."""

    def __init__(self, size: int, offset: int) -> None:
        problem = Problem(
            code="log_gap",
            message=f"the chunk begins at byte {offset}, the log ends at {size}",
            found=str(offset),
            expected=f"at most {size}",
        )
        super().__init__(
            "LOG_GAP", problem.message, hint=f"send again from byte {size}", details=(problem,)
        )
        self.size = size


class LogMismatch(Conflict):
    """The log is not what the runner sent; it was emptied, to be sent again from 0."""

    def __init__(self, found: str, expected: str) -> None:
        problem = Problem(
            code="log_mismatch",
            message="the log is not what the closing call says",
            found=found,
            expected=expected,
        )
        super().__init__(
            "LOG_MISMATCH", problem.message, hint="send it again from byte 0", details=(problem,)
        )


@dataclass(frozen=True, slots=True)
class PhaseMark:
    """The byte offset at which a phase of the run begins."""

    offset: int
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """A range of a log. ``attempt`` is ``None`` while there is none; ``size`` is the whole log's.

    ``complete`` says that this range reaches the end of a log to which nothing will be added.
    """

    attempt: int | None
    start: int
    data: bytes
    size: int
    complete: bool
    marks: tuple[PhaseMark, ...] = ()

    @property
    def next_offset(self) -> int:
        """Where to read on from."""
        return self.start + len(self.data)


class AttemptLog:
    """The log of attempt ``number`` in a submission's directory, as it is on disk now."""

    def __init__(self, directory: Path, number: int, *, limit_bytes: int) -> None:
        self._text = directory / f"log-{number}"
        self._about = directory / f"log-{number}.json"
        self._number = number
        self._limit_bytes = limit_bytes

    @property
    def size(self) -> int:
        """Bytes that the log has now."""
        return self._text.stat().st_size if self._text.exists() else 0

    def append(self, offset: int, data: bytes, phase: Phase | None = None) -> int:
        """Take a chunk that begins at ``offset`` and return the log's size.

        What the log has already is skipped. ``phase`` marks that the chunk begins that phase; a
        phase begins once, so only the first such mark counts.
        Raises ``LogGap``, ``TooLarge`` ``LOG_TOO_LARGE``, ``Conflict`` ``LOG_CLOSED``, ``OSError``.
        """
        size = self.size
        if offset > size:
            raise LogGap(size, offset)
        marks, closed = self._read_about()
        end = offset + len(data)
        if end > size and closed is not None:
            raise self._closed(f"{end} bytes", f"{size} bytes")
        if end > self._limit_bytes:
            raise TooLarge(
                "LOG_TOO_LARGE",
                f"the log would have {end} bytes, at most {self._limit_bytes} are kept",
                hint="cut the log and mark the cut",
            )
        if end > size:
            with self._text.open("ab") as stream:
                stream.write(data[size - offset :])
        if phase is not None and closed is None and phase not in {mark.phase for mark in marks}:
            self._about.write_bytes(_write_about((*marks, PhaseMark(offset, phase)), None))
        return max(size, end)

    def close(self, size: int, sha256: Sha256) -> None:
        """End the log, durably, if it is what the runner sent; asked again, do nothing.

        Raises ``LogMismatch`` after emptying a log that is not; ``Conflict`` ``LOG_CLOSED`` when it
        was closed with another digest; ``OSError``.
        """
        marks, closed = self._read_about()
        if closed == (size, sha256):
            return
        if closed is not None:
            raise self._closed(sha256, closed[1])
        text = self._text.read_bytes() if self._text.exists() else b""
        found = hashlib.sha256(text).hexdigest()
        if (len(text), found) != (size, sha256):
            self._text.unlink(missing_ok=True)
            self._about.unlink(missing_ok=True)
            raise LogMismatch(
                f"{len(text)} bytes with sha256 {found}", f"{size} bytes with sha256 {sha256}"
            )
        if not self._text.exists():
            self._text.touch()
        durable.fsync_file(self._text)
        durable.write_file(self._about, _write_about(marks, (size, sha256)))

    def put_whole(self, text: bytes) -> None:
        """Keep a log that came with the result, unless chunks of one came before.

        What is beyond ``limit_bytes`` is cut. Raises ``OSError``.
        """
        if self._text.exists():
            return
        kept = text[: self._limit_bytes]
        durable.write_file(self._text, kept)
        digest = Sha256(hashlib.sha256(kept).hexdigest())
        durable.write_file(self._about, _write_about((), (len(kept), digest)))

    def read(self, start: int, limit: int) -> LogSlice:
        """Return at most ``limit`` bytes from ``start``; raises ``OSError``."""
        data = b""
        size = self.size
        if start < size:
            with self._text.open("rb") as stream:
                stream.seek(start)
                data = stream.read(limit)
        marks, closed = self._read_about()
        return LogSlice(
            attempt=self._number,
            start=start,
            data=data,
            size=size,
            complete=closed is not None and start + len(data) >= size,
            marks=marks,
        )

    def _read_about(self) -> tuple[tuple[PhaseMark, ...], tuple[int, Sha256] | None]:
        try:
            about = json.loads(self._about.read_bytes())
            marks = tuple(
                PhaseMark(item["offset"], Phase(item["phase"])) for item in about["marks"]
            )
            closed = about["closed"]
            return marks, None if closed is None else (closed["size"], Sha256(closed["sha256"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Marks are written without fsync: a power cut may leave any part of them. They are lost
            # then; the text is the runner's to send again.
            return (), None

    def _closed(self, found: str, expected: str) -> Conflict:
        problem = Problem(
            code="log_closed",
            message=f"the log of attempt {self._number} is closed",
            found=found,
            expected=expected,
        )
        return Conflict(
            "LOG_CLOSED", problem.message, hint="it is delivered; drop it", details=(problem,)
        )


def _write_about(marks: tuple[PhaseMark, ...], closed: tuple[int, Sha256] | None) -> bytes:
    document = {
        "marks": [{"offset": mark.offset, "phase": mark.phase} for mark in marks],
        "closed": None if closed is None else {"size": closed[0], "sha256": closed[1]},
    }
    return json.dumps(document).encode("ascii") + b"\n"
