"""One end of a pipe as an asyncio stream, with what is done to the bytes that come out."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 64 * 1024


class ReadPipe:
    """A pipe whose write end goes to a child and whose read end is pumped into ``take``.

    The runner owns both ends, so it can let go of them even when some process never does.
    """

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        read_fd, self.write_fd = os.pipe()
        self._read_end = os.fdopen(read_fd, "rb", buffering=0)

    def close_write_end(self) -> None:
        """Let go of the child's end, so that the last child's exit is the end of the file."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Let go of both ends."""
        self.close_write_end()
        self._read_end.close()

    async def pump(self) -> None:
        """Hand on every chunk until the last writer is gone."""
        reader = asyncio.StreamReader(limit=_CHUNK)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._read_end
        )
        try:
            while data := await reader.read(_CHUNK):
                self._take(data)
        finally:
            transport.close()


class Capture:
    """Keeps at most ``limit_bytes`` and says when there was more."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self.overflown = asyncio.Event()

    def take(self, data: bytes) -> None:
        """Keep what fits; the rest only counts as too much."""
        room = self._limit_bytes - len(self._data)
        self._data += data[:room]
        if len(data) > room:
            self.overflown.set()

    @property
    def data(self) -> bytes:
        """What was kept."""
        return bytes(self._data)
