"""From the core's records to the JSON that the API answers: pure, and the only place that knows."""

from __future__ import annotations

import base64
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kzoo_core.clock import format_time
from kzoo_core.contract.documents import load_json
from kzoo_core.contract.records import Correctness
from kzoo_core.errors import KzooError
from kzoo_core.queue.records import State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kzoo_core.contract.records import (
        Desc,
        MetricMeta,
        Record,
        RunReport,
        ScoreCase,
        ScoreEntry,
        TestCaseMeta,
    )
    from kzoo_core.errors import Problem
    from kzoo_core.ids import CommitId, KernelId, SubmissionId
    from kzoo_core.lifecycle.board import KernelDetail
    from kzoo_core.queue.logs import LogSlice
    from kzoo_core.queue.records import Attempt, Reason, Submission
    from kzoo_core.store.history import HistoryEntry
    from kzoo_core.store.readback import PastAccept

JsonObject = dict[str, object]


def problems_view(problems: Iterable[Problem]) -> list[JsonObject]:
    """Return problems as ``schemas/problem.json`` has them."""
    return [problem.as_json() for problem in problems]


def status_view(submission: Submission, position: int | None) -> JsonObject:
    """Return what the long poll answers."""
    return {
        "uuid": submission.uuid,
        "kernel_id": submission.kernel_id,
        "status": submission.public_status,
        "phase": submission.phase.value,
        "revision": submission.revision,
        "position": position,
        "attempt": submission.attempt.number if submission.attempt is not None else None,
        "mode": submission.mode.value,
        "outcome": submission.outcome.value if submission.outcome is not None else None,
        "reason": reason_view(submission.reason),
        "commit_sha": submission.commit_sha,
        "records": [record_view(record) for record in submission.records],
    }


def submission_view(submission: Submission, position: int | None) -> JsonObject:
    """Return one submission, whole; tokens, claim ids and keys stay inside."""
    return {
        **status_view(submission, position),
        "submitter_id": submission.submitter_id,
        "optimization_summary": submission.optimization_summary,
        "submitted_at": format_time(submission.submitted_at),
        "charged": submission.charged,
        "arch": submission.arch,
        "package_sha256": submission.package_sha256,
        "package_bytes": submission.package_bytes,
        "warnings": problems_view(submission.warnings),
        "attempts": [attempt_view(attempt) for attempt in submission.attempts],
        "bench_commit_sha": submission.bench_commit_sha,
        "finished_at": _time(submission.finished_at),
    }


def past_view(bench_commit: CommitId, past: PastAccept) -> JsonObject:
    """Return what git says of an accepted submission whose record is gone."""
    trailers = past.trailers
    return {
        "kernel_id": trailers.kernel_id,
        "attempt": trailers.attempt,
        "submitter_id": trailers.submitter,
        "runner_id": trailers.runner_id,
        "arch": trailers.arch,
        "isolation": trailers.isolation,
        "package_sha256": trailers.package_sha256,
        "commit_sha": past.source_commit,
        "bench_commit_sha": bench_commit,
        "recorded_at": format_time(past.recorded_at),
    }


def submitted_view(submission: Submission, position: int | None) -> JsonObject:
    """Return the 202 of a submission; its URLs are paths, right behind any proxy."""
    path = f"/api/submissions/{submission.uuid}"
    return {
        "uuid": submission.uuid,
        "status": submission.public_status,
        "position": position,
        "status_url": f"{path}/status",
        "log_url": f"{path}/log",
        "warnings": problems_view(submission.warnings),
    }


def attempt_view(attempt: Attempt) -> JsonObject:
    """Return one attempt."""
    return {
        "attempt": attempt.number,
        "runner_id": attempt.runner_id,
        "arch": attempt.arch,
        "isolation": attempt.isolation,
        "phase": attempt.phase.value,
        "claimed_at": format_time(attempt.claimed_at),
        "ended_at": _time(attempt.ended_at),
        "end": attempt.end.value if attempt.end is not None else None,
        "detail": attempt.detail,
    }


def reason_view(reason: Reason | None) -> JsonObject | None:
    """Return why a submission ended as it did."""
    if reason is None:
        return None
    return {
        "code": reason.code,
        "message": reason.message,
        "details": problems_view(reason.details),
    }


def record_view(record: Record) -> JsonObject:
    """Return one record that a submission set."""
    return asdict(record)


def output_view(
    uuid: SubmissionId, attempt: int, report: RunReport, limit_bytes: int
) -> JsonObject:
    """Return the evidence of an attempt; ``document`` is null where stdout is no JSON."""
    stdout = report.stdout or b""
    view: JsonObject = {
        "uuid": uuid,
        "attempt": attempt,
        "stdout": stdout.decode("utf-8", "replace"),
        "build_exit_code": report.build_exit_code,
        "benchmark_exit_code": report.benchmark_exit_code,
        "failure": asdict(report.failure) if report.failure is not None else None,
        "durations_s": dict(report.durations_s),
        "environment": dict(report.environment),
        "document": _document(stdout, limit_bytes),
    }
    try:
        stdout.decode("utf-8")
    except UnicodeDecodeError:
        view["stdout_base64"] = base64.b64encode(stdout).decode("ascii")
    return view


