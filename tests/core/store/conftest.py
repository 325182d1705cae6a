"""A repository for each test, closed at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.store.repository import KernelRepository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[KernelRepository]:
    """An empty bare repository."""
    with KernelRepository.init(tmp_path / "kernels.git") as opened:
        yield opened


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[KernelRepository]:
    """An empty repository with a worktree."""
    with KernelRepository.init(tmp_path / "kernels", bare=False) as opened:
        yield opened
