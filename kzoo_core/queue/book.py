"""The submissions in memory: found by id, by claim, and listed newest first."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, insort
from datetime import timedelta
from typing import TYPE_CHECKING

from kzoo_core.clock import parse_time
from kzoo_core.errors import BadInput, Problem
from kzoo_core.ids import SubmissionId
from kzoo_core.queue.exchange import QueueCounts, SubmissionPage
from kzoo_core.queue.keys import Keys
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.scheduler import age

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kzoo_core.ids import ClaimId, KernelId, RunnerId, SubmitterId

_Age = tuple["datetime", SubmissionId]


class Book:
    """Every submission that the spool holds, as its newest record; no IO, no clock."""

    def __init__(self) -> None:
        self._by_state: dict[State, dict[SubmissionId, Submission]] = {state: {} for state in State}
        self._state: dict[SubmissionId, State] = {}
        self._by_age: list[_Age] = []
        self.keys = Keys()
        self._claims: dict[tuple[RunnerId, ClaimId], SubmissionId] = {}
        self._done_bytes: dict[SubmissionId, int] = {}
        self._done_total = 0

    def get(self, uuid: SubmissionId) -> Submission | None:
        """Return the newest record."""
        state = self._state.get(uuid)
        return None if state is None else self._by_state[state][uuid]

    def put(self, submission: Submission) -> None:
        """Keep a record in place of the one before."""
        uuid = submission.uuid
        before = self._state.get(uuid)
        if before is None:
            insort(self._by_age, age(submission))
            self.keys.put(submission)
        elif before is not submission.state:
            self._drop_claim(self._by_state[before].pop(uuid))
        self._state[uuid] = submission.state
        self._by_state[submission.state][uuid] = submission
        if submission.state is State.RUNNING:
            attempt = submission.attempts[-1]
            self._claims[attempt.runner_id, attempt.claim_id] = uuid

    def put_size(self, uuid: SubmissionId, size: int) -> None:
        """Take note of the bytes that a finished submission holds on disk."""
        self._done_total += size - self._done_bytes.get(uuid, 0)
        self._done_bytes[uuid] = size

    def remove(self, uuid: SubmissionId) -> None:
        """Forget a submission; its key is still remembered."""
        submission = self._by_state[self._state.pop(uuid)].pop(uuid)
        self._done_total -= self._done_bytes.pop(uuid, 0)
        del self._by_age[bisect_left(self._by_age, age(submission))]
        self.keys.evict(uuid)

    def in_state(self, state: State) -> tuple[Submission, ...]:
        """Return the submissions in one state: those done in the order they ended, if put so."""
        return tuple(self._by_state[state].values())

    def claimed(self, runner_id: RunnerId, claim_id: ClaimId) -> Submission | None:
        """Return the running submission whose open attempt answers this claim."""
        uuid = self._claims.get((runner_id, claim_id))
        return None if uuid is None else self.get(uuid)

    def next_instant(self, now: datetime) -> datetime:
        """Return a time for the next submission: now, or just behind the newest one's.

        No two submissions carry the same instant, so their order survives a restart.
        """
        newest = self._by_age[-1][0] if self._by_age else None
        if newest is None or not now <= newest < now + timedelta(seconds=1):
            return now
        return newest + timedelta(microseconds=1)

    def counts(self) -> QueueCounts:
        """Return how many submissions are in each state."""
        return QueueCounts(**{state.value: len(held) for state, held in self._by_state.items()})

    def overflow(self, *, keep: int, keep_bytes: int) -> tuple[SubmissionId, ...]:
        """Return the finished submissions beyond the bounds, those that ended first in front."""
        count, size = len(self._by_state[State.DONE]), self._done_total
        over = []
        for uuid in self._by_state[State.DONE]:
            if count <= keep and size <= keep_bytes:
                break
            over.append(uuid)
            count -= 1
            size -= self._done_bytes.get(uuid, 0)
        return tuple(over)

    def page(
        self,
        *,
        submitter_id: SubmitterId | None,
        kernel_id: KernelId | None,
        status: str | None,
        limit: int,
        cursor: str | None,
    ) -> SubmissionPage:
        """Return submissions newest first; a cursor stays good when others come and go.

        ``status`` is a public one: queued, running or done. Raises ``BadInput`` for a cursor that
        no page gave.
        """
        items: list[Submission] = []
        for submission in self._newest_first(cursor):
            if (
                submitter_id in {None, submission.submitter_id}
                and kernel_id in {None, submission.kernel_id}
                and status in {None, submission.public_status}
            ):
                if len(items) == limit:
                    return SubmissionPage(tuple(items), _write_cursor(age(items[-1])))
                items.append(submission)
        return SubmissionPage(tuple(items), None)

    def _newest_first(self, cursor: str | None) -> Iterator[Submission]:
        end = len(self._by_age)
        if cursor is not None:
            end = bisect_left(self._by_age, _read_cursor(cursor))
        for index in range(end - 1, -1, -1):
            uuid = self._by_age[index][1]
            yield self._by_state[self._state[uuid]][uuid]

    def _drop_claim(self, submission: Submission) -> None:
        if submission.state is State.RUNNING:
            attempt = submission.attempts[-1]
            self._claims.pop((attempt.runner_id, attempt.claim_id), None)


def _write_cursor(place: _Age) -> str:
    return urlsafe_b64encode(f"{place[0].isoformat()} {place[1]}".encode()).decode()


def _read_cursor(cursor: str) -> _Age:
    try:
        moment, uuid = urlsafe_b64decode(cursor.encode()).decode().split(" ")
        return (parse_time(moment), SubmissionId(uuid))
    except ValueError as error:
        problem = Problem(
            code="bad_cursor",
            message="the cursor is not one that a page gave",
            found=repr(cursor[:80]),
            expected="the next_cursor of an earlier page, unchanged",
            hint="begin again without a cursor",
        )
        raise BadInput(
            "VALIDATION_ERROR", problem.message, hint=problem.hint, details=(problem,)
        ) from error
