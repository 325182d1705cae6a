"""Problems of an answer, from JSON to the core's own record."""

from __future__ import annotations

from kzoo_core.errors import Problem, Severity

_TEXTS = ("file", "pointer", "found", "expected", "hint")
_NUMBERS = ("line", "column")


def problems_from_json(items: object) -> tuple[Problem, ...]:
    """Return the problems of a JSON list; what is no problem, or no list, is left out."""
    if not isinstance(items, list):
        return ()
    return tuple(_problem(item) for item in items if isinstance(item, dict))


def _problem(item: dict[str, object]) -> Problem:
    texts = {name: str(item[name]) for name in _TEXTS if item.get(name) is not None}
    numbers = {name: value for name in _NUMBERS if isinstance(value := item.get(name), int)}
    return Problem(
        code=str(item.get("code", "unknown")),
        message=str(item.get("message", "")),
        severity=Severity.WARNING if item.get("severity") == "warning" else Severity.ERROR,
        line=numbers.get("line"),
        column=numbers.get("column"),
        **texts,
    )
