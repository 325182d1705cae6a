"""The JSON that a server answers, as types.

Normative are ``schemas/*.json`` and the OpenAPI document. Only what commands and screens read is
typed; a newer server may send more members.
"""

from __future__ import annotations

from typing import Literal, TypedDict

ProblemView = dict[str, object]
"""``schemas/problem.json``; ``failures.problem_from_json`` makes a ``Problem`` of it."""

PublicStatus = Literal["queued", "running", "done"]
OutcomeWord = Literal["accepted", "rejected", "lost", "failed", "cancelled"]


class ReasonView(TypedDict):
    """Why a submission ended as it did."""

    code: str
    message: str
    details: list[ProblemView]


class RecordView(TypedDict):
    """A better best of a case's primary metric; ``previous`` is null for a first one (D21)."""

    test_case_id: str
    metric: str
    unit: str
    value: float
    previous: float | None


class AttemptView(TypedDict):
    """One run of a submission on one runner."""

    attempt: int
    runner_id: str
    arch: str
    isolation: str
    phase: str
    claimed_at: str
    ended_at: str | None
    end: str | None
    detail: str | None


class StatusView(TypedDict):
    """What the long poll answers. ``position`` 1 is next; ``commit_sha`` is the source commit."""

    uuid: str
    kernel_id: str
    status: PublicStatus
    phase: str
    revision: int
    position: int | None
    attempt: int | None
    mode: str
    outcome: OutcomeWord | None
    reason: ReasonView | None
    commit_sha: str | None
    records: list[RecordView]


class SubmissionView(StatusView):
    """One submission, whole (``schemas/submission.json``)."""

    submitter_id: str
    optimization_summary: str | None
    submitted_at: str
    charged: int
    arch: str
    package_sha256: str
    package_bytes: int
    warnings: list[ProblemView]
    attempts: list[AttemptView]
    bench_commit_sha: str | None
    finished_at: str | None


class SubmittedView(TypedDict):
    """The 202 of a submission."""

    uuid: str
    status: PublicStatus
    position: int | None
    status_url: str
    log_url: str
    warnings: list[ProblemView]


class SubmissionPage(TypedDict):
    """A page of submissions, newest first."""

    items: list[SubmissionView]
    next_cursor: str | None


class OutputView(TypedDict):
    """What an attempt printed and how its two processes ended."""

    uuid: str
    attempt: int
    stdout: str
    build_exit_code: int | None
    benchmark_exit_code: int | None
    failure: dict[str, object] | None
    durations_s: dict[str, float]
    environment: dict[str, object]
    document: dict[str, object] | None


class ScoreView(TypedDict):
    """A holder of a value: who, in which source commit, when."""

    value: float
    submitter: str
    commit_sha: str
    recorded_at: str


class IndexCaseView(TypedDict):
    """One case of an index entry; ``best`` and ``current`` are null where there is no result."""

    test_case_id: str
    primary_metric: str
    unit: str
    direction: str
    best: ScoreView | None
    current: ScoreView | None
    correctness: str


class KernelEntry(TypedDict):
    """One kernel of a listing; names and texts are null where desc.yaml could not be read."""

    kernel_id: str
    name: str | None
    category: dict[str, str] | None
    summary: str | None
    status: str | None
    tags: list[str]
    owner: str | None
    valid: bool
    problems: list[ProblemView]
    cases: list[IndexCaseView]
    updated_at: str | None


class KernelPage(TypedDict):
    """A page of kernels out of ``total`` that the filters leave."""

    revision: str | None
    total: int
    items: list[KernelEntry]
    next_cursor: str | None


class MetricView(TypedDict):
    """One metric of a case with its two holders."""

    name: str
    unit: str
    direction: str
    best: ScoreView | None
    current: ScoreView | None


class CaseView(TypedDict):
    """One case of a kernel's own page."""

    test_case_id: str
    params: dict[str, object]
    primary_metric: str
    tolerance: dict[str, object]
    correctness: str
    metrics: list[MetricView]


class RunningView(TypedDict):
    """The attempt that is running for a kernel now."""

    uuid: str
    attempt: int
    runner_id: str
    phase: str
    submitter_id: str


class KernelView(TypedDict):
    """One kernel's own page."""

    kernel_id: str
    revision: str | None
    valid: bool
    problems: list[ProblemView]
    desc: dict[str, object] | None
    cases: list[CaseView]
    running: RunningView | None


class HistoryEntry(TypedDict):
    """One accepted attempt: keyed by its bench commit, shown by its source commit."""

    commit_sha: str
    bench_commit_sha: str
    recorded_at: str
    submitter: str
    submission_id: str
    attempt: int | None
    runner_id: str | None
    arch: str | None
    isolation: str | None
    summary: str
    optimization_summary: str | None
    cases: list[dict[str, object]]
    records: list[dict[str, object]]


class HistoryPage(TypedDict):
    """A page of a kernel's history, newest first."""

    kernel_id: str
    items: list[HistoryEntry]
    next_cursor: str | None


class RunnerView(TypedDict):
    """One runner and what it is doing."""

    runner_id: str
    name: str
    arch: str
    product: str | None
    features: list[str]
    gpus: list[dict[str, object]]
    backend: str
    isolation: str
    version: str
    state: str
    up: bool
    last_seen_at: str
    attempts: list[dict[str, object]]


class RunnerList(TypedDict):
    """Every runner that the server has heard of."""

    items: list[RunnerView]


class HealthView(TypedDict):
    """How the server is: ``ok``, ``degraded``, ``starting`` or ``stopping``."""

    status: str
    version: str
    started_at: str
    queue: dict[str, int]
    runners: dict[str, int]
    head: str | None
    index: dict[str, object]
    writer: dict[str, object]
    disk: dict[str, object]
