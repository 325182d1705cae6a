"""The file that ``-o`` names."""

from __future__ import annotations

from pathlib import Path

from kzoo_core.errors import NotFound


def output_path(text: str) -> Path:
    """Return the path; raises ``NotFound`` when there is no directory to write it into."""
    path = Path(text)
    if not path.parent.is_dir():
        raise NotFound("NO_SUCH_DIRECTORY", f"there is no directory {path.parent} to write into")
    return path
