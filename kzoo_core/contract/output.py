"""The benchmark's output document as a frozen record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kzoo_core.clock import parse_time
from kzoo_core.contract.records import BenchmarkOutput, CaseOutput, Correctness, MetricValue

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_output(document: object) -> BenchmarkOutput:
    """Return the record of a document in which ``validate("benchmark_output", …)`` saw no fault."""
    fields = cast("Mapping[str, Any]", document)
    overall = fields["overall"]
    return BenchmarkOutput(
        schema_version=fields["schema_version"],
        kernel_id=fields["kernel_id"],
        ran_at=parse_time(fields["ran_at"]),
        runner_id=fields["runner_id"],
        arch=fields["arch"],
        accept=overall["accept"],
        accept_reason=overall["accept_reason"],
        build_ok=overall["build_ok"],
        cases=tuple(_case(case) for case in fields["cases"]),
        environment=fields.get("environment", {}),
    )


def _case(fields: Mapping[str, Any]) -> CaseOutput:
    return CaseOutput(
        test_case_id=fields["test_case_id"],
        correctness=Correctness(fields["correctness"]),
        accept=fields["accept"],
        accept_reason=fields["accept_reason"],
        metrics=tuple(_metric(metric) for metric in fields["metrics"]),
        correctness_detail=fields.get("correctness_detail", {}),
        error=fields.get("error"),
    )


def _metric(fields: Mapping[str, Any]) -> MetricValue:
    return MetricValue(
        name=fields["name"],
        value=float(fields["value"]),
        samples=tuple(float(sample) for sample in fields.get("samples", ())),
    )
