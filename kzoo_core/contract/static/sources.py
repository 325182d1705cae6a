"""Python files of the contract directory as syntax trees; nothing of them runs (D6)."""

from __future__ import annotations

import ast
import threading
import warnings

from kzoo_core.contract.quoting import printable
from kzoo_core.errors import Problem

_WARNINGS = threading.Lock()
"""``catch_warnings`` changes the whole process; one thread at a time may hold it."""


def parse_python(source: bytes, file: str) -> tuple[ast.Module | None, list[Problem]]:
    """Return the syntax tree of a UTF-8 Python file, or ``None`` and the problem with its line."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [_not_utf8(source, error, file)]
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape: the author's business
            return ast.parse(text, filename=printable(file)), []
    except SyntaxError as error:
        return None, [_syntax(error.msg, file, error.lineno, error.offset, error.text)]
    except (ValueError, RecursionError, MemoryError) as error:
        # A null byte; an expression nested deeper than Python's parser or tree can be.
        return None, [_syntax(str(error) or "nested too deeply", file, None, None, None)]


def _not_utf8(source: bytes, error: UnicodeDecodeError, file: str) -> Problem:
    return Problem(
        code="not_utf8",
        message=f"{file} is not UTF-8 at byte {error.start}",
        file=file,
        line=source.count(b"\n", 0, error.start) + 1,
        found=f"byte 0x{source[error.start]:02x}",
        expected="UTF-8 text",
    )


def _syntax(
    what: str, file: str, line: int | None, column: int | None, text: str | None
) -> Problem:
    return Problem(
        code="python_syntax",
        message=f"{file} is not Python: {printable(what)}",
        file=file,
        line=line or None,
        column=column or None,
        found=printable(text.strip()) if text and text.strip() else printable(what),
        expected="a file that Python can compile",
    )
