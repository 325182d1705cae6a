"""Sends an attempt's log while it is written: in order, in chunks, resuming where the server is.

The relay never holds up the run: it reads from a bounded buffer, and how long the end of the log
may delay the result is the caller's ``patience_s``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kzoo_core.runner.protocol import CallRefused
from kzoo_core.runner.status_action import Action, action_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.runner.backoff import Backoff
    from kzoo_core.runner.events import Refusal
    from kzoo_core.runner.log_buffer import LogBuffer
    from kzoo_core.runner.protocol import RunnerApi
    from kzoo_core.runner.records import ClaimedAttempt

LOG_CLOSED = "LOG_CLOSED"
"""A 409 that concerns the log alone: it is complete at the server, the attempt is as it was."""
RESENDS = 3
"""How often a log whose digest the server disputes (412) is sent again from its beginning."""


class LogRelay:
    """Relays one buffer; ``run`` is its only loop, ``finish`` closes the log at the server.

    Refusals that concern more than the log go to ``on_refused``.
    """

    def __init__(
        self,
        buffer: LogBuffer,
        *,
        api: RunnerApi,
        claimed: ClaimedAttempt,
        pace: Backoff,
        flush_s: float,
        on_refused: Callable[[Refusal], None],
    ) -> None:
        self._buffer = buffer
        self._api = api
        self._claimed = claimed
        self._pace = pace
        self._flush_s = flush_s
        self._on_refused = on_refused
        self._wake = asyncio.Event()
        self._finishing = asyncio.Event()
        self._over = asyncio.Event()
        self._held = 0
        self._resends = 0
        self._cut = False
        self.delivered = False
        self.begun = False

    def write(self, data: bytes) -> None:
        """Add bytes to the log and have them sent soon."""
        self._buffer.write(data)
        self._wake.set()

    async def run(self) -> None:
        """Send what comes until the log is closed at the server, or the server refuses it."""
        try:
            while not self._over.is_set():
                await self._wake.wait()
                self._wake.clear()
                await self._gather()
                await self._send_waiting()
                if self._finishing.is_set():
                    await self._close()
        finally:
            self._over.set()

    async def finish(self, patience_s: float) -> bool:
        """Close the log and wait for at most ``patience_s``; say whether the server has all."""
        self._buffer.close()
        self._finishing.set()
        self._wake.set()
        try:
            async with asyncio.timeout(patience_s):
                await self._over.wait()
        except TimeoutError:
            return False
        return self.delivered

    async def _gather(self) -> None:
        """Let some more bytes come, so that a line a millisecond is not a call a millisecond."""
        try:
            async with asyncio.timeout(self._flush_s):
                await self._finishing.wait()
        except TimeoutError:
            return

    async def _send_waiting(self) -> None:
        limit = self._claimed.limits.log_chunk_bytes
        while not self._over.is_set() and (chunk := self._buffer.chunk(self._held, limit)):
            try:
                held = await self._api.append_log(
                    self._claimed, chunk.start, chunk.data, chunk.phase
                )
            except CallRefused as refused:
                await self._refused(refused)
                continue
            await self._advance(held)

    async def _advance(self, held: int) -> None:
        self.begun = True
        held = min(held, self._buffer.total)
        if held > self._held:
            self._pace.reset()
        else:  # a server that keeps nothing of what it takes is not asked in a tight loop
            await asyncio.sleep(self._pace.next())
        self._held = held

    async def _close(self) -> None:
        """Make the closing call until it is settled; more to send goes first."""
        while not self._over.is_set():
            await self._send_waiting()
            if self._over.is_set():
                return
            total = self._buffer.total
            try:
                await self._api.close_log(self._claimed, total, self._buffer.sha256())
            except CallRefused as refused:
                await self._refused(refused)
                continue
            self.delivered = True
            self._over.set()

    async def _refused(self, refused: CallRefused) -> None:
        refusal = refused.refusal
        action = action_for(refusal.call, refusal.status)
        if refusal.code == LOG_CLOSED:
            self._over.set()
        elif action is Action.BACK_OFF:
            await asyncio.sleep(self._pace.next(refusal.retry_after_s))
        elif action is Action.REWIND:
            self._held = min(refused.held, self._buffer.total)
            await asyncio.sleep(self._pace.next())
        elif action is Action.RESEND and self._resends < RESENDS:
            self._resends += 1
            self._held = 0
        elif action is Action.CUT and not self._cut:
            self._cut = True
            self._buffer.cut(self._held)
        elif action is Action.REGISTER_AGAIN:
            self._on_refused(refusal)
            await asyncio.sleep(self._pace.next())
        else:
            self._over.set()
            self._on_refused(refusal)