def kernel_view(detail: KernelDetail, running: Submission | None) -> JsonObject:
    """Return one kernel at the head, and the attempt that runs for it."""
    return {
        "kernel_id": detail.entry.kernel_id,
        "revision": detail.revision,
        "valid": detail.entry.valid,
        "problems": problems_view(detail.entry.problems),
        "desc": desc_view(detail.desc) if detail.desc is not None else None,
        "cases": [
            case_view(
                meta, detail.scoreboard.case(meta.test_case_id) if detail.scoreboard else None
            )
            for meta in detail.metas
        ],
        "running": running_view(running) if running is not None else None,
    }


def desc_view(desc: Desc) -> JsonObject:
    """Return a datasheet as ``schemas/desc.json`` has it; what was not given is left out."""
    view = _given(asdict(desc))
    view["io_signature"] = [_given(asdict(tensor)) for tensor in desc.io_signature]
    view["quantization"] = _given(asdict(desc.quantization))
    view["status"] = desc.status.value
    return view


def case_view(meta: TestCaseMeta, scores: ScoreCase | None) -> JsonObject:
    """Return a case and its scores; a seed's placeholder counts as no result (D20)."""
    return {
        "test_case_id": meta.test_case_id,
        "params": dict(meta.params),
        "primary_metric": meta.primary_metric,
        "tolerance": dict(meta.tolerance),
        "correctness": _correctness(meta, scores).value,
        "metrics": [_metric_view(metric, scores) for metric in meta.metrics],
    }


def running_view(submission: Submission) -> JsonObject | None:
    """Return the attempt that runs for a kernel."""
    attempt = submission.attempt
    if attempt is None or submission.state not in {State.RUNNING, State.REPORTED}:
        return None
    return {
        "uuid": submission.uuid,
        "attempt": attempt.number,
        "runner_id": attempt.runner_id,
        "phase": submission.phase.value,
        "submitter_id": submission.submitter_id,
    }


def history_view(
    kernel_id: KernelId,
    entries: Iterable[HistoryEntry],
    next_cursor: str | None,
    *,
    test_case: str | None,
    metric: str | None,
) -> JsonObject:
    """Return a page of history; the filters narrow what each entry shows, never which there are."""
    return {
        "kernel_id": kernel_id,
        "items": [_narrowed(entry, test_case, metric).as_json() for entry in entries],
        "next_cursor": next_cursor,
    }


def log_headers(part: LogSlice) -> dict[str, str]:
    """Return what goes beside the bytes of a log."""
    complete = part.complete and part.next_offset >= part.size
    headers = {
        "X-Next-Offset": str(part.next_offset),
        "X-Log-Complete": "true" if complete else "false",
    }
    if part.attempt is not None:
        headers["X-Attempt"] = str(part.attempt)
    if part.marks:
        headers["X-Log-Phases"] = ", ".join(
            f"{mark.phase.value}={mark.offset}" for mark in part.marks
        )
    return headers


def _metric_view(metric: MetricMeta, scores: ScoreCase | None) -> JsonObject:
    best = scores.metrics_best.get(metric.name) if scores is not None else None
    current = scores.metrics_current.get(metric.name) if scores is not None else None
    return {
        "name": metric.name,
        "unit": metric.unit,
        "direction": metric.direction.value,
        "best": _score_view(best),
        "current": _score_view(current),
    }


def _score_view(entry: ScoreEntry | None) -> JsonObject | None:
    if entry is None or entry.is_seed:
        return None
    return {
        "value": entry.value,
        "submitter": entry.submitter,
        "commit_sha": entry.commit_sha,
        "recorded_at": format_time(entry.recorded_at),
    }


def _correctness(meta: TestCaseMeta, scores: ScoreCase | None) -> Correctness:
    """Return a case's correctness, unknown as long as nothing but placeholders is known of it."""
    if scores is None:
        return Correctness.UNKNOWN
    primary = scores.metrics_current.get(meta.primary_metric)
    return Correctness.UNKNOWN if primary is None or primary.is_seed else scores.correctness_current


def _narrowed(entry: HistoryEntry, test_case: str | None, metric: str | None) -> HistoryEntry:
    """Return an entry with one case or one metric alone; ``None`` narrows nothing."""
    cases = tuple(
        replace(case, metrics=tuple(item for item in case.metrics if metric in {None, item.name}))
        for case in entry.cases
        if test_case in {None, case.test_case_id}
    )
    records = tuple(
        record
        for record in entry.records
        if test_case in {None, record.test_case_id} and metric in {None, record.metric}
    )
    return replace(entry, cases=tuple(case for case in cases if case.metrics), records=records)


def _document(stdout: bytes, limit_bytes: int) -> object:
    try:
        return load_json(stdout, max_bytes=limit_bytes)
    except KzooError:
        return None


def _given(values: dict[str, object]) -> JsonObject:
    return {key: value for key, value in values.items() if value is not None}


def _time(moment: datetime | None) -> str | None:
    return format_time(moment) if moment is not None else None
