"""Durable steps: work that goes on to its end although the client that asked for it has left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")


class DurableSteps:
    """The steps under way; the server ends only after them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, step: Coroutine[Any, Any, Result]) -> Result:
        """Await ``step``; when the caller is cancelled, it goes on all the same."""
        task = asyncio.create_task(step)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def drained(self) -> None:
        """Wait until no step is under way."""
        while self._running:
            await asyncio.wait(self._running)
