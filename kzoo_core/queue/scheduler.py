"""Who runs next: pure functions over what waits and what runs.

Among the submitters with something that the runner can take, the one with the fewest running
attempts on that arch goes first, then the one served longest ago, then the one whose submission is
oldest. So one submitter's hundred never keep another's single one waiting for more than one claim.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kzoo_core.ids import SubmitterId
from kzoo_core.queue.records import Submission

if TYPE_CHECKING:
    from datetime import datetime

    from kzoo_core.ids import KernelId, SubmissionId

Waiting = Mapping[SubmitterId, Sequence[Submission]]
"""The pending submissions of one arch by submitter, each submitter's oldest first."""

_NEVER = -1


@dataclass(frozen=True, slots=True)
class RunnerCapability:
    """What a runner can take: an arch, and the features that ``min_arch_feature`` may ask for."""

    arch: str
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Load:
    """What goes on at the moment of a choice.

    ``running`` counts a submitter's running attempts on the arch in question, ``kernels`` the
    running or reported attempts of a kernel_id on any arch; ``served`` numbers a submitter's last
    claim, higher is later, none for a submitter never served.
    """

    running: Mapping[SubmitterId, int] = field(default_factory=dict)
    kernels: Mapping[KernelId, int] = field(default_factory=dict)
    served: Mapping[SubmitterId, int] = field(default_factory=dict)


def age(submission: Submission) -> tuple[datetime, SubmissionId]:
    """Return the key that sorts submissions oldest first."""
    return (submission.submitted_at, submission.uuid)


def fits(
    submission: Submission, load: Load, runner: RunnerCapability, *, per_kernel: int = 1
) -> bool:
    """Whether the runner may take this submission now."""
    feature = submission.min_arch_feature
    return (
        submission.arch == runner.arch
        and (feature is None or feature in runner.features)
        and load.kernels.get(submission.kernel_id, 0) < per_kernel
    )


def choose(
    waiting: Waiting, load: Load, runner: RunnerCapability, *, per_kernel: int = 1
) -> Submission | None:
    """Return the submission that the runner should have next, if there is one for it."""
    first = [
        found
        for own in waiting.values()
        if (found := _first_fit(own, load, runner, per_kernel)) is not None
    ]
    return min(first, key=lambda submission: _turn(submission, load), default=None)


def position(waiting: Waiting, load: Load, submission: Submission) -> int:
    """Return the rank of a pending submission in the order of service; 1 is next.

    Capacity, features and busy kernels are left aside. Serving again and again by the rule of
    ``choose`` takes a submitter's ``n``-th waiting submission (from 0) in the order of ``running +
    n``, then ``n``, then ``served``, then the age of its first. So each submitter's share ahead of
    this one can be counted without serving anybody: O(submitters).
    """
    own = waiting[submission.submitter_id]
    index = bisect_left(own, age(submission), key=age)
    level = load.running.get(submission.submitter_id, 0) + index
    mine = (index, *_rank(own[0], load))
    ahead = 0
    for submitter, others in waiting.items():
        below = level - load.running.get(submitter, 0)
        ahead += min(max(below, 0), len(others))
        if 0 <= below < len(others) and (below, *_rank(others[0], load)) < mine:
            ahead += 1
    return ahead + 1


def _first_fit(
    own: Sequence[Submission], load: Load, runner: RunnerCapability, per_kernel: int
) -> Submission | None:
    return next((item for item in own if fits(item, load, runner, per_kernel=per_kernel)), None)


def _turn(submission: Submission, load: Load) -> tuple[int, int, datetime, SubmissionId]:
    return (load.running.get(submission.submitter_id, 0), *_rank(submission, load))


def _rank(submission: Submission, load: Load) -> tuple[int, datetime, SubmissionId]:
    return (load.served.get(submission.submitter_id, _NEVER), *age(submission))
