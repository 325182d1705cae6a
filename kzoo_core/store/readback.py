"""Reading an accept back from git: what its two commits say of the attempt (D22)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import BENCHMARK_PATH, SCOREBOARD_PATH
from kzoo_core.ids import CommitId
from kzoo_core.store.messages import Trailers, parse_trailers
from kzoo_core.store.objects import object_id
from kzoo_core.store.scoreboard import records_between
from kzoo_core.store.walk import committed_at, first_parents, message_of, parent_of, tree_of

if TYPE_CHECKING:
    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import Record, Scoreboard, TestCaseMeta
    from kzoo_core.ids import KernelId, SubmissionId
    from kzoo_core.store.repository import KernelRepository


@dataclass(frozen=True, slots=True)
class PastAccept:
    """One R commit: the trailers of its message, its scoreboard, the records that it set."""

    trailers: Trailers
    source_commit: CommitId
    recorded_at: datetime
    scoreboard: Scoreboard
    records: tuple[Record, ...]
    parent: ObjectID


def read_accept(repository: KernelRepository, raw: bytes) -> PastAccept | None:
    """Read the raw commit ``raw`` as an R; ``None`` if it is anything else.

    An R names its source commit in a trailer, has a parent, and changes its kernel's scoreboard: a
    commit that only copies an R's message is none. Raises ``Broken``.
    """
    trailers = parse_trailers(message_of(raw))
    parent = parent_of(raw)
    if trailers is None or trailers.source_commit is None or parent is None:
        return None
    scoreboard_path = f"{trailers.kernel_id}/{SCOREBOARD_PATH}"
    now = repository.entry_below(tree_of(raw), scoreboard_path)
    parent_raw = repository.objects.raw_commit(parent)
    before = repository.entry_below(tree_of(parent_raw), scoreboard_path)
    if now is None or not now.is_file or now == before:
        return None
    board = repository.parsed.scoreboard(now.sha)
    if board is None:
        return None
    old_board = None
    if before is not None and before.is_file:
        old_board = repository.parsed.scoreboard(before.sha)
    metas = _metas(repository, tree_of(raw), trailers.kernel_id) or ()
    grandparent = parent_of(parent_raw)
    old_metas = None
    if grandparent is not None:
        old_root = tree_of(repository.objects.raw_commit(grandparent))
        old_metas = _metas(repository, old_root, trailers.kernel_id)
    return PastAccept(
        trailers=trailers,
        source_commit=trailers.source_commit,
        recorded_at=datetime.fromtimestamp(committed_at(raw), UTC),
        scoreboard=board,
        records=records_between(old_board, board, metas, old_metas, trailers.source_commit),
        parent=parent,
    )


def find_past(
    repository: KernelRepository, submission_id: SubmissionId, *, newest: int
) -> tuple[CommitId, PastAccept] | None:
    """Return the R of a submission and what it says, if it is among the ``newest`` commits.

    Raises ``Broken``.
    """
    head = repository.head()
    mark = f"\nSubmission-Id: {submission_id}\n".encode()
    commits = first_parents(repository.objects, object_id(head) if head else None)
    for sha, raw in islice(commits, newest):
        past = read_accept(repository, raw) if mark in raw else None
        if past is not None and past.trailers.submission_id == submission_id:
            return CommitId(sha.decode("ascii")), past
    return None


def _metas(
    repository: KernelRepository, root: ObjectID, kernel_id: KernelId
) -> tuple[TestCaseMeta, ...] | None:
    entry = repository.entry_below(root, f"{kernel_id}/{BENCHMARK_PATH}")
    return repository.parsed.metas(entry.sha) if entry is not None and entry.is_file else None
