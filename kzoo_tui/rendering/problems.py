"""Problems as blocks of lines: how bad, where, what, what was expected, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kzoo_core.errors import Problem


def problem_lines(problems: Iterable[Problem], *, indent: str = "") -> list[SafeText]:
    """Return one block a problem, in the order given."""
    return [safe_line(indent + line) for problem in problems for line in _block(problem)]


def _block(problem: Problem) -> list[str]:
    parts = (problem.file, problem.line, problem.column)
    place = ":".join(str(part) for part in parts if part is not None) or problem.pointer
    where = f" {place}:" if place else ""
    lines = [f"{problem.severity}:{where} {problem.message} [{problem.code}]"]
    if problem.expected is not None and problem.expected not in problem.message:
        lines.append(f"  expected: {problem.expected}")
    if problem.hint is not None:
        lines.append(f"  hint: {problem.hint}")
    return lines
