"""Where two reasons apply the earlier one is the reason."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.contract.verdict import (
    Verdict,
    VerdictContext,
    VerdictReason,
    judge,
)
from tests.packages import output_document

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.core.contract.reports import CONTEXT, REPORT

Faulty = tuple[
    "Callable[[RunReport], RunReport]",
    "Callable[[Any], object]",
    "Callable[[VerdictContext], VerdictContext]",
]


def same(value: Any) -> Any:
    return value


def failing(kind: str) -> Callable[[RunReport], RunReport]:
    def change(report: RunReport) -> RunReport:
        if report.failure is not None and list(VerdictReason).index(
            VerdictReason(report.failure.kind)
        ) < list(VerdictReason).index(VerdictReason(kind)):
            return report  # a report has one failure: the earlier one stands for both
        return replace(report, failure=RunFailure(kind, "d"))

    return change


def bad_metric(document: Any) -> None:
    document["cases"][0]["metrics"].append({"name": "watts", "value": 1.0})


def lower(document: Any) -> None:
    document["overall"]["accept"] = False


FAULTS: dict[VerdictReason, Faulty] = {
    VerdictReason.BUILD_FAILED: (lambda report: replace(report, build_exit_code=1), same, same),
    VerdictReason.NON_DETERMINISTIC_BUILD: (failing("non_deterministic_build"), same, same),
    VerdictReason.EXPECTED_CHANGED: (failing("expected_changed"), same, same),
    VerdictReason.TAMPERED: (failing("tampered"), same, same),
    VerdictReason.TIMEOUT: (failing("timeout"), same, same),
    VerdictReason.OOM: (failing("oom"), same, same),
    VerdictReason.OUTPUT_LIMIT: (failing("output_limit"), same, same),
    VerdictReason.BENCHMARK_FAILED: (
        lambda report: replace(report, benchmark_exit_code=1),
        same,
        same,
    ),
    VerdictReason.OUTPUT_NOT_JSON: (same, lambda document: document.update(TRAILING=1), same),
    VerdictReason.NON_FINITE: (
        same,
        lambda document: document.update(environment={"x": float("nan")}),
        same,
    ),
    VerdictReason.SCHEMA: (same, lambda document: document.update(extra=1), same),
    VerdictReason.KERNEL_ID_MISMATCH: (same, lambda document: document.update(kernel_id="a"), same),
    VerdictReason.ARCH_MISMATCH: (same, lambda document: document.update(arch="sm_90"), same),
    VerdictReason.CASE_SET_MISMATCH: (same, lambda document: document["cases"].pop(1), same),
    VerdictReason.METRIC_SET_MISMATCH: (same, bad_metric, same),
    VerdictReason.FAILED_CASE_ACCEPTED: (
        same,
        lambda document: document["cases"][0].update(correctness="failed", accept=True),
        same,
    ),
    VerdictReason.ACCEPT_WITH_FAILED_CASE: (
        same,
        lambda document: document["cases"][-1].update(correctness="skipped"),
        same,
    ),
    VerdictReason.BUILD_NOT_OK: (
        same,
        lambda document: document["overall"].update(build_ok=False),
        same,
    ),
    VerdictReason.REFERENCE_SOURCES_MISSING: (
        same,
        same,
        lambda context: replace(context, package_paths=frozenset()),
    ),
    VerdictReason.FROZEN: (same, same, lambda context: replace(context, frozen=True)),
    VerdictReason.KERNEL_ID_CONFLICT: (
        same,
        same,
        lambda context: replace(context, kernel_id_conflict="no"),
    ),
    VerdictReason.SUPERSEDED: (same, same, lambda context: replace(context, superseded=True)),
    VerdictReason.BENCHMARK_REJECTED: (same, lower, same),
}


def judge_with(*reasons: VerdictReason) -> Verdict:
    """Judge a run that every one of ``reasons`` applies to."""
    report, document, context = REPORT, output_document(), CONTEXT
    for reason in reasons:
        change_report, change_document, change_context = FAULTS[reason]
        report, context = change_report(report), change_context(context)
        change_document(document)
    trailing = document.pop("TRAILING", None)
    stdout = json.dumps(document) + (" trailing" if trailing else "")
    return judge(replace(report, stdout=stdout.encode()), context)


def test_every_reason_can_be_reached() -> None:
    assert list(FAULTS) == list(VerdictReason)
    for reason in VerdictReason:
        assert judge_with(reason).reason is reason


# A whole that is rejected is not accepted with a failed case.
EXCLUSIVE = (VerdictReason.ACCEPT_WITH_FAILED_CASE, VerdictReason.BENCHMARK_REJECTED)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [pair for pair in itertools.combinations(VerdictReason, 2) if pair != EXCLUSIVE],
)
def test_where_two_reasons_apply_the_earlier_one_is_the_reason(
    earlier: VerdictReason, later: VerdictReason
) -> None:
    assert judge_with(earlier, later).reason is earlier
    assert judge_with(later, earlier).reason is earlier
