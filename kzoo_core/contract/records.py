"""The frozen records that the rest of the core works with once YAML and JSON are validated.

Field meanings are those of the authoring guides' tables; ``schemas/*.json`` is the normative form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.ids import SENTINEL_SHA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kzoo_core.errors import Problem
    from kzoo_core.ids import KernelId


class Direction(StrEnum):
    """Which of two values of a metric is better."""

    LOWER = "lower_better"
    HIGHER = "higher_better"

    def better(self, candidate: float, holder: float) -> bool:
        """Say whether ``candidate`` beats ``holder``; an equal value does not (D20)."""
        return candidate < holder if self is Direction.LOWER else candidate > holder


class Status(StrEnum):
    """``desc.yaml.status``: ``frozen`` refuses submissions, ``deprecated`` warns."""

    NORMAL = "normal"
    FROZEN = "frozen"
    DEPRECATED = "deprecated"


class Correctness(StrEnum):
    """A case's correctness; ``unknown`` only in a scoreboard, ``skipped`` only in an output."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Category:
    """The four classification axes: the first four segments of a five-segment kernel_id (D2)."""

    arch: str
    op_class: str
    sub_class: str
    quant: str

    def segments(self) -> tuple[str, str, str, str]:
        """Return the axes in path order."""
        return (self.arch, self.op_class, self.sub_class, self.quant)


@dataclass(frozen=True, slots=True)
class IoTensor:
    """One tensor of ``io_signature``; ``shape`` entries are sizes or symbolic names."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int | str, ...]
    shape_desc: str | None = None
    semantics: str | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """``scheme: none`` means unquantized; sizes are in elements."""

    scheme: str
    granularity: str | None = None
    block_size: int | None = None
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class Desc:
    """``desc.yaml``: the operator's datasheet."""

    schema_version: str
    name: str
    category: Category
    summary: str
    description: str
    io_signature: tuple[IoTensor, ...]
    quantization: Quantization
    reference_sources: tuple[str, ...]
    status: Status
    min_arch_feature: str | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class MetricMeta:
    """One metric that a test case declares."""

    name: str
    unit: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class TestCaseMeta:
    """One entry of ``KERNEL_ZOO_TEST_CASE_METAS``, in source order.

    ``params``, ``tolerance`` and ``work`` (flops, bytes) are free-form JSON values.
    """

    __test__ = False  # pytest must not take the record for a test class

    test_case_id: str
    params: Mapping[str, object]
    primary_metric: str
    metrics: tuple[MetricMeta, ...]
    tolerance: Mapping[str, object] = field(default_factory=dict)
    work: Mapping[str, object] | None = None

    def metric(self, name: str) -> MetricMeta | None:
        """Return the metric called ``name``, if the case declares it."""
        return next((metric for metric in self.metrics if metric.name == name), None)


@dataclass(frozen=True, slots=True)
class ScoreEntry:
    """One value of the scoreboard: who reached it, in which source commit, when."""

    value: float
    submitter: str
    commit_sha: str
    recorded_at: datetime

    @property
    def is_seed(self) -> bool:
        """Whether this is a placeholder (``commit_sha`` is the sentinel ``0000000``)."""
        return self.commit_sha == SENTINEL_SHA


@dataclass(frozen=True, slots=True)
class ScoreCase:
    """The scoreboard of one test case: best and current value by metric name."""

    test_case_id: str
    metrics_best: Mapping[str, ScoreEntry]
    metrics_current: Mapping[str, ScoreEntry]
    correctness_current: Correctness


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """``bench_result.yaml``: written by the server alone after the first accept."""

    schema_version: str
    kernel_id: KernelId
    cases: tuple[ScoreCase, ...]
    contract_id: str | None = None
    class_key: str | None = None

    def case(self, test_case_id: str) -> ScoreCase | None:
        """Return one case's scores, if the board has the case."""
        return next((case for case in self.cases if case.test_case_id == test_case_id), None)


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One measured metric of an output; ``samples`` are the raw repeats in the metric's unit."""

    name: str
    value: float
    samples: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseOutput:
    """One case of a benchmark output."""

    test_case_id: str
    correctness: Correctness
    accept: bool
    accept_reason: str
    metrics: tuple[MetricValue, ...]
    correctness_detail: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkOutput:
    """The one JSON document that ``benchmark.py`` prints."""

    schema_version: str
    kernel_id: str
    ran_at: datetime
    runner_id: str
    arch: str
    accept: bool
    accept_reason: str
    build_ok: bool
    cases: tuple[CaseOutput, ...]
    environment: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One file of a package."""

    data: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Package:
    """A kernel_package in memory: files by POSIX path relative to its root."""

    kernel_id: KernelId
    files: Mapping[str, PackageFile]


@dataclass(frozen=True, slots=True)
class PackageReport:
    """What a check of a package found, and its parsed parts as far as they could be read."""

    kernel_id: str
    problems: tuple[Problem, ...]
    desc: Desc | None = None
    metas: tuple[TestCaseMeta, ...] | None = None
    scoreboard: Scoreboard | None = None

    @property
    def valid(self) -> bool:
        """Whether no problem is an error."""
        return not any(problem.severity == "error" for problem in self.problems)


@dataclass(frozen=True, slots=True)
class RunFailure:
    """What a runner says went wrong with an attempt (see ``verdict.FailureKind``)."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a runner reports of one attempt: the evidence on which the verdict is reached.

    ``stdout`` is the benchmark's raw standard output; durations are seconds by phase; an exit code
    is ``None`` where the phase did not run to its end.
    """

    build_ok: bool
    build_exit_code: int | None
    benchmark_exit_code: int | None
    failure: RunFailure | None
    stdout: bytes | None
    durations_s: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A better best of a case's primary metric (D21). ``previous`` is ``None`` for a first one."""

    test_case_id: str
    metric: str
    unit: str
    value: float
    previous: float | None
