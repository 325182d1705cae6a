from __future__ import annotations

from datetime import UTC, datetime

from kzoo_core.contract.output import parse_output
from kzoo_core.contract.records import BenchmarkOutput, CaseOutput, Correctness, MetricValue
from kzoo_core.contract.schemas import validate

FULL = {
    "schema_version": "1.0.0",
    "kernel_id": "gfx928/Attention/MHA/fp16/demo",
    "ran_at": "2026-08-02T11:00:00+02:00",
    "runner_id": "runner-sh01",
    "arch": "gfx928",
    "overall": {"accept": True, "accept_reason": "all passed", "build_ok": True},
    "cases": [
        {
            "test_case_id": "small",
            "correctness": "passed",
            "correctness_detail": {"max_abs_err": 1.2e-4},
            "accept": True,
            "accept_reason": "faster",
            "metrics": [{"name": "latency_ms", "value": 1, "samples": [1, 1.5]}],
            "error": None,
        }
    ],
    "environment": {"numpy": "2.0"},
}

LEAST = {
    "schema_version": "1.0.0",
    "kernel_id": "k",
    "ran_at": "2026-08-02T11:00:00Z",
    "runner_id": "r",
    "arch": "a",
    "overall": {"accept": False, "accept_reason": "", "build_ok": False},
    "cases": [
        {
            "test_case_id": "small",
            "correctness": "skipped",
            "accept": False,
            "accept_reason": "",
            "metrics": [],
        }
    ],
}


def test_every_field_of_the_guide_is_read() -> None:
    assert validate("benchmark_output", FULL) == []
    assert parse_output(FULL) == BenchmarkOutput(
        schema_version="1.0.0",
        kernel_id="gfx928/Attention/MHA/fp16/demo",
        ran_at=datetime(2026, 8, 2, 9, tzinfo=UTC),
        runner_id="runner-sh01",
        arch="gfx928",
        accept=True,
        accept_reason="all passed",
        build_ok=True,
        cases=(
            CaseOutput(
                test_case_id="small",
                correctness=Correctness.PASSED,
                accept=True,
                accept_reason="faster",
                metrics=(MetricValue("latency_ms", 1.0, (1.0, 1.5)),),
                correctness_detail={"max_abs_err": 1.2e-4},
                error=None,
            ),
        ),
        environment={"numpy": "2.0"},
    )


def test_optional_fields_may_be_left_out() -> None:
    assert validate("benchmark_output", LEAST) == []
    output = parse_output(LEAST)
    assert output.environment == {}
    assert output.cases[0].correctness_detail == {}
    assert output.cases[0].error is None
