"""Reading beside the writer: one repository object and the one thread that it belongs to."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.store.repository import KernelRepository

READ_TIMEOUT_S = 60.0

Result = TypeVar("Result")


class StoreReader:
    """Runs reads of one repository, one after another; ``name`` is its thread's."""

    def __init__(self, repository: KernelRepository, name: str) -> None:
        self._repository = repository
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(
        self, call: Callable[[KernelRepository], Result], *, timeout_s: float = READ_TIMEOUT_S
    ) -> Result:
        """Run ``call`` after all that was asked before; raises ``TimeoutError`` and what it raises.

        A call that has begun ends even if nobody waits for it any more.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            return await loop.run_in_executor(self._thread, call, self._repository)

    async def close(self) -> None:
        """Let the read under way end and give the repository back."""
        await asyncio.to_thread(self._thread.shutdown)
        self._repository.close()
