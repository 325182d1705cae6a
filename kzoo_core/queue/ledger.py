"""Disk first, then memory, then whoever waits: the one way in which a submission changes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kzoo_core.errors import Gone, NotFound, Retryable
from kzoo_core.queue.book import Book
from kzoo_core.queue.claimants import Claimants
from kzoo_core.queue.lineup import Lineup
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.signals import Signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kzoo_core.ids import SubmissionId
    from kzoo_core.queue.disk import Disk
    from kzoo_core.queue.recovery import Recovery
    from kzoo_core.queue.settings import QueueSettings
    from kzoo_core.queue.spool import Spool
    from kzoo_core.queue.tokens import QueueSecret


class Ledger:
    """Every submission in memory, kept equal to the spool.

    One lock orders the changes. A change is made durable, then taken into memory, then told to
    those who wait; a caller that is cancelled in the middle does not stop it halfway.
    """

    def __init__(self, spool: Spool, disk: Disk, settings: QueueSettings) -> None:
        self.book = Book()
        self.lineup = Lineup(per_kernel=settings.attempts_per_kernel)
        self.claimants = Claimants(self.lineup)
        self.changed: Signals[SubmissionId] = Signals()
        self.logged: Signals[SubmissionId] = Signals()
        self._spool = spool
        self._disk = disk
        self._lock = asyncio.Lock()
        self._secret: QueueSecret | None = None
        self._subscribers: dict[object, Callable[[Submission], None]] = {}

    def load(self, recovery: Recovery, secret: QueueSecret) -> None:
        """Take in what recovery found."""
        self._secret = secret
        for use in recovery.keys:
            self.book.keys.put_evicted(use)
        for submission in recovery.submissions:
            if submission.state is not State.DONE:
                self.book.put(submission)
                self.lineup.put(submission)
        done = [
            (submission.finished_at, submission.uuid, submission)
            for submission in recovery.submissions
            if submission.finished_at is not None
        ]
        for _, uuid, submission in sorted(done, key=lambda item: item[:2]):
            self.book.put(submission)
            self.book.put_size(uuid, recovery.sizes[uuid])
        claims = [
            (attempt.claimed_at, submission.submitter_id)
            for submission in recovery.submissions
            for attempt in submission.attempts[-1:]
        ]
        self.lineup.served(submitter for _, submitter in sorted(claims))

    @property
    def secret(self) -> QueueSecret:
        """The secret of the state directory; raises ``Retryable`` ``STARTING`` before ``load``."""
        if self._secret is None:
            raise Retryable("STARTING", "the queue is being read from disk", retry_after_s=1)
        return self._secret

    def get(self, uuid: SubmissionId) -> Submission:
        """Return the newest record.

        Raises ``Gone`` ``SUBMISSION_EVICTED`` for an id that was given out and is not held any
        more, ``NotFound`` ``SUBMISSION_NOT_FOUND`` for one that never was.
        """
        submission = self.book.get(uuid)
        if submission is not None:
            return submission
        if self.secret.made(uuid):
            raise Gone(
                "SUBMISSION_EVICTED",
                f"submission {uuid} is finished and its files are no longer kept",
                hint="what was accepted is in the kernel's history",
            )
        raise NotFound(
            "SUBMISSION_NOT_FOUND",
            f"there is no submission {uuid}",
            hint="check the uuid: kzoo runs, or GET /api/submissions, lists them",
        )

    async def add(self, make: Callable[[], Submission], package: bytes) -> Submission:
        """Make a submission and keep it; ``make`` may return one that is held already."""
        async with self._lock:
            submission = make()
            if self.book.get(submission.uuid) is not None:
                return submission
            await self._disk.run(
                lambda: self._spool.add(submission, package), lambda _: self._adopt(submission)
            )
            return submission

    async def change(
        self,
        uuid: SubmissionId,
        transition: Callable[[Submission], Submission],
        files: Mapping[str, bytes] | None = None,
    ) -> tuple[Submission, Submission]:
        """Apply a transition durably, with the files it speaks of; return before and after.

        Both are the same record when the transition had nothing to change. Raises what the
        transition raises, and what ``Spool.change`` does.
        """
        async with self._lock:
            before = self.get(uuid)
            after = transition(before)
            if after is before:
                return before, before

            def step() -> int | None:
                self._spool.change(after, files or {})
                return self._spool.size(uuid) if after.state is State.DONE else None

            def then(size: int | None) -> None:
                if size is not None:
                    self.book.put_size(uuid, size)
                self._adopt(after)

            await self._disk.run(step, then)
            return before, after

    async def touch(
        self, uuid: SubmissionId, transition: Callable[[Submission], Submission]
    ) -> Submission:
        """Apply a transition within one state to memory alone: a lease, a phase."""
        async with self._lock:
            before = self.get(uuid)
            after = transition(before)
            if after is not before:
                self._adopt(after)
            return after

    async def evict(self, over: tuple[SubmissionId, ...]) -> None:
        """Remove finished submissions from disk and memory; their keys are kept on disk first."""
        if not over:
            return
        async with self._lock:
            outliving = self.book.keys.outliving(over)
            await self._disk.run(lambda: self._spool.keep_keys(outliving))
        for uuid in over:
            async with self._lock:
                await self._disk.run(partial(self._spool.evict, uuid), self._forgetting(uuid))

    def subscribe(self, callback: Callable[[Submission], None]) -> Callable[[], None]:
        """Call back with every visible change, soon and in order; returns how to stop it."""
        token = object()
        self._subscribers[token] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)

        return unsubscribe

    async def close(self) -> None:
        """Let everyone go who waits, and let the change under way end."""
        self.stop_waiting()
        async with self._lock:
            pass

    def stop_waiting(self) -> None:
        """Answer all that is held open; from now on nobody waits."""
        self.claimants.close()
        self.changed.close()
        self.logged.close()

    def _adopt(self, after: Submission) -> None:
        before = self.book.get(after.uuid)
        self.book.put(after)
        if before is None or before.state is not after.state:
            self.lineup.put(after)
            if after.state is State.RUNNING:
                self.lineup.served([after.submitter_id])
            if after.state is State.DONE:
                self.claimants.dismiss(after.uuid)
            self.claimants.offer()
        if before is None or before.revision != after.revision:
            self.changed.notify(after.uuid)
            self.logged.notify(after.uuid)
            loop = asyncio.get_running_loop()
            for callback in tuple(self._subscribers.values()):
                loop.call_soon(callback, after)

    def _forgetting(self, uuid: SubmissionId) -> Callable[[None], None]:
        def forget(_: None) -> None:
            self.book.remove(uuid)
            self.changed.notify(uuid)
            self.logged.notify(uuid)

        return forget
