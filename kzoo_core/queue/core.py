"""What all sides of the queue stand on: its parts, its start, its end, and the passing of time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kzoo_core.queue import states
from kzoo_core.queue.disk import Disk
from kzoo_core.queue.ledger import Ledger
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.recovery import Recovery, recover
from kzoo_core.queue.spool import Spool, SpoolFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_core.ids import SubmissionId
    from kzoo_core.queue.settings import QueueSettings
    from kzoo_core.queue.tokens import QueueSecret

_JUMP_S = 10
"""Wall time that runs ahead of, or behind, the machine's own seconds by more is a jump."""


class QueueCore:
    """The parts of one queue and their life; the calls are in the classes that extend it.

    ``root`` is the state directory, ``token_bytes`` a source of that many random bytes.
    """

    def __init__(
        self,
        root: Path,
        settings: QueueSettings,
        clock: Clock,
        *,
        token_bytes: Callable[[int], bytes],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._token_bytes = token_bytes
        self._spool = Spool(root)
        self._disk = Disk(timeout_s=settings.disk_timeout_s)
        self._ledger = Ledger(self._spool, self._disk, settings)
        self._clock_offset_s = 0.0

    async def start(self) -> Recovery:
        """Take the state directory, bring it to order, and give running attempts their grace.

        Raises ``Conflict`` ``LOCKED``, ``Broken`` ``STATE_TOO_NEW`` or ``STATE_UNREADABLE``, and
        ``SpoolFailed``.
        """

        def read() -> tuple[QueueSecret, Recovery]:
            secret = self._spool.open(self._token_bytes)
            try:
                return secret, recover(self._spool)
            except BaseException:
                self._spool.close()
                raise

        secret, recovery = await self._disk.run(read, timeout_s=self._settings.start_timeout_s)
        self._ledger.load(recovery, secret)
        self._clock_offset_s = self._offset_s()
        await self._resume_running()
        return recovery

    def stop_waiting(self) -> None:
        """Answer every held claim, status and log call now; from here on nobody waits."""
        self._ledger.stop_waiting()

    async def close(self) -> None:
        """End all waiting, let the change under way reach the disk, and free the directory."""
        await self._ledger.close()
        await self._disk.close()
        self._spool.close()

    async def failed(self) -> SpoolFailed:
        """Wait until the spool cannot be relied on any more: the process has to stop then."""
        return await self._disk.failed()

    async def sweep(self, now: datetime | None = None) -> None:
        """Do what time asks for: expire leases, evict what is over the bounds, forget old keys.

        To be called every few seconds. After a jump of the wall clock no lease is expired by it:
        each running attempt gets its time anew, as after a restart.
        """
        now = self._clock.now() if now is None else now
        if self._clock_jumped():
            await self._resume_running()
        for submission in self._ledger.book.in_state(State.RUNNING):
            if states.lease_ran_out(submission, now=now):
                await self._ledger.change(submission.uuid, partial(self._expired, now=now))
        over = self._ledger.book.overflow(
            keep=self._settings.keep_done, keep_bytes=self._settings.keep_done_bytes
        )
        self._ledger.book.keys.forget(now - timedelta(seconds=self._settings.idempotency_s))
        await self._ledger.evict(over)

    def get(self, uuid: SubmissionId) -> Submission:
        """Return the newest record; raises ``Gone`` ``SUBMISSION_EVICTED`` or ``NotFound``."""
        return self._ledger.get(uuid)

    def _expired(self, submission: Submission, *, now: datetime) -> Submission:
        # A heartbeat may have come since the sweep looked.
        if not states.lease_ran_out(submission, now=now):
            return submission
        return states.expire(submission, now=now, settings=self._settings)

    async def _resume_running(self) -> None:
        now = self._clock.now()
        for running in self._ledger.book.in_state(State.RUNNING):
            await self._ledger.change(running.uuid, partial(self._resumed, now=now))

    def _resumed(self, submission: Submission, *, now: datetime) -> Submission:
        if submission.state is not State.RUNNING:
            return submission
        return states.resume(submission, now=now, settings=self._settings)

    def _clock_jumped(self) -> bool:
        before, self._clock_offset_s = self._clock_offset_s, self._offset_s()
        return abs(self._clock_offset_s - before) > _JUMP_S

    def _offset_s(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _wait_s(self, wanted_s: float) -> float:
        return min(max(wanted_s, 0.0), self._settings.max_wait_s)
