"""A ``KzooError`` as people read it on stderr, and as programs read it on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from kzoo_core.errors import KzooError


def error_lines(error: KzooError) -> list[SafeText]:
    """Return ``error: …``, a block for each problem, and ``hint: …``."""
    lines = [safe_line(line) for line in error.lines()]
    if error.retry_after_s is not None:
        lines.append(safe_line(f"hint: try again in {error.retry_after_s:g} s"))
    if error.request_id is not None and error.status is not None and error.status >= 500:
        lines.append(safe_line(f"hint: the server's log knows this as request {error.request_id}"))
    return lines


def envelope(error: KzooError) -> dict[str, object]:
    """Return the error in the shape of ``schemas/error.json``, as a server would answer it."""
    return {"error": error.as_json()}
