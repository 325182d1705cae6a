"""The scoreboard merge: how one accepted output changes best and current. Pure (D20, D21)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kzoo_core.contract.records import Correctness, Record, Scoreboard, ScoreCase, ScoreEntry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kzoo_core.contract.records import BenchmarkOutput, MetricMeta, TestCaseMeta
    from kzoo_core.ids import CommitId, KernelId, SubmitterId

SCHEMA_VERSION = "1.0.0"


def merge(
    board: Scoreboard | None,
    output: BenchmarkOutput,
    metas: Sequence[TestCaseMeta],
    previous_metas: Sequence[TestCaseMeta] | None,
    *,
    kernel_id: KernelId,
    submitter: SubmitterId,
    recorded_at: datetime,
    commit_sha: CommitId,
) -> tuple[Scoreboard, tuple[Record, ...]]:
    """Return the scoreboard after an accepted ``output``, and the records that it set.

    Current becomes exactly the accepted values; best the better of holder and value by the metric's
    direction, the holder keeping an equal one. A sentinel gives way without comparison. What
    ``metas`` no longer names is dropped; a metric whose direction or unit differs from
    ``previous_metas`` (``None``: taken as unchanged) starts anew.
    """
    cases = []
    for meta in metas:
        known = board.case(meta.test_case_id) if board is not None else None
        holders = _holders(known, meta, _meta(previous_metas, meta.test_case_id))
        measured = next(
            (case for case in output.cases if case.test_case_id == meta.test_case_id), None
        )
        values = {value.name: value.value for value in measured.metrics} if measured else {}
        current = {
            metric.name: ScoreEntry(values[metric.name], submitter, commit_sha, recorded_at)
            for metric in meta.metrics
            if metric.name in values
        }
        best = {
            metric.name: entry
            for metric in meta.metrics
            if (entry := _better(metric, holders.get(metric.name), current.get(metric.name)))
        }
        correctness = measured.correctness if measured else Correctness.UNKNOWN
        cases.append(ScoreCase(meta.test_case_id, best, current, _for_board(correctness)))
    base = board or Scoreboard(SCHEMA_VERSION, kernel_id, ())
    merged = replace(base, kernel_id=kernel_id, cases=tuple(cases))
    return merged, records_between(board, merged, metas, previous_metas, commit_sha)


def records_between(
    before: Scoreboard | None,
    after: Scoreboard,
    metas: Sequence[TestCaseMeta],
    previous_metas: Sequence[TestCaseMeta] | None,
    commit_sha: CommitId,
) -> tuple[Record, ...]:
    """Return the records that the accept with source commit ``commit_sha`` set (D21).

    Each names a case whose primary metric has a better best now; ``previous`` is ``None`` where it
    replaced nothing, a sentinel, or a value of another direction or unit.
    """
    records = []
    for meta in metas:
        case = after.case(meta.test_case_id)
        metric = meta.metric(meta.primary_metric)
        best = case.metrics_best.get(meta.primary_metric) if case is not None else None
        if metric is None or best is None or best.commit_sha != commit_sha:
            continue
        known = before.case(meta.test_case_id) if before is not None else None
        holders = _holders(known, meta, _meta(previous_metas, meta.test_case_id))
        holder = holders.get(metric.name)
        previous = holder.value if holder is not None and not holder.is_seed else None
        records.append(Record(meta.test_case_id, metric.name, metric.unit, best.value, previous))
    return tuple(records)


def projection(board: Scoreboard) -> Scoreboard:
    """Return what a run may see of ``board``: no sentinel entry, and no case left empty (D13)."""
    cases = (
        replace(
            case,
            metrics_best=_without_seeds(case.metrics_best),
            metrics_current=_without_seeds(case.metrics_current),
        )
        for case in board.cases
    )
    return replace(
        board, cases=tuple(case for case in cases if case.metrics_best or case.metrics_current)
    )


def _holders(
    known: ScoreCase | None, meta: TestCaseMeta, previous: TestCaseMeta | None
) -> Mapping[str, ScoreEntry]:
    """Return the holders that a value of this case is compared with, by metric."""
    if known is None:
        return {}
    return {
        metric.name: known.metrics_best[metric.name]
        for metric in meta.metrics
        if metric.name in known.metrics_best and not _changed(metric, previous)
    }


def _changed(metric: MetricMeta, previous: TestCaseMeta | None) -> bool:
    before = previous.metric(metric.name) if previous is not None else None
    return before is not None and before != metric


def _better(
    metric: MetricMeta, holder: ScoreEntry | None, value: ScoreEntry | None
) -> ScoreEntry | None:
    if value is None or holder is None:
        return value or holder
    if holder.is_seed or metric.direction.better(value.value, holder.value):
        return value
    return holder


def _meta(metas: Sequence[TestCaseMeta] | None, test_case_id: str) -> TestCaseMeta | None:
    return next((meta for meta in metas or () if meta.test_case_id == test_case_id), None)


def _for_board(correctness: Correctness) -> Correctness:
    """A scoreboard has no word for a skipped case."""
    return Correctness.UNKNOWN if correctness is Correctness.SKIPPED else correctness


def _without_seeds(entries: Mapping[str, ScoreEntry]) -> dict[str, ScoreEntry]:
    return {name: entry for name, entry in entries.items() if not entry.is_seed}
