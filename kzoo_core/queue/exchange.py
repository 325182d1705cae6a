"""What callers hand to the queue and what they get back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kzoo_core.contract.records import RunReport
    from kzoo_core.errors import Problem
    from kzoo_core.ids import KernelId, Sha256, SubmissionId, SubmitterId
    from kzoo_core.queue.records import Attempt, Mode, Phase, Reason, Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubmission:
    """A checked package on its way into the queue.

    ``package`` is the canonical archive, which the queue never looks into;
    ``package_sha256`` is the package's identity (D12).
    """

    kernel_id: KernelId
    submitter_id: SubmitterId
    mode: Mode
    optimization_summary: str | None
    arch: str
    min_arch_feature: str | None
    package: bytes
    package_sha256: Sha256
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Frozen:
    """What an attempt will run (D13), and the kernel's tree that it stands on."""

    package: bytes
    base_tree: str | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission that may not run any more, as when its kernel was frozen meanwhile (D17)."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt and the token that every call about it has to carry."""

    submission: Submission
    attempt: Attempt
    token: str


@dataclass(frozen=True, slots=True)
class ReportReceipt:
    """A result that was taken, now or, when ``repeated``, before: the very same one."""

    submission: Submission
    repeated: bool


@dataclass(frozen=True, slots=True)
class AttemptOutput:
    """The result of one attempt as the runner reported it."""

    attempt: int
    report: RunReport


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat says of one attempt; ``phase`` may be one that no run has."""

    uuid: SubmissionId
    attempt: int
    phase: Phase | None = None


class Order(StrEnum):
    """What a runner should do with an attempt it named."""

    CONTINUE = "continue"
    CANCEL = "cancel"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Directive:
    """The answer to one ``Beat``."""

    uuid: SubmissionId
    attempt: int
    do: Order


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """A directive for each attempt that is known, and the ``Beat`` of each that is not."""

    directives: tuple[Directive, ...]
    unknown: tuple[Beat, ...]


@dataclass(frozen=True, slots=True)
class SubmissionPage:
    """Submissions newest first, and where the next page begins."""

    items: tuple[Submission, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many submissions are in each state."""

    pending: int
    running: int
    reported: int
    done: int
