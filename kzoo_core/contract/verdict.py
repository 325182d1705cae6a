"""The verdict on one attempt: pure, one enum, and the first reason that applies wins.

The server does not judge a kernel; its benchmark does. What is judged here is whether the run and
its output can be believed to be what the contract asks for (authoring guide, section on server-side
hard constraints; D15-D18). The words and their order are also in ``schemas/verdict.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.contract.checks.output import (
    accepted_case_problems,
    accepted_failure_problems,
    case_set_problems,
    metric_set_problems,
)
from kzoo_core.contract.documents import NonFiniteNumber, NotOneDocument, load_json
from kzoo_core.contract.layout import DESC_PATH
from kzoo_core.contract.limits import STDOUT_LIMIT_BYTES
from kzoo_core.contract.output import parse_output
from kzoo_core.contract.quoting import listed, printable
from kzoo_core.contract.schemas import validate
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kzoo_core.contract.records import BenchmarkOutput, Desc, RunReport, TestCaseMeta
    from kzoo_core.ids import KernelId


class VerdictReason(StrEnum):
    """Why a submission is rejected, in the order in which the reasons are tried."""

    BUILD_FAILED = "build_failed"
    NON_DETERMINISTIC_BUILD = "non_deterministic_build"
    EXPECTED_CHANGED = "expected_changed"
    TAMPERED = "tampered"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT_LIMIT = "output_limit"
    BENCHMARK_FAILED = "benchmark_failed"
    OUTPUT_NOT_JSON = "output_not_json"
    NON_FINITE = "non_finite"
    SCHEMA = "schema"
    KERNEL_ID_MISMATCH = "kernel_id_mismatch"
    ARCH_MISMATCH = "arch_mismatch"
    CASE_SET_MISMATCH = "case_set_mismatch"
    METRIC_SET_MISMATCH = "metric_set_mismatch"
    FAILED_CASE_ACCEPTED = "failed_case_accepted"
    ACCEPT_WITH_FAILED_CASE = "accept_with_failed_case"
    BUILD_NOT_OK = "build_not_ok"
    REFERENCE_SOURCES_MISSING = "reference_sources_missing"
    FROZEN = "frozen"
    KERNEL_ID_CONFLICT = "kernel_id_conflict"
    SUPERSEDED = "superseded"
    BENCHMARK_REJECTED = "benchmark_rejected"


MALFORMED = frozenset(
    {
        VerdictReason.OUTPUT_NOT_JSON,
        VerdictReason.NON_FINITE,
        VerdictReason.SCHEMA,
        VerdictReason.KERNEL_ID_MISMATCH,
        VerdictReason.ARCH_MISMATCH,
        VerdictReason.CASE_SET_MISMATCH,
        VerdictReason.METRIC_SET_MISMATCH,
        VerdictReason.FAILED_CASE_ACCEPTED,
        VerdictReason.ACCEPT_WITH_FAILED_CASE,
    }
)
"""Reasons that say that the output breaks its contract: HTTP answers 422."""


class FailureKind(StrEnum):
    """What a runner may say went wrong; only the runner says it, never the package's output."""

    BUILD_FAILED = "build_failed"
    NON_DETERMINISTIC_BUILD = "non_deterministic_build"
    EXPECTED_CHANGED = "expected_changed"
    TAMPERED = "tampered"
    TIMEOUT = "timeout"
    OOM = "oom"
    OUTPUT_LIMIT = "output_limit"
    BENCHMARK_FAILED = "benchmark_failed"
    LOST_RUNNER = "lost_runner"
    ENGINE_ERROR = "engine_error"
    IMAGE_PULL = "image_pull"
    GPU_FAULT = "gpu_fault"
    RUNNER_ERROR = "runner_error"
    DISK_FULL = "disk_full"

    @property
    def is_infrastructure(self) -> bool:
        """Whether the package is not to blame, so that the run is tried again (D16)."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = frozenset(
    {
        FailureKind.LOST_RUNNER,
        FailureKind.ENGINE_ERROR,
        FailureKind.IMAGE_PULL,
        FailureKind.GPU_FAULT,
        FailureKind.RUNNER_ERROR,
        FailureKind.DISK_FULL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictContext:
    """What the server knows beside the report.

    ``desc``, ``metas`` and ``package_paths`` are those of the package that ran; ``frozen``,
    ``kernel_id_conflict`` (why it cannot be added) and ``superseded`` (the kernel moved during
    every run) are of the repository's head now.
    """

    kernel_id: KernelId
    desc: Desc
    metas: tuple[TestCaseMeta, ...]
    package_paths: frozenset[str]
    runner_arch: str
    frozen: bool = False
    kernel_id_conflict: str | None = None
    superseded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an attempt is judged. ``output`` is there as soon as it matched its schema."""

    accepted: bool
    reason: VerdictReason | None
    message: str
    details: tuple[Problem, ...] = ()
    output: BenchmarkOutput | None = None

    @property
    def malformed(self) -> bool:
        """Whether the output breaks its contract, rather than being a bad result."""
        return self.reason in MALFORMED


