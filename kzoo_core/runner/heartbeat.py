"""The heartbeat: a thread with an event loop and an HTTP session of its own.

It goes on when the main loop is busy (unpacking, a slow disk), because a lease that runs out for
want of a heartbeat costs a whole run. It shares two things with the main thread: the identity, and
what to say; both are replaced whole.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from kzoo_core.runner.protocol import CallRefused, RunnerApi

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.client.transport import Transport
    from kzoo_core.runner.events import Refusal
    from kzoo_core.runner.protocol import Identity
    from kzoo_core.runner.records import Beat, BeatAnswer

INTERVAL_LEAST_S = 0.05
TIMEOUT_MOST_S = 10.0
LEASE_SHARE = 3
STOP_PATIENCE_S = 5.0


class Heartbeat:
    """Says every ``heartbeat_s`` of the identity's registration what ``say`` was told last.

    ``on_answer``, ``on_refused`` and ``on_crash`` are called in the heartbeat's thread.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        new_transport: Callable[[], Transport],
        first: Beat,
        on_answer: Callable[[BeatAnswer], None],
        on_refused: Callable[[Refusal], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._identity = identity
        self._new_transport = new_transport
        self._beat = first
        self._on_answer = on_answer
        self._on_refused = on_refused
        self._on_crash = on_crash
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin; the runner has registered."""
        self._thread.start()

    def say(self, beat: Beat) -> None:
        """Say this from now on; at once when it is news, so that a claim is soon confirmed."""
        if beat != self._beat:
            self._beat = beat
            self._wake()

    def stop(self) -> None:
        """End the thread, also in the middle of a call; blocks for at most a few seconds."""
        self._stopping = True
        task = self._task
        if task is not None:
            self._in_its_loop(task.cancel)
        if self._thread.is_alive():
            self._thread.join(STOP_PATIENCE_S)

    def _wake(self) -> None:
        if self._nudge is not None:  # else the first heartbeat is still to come and says it all
            self._in_its_loop(self._nudge.set)

    def _in_its_loop(self, call: Callable[[], object]) -> None:
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop is closed: the thread is ending by itself

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - a bug here ends the runner, not its thread alone
            self._on_crash(error)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._nudge = asyncio.Event()
        self._task = asyncio.current_task()
        async with self._new_transport() as transport:
            api = RunnerApi(transport, self._identity)
            while not self._stopping:
                self._nudge.clear()
                _, registered = self._identity.snapshot()
                interval_s = max(registered.heartbeat_s, INTERVAL_LEAST_S)
                retry_after_s = await self._tell(api, min(interval_s, TIMEOUT_MOST_S))
                # As long as the server asks, yet never so long that it would cost the lease.
                await asyncio.sleep(min(retry_after_s, registered.lease_s / LEASE_SHARE))
                await self._rest(self._nudge, interval_s)

    async def _tell(self, api: RunnerApi, timeout_s: float) -> float:
        """Send one heartbeat; return the seconds for which the server wants to hear nothing."""
        try:
            answer = await api.heartbeat(self._beat, timeout_s=timeout_s)
        except CallRefused as refused:
            self._on_refused(refused.refusal)
            return refused.refusal.retry_after_s or 0.0
        self._on_answer(answer)
        return 0.0

    async def _rest(self, nudge: asyncio.Event, interval_s: float) -> None:
        try:
            async with asyncio.timeout(interval_s):
                await nudge.wait()
        except TimeoutError:
            return
