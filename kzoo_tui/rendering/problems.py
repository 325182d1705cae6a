"""Problems as blocks of lines: how bad, where, what, what was expected, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kzoo_core.errors import Problem


def problem_lines(problems: Iterable[Problem], *, indent: str = "") -> list[SafeText]:
    """Return one block a problem, in the order given."""
    return [safe_line(indent + line) for problem in problems for line in problem.lines()]
