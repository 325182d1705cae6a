"""The main walk of a submission through admission, claim, verdict, commit and board."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from kzoo_core.contract.archive import read_archive, write_archive
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.records import Package, PackageFile, RunFailure
from kzoo_core.contract.scoreboard_file import parse_scoreboard
from kzoo_core.errors import BadInput, Conflict
from kzoo_core.ids import KernelId
from kzoo_core.lifecycle.admission import SubmissionForm
from kzoo_core.queue.records import AttemptEnd, Outcome, State
from kzoo_core.store.packages import add_packages
from kzoo_core.store.worktree import WorktreeState, WorktreeStatus
from tests.packages import CASES, KERNEL_ID, output_bytes, valid_package

if TYPE_CHECKING:
    from kzoo_core.queue.exchange import Claimed
    from tests.core.lifecycle.conftest import Bench

WHEN = datetime(2026, 8, 2, tzinfo=UTC)
SCOREBOARD = ".kernel_package/bench_result.yaml"


def git(bench: Bench, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(bench.directory / "kernel_data"), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


async def frozen_board(bench: Bench, claimed: Claimed) -> list[str]:
    """Return the test cases of the scoreboard that an attempt is given."""
    data = await bench.system.queue.attempt_package(
        claimed.submission.uuid, claimed.attempt.number, claimed.token
    )
    package = read_archive(io.BytesIO(data), PackageLimits(), kernel_id=None, allow_scoreboard=True)
    board, problems = parse_scoreboard(package.files[SCOREBOARD].data)
    assert problems == []
    assert board is not None
    return [case.test_case_id for case in board.cases]


async def test_a_worktree_that_cannot_follow_is_logged_once_and_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = bench.system
    tried: list[bool] = []
    monkeypatch.setattr(system.writer, "follow_again", lambda: tried.append(True))
    with capture_logs() as lines:
        await system.sweep()
        system.writer.worktree = WorktreeState(WorktreeStatus.DIRTY, "an edit is in the way")
        await system.sweep()
        await system.sweep()
    dirty = [line for line in lines if line["event"] == "worktree_dirty"]
    assert dirty == [
        {"event": "worktree_dirty", "log_level": "warning", "message": "an edit is in the way"}
    ]
    assert len(tried) == 3


async def commit(bench: Bench, package: Package) -> None:
    """Put a package into the repository as a maintainer would, beside the server."""
    await bench.system.writer.run(
        lambda repository: add_packages(
            repository,
            [package],
            message="by hand\n",
            author="maintainer",
            when=WHEN,
        )
    )


async def test_an_accepted_submission_is_two_commits_and_a_row_of_the_board(bench: Bench) -> None:
    submission = await bench.submit(summary="one pass")
    claimed = await bench.claim()
    answer = await bench.report(claimed)
    assert answer.verdict is not None
    assert answer.verdict.accepted
    done = await bench.done(submission)
    assert done.outcome is Outcome.ACCEPTED
    assert done.reason is None
    assert [(record.test_case_id, record.value, record.previous) for record in done.records] == [
        (case, value, None) for case, value in CASES.items()
    ]
    assert done.bench_commit_sha == git(bench, "rev-parse", "HEAD")
    assert done.commit_sha == git(bench, "rev-parse", "HEAD^")
    snapshot = bench.system.board.snapshot
    assert snapshot is not None
    assert snapshot.revision == done.bench_commit_sha
    entry = snapshot.by_id[KERNEL_ID]
    assert entry.valid
    assert [case.best.value for case in entry.cases if case.best] == list(CASES.values())
    written = json.loads((bench.directory / "state" / "index.json").read_bytes())
    assert [kernel["kernel_id"] for kernel in written["kernels"]] == [KERNEL_ID]


async def test_a_new_kernel_runs_against_an_empty_scoreboard_and_later_against_the_real_one(
    bench: Bench,
) -> None:
    await bench.submit()
    first = await bench.claim()
    assert await frozen_board(bench, first) == []
    await bench.report(first)
    await bench.done(first.submission)
    await bench.submit(submitter="bob")
    second = await bench.claim()
    assert await frozen_board(bench, second) == list(CASES)


async def test_a_seed_in_the_repository_never_fails_a_first_submission(bench: Bench) -> None:
    await commit(bench, valid_package(scoreboard=True))
    await bench.submit()
    assert await frozen_board(bench, await bench.claim()) == []


async def test_a_rejected_submission_writes_nothing_to_git(bench: Bench) -> None:
    submission = await bench.submit()
    answer = await bench.report(await bench.claim(), b"no json")
    assert answer.verdict is not None
    assert answer.verdict.malformed
    assert answer.submission.state is State.DONE
    done = await bench.done(submission)
    assert done.outcome is Outcome.REJECTED
    assert done.reason is not None
    assert done.reason.code == "output_not_json"
    assert bench.system.board.snapshot is not None
    assert bench.system.board.snapshot.entries == ()


async def test_a_check_gets_its_verdict_and_is_never_committed(bench: Bench) -> None:
    submission = await bench.submit(mode="check")
    await bench.report(await bench.claim())
    done = await bench.done(submission)
    assert (done.outcome, done.commit_sha, done.records) == (Outcome.ACCEPTED, None, ())
    assert bench.system.board.snapshot is not None
    assert bench.system.board.snapshot.entries == ()


async def test_the_same_report_again_is_answered_alike_and_another_is_refused(
    bench: Bench,
) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    first = await bench.report(claimed)
    again = await bench.report(claimed)
    assert (first.repeated, again.repeated) == (False, True)
    with pytest.raises(Conflict) as caught:
        await bench.report(claimed, b"something else")
    assert caught.value.code == "RESULT_CONFLICT"
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED
    assert git(bench, "rev-list", "--count", "HEAD") == "2"


async def test_an_infrastructure_failure_is_tried_again_and_lost_after_three(
    bench: Bench,
) -> None:
    submission = await bench.submit()
    for number in (1, 2, 3):
        claimed = await bench.claim()
        assert claimed.attempt.number == number
        answer = await bench.report(
            claimed, f"{number}".encode(), failure=RunFailure("gpu_fault", "it fell off the bus")
        )
        assert answer.verdict is None
    done = await bench.done(submission)
    assert done.outcome is Outcome.LOST
    assert [attempt.end for attempt in done.attempts] == [AttemptEnd.INFRASTRUCTURE] * 3
    assert done.reason is not None
    assert "it fell off the bus" in done.reason.message


async def test_a_frozen_kernel_takes_no_submission(bench: Bench) -> None:
    await commit(bench, valid_package(scoreboard=True, desc={"status": "frozen"}))
    with pytest.raises(Conflict) as caught:
        await bench.submit()
    assert caught.value.code == "KERNEL_FROZEN"
    assert KERNEL_ID in caught.value.message
    assert caught.value.hint


async def test_a_kernel_frozen_meanwhile_is_rejected_without_a_run(bench: Bench) -> None:
    submission = await bench.submit()
    await commit(bench, valid_package(scoreboard=True, desc={"status": "frozen"}))
    assert await bench.claim_if_any() is None
    done = await bench.done(submission)
    assert done.outcome is Outcome.REJECTED
    assert done.reason is not None
    assert done.reason.code == "frozen"
    assert done.attempts == ()


async def test_a_kernel_frozen_during_the_run_is_rejected_at_its_end(bench: Bench) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    await commit(bench, valid_package(scoreboard=True, desc={"status": "frozen"}))
    await bench.report(claimed)
    done = await bench.done(submission)
    assert done.reason is not None
    assert (done.outcome, done.reason.code) == (Outcome.REJECTED, "frozen")


async def test_a_deprecated_kernel_is_accepted_with_a_warning(bench: Bench) -> None:
    await commit(bench, valid_package(scoreboard=True, desc={"status": "deprecated"}))
    submission = await bench.submit()
    assert [warning.code for warning in submission.warnings] == ["kernel_deprecated"]


async def test_a_kernel_that_moved_under_a_run_is_run_again_uncharged(bench: Bench) -> None:
    submission = await bench.submit()
    claimed = await bench.claim()
    await commit(bench, valid_package(scoreboard=True))
    await bench.report(claimed)
    second = await bench.claim(wait_s=10)
    assert (second.submission.uuid, second.attempt.number) == (submission.uuid, 2)
    assert second.submission.charged == 0
    await bench.report(second)
    assert (await bench.done(submission)).outcome is Outcome.ACCEPTED


async def test_a_kernel_inside_another_is_refused_at_once_and_at_the_claim(bench: Bench) -> None:
    inner = f"{KERNEL_ID}/inner"
    waiting = await bench.submit(valid_package(inner))
    await commit(bench, valid_package(scoreboard=True))
    with pytest.raises(Conflict) as caught:
        await bench.submit(valid_package(inner))
    assert caught.value.code == "KERNEL_ID_CONFLICT"
    assert f"it lies inside the kernel {KERNEL_ID}" in caught.value.message
    assert await bench.claim_if_any() is None
    done = await bench.done(waiting)
    assert done.reason is not None
    assert (done.outcome, done.reason.code) == (Outcome.REJECTED, "kernel_id_conflict")


async def test_a_kernel_id_taken_during_the_run_is_rejected_at_the_commit(bench: Bench) -> None:
    twin = "gfx928/Norm/RMSNorm/fp32/DEMO"
    submission = await bench.submit(valid_package(twin))
    claimed = await bench.claim()
    await commit(bench, valid_package(scoreboard=True))
    await bench.report(claimed)
    done = await bench.done(submission)
    assert done.reason is not None
    assert (done.outcome, done.reason.code) == (Outcome.REJECTED, "kernel_id_conflict")


async def test_every_problem_of_a_package_is_told_at_once(bench: Bench) -> None:
    bad = valid_package(
        files={"src/x.npy": b"\x93NUMPY", ".kernel_package/benchmark.py": "def ("},
        desc={"summary": None},
    )
    with pytest.raises(BadInput) as caught:
        await bench.submit(bad)
    assert caught.value.code == "VALIDATION_ERROR"
    assert {problem.file for problem in caught.value.details} >= {
        "src/x.npy",
        ".kernel_package/benchmark.py",
        ".kernel_package/desc.yaml",
    }
    assert bench.system.queue.counts().pending == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"mode": "fast"}, "bad_mode"),
        ({"summary": "x" * 5000}, "summary_too_long"),
        ({"submitter": "not a name"}, "bad_submitter_id"),
    ],
)
async def test_a_form_that_breaks_a_rule_is_refused(
    bench: Bench, changes: dict[str, str], code: str
) -> None:
    with pytest.raises(BadInput) as caught:
        await bench.submit(None, **changes)
    assert [problem.code for problem in caught.value.details] == [code]


async def test_an_idempotency_key_gives_the_same_submission_again(bench: Bench) -> None:
    first = await bench.submit(key="k1")
    assert (await bench.submit(key="k1")).uuid == first.uuid
    with pytest.raises(Conflict) as caught:
        await bench.submit(key="k1", summary="something else")
    assert caught.value.code == "IDEMPOTENCY_MISMATCH"


async def test_the_board_notices_what_others_commit(bench: Bench) -> None:
    other = KernelId("gfx928/Norm/RMSNorm/fp32/other")
    await commit(bench, valid_package(other, scoreboard=True))
    async with asyncio.timeout(10):
        while (snapshot := bench.system.board.snapshot) is None or other not in snapshot.by_id:
            await asyncio.sleep(0.01)
    assert snapshot.by_id[other].valid


async def test_one_kernel_is_shown_with_its_cases_and_history(bench: Bench) -> None:
    await bench.accepted()
    detail = await bench.system.board.kernel(KernelId(KERNEL_ID))
    assert detail is not None
    assert detail.desc is not None
    assert [meta.test_case_id for meta in detail.metas] == list(CASES)
    assert detail is await bench.system.board.kernel(KernelId(KERNEL_ID))
    assert await bench.system.board.kernel(KernelId("no/such/kernel")) is None
    page = await bench.system.board.history(KernelId(KERNEL_ID), limit=10, cursor=None)
    assert [entry.submitter for entry in page.items] == ["alice"]


async def test_a_committed_executable_stays_executable(bench: Bench) -> None:
    package = valid_package()
    files = {**package.files, "src/run.sh": PackageFile(b"#!/bin/sh\n", executable=True)}
    archive = bench.directory / "x.tar.gz"
    archive.write_bytes(write_archive(Package(package.kernel_id, files)))
    form = SubmissionForm(kernel_id=KERNEL_ID, submitter_id="alice")
    submission = await bench.system.admission.submit(form, archive)
    await bench.report(await bench.claim(), output_bytes())
    await bench.done(submission)
    listing = git(bench, "ls-tree", "-r", "HEAD", f"{KERNEL_ID}/src/run.sh")
    assert listing.startswith("100755 blob")
