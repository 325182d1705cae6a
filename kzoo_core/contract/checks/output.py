"""What an output must hold beyond its schema, held against the metas of the package that ran."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kzoo_core.contract.quoting import listed, printable
from kzoo_core.contract.records import Correctness
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kzoo_core.contract.records import BenchmarkOutput, CaseOutput, TestCaseMeta


def case_set_problems(output: BenchmarkOutput, metas: Sequence[TestCaseMeta]) -> list[Problem]:
    """The cases are exactly those of the metas: none missing, none extra, none twice."""
    times = Counter(case.test_case_id for case in output.cases)
    want = [meta.test_case_id for meta in metas]
    wrong = (
        ("missing", [name for name in want if name not in times]),
        ("not in the metas", sorted(times.keys() - set(want))),
        ("given twice", [name for name, count in times.items() if count > 1]),
    )
    return [
        Problem(
            code="case_set_mismatch",
            message=f"cases {what}: {listed(names)}",
            pointer="/cases",
            found=listed(times),
            expected=listed(want),
            hint="report every case of KERNEL_ZOO_TEST_CASE_METAS exactly once",
        )
        for what, names in wrong
        if names
    ]


def metric_set_problems(output: BenchmarkOutput, metas: Sequence[TestCaseMeta]) -> list[Problem]:
    """Metrics are declared and unique; a case that passed has its primary metric.

    A declared metric may be left out (D20 keeps its best); a case that did not pass may have none.
    """
    by_id = {meta.test_case_id: meta for meta in metas}
    return [
        problem
        for place, case in enumerate(output.cases)
        if case.test_case_id in by_id
        for problem in _metric_problems(place, case, by_id[case.test_case_id])
    ]


def _metric_problems(place: int, case: CaseOutput, meta: TestCaseMeta) -> Iterator[Problem]:
    declared = [metric.name for metric in meta.metrics]
    times = Counter(metric.name for metric in case.metrics)
    primary = [meta.primary_metric] if case.correctness is Correctness.PASSED else []
    wrong = (
        (
            "reports metrics that are not declared",
            [name for name in times if name not in declared],
        ),
        ("reports metrics twice", [name for name, count in times.items() if count > 1]),
        ("passed without its primary metric", [name for name in primary if name not in times]),
    )
    for what, names in wrong:
        if names:
            yield Problem(
                code="metric_set_mismatch",
                message=f"{case.test_case_id} {what}: {listed(names)}",
                pointer=f"/cases/{place}/metrics",
                found=listed(times) if times else "no metrics",
                expected=f"each at most once: {listed(metric.name for metric in meta.metrics)}",
            )


def accepted_failure_problems(output: BenchmarkOutput) -> list[Problem]:
    """A case whose correctness failed is not accepted."""
    return [
        Problem(
            code="failed_case_accepted",
            message=f"{case.test_case_id} failed its correctness check and is accepted",
            pointer=f"/cases/{place}/accept",
            found="correctness failed, accept true",
            expected="accept false",
            hint=_reason_of(case),
        )
        for place, case in enumerate(output.cases)
        if case.correctness is Correctness.FAILED and case.accept
    ]


def accepted_case_problems(output: BenchmarkOutput) -> list[Problem]:
    """An accepted output has passed every case."""
    if not output.accept:
        return []
    return [
        Problem(
            code="accept_with_failed_case",
            message=f"the whole is accepted, but {case.test_case_id} {case.correctness}",
            pointer=f"/cases/{place}/correctness",
            found=case.correctness.value,
            expected="every case passed, or overall.accept false",
            hint=_reason_of(case),
        )
        for place, case in enumerate(output.cases)
        if case.correctness is not Correctness.PASSED
    ]


def _reason_of(case: CaseOutput) -> str | None:
    said = printable(case.error or case.accept_reason, 200)
    return f"the case says: {said}" if said else None
