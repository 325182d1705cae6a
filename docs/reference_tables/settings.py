"""Tables from settings dataclasses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from reference_tables.markdown import table


def settings_block(kind: Any) -> str:
    """Return one row a field of a settings dataclass made with ``kzoo_core.config.setting``."""
    rows = []
    for item in dataclasses.fields(kind):
        variable = item.metadata.get("env")
        rows.append(
            (
                f"`{item.name}`",
                f"`{variable}`" if variable else "",
                _default(item.name, item.default),
                str(item.metadata["help"]),
            )
        )
    return "\n" + table(("key", "environment", "default", "what it is"), rows) + "\n"


def _default(name: str, value: object) -> str:
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(f"`{item}`" for item in value)
    if isinstance(value, int) and name.endswith("_bytes"):
        for unit, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
        return f"{value} bytes"
    if isinstance(value, float):
        return f"{value:g}"
    return f"`{value}`" if isinstance(value, str | Path) else str(value)
