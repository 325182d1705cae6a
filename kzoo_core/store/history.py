"""The history of one kernel: one entry for each R along first parents, newest first (D22).

What others commit is no attempt, whatever files it touches. The walk is bounded, so a page may end
early with a cursor to go on from; commits of other kernels cost one look at their bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.clock import format_time
from kzoo_core.contract.records import MetricValue
from kzoo_core.errors import BadInput, Broken
from kzoo_core.ids import CommitId
from kzoo_core.store.messages import parse_subject, parse_summary
from kzoo_core.store.objects import object_id
from kzoo_core.store.readback import PastAccept, read_accept
from kzoo_core.store.walk import first_parents, message_of, parent_of

if TYPE_CHECKING:
    from datetime import datetime

    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import Record
    from kzoo_core.ids import KernelId, RunnerId, Sha256, SubmissionId, SubmitterId
    from kzoo_core.store.repository import KernelRepository

MAX_COMMITS = 10_000
"""Commits that one page looks at: about half a second when none is of the kernel."""

_CURSOR = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HistoryCase:
    """The values that one accept measured for one test case."""

    test_case_id: str
    metrics: tuple[MetricValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One accepted submission as git keeps it; ``summary`` is the subject's."""

    commit_sha: CommitId
    bench_commit_sha: CommitId
    recorded_at: datetime
    submitter: SubmitterId
    submission_id: SubmissionId
    attempt: int
    runner_id: RunnerId
    arch: str
    isolation: str
    package_sha256: Sha256
    summary: str
    optimization_summary: str | None
    cases: tuple[HistoryCase, ...]
    records: tuple[Record, ...]

    def as_json(self) -> dict[str, object]:
        """Return the form that ``bench-history`` answers with."""
        return {
            "commit_sha": self.commit_sha,
            "bench_commit_sha": self.bench_commit_sha,
            "recorded_at": format_time(self.recorded_at),
            "submitter": self.submitter,
            "submission_id": self.submission_id,
            "attempt": self.attempt,
            "runner_id": self.runner_id,
            "arch": self.arch,
            "isolation": self.isolation,
            "package_sha256": self.package_sha256,
            "summary": self.summary,
            "optimization_summary": self.optimization_summary,
            "cases": [
                {
                    "test_case_id": case.test_case_id,
                    "metrics": [
                        {"name": metric.name, "value": metric.value} for metric in case.metrics
                    ],
                }
                for case in self.cases
            ],
            "records": [
                {
                    "test_case_id": record.test_case_id,
                    "metric": record.metric,
                    "value": record.value,
                    "previous": record.previous,
                }
                for record in self.records
            ],
        }


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some entries, newest first, and the cursor of the rest; ``None`` at the end."""

    items: tuple[HistoryEntry, ...]
    next_cursor: CommitId | None


def history(
    repository: KernelRepository,
    kernel_id: KernelId,
    *,
    limit: int,
    cursor: CommitId | None = None,
    head: CommitId | None = None,
    max_commits: int = MAX_COMMITS,
) -> HistoryPage:
    """Return at most ``limit`` accepted submissions of a kernel, from ``cursor`` or ``head`` on.

    ``head`` is the branch's newest commit unless given. A page that is short of ``limit`` with a
    cursor looked at ``max_commits`` commits. Raises ``BadInput`` with code ``BAD_CURSOR``,
    ``Broken``.
    """
    start = _checked(repository, cursor) or head or repository.head()
    mark = f"\nKernel-Id: {kernel_id}\n".encode()
    items: list[HistoryEntry] = []
    walk = first_parents(repository.objects, object_id(start) if start is not None else None)
    for looked_at, (sha, raw) in enumerate(walk, start=1):
        if mark in raw:
            past = read_accept(repository, raw)
            if past is not None and past.trailers.kernel_id == kernel_id:
                items.append(_entry(repository, sha, past))
        if len(items) == limit or looked_at == max_commits:
            rest = parent_of(raw)
            return HistoryPage(tuple(items), _commit_id(rest) if rest is not None else None)
    return HistoryPage(tuple(items), None)


def _entry(repository: KernelRepository, sha: ObjectID, past: PastAccept) -> HistoryEntry:
    message = _source_message(repository, past)
    return HistoryEntry(
        commit_sha=past.source_commit,
        bench_commit_sha=_commit_id(sha),
        recorded_at=past.recorded_at,
        submitter=past.trailers.submitter,
        submission_id=past.trailers.submission_id,
        attempt=past.trailers.attempt,
        runner_id=past.trailers.runner_id,
        arch=past.trailers.arch,
        isolation=past.trailers.isolation,
        package_sha256=past.trailers.package_sha256,
        summary=parse_subject(message),
        optimization_summary=parse_summary(message),
        cases=_measured(past),
        records=past.records,
    )


def _measured(past: PastAccept) -> tuple[HistoryCase, ...]:
    """Return what this accept measured: the current values that carry its stamp."""
    cases = []
    for case in past.scoreboard.cases:
        metrics = tuple(
            MetricValue(name, entry.value)
            for name, entry in case.metrics_current.items()
            if entry.commit_sha == past.source_commit
        )
        if metrics:
            cases.append(HistoryCase(case.test_case_id, metrics))
    return tuple(cases)


def _source_message(repository: KernelRepository, past: PastAccept) -> str:
    """Return the message of S; where history was rewritten, that of the commit in its place."""
    return message_of(repository.objects.raw_commit(past.parent))


def _checked(repository: KernelRepository, cursor: CommitId | None) -> CommitId | None:
    if cursor is None:
        return None
    try:
        if _CURSOR.fullmatch(cursor):
            repository.objects.raw_commit(object_id(cursor))
            return cursor
    except Broken:
        pass
    raise BadInput(
        "BAD_CURSOR",
        f"cursor {cursor[:80]!r} is no commit of this repository",
        hint="give the next_cursor of the page before, unchanged",
    )


def _commit_id(sha: ObjectID) -> CommitId:
    return CommitId(sha.decode("ascii"))
