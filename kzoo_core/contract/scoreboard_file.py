"""``bench_result.yaml`` between bytes and a frozen record (guide, section on the seed)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kzoo_core.clock import parse_time
from kzoo_core.contract.documents import dump_yaml
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Correctness, Scoreboard, ScoreCase, ScoreEntry
from kzoo_core.contract.yaml_fields import read_fields
from kzoo_core.errors import Problem
from kzoo_core.ids import KernelId, kernel_id_problem

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_scoreboard(
    data: bytes, file: str = SCOREBOARD_PATH
) -> tuple[Scoreboard | None, list[Problem]]:
    """Return the scoreboard and every problem of its file; ``None`` when a problem is an error."""
    document, problems = read_fields(data, "bench_result", file)
    if document is None:
        return None, problems
    bad_id = kernel_id_problem(document["kernel_id"], file=file)
    problems = [] if bad_id is None else [bad_id]
    problems.extend(_repeated_cases(document["cases"], file))
    return (None if problems else _scoreboard(document)), problems


def _repeated_cases(cases: list[Mapping[str, Any]], file: str) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for position, case in enumerate(cases):
        name = case["test_case_id"]
        if name in seen:
            problems.append(
                Problem(
                    code="duplicate_test_case",
                    message=f"{file} has the test case {name} twice",
                    file=file,
                    pointer=f"/cases/{position}/test_case_id",
                    found=f"{name} again",
                    expected="every test case once",
                )
            )
        seen.add(name)
    return problems


def _scoreboard(document: Mapping[str, Any]) -> Scoreboard:
    return Scoreboard(
        schema_version=document["schema_version"],
        kernel_id=KernelId(document["kernel_id"]),
        cases=tuple(_case(case) for case in document["cases"]),
        contract_id=document.get("contract_id"),
        class_key=document.get("class_key"),
    )


def _case(fields: Mapping[str, Any]) -> ScoreCase:
    return ScoreCase(
        test_case_id=fields["test_case_id"],
        metrics_best=_entries(fields["metrics_best"]),
        metrics_current=_entries(fields["metrics_current"]),
        correctness_current=Correctness(fields["correctness_current"]),
    )


def _entries(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, ScoreEntry]:
    return {
        name: ScoreEntry(
            value=float(entry["value"]),
            submitter=entry["submitter"],
            commit_sha=entry["commit_sha"],
            recorded_at=_moment(entry["recorded_at"]),
        )
        for name, entry in metrics.items()
    }


def _moment(value: str | datetime) -> datetime:
    """Return the time of a quoted or an unquoted timestamp; both are valid here (D8)."""
    return value.astimezone(UTC) if isinstance(value, datetime) else parse_time(value)


def dump_scoreboard(board: Scoreboard) -> bytes:
    """Return the file's bytes: the same board gives the same bytes, and parses to itself.

    Times are written in whole seconds, in UTC.
    """
    document: dict[str, object] = {
        "schema_version": board.schema_version,
        "kernel_id": board.kernel_id,
        "cases": [_case_fields(case) for case in board.cases],
    }
    if board.contract_id is not None:
        document["contract_id"] = board.contract_id
    if board.class_key is not None:
        document["class_key"] = board.class_key
    return dump_yaml(document)


def _case_fields(case: ScoreCase) -> dict[str, object]:
    return {
        "test_case_id": case.test_case_id,
        "metrics_best": _entry_fields(case.metrics_best),
        "metrics_current": _entry_fields(case.metrics_current),
        "correctness_current": case.correctness_current.value,
    }


def _entry_fields(entries: Mapping[str, ScoreEntry]) -> dict[str, object]:
    return {
        name: {
            "value": entry.value,
            "submitter": entry.submitter,
            "commit_sha": entry.commit_sha,
            "recorded_at": entry.recorded_at,
        }
        for name, entry in entries.items()
    }
