"""The pending, reserved, running and reported submissions, kept in the shape the scheduler asks."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.scheduler import Load, RunnerCapability, age, choose, fits, position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kzoo_core.ids import KernelId, SubmissionId, SubmitterId

Key = TypeVar("Key")

_SERVED_KEPT = 10_000
"""Submitters whose turn is remembered; whoever is forgotten counts as never served."""


class _Place(Enum):
    WAITING = "waiting"
    RESERVED = "reserved"
    RUNNING = "running"
    REPORTED = "reported"


_PLACE_OF_STATE = {
    State.PENDING: _Place.WAITING,
    State.RUNNING: _Place.RUNNING,
    State.REPORTED: _Place.REPORTED,
}


class Lineup:
    """Who waits and what is busy; no IO, no clock.

    A reserved submission is one that a claim is being prepared for: it waits no more, and counts as
    running, so that two claims never get the same one and its kernel_id is taken.
    """

    def __init__(self, *, per_kernel: int) -> None:
        self._per_kernel = per_kernel
        self._held: dict[SubmissionId, tuple[_Place, Submission]] = {}
        self._waiting: defaultdict[str, dict[SubmitterId, list[Submission]]] = defaultdict(dict)
        self._running: defaultdict[str, Counter[SubmitterId]] = defaultdict(Counter)
        self._kernels: Counter[KernelId] = Counter()
        self._served: dict[SubmitterId, int] = {}
        self._claims = 0

    def put(self, submission: Submission) -> None:
        """Take note of a submission's state; a finished one is let go."""
        place = _PLACE_OF_STATE.get(submission.state)
        held = self._held.get(submission.uuid)
        if held is not None and held[0] is place:
            return
        self._leave(submission.uuid)
        if place is not None:
            self._enter(place, submission)

    def served(self, submitters: Iterable[SubmitterId]) -> None:
        """Count these submitters as served, in this order."""
        for submitter in submitters:
            self._claims += 1
            self._served.pop(submitter, None)
            self._served[submitter] = self._claims
        while len(self._served) > _SERVED_KEPT:
            del self._served[next(iter(self._served))]

    def reserve(
        self, runner: RunnerCapability, only: SubmissionId | None = None
    ) -> SubmissionId | None:
        """Reserve what this runner should have next, or ``only`` that one, if it may go now."""
        load = self._load(runner.arch)
        if only is None:
            waiting = self._waiting.get(runner.arch, {})
            found = choose(waiting, load, runner, per_kernel=self._per_kernel)
        else:
            place, found = self._held.get(only, (None, None))
            if place is not _Place.WAITING:
                return None
        if found is None or not fits(found, load, runner, per_kernel=self._per_kernel):
            return None
        self._leave(found.uuid)
        self._enter(_Place.RESERVED, found)
        return found.uuid

    def give_back(self, uuid: SubmissionId) -> bool:
        """End a reservation; ``False`` when the submission went on, and there was none to end."""
        place, submission = self._held.get(uuid, (None, None))
        if place is not _Place.RESERVED or submission is None:
            return False
        self._leave(uuid)
        self._enter(_Place.WAITING, submission)
        return True

    def position(self, uuid: SubmissionId) -> int | None:
        """Return the rank among those that wait for the same arch, 1 is next; else ``None``."""
        place, submission = self._held.get(uuid, (None, None))
        if submission is None or place not in {_Place.WAITING, _Place.RESERVED}:
            return None
        if place is _Place.RESERVED:
            return 1
        waiting = self._waiting[submission.arch]
        return position(waiting, self._load(submission.arch), submission)

    def _load(self, arch: str) -> Load:
        return Load(self._running.get(arch, {}), self._kernels, self._served)

    def _enter(self, place: _Place, submission: Submission) -> None:
        self._held[submission.uuid] = (place, submission)
        if place is _Place.WAITING:
            own = self._waiting[submission.arch].setdefault(submission.submitter_id, [])
            insort(own, submission, key=age)
            return
        self._kernels[submission.kernel_id] += 1
        if place is not _Place.REPORTED:
            self._running[submission.arch][submission.submitter_id] += 1

    def _leave(self, uuid: SubmissionId) -> None:
        if uuid not in self._held:
            return
        place, submission = self._held.pop(uuid)
        if place is _Place.WAITING:
            own = self._waiting[submission.arch][submission.submitter_id]
            del own[bisect_left(own, age(submission), key=age)]
            if not own:
                del self._waiting[submission.arch][submission.submitter_id]
            return
        _count_down(self._kernels, submission.kernel_id)
        if place is not _Place.REPORTED:
            _count_down(self._running[submission.arch], submission.submitter_id)


def _count_down(counter: Counter[Key], key: Key) -> None:
    counter[key] -= 1
    if counter[key] == 0:
        del counter[key]
