"""Every reason has its own report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.contract.limits import STDOUT_LIMIT_BYTES
from kzoo_core.contract.output import parse_output
from kzoo_core.contract.verdict import (
    FailureKind,
    Verdict,
    VerdictReason,
    judge,
)
from kzoo_core.errors import Problem
from tests.packages import KERNEL_ID, output_document

if TYPE_CHECKING:
    from kzoo_core.contract.records import RunReport

from tests.core.contract.reports import (
    CONTEXT,
    REPORT,
    changed,
    rejected,
    with_failure,
    with_stdout,
)

# Accepted.


def test_a_good_run_is_accepted_with_what_the_benchmark_says() -> None:
    assert judge(REPORT, CONTEXT) == Verdict(
        accepted=True,
        reason=None,
        message="all cases accepted",
        output=parse_output(output_document()),
    )
    assert not judge(REPORT, CONTEXT).malformed


def test_a_case_may_be_refused_while_the_whole_is_accepted() -> None:
    report = changed(lambda document: document["cases"][0].update(accept=False))
    assert judge(report, CONTEXT).accepted


def test_a_metric_may_be_left_out() -> None:
    report = changed(lambda document: document["cases"][0]["metrics"].pop(1))
    assert judge(report, CONTEXT).accepted


def test_an_accept_without_a_reason_says_so() -> None:
    report = changed(lambda document: document["overall"].update(accept_reason=" \n"))
    assert judge(report, CONTEXT).message.strip() == ""
    report = changed(lambda document: document["overall"].update(accept_reason=""))
    assert judge(report, CONTEXT).message == "the benchmark gives no reason"


# What the runner saw.


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (replace(REPORT, build_exit_code=2), "the build failed with exit code 2"),
        (replace(REPORT, build_ok=False), "the build failed"),
        (
            replace(with_failure("timeout", "after 600 s"), build_ok=False, build_exit_code=None),
            "the build failed without coming to its end: after 600 s",
        ),
        (with_failure("build_failed", "no compiler"), "the build failed: no compiler"),
    ],
)
def test_a_failed_build_is_the_reason(report: RunReport, message: str) -> None:
    verdict = rejected(report, VerdictReason.BUILD_FAILED)
    assert verdict.message == message
    assert verdict.output is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("non_deterministic_build", "two builds of the package differ: the detail"),
        ("expected_changed", "inputs or expected outputs are not those of this line: the detail"),
        ("tampered", "the benchmark changed what judges it: the detail"),
        ("timeout", "the run took longer than it may: the detail"),
        ("oom", "the run used more memory than it may: the detail"),
        ("output_limit", "the benchmark printed more than it may: the detail"),
    ],
)
def test_what_the_runner_says_went_wrong_is_the_reason(kind: str, message: str) -> None:
    assert rejected(with_failure(kind), VerdictReason(kind)).message == message


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (replace(REPORT, benchmark_exit_code=1), "benchmark.py failed with exit code 1"),
        (replace(REPORT, benchmark_exit_code=-11), "benchmark.py failed with exit code -11"),
        (
            replace(REPORT, benchmark_exit_code=None),
            "benchmark.py failed without coming to its end",
        ),
        (with_failure("benchmark_failed", "import error"), "benchmark.py failed: import error"),
    ],
)
def test_a_failed_benchmark_is_rejected_whatever_it_printed(
    report: RunReport, message: str
) -> None:
    assert judge(replace(report, benchmark_exit_code=0, failure=None), CONTEXT).accepted
    assert rejected(report, VerdictReason.BENCHMARK_FAILED).message == message


def test_a_runners_words_are_shown_on_one_line_without_control_characters() -> None:
    verdict = judge(with_failure("oom", "first\nsecond \x1b[31m" + "x" * 1000), CONTEXT)
    assert "\n" not in verdict.message
    assert "\x1b" not in verdict.message
    assert len(verdict.message) < 600


INFRASTRUCTURE = {
    "lost_runner",
    "engine_error",
    "image_pull",
    "gpu_fault",
    "runner_error",
    "disk_full",
}


def test_infrastructure_is_never_the_packages_fault() -> None:
    assert {kind for kind in FailureKind if kind.is_infrastructure} == INFRASTRUCTURE
    for kind in sorted(INFRASTRUCTURE):
        with pytest.raises(ValueError, match="no fault of the package"):
            judge(with_failure(kind), CONTEXT)
    with pytest.raises(ValueError, match="bad_luck"):
        judge(with_failure("bad_luck"), CONTEXT)


def test_every_other_kind_of_failure_is_a_reason() -> None:
    kinds = {kind.value for kind in FailureKind if not kind.is_infrastructure}
    assert kinds <= {reason.value for reason in VerdictReason}


# What the benchmark printed.


@pytest.mark.parametrize(
    ("stdout", "problem"),
    [
        (
            None,
            Problem(
                code="json_empty",
                message="there is no document",
                found="nothing",
                expected="exactly one JSON document",
                hint="print the document on standard output, at the end",
            ),
        ),
        (
            b'{"a": 1}\n{"b": 2}\n',
            Problem(
                code="json_two_documents",
                message="a second document follows the first in line 2, column 1",
                line=2,
                column=1,
                found='{"a": 1} {"b": 2} ',
                expected="exactly one JSON document",
                hint="print one document, at the end; log lines go to standard error",
            ),
        ),
        (
            b'warm-up \x1b[1mdone\n{"a": 1}\n',
            Problem(
                code="json_stray_text",
                message="the document begins with text that is no JSON in line 1, column 1",
                line=1,
                column=1,
                found='warm-up [1mdone {"a": 1} ',
                expected="exactly one JSON document",
                hint="print log lines on standard error",
            ),
        ),
        (
            b'{"a": 1, "a": 2}',
            Problem(
                code="json_duplicate_key",
                message="the key a is given twice in line 1, column 10",
                line=1,
                column=10,
                found='{"a": 1, "a": 2}',
                expected="every key once",
            ),
        ),
        (
            b" " * (STDOUT_LIMIT_BYTES + 1),
            Problem(
                code="json_too_large",
                message="the document has 1048577 bytes",
                found="1048577 bytes",
                expected="at most 1048576 bytes",
            ),
        ),
    ],
)
def test_what_is_not_one_json_document_is_quoted(stdout: bytes | None, problem: Problem) -> None:
    verdict = rejected(with_stdout(stdout), VerdictReason.OUTPUT_NOT_JSON)
    assert verdict.details == (problem,)
    assert verdict.message == (
        f"standard output is not exactly one JSON document: {problem.message}"
    )


def test_a_number_that_is_not_finite_is_rejected_where_it_stands() -> None:
    stdout = json.dumps(output_document()).replace("1.5", "NaN", 1)
    verdict = rejected(with_stdout(stdout.encode()), VerdictReason.NON_FINITE)
    (problem,) = verdict.details
    assert problem.code == "non_finite_number"
    assert problem.found is not None
    assert "NaN" in problem.found
    assert problem.column == stdout.index("NaN") + 1
    assert problem.hint == "report a failed case instead of a value that is no number"
    assert verdict.message == (
        "standard output holds a number that is not finite: "
        f"the document holds NaN in line 1, column {problem.column}"
    )


def test_an_output_against_its_schema_is_rejected_with_every_problem() -> None:
    def change(document: Any) -> None:
        del document["overall"]["build_ok"]
        document["cases"][0]["metrics"][0]["value"] = "fast"
        document["cases"][1]["correctness"] = "maybe"

    verdict = rejected(changed(change), VerdictReason.SCHEMA)
    assert [(problem.code, problem.pointer) for problem in verdict.details] == [
        ("missing_field", "/overall"),
        ("wrong_type", "/cases/0/metrics/0/value"),
        ("not_one_of", "/cases/1/correctness"),
    ]
    assert verdict.message == (
        "the output does not match its schema: overall has no build_ok; expected the field build_ok"
    )


def test_another_kernel_id_is_rejected() -> None:
    report = changed(lambda document: document.update(kernel_id="gfx928/a/b/c/d"))
    verdict = rejected(report, VerdictReason.KERNEL_ID_MISMATCH)
    assert verdict.message == f"the output names the kernel gfx928/a/b/c/d, it is {KERNEL_ID}"
    assert verdict.details == (
        Problem(
            code="kernel_id_mismatch",
            message="the output is that of gfx928/a/b/c/d",
            pointer="/kernel_id",
            found="gfx928/a/b/c/d",
            expected=KERNEL_ID,
            hint="take it from the environment variable KERNEL_ZOO_KERNEL_ID",
        ),
    )
    assert verdict.output is not None


@pytest.mark.parametrize(
    ("output_arch", "runner_arch"), [("gfx936", "gfx928"), ("gfx928", "gfx936"), ("sm_90", "sm_90")]
)
def test_output_desc_and_runner_have_to_agree_on_the_architecture(
    output_arch: str, runner_arch: str
) -> None:
    report = changed(lambda document: document.update(arch=output_arch))
    context = replace(CONTEXT, runner_arch=runner_arch)
    verdict = rejected(report, VerdictReason.ARCH_MISMATCH, context)
    assert verdict.message == (
        f"the output is of {output_arch}, desc.yaml asks for gfx928, the runner has {runner_arch}"
    )
    (problem,) = verdict.details
    assert problem.found == f"output {output_arch}, runner {runner_arch}"
    assert problem.expected == "gfx928"
    assert problem.hint == "take it from the environment variable KERNEL_ZOO_ARCH"


def case_problem(what: str, found: str) -> Problem:
    return Problem(
        code="case_set_mismatch",
        message=f"cases {what}",
        pointer="/cases",
        found=found,
        expected="n4, n8",
        hint="report every case of KERNEL_ZOO_TEST_CASE_METAS exactly once",
    )


def test_a_missing_case_is_named() -> None:
    verdict = rejected(
        changed(lambda document: document["cases"].pop(0)), VerdictReason.CASE_SET_MISMATCH
    )
    assert verdict.details == (case_problem("missing: n4", "n8"),)
    assert verdict.message == "cases missing: n4"


def test_missing_extra_and_repeated_cases_are_named_apart() -> None:
    def change(document: Any) -> None:
        second = document["cases"][1]
        document["cases"] = [second, {**second, "test_case_id": "n16"}, second]

    verdict = rejected(changed(change), VerdictReason.CASE_SET_MISMATCH)
    assert verdict.details == (
        case_problem("missing: n4", "n8, n16"),
        case_problem("not in the metas: n16", "n8, n16"),
        case_problem("given twice: n8", "n8, n16"),
    )
    assert verdict.message == "cases missing: n4 and 2 more"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["latency_ms", "watts"], "n4 reports metrics that are not declared: watts"),
        (["latency_ms", "latency_ms"], "n4 reports metrics twice: latency_ms"),
        (["throughput"], "n4 passed without its primary metric: latency_ms"),
        ([], "n4 passed without its primary metric: latency_ms"),
    ],
)
def test_metrics_are_declared_once_and_hold_the_primary_one(names: list[str], message: str) -> None:
    metrics = [{"name": name, "value": 1.0} for name in names]
    report = changed(lambda document: document["cases"][0].update(metrics=metrics))
    verdict = rejected(report, VerdictReason.METRIC_SET_MISMATCH)
    assert verdict.message == message
    assert verdict.details == (
        Problem(
            code="metric_set_mismatch",
            message=message,
            pointer="/cases/0/metrics",
            found=", ".join(dict.fromkeys(names)) or "no metrics",
            expected="each at most once: latency_ms, throughput",
        ),
    )


def fail(case: Any, **changes: object) -> None:
    case.update({"correctness": "failed", "accept": False, "error": "max_abs_err 3"} | changes)


def test_a_failed_case_may_have_no_metrics() -> None:
    def change(document: Any) -> None:
        fail(document["cases"][0], metrics=[])
        document["overall"].update(accept=False, accept_reason="n4 is wrong")

    verdict = rejected(changed(change), VerdictReason.BENCHMARK_REJECTED)
    assert verdict.message == "n4 is wrong (not accepted: n4)"


def test_a_failed_case_that_is_accepted_is_rejected() -> None:
    def change(document: Any) -> None:
        fail(document["cases"][1], accept=True)
        document["overall"]["accept"] = False

    verdict = rejected(changed(change), VerdictReason.FAILED_CASE_ACCEPTED)
    assert verdict.details == (
        Problem(
            code="failed_case_accepted",
            message="n8 failed its correctness check and is accepted",
            pointer="/cases/1/accept",
            found="correctness failed, accept true",
            expected="accept false",
            hint="the case says: max_abs_err 3",
        ),
    )


@pytest.mark.parametrize("correctness", ["failed", "skipped"])
def test_an_accept_with_a_case_that_did_not_pass_is_rejected(correctness: str) -> None:
    def change(document: Any) -> None:
        fail(document["cases"][0], correctness=correctness, error=None, accept_reason="no memory")

    verdict = rejected(changed(change), VerdictReason.ACCEPT_WITH_FAILED_CASE)
    assert verdict.details == (
        Problem(
            code="accept_with_failed_case",
            message=f"the whole is accepted, but n4 {correctness}",
            pointer="/cases/0/correctness",
            found=correctness,
            expected="every case passed, or overall.accept false",
            hint="the case says: no memory",
        ),
    )


@pytest.mark.parametrize("accept", [True, False])
def test_a_build_that_the_output_says_was_not_good_is_rejected(accept: bool) -> None:
    changes = {"build_ok": False, "accept": accept, "accept_reason": "hipcc warned"}
    report = changed(lambda document: document["overall"].update(changes))
    verdict = rejected(report, VerdictReason.BUILD_NOT_OK)
    assert verdict.message == "the output says that the build was not good: hipcc warned"


def test_a_reference_source_that_is_not_in_the_package_is_rejected() -> None:
    context = replace(CONTEXT, package_paths=frozenset({"src/kernel.py"}))
    verdict = rejected(REPORT, VerdictReason.REFERENCE_SOURCES_MISSING, context)
    assert verdict.message == "src/reference.py is not in the package"
    assert verdict.details == (
        Problem(
            code="reference_sources_missing",
            message="src/reference.py is not in the package",
            file=".kernel_package/desc.yaml",
            pointer="/reference_sources/0",
            found="no src/reference.py",
            expected="a file of the package",
        ),
    )


def test_a_kernel_that_froze_meanwhile_is_rejected() -> None:
    verdict = rejected(REPORT, VerdictReason.FROZEN, replace(CONTEXT, frozen=True))
    assert verdict.message == "the kernel is frozen: it takes no submissions"


def test_a_kernel_id_that_conflicts_is_rejected() -> None:
    context = replace(CONTEXT, kernel_id_conflict="it lies inside the kernel gfx928/Norm")
    verdict = rejected(REPORT, VerdictReason.KERNEL_ID_CONFLICT, context)
    assert verdict.message == (
        f"{KERNEL_ID} cannot be added: it lies inside the kernel gfx928/Norm"
    )


def test_a_kernel_that_kept_moving_is_rejected() -> None:
    verdict = rejected(REPORT, VerdictReason.SUPERSEDED, replace(CONTEXT, superseded=True))
    assert verdict.message == (
        "the kernel changed in the repository during every run; submit again on what is there"
    )


def test_the_benchmarks_own_verdict_is_kept_with_its_reason() -> None:
    def change(document: Any) -> None:
        document["overall"].update(accept=False, accept_reason="7% slower\nthan best")
        document["cases"][1]["accept"] = False

    verdict = rejected(changed(change), VerdictReason.BENCHMARK_REJECTED)
    assert verdict.message == "7% slower than best (not accepted: n8)"
    assert verdict.output is not None
    assert verdict.output.accept is False
