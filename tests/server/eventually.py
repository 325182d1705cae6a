"""Waiting in a test for what happens elsewhere: looks again until a deadline."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEADLINE_S = 10.0
_PAUSE_S = 0.005


async def eventually(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once ``condition`` holds; raises ``TimeoutError`` when it does not."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(_PAUSE_S)
