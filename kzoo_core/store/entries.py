"""One line of the index: what listings show of a kernel, derived from its files alone. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from kzoo_core.clock import format_time, parse_time
from kzoo_core.contract.records import Category, Correctness, Direction, Status
from kzoo_core.errors import Problem, Severity
from kzoo_core.ids import KernelId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kzoo_core.contract.records import (
        PackageReport,
        Scoreboard,
        ScoreCase,
        ScoreEntry,
        TestCaseMeta,
    )


@dataclass(frozen=True, slots=True)
class Score:
    """A real value of the scoreboard; a seed's placeholder is no score (D20)."""

    value: float
    submitter: str
    commit_sha: str
    recorded_at: datetime

    def as_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "value": self.value,
            "submitter": self.submitter,
            "commit_sha": self.commit_sha,
            "recorded_at": format_time(self.recorded_at),
        }


@dataclass(frozen=True, slots=True)
class IndexCase:
    """One test case with the scores of its primary metric; ``None``: no result."""

    test_case_id: str
    primary_metric: str
    unit: str
    direction: Direction
    best: Score | None
    current: Score | None
    correctness: Correctness

    def as_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "test_case_id": self.test_case_id,
            "primary_metric": self.primary_metric,
            "unit": self.unit,
            "direction": self.direction.value,
            "best": self.best.as_json() if self.best is not None else None,
            "current": self.current.as_json() if self.current is not None else None,
            "correctness": self.correctness.value,
        }


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One kernel of ``schemas/index.json``. What a damaged file would have said is ``None``.

    ``updated_at`` is when its newest score was recorded.
    """

    kernel_id: KernelId
    name: str | None
    category: Category | None
    summary: str | None
    status: Status | None
    tags: tuple[str, ...]
    owner: str | None
    valid: bool
    problems: tuple[Problem, ...]
    min_arch_feature: str | None
    cases: tuple[IndexCase, ...]
    updated_at: datetime | None

    def as_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "kernel_id": self.kernel_id,
            "name": self.name,
            "category": asdict(self.category) if self.category is not None else None,
            "summary": self.summary,
            "status": self.status.value if self.status is not None else None,
            "tags": list(self.tags),
            "owner": self.owner,
            "valid": self.valid,
            "problems": [problem.as_json() for problem in self.problems],
            "min_arch_feature": self.min_arch_feature,
            "cases": [case.as_json() for case in self.cases],
            "updated_at": format_time(self.updated_at) if self.updated_at is not None else None,
        }

    def to_bytes(self) -> bytes:
        """Return the JSON form as one line, the same bytes for an equal entry."""
        text = json.dumps(self.as_json(), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")

    def with_problems(self, problems: Sequence[Problem]) -> IndexEntry:
        """Return the entry with more problems; errors make it invalid."""
        valid = self.valid and all(item.severity is not Severity.ERROR for item in problems)
        return replace(self, problems=self.problems + tuple(problems), valid=valid)


def entry_of_report(report: PackageReport, more_problems: Sequence[Problem] = ()) -> IndexEntry:
    """Return the entry of a package that lies in a repository or a directory."""
    desc, board = report.desc, report.scoreboard
    entry = IndexEntry(
        kernel_id=KernelId(report.kernel_id),
        name=desc.name if desc is not None else None,
        category=desc.category if desc is not None else None,
        summary=desc.summary if desc is not None else None,
        status=desc.status if desc is not None else None,
        tags=desc.tags if desc is not None else (),
        owner=desc.owner if desc is not None else None,
        valid=report.valid,
        problems=tuple(report.problems),
        min_arch_feature=desc.min_arch_feature if desc is not None else None,
        cases=tuple(_case(meta, board) for meta in report.metas or ()),
        updated_at=_updated_at(board) if board is not None else None,
    )
    return entry.with_problems(more_problems)


def entry_from_json(document: Mapping[str, Any]) -> IndexEntry:
    """Return the entry whose ``as_json`` is ``document``.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for anything else.
    """
    expected = {field.name for field in fields(IndexEntry)}
    if document.keys() != expected:
        raise ValueError(f"an entry has the fields {sorted(expected)}")
    category, status, updated_at = (document[key] for key in ("category", "status", "updated_at"))
    return IndexEntry(
        kernel_id=KernelId(document["kernel_id"]),
        name=document["name"],
        category=Category(**category) if category is not None else None,
        summary=document["summary"],
        status=Status(status) if status is not None else None,
        tags=tuple(document["tags"]),
        owner=document["owner"],
        valid=document["valid"],
        problems=tuple(
            Problem(**{**problem, "severity": Severity(problem["severity"])})
            for problem in document["problems"]
        ),
        min_arch_feature=document["min_arch_feature"],
        cases=tuple(_case_from_json(case) for case in document["cases"]),
        updated_at=parse_time(updated_at) if updated_at is not None else None,
    )


def _case(meta: TestCaseMeta, board: Scoreboard | None) -> IndexCase:
    metric = meta.metric(meta.primary_metric)
    known = board.case(meta.test_case_id) if board is not None else None
    current = _score(known.metrics_current, meta.primary_metric) if known is not None else None
    return IndexCase(
        test_case_id=meta.test_case_id,
        primary_metric=meta.primary_metric,
        unit=metric.unit if metric is not None else "",
        direction=metric.direction if metric is not None else Direction.LOWER,
        best=_score(known.metrics_best, meta.primary_metric) if known is not None else None,
        current=current,
        correctness=_correctness(known, current),
    )


def _correctness(known: ScoreCase | None, current: Score | None) -> Correctness:
    """Return what the board says of the source that lies there; a seed's word is none."""
    return known.correctness_current if known is not None and current else Correctness.UNKNOWN


def _score(entries: Mapping[str, ScoreEntry], metric: str) -> Score | None:
    entry = entries.get(metric)
    if entry is None or entry.is_seed:
        return None
    return Score(entry.value, entry.submitter, entry.commit_sha, entry.recorded_at)


def _updated_at(board: Scoreboard) -> datetime | None:
    return max(
        (
            entry.recorded_at
            for case in board.cases
            for entries in (case.metrics_best, case.metrics_current)
            for entry in entries.values()
            if not entry.is_seed
        ),
        default=None,
    )


def _case_from_json(document: Mapping[str, Any]) -> IndexCase:
    return IndexCase(
        test_case_id=document["test_case_id"],
        primary_metric=document["primary_metric"],
        unit=document["unit"],
        direction=Direction(document["direction"]),
        best=_score_from_json(document["best"]),
        current=_score_from_json(document["current"]),
        correctness=Correctness(document["correctness"]),
    )


def _score_from_json(document: Mapping[str, Any] | None) -> Score | None:
    if document is None:
        return None
    return Score(
        value=document["value"],
        submitter=document["submitter"],
        commit_sha=document["commit_sha"],
        recorded_at=parse_time(document["recorded_at"]),
    )