def judge(report: RunReport, context: VerdictContext) -> Verdict:
    """Return the verdict on a report; the first reason that applies is the reason.

    A failure that is infrastructure's has no verdict: the caller tries the run again. For one, and
    for a kind that is no ``FailureKind``, this raises ``ValueError``.
    """
    failed = _run_failure(report)
    if failed is not None:
        return failed
    output, malformed = _read_output(report.stdout or b"")
    if output is None:
        return malformed
    for rule in _RULES:
        rejected = rule(output, context)
        if rejected is not None:
            return replace(rejected, output=output)
    return Verdict(accepted=True, reason=None, message=_said(output), output=output)


def _run_failure(report: RunReport) -> Verdict | None:
    """Judge what the runner saw of the two processes."""
    kind = FailureKind(report.failure.kind) if report.failure is not None else None
    if kind is not None and kind.is_infrastructure:
        raise ValueError(f"{kind} is no fault of the package: the run has to be tried again")
    detail = f": {printable(report.failure.detail, 500)}" if report.failure is not None else ""
    code = report.build_exit_code
    if not report.build_ok or (code is not None and code != 0) or kind is FailureKind.BUILD_FAILED:
        return _rejected(VerdictReason.BUILD_FAILED, f"the build failed{_exit(code)}{detail}")
    if kind is not None and kind is not FailureKind.BENCHMARK_FAILED:
        reason = VerdictReason(kind)
        return _rejected(reason, f"{_FAILURES[reason]}{detail}")
    code = report.benchmark_exit_code
    if kind is not None or code != 0:
        return _rejected(
            VerdictReason.BENCHMARK_FAILED, f"benchmark.py failed{_exit(code)}{detail}"
        )
    return None


_FAILURES = {
    VerdictReason.NON_DETERMINISTIC_BUILD: "two builds of the package differ",
    VerdictReason.EXPECTED_CHANGED: "inputs or expected outputs are not those of this line",
    VerdictReason.TAMPERED: "the benchmark changed what judges it",
    VerdictReason.TIMEOUT: "the run took longer than it may",
    VerdictReason.OOM: "the run used more memory than it may",
    VerdictReason.OUTPUT_LIMIT: "the benchmark printed more than it may",
}


def _exit(code: int | None) -> str:
    if code is None:
        return " without coming to its end"
    return f" with exit code {code}" if code != 0 else ""


def _read_output(stdout: bytes) -> tuple[BenchmarkOutput | None, Verdict]:
    """Return the output's record, or the verdict on why there is none."""
    try:
        document = load_json(stdout, max_bytes=STDOUT_LIMIT_BYTES)
    except NotOneDocument as error:
        details = tuple(_on_stdout(problem) for problem in error.details)
        what = f"standard output is not exactly one JSON document: {error.message}"
        return None, _rejected(VerdictReason.OUTPUT_NOT_JSON, what, details)
    except NonFiniteNumber as error:
        details = tuple(_on_stdout(problem) for problem in error.details)
        what = f"standard output holds a number that is not finite: {error.message}"
        return None, _rejected(VerdictReason.NON_FINITE, what, details)
    problems = validate("benchmark_output", document)
    if problems:
        what = f"the output does not match its schema: {problems[0].message}"
        return None, _rejected(VerdictReason.SCHEMA, what, problems)
    return parse_output(document), _ACCEPTED


_ACCEPTED = Verdict(accepted=True, reason=None, message="")

_STDOUT_HINTS = {
    "json_empty": "print the document on standard output, at the end",
    "json_stray_text": "print log lines on standard error",
    "non_finite_number": "report a failed case instead of a value that is no number",
    "json_two_documents": "print one document, at the end; log lines go to standard error",
}


def _on_stdout(problem: Problem) -> Problem:
    return replace(problem, hint=_STDOUT_HINTS.get(problem.code))


