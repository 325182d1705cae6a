"""The one thread in which the spool is read and written."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.errors import Retryable
from kzoo_core.queue.spool import SpoolFailed

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class Disk:
    """Runs spool calls one after another, each to its end.

    A step that has begun happens, even when whoever asked for it is cancelled: the caller learns of
    the cancellation only afterwards, so memory never falls behind the disk. After a ``SpoolFailed``
    nothing runs any more, for nobody knows what the disk holds.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kzoo-spool")
        self._closed = False
        self._broken: asyncio.Future[SpoolFailed] | None = None

    async def run(
        self,
        step: Callable[[], Result],
        then: Callable[[Result], None] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Do ``step`` in the thread, then ``then`` on the loop, whether cancelled or not.

        ``timeout_s`` is for a step that may take longer than others. Raises what ``step`` raises;
        ``SpoolFailed`` ``SPOOL_STALLED`` when the disk does not answer; ``Retryable`` ``STOPPING``
        after ``close``.
        """
        if self._closed:
            raise Retryable("STOPPING", "the server is stopping", retry_after_s=5)
        if self.failure is not None:
            raise self.failure
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        work = asyncio.get_running_loop().run_in_executor(self._thread, step)
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                done, _ = await asyncio.wait({work}, timeout=timeout_s)
            except asyncio.CancelledError as cancellation:
                cancelled = cancellation
                continue
            if not done:
                self._fail(_stalled(timeout_s))
                raise _stalled(timeout_s)
        error = work.exception()
        if isinstance(error, SpoolFailed):
            self._fail(error)
        if error is None and then is not None:
            then(work.result())
        if cancelled is not None:
            raise cancelled
        return work.result()

    @property
    def failure(self) -> SpoolFailed | None:
        """What broke the spool, if anything did."""
        if self._broken is None or not self._broken.done():
            return None
        return self._broken.result()

    async def failed(self) -> SpoolFailed:
        """Wait until the spool breaks, and return why: the process has to stop then."""
        return await asyncio.shield(self._breakage())

    async def close(self) -> None:
        """Wait for what has begun; nothing runs after."""
        self._closed = True
        async with asyncio.timeout(self._timeout_s):
            await asyncio.to_thread(self._thread.shutdown)

    def _breakage(self) -> asyncio.Future[SpoolFailed]:
        if self._broken is None:
            self._broken = asyncio.get_running_loop().create_future()
        return self._broken

    def _fail(self, error: SpoolFailed) -> None:
        if self.failure is None:
            self._breakage().set_result(error)


def _stalled(timeout_s: float) -> SpoolFailed:
    return SpoolFailed(
        "SPOOL_STALLED",
        f"the disk has not answered for {timeout_s:g} s",
        hint="look at the disk, then start the server again; it recovers what was acknowledged",
    )
