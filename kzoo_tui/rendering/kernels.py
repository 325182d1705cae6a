"""Kernels as people read them: a listing with best results, and one kernel's own page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.client.problems import problems_from_json
from kzoo_tui.rendering.problems import problem_lines
from kzoo_tui.rendering.table import table
from kzoo_tui.rendering.words import NOTHING, age, number, plural
from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kzoo_core.client.views import (
        HistoryEntry,
        KernelEntry,
        KernelView,
        MetricView,
        ScoreView,
    )

NO_RESULT = "no result"
_DESC_LINES = ("name", "status", "owner", "summary")


def kernels_table(
    entries: list[KernelEntry], now: datetime, *, width: int | None
) -> list[SafeText]:
    """Return a listing with one line for each case of each kernel."""
    headers = ["KERNEL", "STATUS", "CASE", "METRIC", "BEST", "HOLDER", "WHEN"]
    rows = [row for entry in entries for row in _entry_rows(entry, now)]
    return table(headers, rows, width=width)


def _entry_rows(entry: KernelEntry, now: datetime) -> list[list[str]]:
    kernel_id, status = entry["kernel_id"], entry["status"] or NOTHING
    if not entry["valid"]:
        found = plural(len(entry["problems"]), "problem")
        return [[kernel_id, f"invalid, {found}", NOTHING, NOTHING, NOTHING, NOTHING, NOTHING]]
    if not entry["cases"]:
        return [[kernel_id, status, NOTHING, NOTHING, NO_RESULT, NOTHING, NOTHING]]
    return [
        [
            kernel_id,
            status,
            case["test_case_id"],
            case["primary_metric"],
            *_score_cells(case["best"], case["unit"], now),
        ]
        for case in entry["cases"]
    ]


def _score_cells(score: ScoreView | None, unit: str, now: datetime) -> list[str]:
    if score is None:
        return [NO_RESULT, NOTHING, NOTHING]
    return [
        f"{number(score['value'])} {unit}",
        score["submitter"],
        age(score["recorded_at"], now),
    ]


def kernel_lines(view: KernelView, now: datetime, *, width: int | None) -> list[SafeText]:
    """Return one kernel's page: datasheet, running attempt, problems, results of each case."""
    lines = [safe_line(f"{'kernel':<8} {view['kernel_id']}")]
    desc = view["desc"] or {}
    lines += [safe_line(f"{name:<8} {desc[name]}") for name in _DESC_LINES if desc.get(name)]
    running = view["running"]
    if running is not None:
        words = f"{running['uuid']} by {running['submitter_id']}, {running['phase']}, "
        words += f"attempt {running['attempt']} on {running['runner_id']}"
        lines.append(safe_line(f"{'running':<8} {words}"))
    lines += problem_lines(problems_from_json(view["problems"]))
    rows = [
        [case["test_case_id"], *_metric_cells(metric, case["primary_metric"], now)]
        for case in view["cases"]
        for metric in case["metrics"]
    ]
    if rows:
        headers = ["CASE", "METRIC", "BETTER", "BEST", "HOLDER", "WHEN", "CURRENT"]
        lines += [safe_line(""), *table(headers, rows, width=width)]
    return lines


def _metric_cells(metric: MetricView, primary: str, now: datetime) -> list[str]:
    current = metric["current"]
    return [
        metric["name"] + (" *" if metric["name"] == primary else ""),
        "lower" if metric["direction"] == "lower_better" else "higher",
        *_score_cells(metric["best"], metric["unit"], now),
        NO_RESULT if current is None else f"{number(current['value'])} {metric['unit']}",
    ]


def history_table(
    entries: list[HistoryEntry], now: datetime, *, width: int | None
) -> list[SafeText]:
    """Return accepted attempts, newest first, one line each."""
    headers = ["COMMIT", "WHEN", "SUBMITTER", "RECORDS", "SUMMARY"]
    rows = [
        [
            entry["commit_sha"][:12],
            age(entry["recorded_at"], now),
            entry["submitter"],
            _records(entry["records"]),
            entry["summary"],
        ]
        for entry in entries
    ]
    return table(headers, rows, width=width)


def _records(records: list[dict[str, object]]) -> str:
    return ", ".join(_record(record) for record in records) or NOTHING


def _record(record: Mapping[str, object]) -> str:
    value = record.get("value")
    shown = number(value) if isinstance(value, int | float) else NOTHING
    return f"{record.get('test_case_id')} {shown}"
