"""Answers of a server, with members that a test changes."""

from __future__ import annotations

from typing import Any

UUID = "0b9ad2f2-6c2c-4a8e-9a51-0d1f5f0b6c11"
KERNEL = "gfx928/Norm/RMSNorm/fp32/fast"
SHA = "a" * 40
BENCH_SHA = "b" * 40


def submission(**changes: Any) -> dict[str, Any]:
    """Return ``schemas/submission.json``; queued, unless changed."""
    view: dict[str, Any] = {
        "uuid": UUID,
        "kernel_id": KERNEL,
        "submitter_id": "alice",
        "mode": "ranked",
        "optimization_summary": None,
        "submitted_at": "2026-08-02T11:58:00Z",
        "status": "queued",
        "phase": "queued",
        "revision": 1,
        "position": 2,
        "attempt": None,
        "charged": 0,
        "arch": "gfx928",
        "package_sha256": "c" * 64,
        "package_bytes": 2048,
        "warnings": [],
        "attempts": [],
        "outcome": None,
        "reason": None,
        "commit_sha": None,
        "bench_commit_sha": None,
        "records": [],
        "finished_at": None,
    }
    return {**view, **changes}


def attempt(**changes: Any) -> dict[str, Any]:
    """Return one attempt of a submission."""
    view: dict[str, Any] = {
        "attempt": 1,
        "runner_id": "node1-7f",
        "arch": "gfx928",
        "isolation": "none",
        "phase": "benchmark",
        "claimed_at": "2026-08-02T11:59:00Z",
        "ended_at": None,
        "end": None,
        "detail": None,
    }
    return {**view, **changes}


def running(**changes: Any) -> dict[str, Any]:
    """Return a submission that runs."""
    view: dict[str, Any] = {
        "status": "running",
        "phase": "benchmark",
        "position": None,
        "attempt": 1,
        "attempts": [attempt()],
        "revision": 4,
    }
    return submission(**{**view, **changes})


def accepted(**changes: Any) -> dict[str, Any]:
    """Return an accepted submission that set a record."""
    record = {
        "test_case_id": "small",
        "metric": "latency_us",
        "unit": "us",
        "value": 12.25,
        "previous": 15.0,
    }
    view: dict[str, Any] = {
        "status": "done",
        "phase": "done",
        "position": None,
        "attempt": 1,
        "attempts": [attempt(end="reported", phase="done")],
        "outcome": "accepted",
        "commit_sha": SHA,
        "bench_commit_sha": BENCH_SHA,
        "records": [record],
        "revision": 7,
        "finished_at": "2026-08-02T11:59:30Z",
    }
    return submission(**{**view, **changes})


def rejected(**changes: Any) -> dict[str, Any]:
    """Return a rejected submission with a problem in its reason."""
    reason = {
        "code": "metric_set_mismatch",
        "message": "case small lacks latency_us",
        "details": [
            {
                "code": "missing_metric",
                "message": "no such metric",
                "severity": "error",
                "pointer": "/cases/0/metrics",
                "found": "bandwidth",
                "expected": "latency_us",
                "hint": "print every metric of the metas",
            }
        ],
    }
    view: dict[str, Any] = {
        "outcome": "rejected",
        "reason": reason,
        "commit_sha": None,
        "records": [],
    }
    return accepted(**{**view, "bench_commit_sha": None, **changes})


def score(value: float = 12.25, submitter: str = "alice") -> dict[str, Any]:
    """Return the holder of a value."""
    return {
        "value": value,
        "submitter": submitter,
        "commit_sha": SHA,
        "recorded_at": "2026-08-02T10:00:00Z",
    }


def entry(**changes: Any) -> dict[str, Any]:
    """Return one kernel of a listing."""
    case = {
        "test_case_id": "small",
        "primary_metric": "latency_us",
        "unit": "us",
        "direction": "lower_better",
        "best": score(),
        "current": score(13.0, "bob"),
        "correctness": "passed",
    }
    view: dict[str, Any] = {
        "kernel_id": KERNEL,
        "name": "RMSNorm",
        "category": {"arch": "gfx928"},
        "summary": "a norm",
        "status": "normal",
        "tags": [],
        "owner": None,
        "valid": True,
        "problems": [],
        "min_arch_feature": None,
        "cases": [case],
        "updated_at": "2026-08-02T10:00:00Z",
    }
    return {**view, **changes}


def kernel(**changes: Any) -> dict[str, Any]:
    """Return one kernel's own page."""
    metric = {
        "name": "latency_us",
        "unit": "us",
        "direction": "lower_better",
        "best": score(),
        "current": None,
    }
    case = {
        "test_case_id": "small",
        "params": {"n": 4},
        "primary_metric": "latency_us",
        "tolerance": {},
        "correctness": "passed",
        "metrics": [metric, {**metric, "name": "bandwidth", "direction": "higher_better"}],
    }
    view: dict[str, Any] = {
        "kernel_id": KERNEL,
        "revision": SHA,
        "valid": True,
        "problems": [],
        "desc": {"name": "RMSNorm", "status": "normal", "owner": None, "summary": "a norm"},
        "cases": [case],
        "running": None,
    }
    return {**view, **changes}
