"""Waiting in a test for something that another process or thread brings about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(condition: Callable[[], bool], *, timeout_s: float = 15.0) -> None:
    """Return as soon as ``condition`` holds; ``TimeoutError`` when it does not come to."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
