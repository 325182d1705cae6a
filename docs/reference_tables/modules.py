"""The list of modules, from their own docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

import kzoo_core
from reference_tables.markdown import table

ROOT = Path(kzoo_core.__file__).resolve().parents[1]


def modules_block() -> str:
    """Return one section a package: what its own docstring says, and a row for each module."""
    sections = []
    for top in ("kzoo_core", "kzoo_server", "kzoo_tui"):
        for init in sorted((ROOT / top).rglob("__init__.py")):
            files = sorted(file for file in init.parent.glob("*.py") if file != init)
            if not files:
                continue
            package = ".".join(init.parent.relative_to(ROOT).parts)
            path = init.parent.relative_to(ROOT).as_posix()
            rows = [(f"[`{file.name}`](../{path}/{file.name})", _about(file)) for file in files]
            listed = table(("module", "what it is"), rows)
            sections.append(f"### `{package}`\n\n{_about(init)}\n\n{listed}\n")
    return "\n" + "".join(sections)


def _about(file: Path) -> str:
    """Return the first paragraph of a module's docstring, with Markdown's single backticks."""
    docstring = ast.get_docstring(ast.parse(file.read_bytes())) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("``", "`")
