"""The side of the queue that reaches verdicts: what has been reported, and how it ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kzoo_core.queue import states
from kzoo_core.queue.core import QueueCore
from kzoo_core.queue.records import Outcome, Reason, State, Submission

if TYPE_CHECKING:
    from kzoo_core.contract.records import Record
    from kzoo_core.ids import CommitId, SubmissionId


class Verdicts(QueueCore):
    """What the server asks of the queue once an attempt has reported."""

    def reported(self) -> tuple[Submission, ...]:
        """Return the submissions that wait for a verdict, the first reported in front."""
        return self._ledger.book.in_state(State.REPORTED)

    async def finish(
        self,
        uuid: SubmissionId,
        outcome: Outcome,
        *,
        reason: Reason | None = None,
        commit_sha: CommitId | None = None,
        bench_commit_sha: CommitId | None = None,
        records: tuple[Record, ...] = (),
    ) -> Submission:
        """End a reported submission as accepted, rejected or failed, durably.

        Raises ``Conflict`` ``NOT_REPORTED``; ``ValueError`` for commits that do not go with the
        outcome; ``Retryable`` ``DISK_FULL``; ``SpoolFailed``.
        """
        transition = partial(
            states.finish,
            now=self._clock.now(),
            outcome=outcome,
            reason=reason,
            commit_sha=commit_sha,
            bench_commit_sha=bench_commit_sha,
            records=records,
        )
        _, after = await self._ledger.change(uuid, transition)
        return after

    async def requeue_moved(
        self, uuid: SubmissionId, *, detail: str = "the kernel changed since the claim"
    ) -> Submission:
        """Put a reported submission back because its kernel changed under it, uncharged.

        Beyond the bound it ends as rejected, ``superseded``. Raises ``Conflict`` ``NOT_REPORTED``.
        """
        transition = partial(
            states.requeue_moved, now=self._clock.now(), settings=self._settings, detail=detail
        )
        _, after = await self._ledger.change(uuid, transition)
        return after

    async def infrastructure_failure(
        self, uuid: SubmissionId, *, kind: str, detail: str
    ) -> Submission:
        """Charge the newest attempt to the infrastructure: try again, or end as lost.

        ``kind`` is the runner's word for it. Raises ``Conflict`` ``NOT_RUNNING``.
        """
        transition = partial(
            states.infrastructure_failure,
            now=self._clock.now(),
            settings=self._settings,
            kind=kind,
            detail=detail,
        )
        _, after = await self._ledger.change(uuid, transition)
        return after
