"""Submitting and cancelling."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kzoo_core import durable
from kzoo_core.errors import BadInput, Conflict, Gone, Problem, Retryable, Severity
from kzoo_core.ids import ClaimId
from kzoo_core.queue.records import Mode, Outcome, State
from kzoo_core.queue.spool import SpoolFailed
from tests.core.queue.samples import (
    BOB,
    KERNEL,
    NODE,
    T0,
    Harness,
    freeze,
    new_submission,
    sha256,
    started,
    with_settings,
)

if TYPE_CHECKING:
    from pathlib import Path

WARNING = Problem(code="csv_file", message="a csv", severity=Severity.WARNING)


async def test_a_submission_waits_with_all_that_it_came_with(harness: Harness) -> None:
    new = replace(
        new_submission(1, feature="mfma", summary="tile 64", mode=Mode.CHECK), warnings=(WARNING,)
    )
    made = await harness.queue.submit(new)
    assert harness.queue.get(made.uuid) == made
    assert made.kernel_id == KERNEL
    assert made.submitter_id == "alice"
    assert made.mode is Mode.CHECK
    assert (made.arch, made.min_arch_feature) == ("gfx928", "mfma")
    assert made.package_bytes == len(new.package)
    assert made.package_sha256 == new.package_sha256
    assert made.optimization_summary == "tile 64"
    assert made.warnings == (WARNING,)
    assert made.submitted_at == T0
    assert (made.state, made.public_status, made.revision) == (State.PENDING, "queued", 1)
    assert made.idempotency is None
    assert await harness.queue.package(made.uuid) == new.package
    assert harness.queue.position(made.uuid) == 1


async def test_the_same_key_and_content_give_the_same_submission(harness: Harness) -> None:
    first = await harness.queue.submit(new_submission(1), "key")
    second = await harness.queue.submit(new_submission(1), "key")
    assert second == first
    assert harness.queue.counts().pending == 1


async def test_the_same_key_at_the_same_time_gives_one_submission(harness: Harness) -> None:
    made = await asyncio.gather(
        *(harness.queue.submit(new_submission(1), "key") for _ in range(20))
    )
    assert len({submission.uuid for submission in made}) == 1
    assert harness.queue.counts().pending == 1


async def test_a_repeated_submission_is_answered_as_it_is_now(harness: Harness) -> None:
    first = await harness.queue.submit(new_submission(1), "key")
    await harness.queue.cancel(first.uuid, by="alice")
    assert (await harness.queue.submit(new_submission(1), "key")).outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    "change",
    [
        {"package_sha256": sha256(b"other")},
        {"kernel_id": "a/other"},
        {"mode": Mode.CHECK},
        {"optimization_summary": "other"},
    ],
)
async def test_the_same_key_with_other_content_conflicts(
    harness: Harness, change: dict[str, object]
) -> None:
    first = await harness.queue.submit(new_submission(1), "key")
    other = replace(new_submission(1), **change)  # type: ignore[arg-type]  # fields by name
    with pytest.raises(Conflict) as caught:
        await harness.queue.submit(other, "key")
    assert caught.value.code == "IDEMPOTENCY_MISMATCH"
    assert caught.value.message == (
        f"the Idempotency-Key was used for submission {first.uuid}, which has other content"
    )
    assert caught.value.hint == "a key stands for one submission: use a new key for new content"
    (problem,) = caught.value.details
    assert first.idempotency is not None
    assert problem.expected == f"content with sha256 {first.idempotency.body_sha256}"
    assert problem.found != problem.expected


async def test_a_key_is_a_submitters_own(harness: Harness) -> None:
    first = await harness.queue.submit(new_submission(1), "key")
    second = await harness.queue.submit(new_submission(2, submitter=BOB), "key")
    assert first.uuid != second.uuid


async def test_a_key_is_free_again_after_a_day(harness: Harness) -> None:
    first = await harness.queue.submit(new_submission(1), "key")
    harness.clock.advance(24 * 3600 - 1)
    await harness.queue.sweep()
    assert (await harness.queue.submit(new_submission(1), "key")).uuid == first.uuid
    harness.clock.advance(2)
    assert (await harness.queue.submit(new_submission(2), "key")).uuid != first.uuid


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", "ключ"])
async def test_a_key_that_is_none_is_refused(harness: Harness, key: str) -> None:
    with pytest.raises(BadInput) as caught:
        await harness.queue.submit(new_submission(1), key)
    assert caught.value.code == "VALIDATION_ERROR"
    (problem,) = caught.value.details
    assert problem.code == "bad_idempotency_key"
    assert problem.found == repr(key[:80])
    assert problem.expected == "1 to 255 printable ASCII characters"
    assert harness.queue.counts().pending == 0


async def test_a_repeat_after_the_eviction_says_so_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, settings=with_settings(keep_done=0)) as harness:
        made = await harness.queue.submit(new_submission(1), "key")
        await harness.queue.cancel(made.uuid, by="alice")
        await harness.queue.sweep()
        with pytest.raises(Gone) as caught:
            await harness.queue.submit(new_submission(1), "key")
        assert caught.value.code == "SUBMISSION_EVICTED"


async def test_a_full_disk_is_said_and_nothing_is_kept(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", fail)
        with pytest.raises(Retryable) as caught:
            await harness.queue.submit(new_submission(1), "key")
    assert caught.value.code == "DISK_FULL"
    assert harness.queue.counts().pending == 0
    made = await harness.queue.submit(new_submission(1), "key")
    assert harness.queue.counts().pending == 1
    assert harness.queue.position(made.uuid) == 1


async def test_an_fsync_that_fails_stops_the_queue(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.EIO, "injected")

    watcher = asyncio.create_task(harness.queue.failed())
    with monkeypatch.context() as patch:
        patch.setattr(durable, "fsync_directory", fail)
        with pytest.raises(SpoolFailed):
            await harness.submitted()
    assert (await watcher).code == "SPOOL_FAILED"
    with pytest.raises(SpoolFailed):
        await harness.submitted()
    assert harness.queue.counts().pending == 0


async def test_a_queued_submission_can_be_cancelled(harness: Harness) -> None:
    made = await harness.submitted()
    after = await harness.queue.cancel(made.uuid, by="alice")
    assert after.outcome is Outcome.CANCELLED
    assert harness.queue.get(made.uuid) == after
    assert harness.queue.position(made.uuid) is None
    assert await harness.claim() is None


async def test_a_running_submission_cannot_be_cancelled(harness: Harness) -> None:
    made = await harness.running()
    with pytest.raises(Conflict) as caught:
        await harness.queue.cancel(made.submission.uuid, by="alice")
    assert caught.value.code == "NOT_CANCELLABLE"
    assert harness.queue.get(made.submission.uuid).state is State.RUNNING


async def test_positions_alternate_between_submitters(harness: Harness) -> None:
    mine = [await harness.submitted(n, kernel_id=f"a/k{n}") for n in range(3)]
    theirs = await harness.submitted(9, kernel_id="a/k9", submitter=BOB)
    positions = [harness.queue.position(made.uuid) for made in (*mine, theirs)]
    assert positions == [1, 3, 4, 2]
    claim = await harness.queue.claim(NODE, ClaimId("c"), wait_s=0, freeze=freeze)
    assert claim is not None
    assert claim.submission.uuid == mine[0].uuid
    assert harness.queue.position(theirs.uuid) == 1
