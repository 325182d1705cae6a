from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.core.queue.samples import Harness, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    async with started(tmp_path / "state") as made:
        yield made
