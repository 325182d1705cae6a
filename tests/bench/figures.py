"""A measured figure beside its goal, and the table in which people read them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One ratio or size; ``at_most`` or ``at_least`` is the goal, ``how`` what was measured."""

    what: str
    value: float
    unit: str
    how: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def goal(self) -> str:
        """The goal as text."""
        if self.at_most is not None:
            return f"≤ {self.at_most:g} {self.unit}"
        return f"≥ {self.at_least:g} {self.unit}" if self.at_least is not None else "—"

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)


def table(figures: list[Figure]) -> str:
    """Return the figures as lines of text, each with its goal and how it was measured."""
    width = max(len(figure.what) for figure in figures)
    lines = []
    for figure in figures:
        mark = "✓" if figure.reached else "✗"
        lines.append(
            f"{mark} {figure.what:<{width}}  {figure.value:9.2f} {figure.unit:<4} "
            f"goal {figure.goal:<12} {figure.how}"
        )
    return "\n".join(lines)
