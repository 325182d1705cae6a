"""The few Markdown forms that generated blocks use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; cells lose their line breaks and have their bars escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |\n"

    return line(head) + line(["---"] * len(head)) + "".join(line(row) for row in rows)


def sentence(text: str) -> str:
    """Return a text that ends as a sentence does."""
    return text.strip().rstrip(".") + "."
