"""The configuration as ``config show`` prints it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kzoo_core.config import Resolved
    from kzoo_server.settings import ServerSettings


def show(resolved: Resolved[ServerSettings], *, origin: bool, as_json: bool) -> str:
    """Return every setting with its value, one a line, or as one JSON object.

    With ``origin`` each also says where it came from: a flag, a variable, a file or the default.
    """
    values = {
        field.name: _plain(getattr(resolved.settings, field.name))
        for field in dataclasses.fields(resolved.settings)
    }
    if as_json:
        shown: dict[str, object] = dict(values)
        if origin:
            shown = {
                name: {"value": value, "origin": resolved.origin[name]}
                for name, value in values.items()
            }
        return json.dumps(shown, indent=2, ensure_ascii=False)
    if not origin:
        return "\n".join(f"{name}: {_text(value)}" for name, value in values.items())
    width = max(len(f"{name}: {_text(value)}") for name, value in values.items())
    return "\n".join(
        f"{f'{name}: {_text(value)}':<{width}}  # {resolved.origin[name]}"
        for name, value in values.items()
    )


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _text(value: object) -> str:
    """Return a value as YAML would have it, so that the lines are a configuration file."""
    return json.dumps(value, ensure_ascii=False)
