"""Files that travel with the code: schemas, example packages, the authoring contract.

In a wheel they lie in ``kzoo_core/_data`` (see ``pyproject.toml``); in a checkout at its top level.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"
_CHECKOUT = _PACKAGE.parent


def schemas_directory() -> Path:
    """Return the directory of the JSON Schemas and ``openapi.yaml``."""
    installed = _DATA / "schemas"
    return installed if installed.is_dir() else _CHECKOUT / "schemas"


def examples_directory() -> Path:
    """Return the directory whose relative paths are the example packages' kernel_ids."""
    installed = _DATA / "examples"
    return installed if installed.is_dir() else _CHECKOUT / "docs" / "examples"


def authoring_contract() -> str:
    """Return the authoring contract that ``kzoo guide`` prints, as Markdown."""
    installed = _DATA / "kernel_package_contract.md"
    source = installed if installed.is_file() else _CHECKOUT / "docs" / "kernel_package_contract.md"
    return source.read_text(encoding="utf-8")
