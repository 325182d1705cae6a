"""Variants of the example packages: overlays that change only some files."""

from __future__ import annotations

import shutil
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLES = CHECKOUT / "docs" / "examples"
VARIANTS = CHECKOUT / "tests" / "fixtures" / "variants"


def apply_variant(kernel_id: str, variant: str, directory: Path) -> Path:
    """Return a copy of an example in ``directory`` with one variant's files laid over it."""
    target = directory / kernel_id
    shutil.copytree(EXAMPLES / kernel_id, target, ignore=shutil.ignore_patterns("__pycache__"))
    overlay = VARIANTS / kernel_id.split("/")[2].lower() / variant
    shutil.copytree(overlay, target, dirs_exist_ok=True)
    return target
