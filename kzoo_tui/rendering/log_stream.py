"""A log on its way to stdout: as it is to a file, as whole safe lines to a terminal."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from kzoo_tui.safe_text import safe_text

if TYPE_CHECKING:
    from kzoo_tui.context import Context

_LINE_LIMIT = 64 * 1024
"""A line longer than this is shown in pieces: nothing is held back without a bound."""


class LogStream:
    """Writes chunks that may end anywhere, even inside a character or an escape sequence."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def write(self, data: bytes) -> None:
        """Write what is whole; on a terminal the last unfinished line waits for its end."""
        if not self._context.stdout_is_terminal:
            self._context.write_bytes(data)
            return
        text = self._rest + self._decoder.decode(data)
        whole, newline, self._rest = text.rpartition("\n")
        if len(self._rest) > _LINE_LIMIT:
            whole, newline, self._rest = text, "", ""
        self._show(whole + newline)

    def end(self) -> None:
        """Write what waits, and end its line."""
        if not self._context.stdout_is_terminal:
            return
        rest = self._rest + self._decoder.decode(b"", final=True)
        self._rest = ""
        self._show(rest + "\n" if rest else "")

    def _show(self, text: str) -> None:
        self._context.stdout.write(safe_text(text))
        self._context.stdout.flush()