def _kernel_id(output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    if output.kernel_id == context.kernel_id:
        return None
    problem = Problem(
        code=VerdictReason.KERNEL_ID_MISMATCH.value,
        message=f"the output is that of {printable(output.kernel_id, 255)}",
        pointer="/kernel_id",
        found=printable(output.kernel_id, 255),
        expected=context.kernel_id,
        hint="take it from the environment variable KERNEL_ZOO_KERNEL_ID",
    )
    what = f"the output names the kernel {problem.found}, it is {context.kernel_id}"
    return _rejected(VerdictReason.KERNEL_ID_MISMATCH, what, [problem])


def _arch(output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    asked = context.desc.category.arch
    if output.arch == asked == context.runner_arch:
        return None
    problem = Problem(
        code=VerdictReason.ARCH_MISMATCH.value,
        message="output, desc.yaml and runner do not agree on the architecture",
        pointer="/arch",
        found=f"output {printable(output.arch)}, runner {context.runner_arch}",
        expected=asked,
        hint="take it from the environment variable KERNEL_ZOO_ARCH",
    )
    what = (
        f"the output is of {printable(output.arch)}, desc.yaml asks for {asked}, "
        f"the runner has {context.runner_arch}"
    )
    return _rejected(VerdictReason.ARCH_MISMATCH, what, [problem])


def _case_set(output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    return _because(VerdictReason.CASE_SET_MISMATCH, case_set_problems(output, context.metas))


def _metric_set(output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    return _because(VerdictReason.METRIC_SET_MISMATCH, metric_set_problems(output, context.metas))


def _failed_case(output: BenchmarkOutput, _context: VerdictContext) -> Verdict | None:
    return _because(VerdictReason.FAILED_CASE_ACCEPTED, accepted_failure_problems(output))


def _accept(output: BenchmarkOutput, _context: VerdictContext) -> Verdict | None:
    return _because(VerdictReason.ACCEPT_WITH_FAILED_CASE, accepted_case_problems(output))


def _build(output: BenchmarkOutput, _context: VerdictContext) -> Verdict | None:
    if output.build_ok:
        return None
    what = f"the output says that the build was not good: {_said(output)}"
    return _rejected(VerdictReason.BUILD_NOT_OK, what)


def _references(_output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    missing = [
        Problem(
            code=VerdictReason.REFERENCE_SOURCES_MISSING.value,
            message=f"{printable(path, 240)} is not in the package",
            file=DESC_PATH,
            pointer=f"/reference_sources/{place}",
            found=f"no {printable(path, 240)}",
            expected="a file of the package",
        )
        for place, path in enumerate(context.desc.reference_sources)
        if path not in context.package_paths
    ]
    return _because(VerdictReason.REFERENCE_SOURCES_MISSING, missing)


def _frozen(_output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    if not context.frozen:
        return None
    return _rejected(VerdictReason.FROZEN, "the kernel is frozen: it takes no submissions")


def _conflict(_output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    if context.kernel_id_conflict is None:
        return None
    what = f"{context.kernel_id} cannot be added: {context.kernel_id_conflict}"
    return _rejected(VerdictReason.KERNEL_ID_CONFLICT, what)


def _superseded(_output: BenchmarkOutput, context: VerdictContext) -> Verdict | None:
    if not context.superseded:
        return None
    what = "the kernel changed in the repository during every run; submit again on what is there"
    return _rejected(VerdictReason.SUPERSEDED, what)


def _benchmark(output: BenchmarkOutput, _context: VerdictContext) -> Verdict | None:
    if output.accept:
        return None
    refused = [case.test_case_id for case in output.cases if not case.accept]
    cases = f" (not accepted: {listed(refused)})" if refused else ""
    return _rejected(VerdictReason.BENCHMARK_REJECTED, f"{_said(output)}{cases}")


_RULES: tuple[Callable[[BenchmarkOutput, VerdictContext], Verdict | None], ...] = (
    _kernel_id,
    _arch,
    _case_set,
    _metric_set,
    _failed_case,
    _accept,
    _build,
    _references,
    _frozen,
    _conflict,
    _superseded,
    _benchmark,
)


def _said(output: BenchmarkOutput) -> str:
    return printable(output.accept_reason, 500) or "the benchmark gives no reason"


def _because(reason: VerdictReason, problems: Sequence[Problem]) -> Verdict | None:
    if not problems:
        return None
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return _rejected(reason, f"{problems[0].message}{more}", problems)


def _rejected(reason: VerdictReason, message: str, details: Sequence[Problem] = ()) -> Verdict:
    return Verdict(accepted=False, reason=reason, message=message, details=tuple(details))
