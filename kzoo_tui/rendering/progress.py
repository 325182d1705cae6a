"""One line on a terminal that says how a wait goes, drawn in place."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from kzoo_tui.rendering.table import cut
from kzoo_tui.rendering.words import elapsed
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kzoo_tui.context import Context

REDRAW_S = 1.0
_WIDTH = 80
_ERASE_LINE = "\r\x1b[K"


class ProgressLine:
    """A line on stderr with words and the time since it began; silent where that is no terminal.

    The escape sequence is ours; what it frames is one safe line.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._began = context.clock.monotonic()
        self._words = ""

    def show(self, words: str) -> None:
        """Change the words and draw them."""
        self._words = words
        self.draw()

    def draw(self) -> None:
        """Draw the line as it is now."""
        if self._context.stderr_is_terminal and self._words:
            seconds = self._context.clock.monotonic() - self._began
            width = min(self._context.width or _WIDTH, _WIDTH) - 1
            line = cut(safe_line(f"{self._words}  {elapsed(seconds)}"), width)
            self._context.stderr.write(_ERASE_LINE + line)
            self._context.stderr.flush()

    def clear(self) -> None:
        """Take the line off the terminal."""
        if self._context.stderr_is_terminal and self._words:
            self._context.stderr.write(_ERASE_LINE)
            self._context.stderr.flush()

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """Draw the line every second for as long as the block runs, then take it off."""
        ticker = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
            self.clear()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_S)
            self.draw()
