"""The accept: two commits, S with the sources and R with the scoreboard, and one ref move.

A failure before the move leaves nothing that anyone can see, so there is no roll-back. S holds the
package as it was submitted (D23) and never touches bench_result.yaml; R has S as its parent,
touches nothing else, and stamps the values with the name of S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import BENCHMARK_PATH, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.scoreboard_file import dump_scoreboard
from kzoo_core.errors import Broken, Conflict
from kzoo_core.ids import CommitId
from kzoo_core.store.conflicts import conflict_in_tree
from kzoo_core.store.messages import Trailers, bench_message, source_message
from kzoo_core.store.objects import DIRECTORY_MODE, FILE_MODE, Entry, object_id
from kzoo_core.store.publish import publish
from kzoo_core.store.readback import read_accept
from kzoo_core.store.repository import mode_of
from kzoo_core.store.scoreboard import merge
from kzoo_core.store.walk import committed_at, first_parents

if TYPE_CHECKING:
    from datetime import datetime

    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import (
        BenchmarkOutput,
        Package,
        Record,
        Scoreboard,
        TestCaseMeta,
    )
    from kzoo_core.ids import RunnerId, Sha256, SubmissionId, SubmitterId
    from kzoo_core.store.draft import Draft
    from kzoo_core.store.repository import KernelRepository

OLDER_COMMITS = 1000
"""How many commits from before a submission are looked at for its accept: clocks may step back."""


class KernelMoved(Conflict):
    """The kernel's directory changed since the attempt was claimed: the run says nothing of it."""


class KernelIdConflict(Conflict):
    """A new kernel may not lie at this path (D1)."""


class FrozenAtHead(Conflict):
    """The head's desc.yaml says that the kernel takes no more submissions (D17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptRequest:
    """Everything that the two commits say. ``recorded_at`` is the time of both, in whole seconds.

    ``base_tree`` is the git name of the kernel's directory when the attempt was claimed, ``None``
    for a new kernel. ``metas`` are those of the package's own benchmark.py.
    """

    package: Package
    submission_id: SubmissionId
    attempt: int
    submitter: SubmitterId
    runner_id: RunnerId
    arch: str
    isolation: str
    package_sha256: Sha256
    summary: str | None
    desc_summary: str
    output: BenchmarkOutput
    metas: tuple[TestCaseMeta, ...]
    recorded_at: datetime
    base_tree: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The two commits of an accept, the records that it set, the scoreboard after it."""

    source_commit: CommitId
    bench_commit: CommitId
    records: tuple[Record, ...]
    scoreboard: Scoreboard


@dataclass(frozen=True, slots=True)
class _Kernel:
    """What the head holds of the kernel."""

    tree: ObjectID | None = None
    frozen: bool = False
    scoreboard: Entry | None = None
    benchmark: Entry | None = None


def accept(repository: KernelRepository, request: AcceptRequest) -> Accepted:
    """Commit an accepted submission; S and R are durable and on the branch on return.

    Asked again after it went through, it returns what was committed. Raises ``FrozenAtHead``,
    ``KernelIdConflict``, ``KernelMoved`` by what the head says, ``HeadMoved`` and ``Retryable``
    when others hold the branch, ``Broken`` for a head or a scoreboard that cannot be read, and
    ``OSError``; none of these changes what anyone sees.
    """
    try:
        return publish(repository, lambda draft, head: _build(repository, request, draft, head))
    except KernelMoved:
        earlier = find_accept(repository, request.submission_id, since=request.recorded_at)
        if earlier is None:
            raise
        return earlier


def find_accept(
    repository: KernelRepository, submission_id: SubmissionId, *, since: datetime
) -> Accepted | None:
    """Return the accept of a submission made at or after ``since``, if it is on the branch.

    For recovery after a crash between the commit and its note in the queue. Raises ``Broken``.
    """
    head = repository.head()
    mark = f"\nSubmission-Id: {submission_id}\n".encode()
    earliest = int(since.timestamp())
    older = 0
    for sha, raw in first_parents(repository.objects, object_id(head) if head else None):
        past = read_accept(repository, raw) if mark in raw else None
        if past is not None and past.trailers.submission_id == submission_id:
            bench_commit = CommitId(sha.decode("ascii"))
            return Accepted(past.source_commit, bench_commit, past.records, past.scoreboard)
        older += committed_at(raw) < earliest
        if older > OLDER_COMMITS:
            return None
    return None


