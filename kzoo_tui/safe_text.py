"""Text that may reach a terminal: whoever wrote it, it can only be read, never steer."""

from __future__ import annotations

import re
from typing import NewType

SafeText = NewType("SafeText", str)
"""Text without escape sequences, control characters and reordering marks."""

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS …
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_LINE_ENDS = re.compile(r"\r\n?")
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that reorder what is read
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_BREAKS = re.compile(r"[\n\t\u2028\u2029]")


def safe_text(text: str) -> SafeText:
    """Return ``text`` as it may be shown: newlines and tabs stay, what steers a terminal goes.

    Whole escape sequences go with their parameters; an unfinished one loses its introducer and
    stays readable. A carriage return counts as a newline, so that no line can be overwritten.
    """
    text = _LINE_ENDS.sub("\n", _SEQUENCES.sub("", text))
    return SafeText(_SURROGATES.sub("\ufffd", _CONTROLS.sub("", text)))


def safe_line(text: str) -> SafeText:
    """Return ``text`` as one line, so that no value can pretend to be a line of ours."""
    return SafeText(_BREAKS.sub(" ", safe_text(text)))
