"""Waiting for something to change, each waiter for its own thing: a change wakes no one else."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = TypeVar("Key")


class Listener:
    """One waiter; what happens from its making on is not missed."""

    def __init__(self, future: asyncio.Future[bool]) -> None:
        self._future = future

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the change; ``False`` when the time is up, or all waiting ends, first."""
        if not self._future.done() and timeout_s > 0:
            await asyncio.wait({self._future}, timeout=timeout_s)
        return self._future.done() and self._future.result()


class Signals(Generic[Key]):
    """Who waits for which key; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[Key, set[asyncio.Future[bool]]] = {}
        self._closed = False

    @contextmanager
    def listen(self, key: Key) -> Iterator[Listener]:
        """Hear of ``key`` from now on. Look at the thing itself inside the block, then wait."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_result(False)
        waiting = self._waiting.setdefault(key, set())
        waiting.add(future)
        try:
            yield Listener(future)
        finally:
            waiting.discard(future)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    def notify(self, key: Key) -> None:
        """Wake everyone who listens to ``key``."""
        self._wake(key, changed=True)

    def close(self) -> None:
        """Wake everyone; from now on nobody waits."""
        self._closed = True
        for key in list(self._waiting):
            self._wake(key, changed=False)

    def _wake(self, key: Key, *, changed: bool) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(changed)
