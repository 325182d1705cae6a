"""One attempt's log in memory, within the runner's cap: its head, a mark, its last bytes.

The cap is the runner's (3 MiB head, 1 MiB tail by default), so that neither a chatty kernel nor a
server that is away for an hour can fill this process. What has been offered for sending never
changes again: offsets and the closing digest stay true over every resend.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.ids import Sha256

if TYPE_CHECKING:
    from kzoo_core.queue.records import Phase


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Bytes to send at ``start``; ``phase`` is set when they begin that phase."""

    start: int
    data: bytes
    phase: Phase | None


class LogBuffer:
    """Collects bytes, gives them out by offset, and is frozen by ``close``."""

    def __init__(self, *, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._text = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        self._marks: list[tuple[int, Phase]] = []
        self._closed = False

    @property
    def total(self) -> int:
        """How many bytes can be sent so far; final once closed."""
        return len(self._text)

    @property
    def closed(self) -> bool:
        """Whether nothing more will be added."""
        return self._closed

    def write(self, data: bytes) -> None:
        """Add what a process printed; past the head only the newest bytes are kept."""
        if self._closed:
            return
        room = self._head_bytes - len(self._text)
        if room > 0:
            self._text += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data
        # Trimmed only when twice as long as needed, so that each byte is moved about once.
        if len(self._tail) > 2 * self._tail_bytes:
            self._trim()

    def begin(self, phase: Phase) -> None:
        """Note that whatever is written from here on belongs to ``phase``."""
        if not self._closed:
            self._marks.append((self._position(), phase))

    def close(self) -> None:
        """Freeze the log: behind the head come the mark of what was left out and the tail."""
        if self._closed:
            return
        self._closed = True
        self._trim()
        tail_start = self._position() - len(self._tail)
        if self._left_out:
            self._text += f"\n[kernel_zoo: {self._left_out} bytes left out]\n".encode()
        shift = len(self._text)
        self._marks = [
            (offset if offset < self._head_bytes else shift + max(0, offset - tail_start), phase)
            for offset, phase in self._marks
        ]
        self._text += self._tail
        self._tail.clear()

    def cut(self, at: int) -> None:
        """Freeze the log at ``at`` bytes with a mark: the server takes no more than that (413)."""
        at = min(at, len(self._text))
        left_out = self._position() - at
        self._closed = True
        del self._text[at:]
        self._tail.clear()
        self._marks = [(offset, phase) for offset, phase in self._marks if offset < at]
        self._text += f"\n[kernel_zoo: cut by the server, {left_out} bytes left out]\n".encode()

    def chunk(self, start: int, limit: int) -> LogChunk | None:
        """Return at most ``limit`` bytes from ``start``, never across a phase mark, if any wait."""
        if start >= len(self._text):
            return None
        end = min(start + limit, len(self._text))
        end = min([end, *(offset for offset, _ in self._marks if offset > start)])
        return LogChunk(start, bytes(self._text[start:end]), self.phase_at(start))

    def phase_at(self, offset: int) -> Phase | None:
        """Return the phase that begins exactly at ``offset``; of several, the last one."""
        return next((phase for at, phase in reversed(self._marks) if at == offset), None)

    def sha256(self) -> Sha256:
        """Return the digest of everything that can be sent."""
        return Sha256(hashlib.sha256(self._text).hexdigest())

    def content(self) -> bytes:
        """Return everything that can be sent."""
        return bytes(self._text)

    def _position(self) -> int:
        """Count the bytes ever written, left out or not."""
        return len(self._text) + self._left_out + len(self._tail)

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess
