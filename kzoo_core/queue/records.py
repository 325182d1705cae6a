"""A submission as the queue keeps it: one frozen record, replaced whole at every transition."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kzoo_core.contract.records import Record
    from kzoo_core.errors import Problem
    from kzoo_core.ids import (
        ClaimId,
        CommitId,
        KernelId,
        RunnerId,
        Sha256,
        SubmissionId,
        SubmitterId,
    )


class Mode(StrEnum):
    """``check`` is the same run with the same report, never committed and never ranked (D19)."""

    RANKED = "ranked"
    CHECK = "check"


class State(StrEnum):
    """Where a submission's directory lies; the order is the order of truth after a crash."""

    PENDING = "pending"
    RUNNING = "running"
    REPORTED = "reported"
    DONE = "done"


class Phase(StrEnum):
    """What a submission is doing, finer than its state: shown to people, decided by nobody."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    BUILD = "build"
    BENCHMARK = "benchmark"
    REPORTED = "reported"
    DONE = "done"


class Outcome(StrEnum):
    """How a submission ended (D16)."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    LOST = "lost"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptEnd(StrEnum):
    """How an attempt ended; only ``lost`` and ``infrastructure`` are charged."""

    REPORTED = "reported"
    LOST = "lost"
    INFRASTRUCTURE = "infrastructure"
    UNCONFIRMED = "unconfirmed"
    RELEASED = "released"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a submission on one runner. ``number`` is the fence: it only rises."""

    number: int
    runner_id: RunnerId
    claim_id: ClaimId
    token_sha256: Sha256
    arch: str
    isolation: str
    package_sha256: Sha256
    base_tree: str | None
    claimed_at: datetime
    lease_expires_at: datetime
    confirmed: bool = False
    phase: Phase = Phase.CLAIMED
    ended_at: datetime | None = None
    end: AttemptEnd | None = None
    detail: str | None = None
    result_sha256: Sha256 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a submission ended as it did; ``code`` is a verdict reason or an outcome's own word."""

    code: str
    message: str
    details: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """The submitter's own key of a submission, and the digest of what came with it."""

    key: str
    body_sha256: Sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One submission. ``revision`` rises with every change that a reader can see.

    ``package_sha256`` is the identity of the canonical package (D12); ``package_bytes`` is the size
    of the stored archive. ``arch`` and ``min_arch_feature`` come from its desc.yaml and say which
    runners may take it.
    """

    uuid: SubmissionId
    kernel_id: KernelId
    submitter_id: SubmitterId
    mode: Mode
    arch: str
    min_arch_feature: str | None
    package_sha256: Sha256
    package_bytes: int
    submitted_at: datetime
    optimization_summary: str | None = None
    warnings: tuple[Problem, ...] = ()
    state: State = State.PENDING
    revision: int = 1
    charged: int = 0
    uncharged: Mapping[str, int] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None
    reason: Reason | None = None
    commit_sha: CommitId | None = None
    bench_commit_sha: CommitId | None = None
    records: tuple[Record, ...] = ()
    finished_at: datetime | None = None
    idempotency: Idempotency | None = None

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt, if there has been one."""
        return self.attempts[-1] if self.attempts else None

    @property
    def phase(self) -> Phase:
        """What it is doing now."""
        if self.state is State.RUNNING and self.attempts:
            return self.attempts[-1].phase
        return {
            State.PENDING: Phase.QUEUED,
            State.RUNNING: Phase.CLAIMED,
            State.REPORTED: Phase.REPORTED,
            State.DONE: Phase.DONE,
        }[self.state]

    @property
    def public_status(self) -> str:
        """``queued``, ``running`` or ``done`` (D16)."""
        return {
            State.PENDING: "queued",
            State.RUNNING: "running",
            State.REPORTED: "running",
            State.DONE: "done",
        }[self.state]
