"""A submission as people read it: where it is, how it ended and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.client.problems import problems_from_json
from kzoo_tui.rendering.problems import problem_lines
from kzoo_tui.rendering.table import table
from kzoo_tui.rendering.words import NOTHING, age, number
from kzoo_tui.safe_text import SafeText, safe_line

if TYPE_CHECKING:
    from datetime import datetime

    from kzoo_core.client.views import (
        AttemptView,
        ReasonView,
        RecordView,
        StatusView,
        SubmissionView,
    )

_LABEL = 11


def submission_lines(view: SubmissionView, now: datetime) -> list[SafeText]:
    """Return the whole report: state, identity, attempts, reason, commits and records."""
    who = f"by {view['submitter_id']}, {view['mode']}, {age(view['submitted_at'], now)}"
    lines = [
        _line(state_words(view), view["kernel_id"]),
        _line("submission", f"{view['uuid']} {who}"),
    ]
    if view["optimization_summary"] is not None:
        lines.append(_line("summary", view["optimization_summary"]))
    if view["position"] is not None:
        lines.append(_line("position", str(view["position"])))
    lines += [_line("attempt", _attempt_words(attempt)) for attempt in view["attempts"]]
    lines += problem_lines(problems_from_json(view["warnings"]), indent="  ")
    if view["reason"] is not None:
        lines += _reason_lines(view["reason"])
    if view["commit_sha"] is not None:
        lines.append(_line("commit", _commit_words(view)))
    if view["outcome"] == "accepted" and view["mode"] == "check":
        lines.append(_line("commit", "none: mode check commits nothing"))
    lines += [_line("record", _record_words(record)) for record in view["records"]]
    if view["outcome"] == "accepted" and not view["records"] and view["mode"] == "ranked":
        lines.append(_line("record", "none: the best values stand"))
    return lines


def state_words(view: StatusView) -> str:
    """Return the one word that says most: the outcome once there is one, else the status."""
    return view["outcome"] or view["status"]


def progress_words(view: StatusView) -> str:
    """Return where a submission is, for one line that is drawn again and again."""
    words = [state_words(view)]
    if view["position"] is not None:
        words.append(f"position {view['position']}")
    if view["status"] == "running":
        words.append(view["phase"])
        words.append(f"attempt {view['attempt']}")
    return "  ".join(words)


def runs_table(views: list[SubmissionView], now: datetime, *, width: int | None) -> list[SafeText]:
    """Return a listing of submissions, one line each."""
    headers = ["SUBMISSION", "STATE", "KERNEL", "SUBMITTER", "WHEN", "WHY"]
    return table(headers, [_run_cells(view, now) for view in views], width=width)


def _run_cells(view: SubmissionView, now: datetime) -> list[str]:
    state = state_words(view)
    if view["status"] == "running":
        state = f"{view['phase']}, attempt {view['attempt']}"
    if view["mode"] == "check":
        state += " (check)"
    reason = view["reason"]
    position = view["position"]
    why = NOTHING if position is None else f"position {position}"
    if reason is not None:
        why = f"{reason['code']}: {reason['message']}"
    when = age(view["submitted_at"], now)
    return [view["uuid"], state, view["kernel_id"], view["submitter_id"], when, why]


def _attempt_words(attempt: AttemptView) -> str:
    words = f"{attempt['attempt']} on {attempt['runner_id']} ({attempt['arch']}, "
    words += f"isolation {attempt['isolation']}): {attempt['end'] or attempt['phase']}"
    return words if attempt["detail"] is None else f"{words}, {attempt['detail']}"


def _reason_lines(reason: ReasonView) -> list[SafeText]:
    lines = [_line("reason", f"{reason['code']}: {reason['message']}")]
    return lines + problem_lines(problems_from_json(reason["details"]), indent="  ")


def _commit_words(view: SubmissionView) -> str:
    scores = view["bench_commit_sha"]
    return f"{view['commit_sha']}" + (f", scores in {scores}" if scores is not None else "")


def _record_words(record: RecordView) -> str:
    words = f"{record['test_case_id']}: {record['metric']} {number(record['value'])} "
    words += record["unit"]
    previous = record["previous"]
    return f"{words} (first)" if previous is None else f"{words} (was {number(previous)})"


def _line(label: str, text: str) -> SafeText:
    return safe_line(f"{label:<{_LABEL}} {text}")
