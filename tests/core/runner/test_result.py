from __future__ import annotations

import base64
import json
from typing import Any

from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.ids import RunnerId, SubmissionId
from kzoo_core.runner.records import AttemptKey
from kzoo_core.runner.result import cut_body, result_body

KEY = AttemptKey(SubmissionId("11111111-2222-3333-4444-555555555555"), 3)


def report(**changes: Any) -> RunReport:
    values: dict[str, Any] = {
        "build_ok": True,
        "build_exit_code": 0,
        "benchmark_exit_code": 0,
        "failure": None,
        "stdout": b"\xff{}\n",
        "durations_s": {"build": 1.23456789, "benchmark": 2.0},
        "environment": {"isolation": "none"},
    }
    return RunReport(**{**values, **changes})


def body(run: RunReport, *, logs: bytes | None = None, limit_bytes: int = 10_000) -> bytes:
    return result_body(
        run, key=KEY, runner_id=RunnerId("node1"), logs=logs, limit_bytes=limit_bytes
    )


def test_a_result_says_all_that_is_known_of_a_run() -> None:
    assert json.loads(body(report())) == {
        "attempt": 3,
        "runner_id": "node1",
        "build_ok": True,
        "exit_codes": {"build": 0, "benchmark": 0},
        "failure": None,
        "stdout_base64": base64.b64encode(b"\xff{}\n").decode(),
        "durations_s": {"build": 1.234568, "benchmark": 2.0},
        "environment": {"isolation": "none"},
    }


def test_a_run_that_failed_in_its_build_has_no_output() -> None:
    failed = report(
        build_ok=False,
        build_exit_code=1,
        benchmark_exit_code=None,
        failure=RunFailure("build_failed", "why"),
        stdout=None,
    )

    document = json.loads(body(failed))

    assert document["failure"] == {"kind": "build_failed", "detail": "why"}
    assert document["exit_codes"] == {"build": 1, "benchmark": None}
    assert document["stdout_base64"] is None


def test_the_same_report_is_the_same_bytes() -> None:
    assert body(report()) == body(report())


def test_logs_travel_along_where_they_fit() -> None:
    logs = b"x" * 1000

    fits = json.loads(body(report(), logs=logs))

    assert base64.b64decode(fits["logs_base64"]) == logs
    assert "logs_base64" not in json.loads(body(report(), logs=logs, limit_bytes=1500))
    assert "logs_base64" not in json.loads(body(report(), logs=b""))


def test_a_result_that_is_too_large_loses_its_log_first_and_then_its_output() -> None:
    whole = body(report(), logs=b"log")

    assert cut_body(whole, 0) == whole
    assert cut_body(whole, 1) == body(report())
    document = json.loads(cut_body(whole, 2))
    assert document["stdout_base64"] is None
    assert document["failure"] == {
        "kind": "output_limit",
        "detail": f"the server takes no result of {len(whole)} bytes",
    }


def test_a_failure_that_was_known_before_outweighs_the_size() -> None:
    failed = report(failure=RunFailure("timeout", "too long"))

    assert json.loads(cut_body(body(failed), 2))["failure"]["kind"] == "timeout"
