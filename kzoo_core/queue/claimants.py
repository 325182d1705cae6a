"""The runners that hold a claim open, and how a submission finds exactly one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kzoo_core.ids import SubmissionId
    from kzoo_core.queue.lineup import Lineup
    from kzoo_core.queue.scheduler import RunnerCapability


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claim asks for; equal ones stand in one row."""

    runner: RunnerCapability
    only: SubmissionId | None = None


class Claimants:
    """Waiting claims in rows of equal wants, first come first served within a row.

    A submission that turns up is reserved for one waiter and wakes that one. A change that helps
    nobody costs one look per row, however long the rows are.
    """

    def __init__(self, lineup: Lineup) -> None:
        self._lineup = lineup
        self._rows: dict[Wanted, dict[asyncio.Future[SubmissionId], None]] = {}
        self._closed = False

    async def next(self, wanted: Wanted, wait_s: float) -> SubmissionId | None:
        """Reserve a submission, waiting up to ``wait_s`` for one; ``None`` when there is none.

        Whoever gets one has to give it back through ``give_back``. A caller that is cancelled gets
        none: what was reserved for it meanwhile goes to the next.
        """
        if self._closed:
            return None
        found = self._lineup.reserve(wanted.runner, wanted.only)
        if found is not None or wait_s <= 0:
            return found
        future: asyncio.Future[SubmissionId] = asyncio.get_running_loop().create_future()
        row = self._rows.setdefault(wanted, {})
        row[future] = None
        try:
            await asyncio.wait({future}, timeout=wait_s)
        except asyncio.CancelledError:
            if _has_one(future):
                self.give_back(future.result())
            raise
        finally:
            row.pop(future, None)
            if not row and self._rows.get(wanted) is row:
                del self._rows[wanted]
        return future.result() if _has_one(future) else None

    def give_back(self, uuid: SubmissionId) -> None:
        """End the reservation of ``uuid``, if it still is one, and look who can have it."""
        self._lineup.give_back(uuid)
        self.offer()

    def dismiss(self, uuid: SubmissionId) -> None:
        """Send those away who wait for ``uuid`` alone: it is over."""
        for wanted, row in self._rows.items():
            if wanted.only == uuid:
                _cancel(row)

    def offer(self) -> None:
        """Give out what has become free: something waits anew, or a kernel_id is idle again."""
        if self._closed:
            return
        for wanted, row in list(self._rows.items()):
            while row:
                found = self._lineup.reserve(wanted.runner, wanted.only)
                if found is None:
                    break
                future = next(iter(row))
                del row[future]
                future.set_result(found)

    def close(self) -> None:
        """Send everyone away with nothing; from now on nobody waits."""
        self._closed = True
        for row in self._rows.values():
            _cancel(row)


def _cancel(row: dict[asyncio.Future[SubmissionId], None]) -> None:
    for future in list(row):
        future.cancel()
    row.clear()


def _has_one(future: asyncio.Future[SubmissionId]) -> bool:
    return future.done() and not future.cancelled()