def _build(
    repository: KernelRepository, request: AcceptRequest, draft: Draft, head: CommitId | None
) -> tuple[ObjectID, Accepted]:
    kernel_id = request.package.kernel_id
    root = repository.root(head) if head is not None else None
    kernel = _kernel_at_head(repository, root, request)
    _refuse(repository, request, root, kernel)
    if kernel.tree is not None:
        draft.reuse(kernel.tree)
    source_files = {
        path: Entry(mode_of(file), draft.add_blob(file.data))
        for path, file in request.package.files.items()
        if path != SCOREBOARD_PATH
    }
    kept = {SCOREBOARD_PATH: kernel.scoreboard} if kernel.scoreboard is not None else {}
    directory = Entry(DIRECTORY_MODE, draft.graft(None, source_files | kept))
    source_tree = draft.graft(root, {kernel_id: directory})
    trailers = _trailers(request)
    source = draft.add_commit(
        source_tree,
        object_id(head) if head is not None else None,
        author=request.submitter,
        when=request.recorded_at,
        message=source_message(trailers, request.summary, request.desc_summary),
    )
    source_commit = CommitId(source.decode("ascii"))
    merged, records = merge(
        _board_at_head(repository, kernel, request),
        request.output,
        request.metas,
        _previous_metas(repository, kernel, source_files[BENCHMARK_PATH], request),
        kernel_id=kernel_id,
        submitter=request.submitter,
        recorded_at=request.recorded_at,
        commit_sha=source_commit,
    )
    board_blob = draft.add_blob(dump_scoreboard(merged))
    bench = draft.add_commit(
        draft.graft(source_tree, {f"{kernel_id}/{SCOREBOARD_PATH}": Entry(FILE_MODE, board_blob)}),
        source,
        author=request.submitter,
        when=request.recorded_at,
        message=bench_message(replace(trailers, source_commit=source_commit)),
    )
    benchmark_blob = source_files[BENCHMARK_PATH].sha
    repository.parsed.remember(board_blob, merged, benchmark_blob, request.metas)
    bench_commit = CommitId(bench.decode("ascii"))
    return bench, Accepted(source_commit, bench_commit, records, merged)


def _kernel_at_head(
    repository: KernelRepository, root: ObjectID | None, request: AcceptRequest
) -> _Kernel:
    entry = repository.entry_below(root, request.package.kernel_id) if root is not None else None
    if entry is None or not entry.is_directory:
        return _Kernel()

    def file(path: str) -> Entry | None:
        found = repository.entry_below(entry.sha, path)
        return found if found is not None and found.is_file else None

    desc = file(DESC_PATH)
    return _Kernel(
        tree=entry.sha,
        frozen=desc is not None and repository.parsed.is_frozen(desc.sha),
        scoreboard=file(SCOREBOARD_PATH),
        benchmark=file(BENCHMARK_PATH),
    )


def _board_at_head(
    repository: KernelRepository, kernel: _Kernel, request: AcceptRequest
) -> Scoreboard | None:
    if kernel.scoreboard is None:
        return None
    board = repository.parsed.scoreboard(kernel.scoreboard.sha)
    if board is None:
        raise Broken(
            "SCOREBOARD_UNREADABLE",
            f"the head's bench_result.yaml of {request.package.kernel_id} is not valid",
            hint="mend it with a commit: merging into it would lose the best values",
        )
    return board


def _previous_metas(
    repository: KernelRepository, kernel: _Kernel, benchmark: Entry, request: AcceptRequest
) -> tuple[TestCaseMeta, ...] | None:
    if kernel.benchmark is None:
        return None
    if kernel.benchmark.sha == benchmark.sha:
        return request.metas
    return repository.parsed.metas(kernel.benchmark.sha)


def _refuse(
    repository: KernelRepository, request: AcceptRequest, root: ObjectID | None, kernel: _Kernel
) -> None:
    kernel_id = request.package.kernel_id
    if kernel.frozen:
        raise FrozenAtHead(
            "KERNEL_FROZEN",
            f"{kernel_id} was frozen while the submission was on its way",
            hint="submit under another kernel_id, or ask its owner to set status: normal",
        )
    conflict = conflict_in_tree(repository.objects, root, kernel_id)
    if conflict is not None:
        raise KernelIdConflict(
            "KERNEL_ID_CONFLICT",
            f"{kernel_id} cannot be added: {conflict}",
            hint="choose a kernel_id that is neither inside nor above another kernel's, and "
            "differs from others by more than letter case",
        )
    found = kernel.tree.decode("ascii") if kernel.tree is not None else None
    if found != request.base_tree:
        raise KernelMoved(
            "KERNEL_MOVED",
            f"{kernel_id} changed after the attempt was claimed: its directory was "
            f"{request.base_tree or 'not there'}, now it is {found or 'gone'}",
            hint="the submission runs again against the new head",
        )


def _trailers(request: AcceptRequest) -> Trailers:
    return Trailers(
        kernel_id=request.package.kernel_id,
        submission_id=request.submission_id,
        attempt=request.attempt,
        submitter=request.submitter,
        runner_id=request.runner_id,
        arch=request.arch,
        package_sha256=request.package_sha256,
        isolation=request.isolation,
    )
