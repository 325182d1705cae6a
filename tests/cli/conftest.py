"""Fixtures of the command line's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.console import Console
from tests.core.scripted_server import Script, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    async with serving() as scripted:
        yield scripted


@pytest.fixture
def console(script: Script) -> Console:
    """Return a console whose environment names the scripted server."""
    return Console(environment={"KERNEL_ZOO_SERVER": script.url})
