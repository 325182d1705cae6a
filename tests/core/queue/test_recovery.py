"""What a start makes of a spool that was left in disorder."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from kzoo_core.queue import states
from kzoo_core.queue.codec import write_submission
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.recovery import Recovery, recover
from tests.core.queue.samples import (
    SETTINGS,
    accepted,
    at,
    claimed,
    confirmed,
    opened,
    pending,
    reported,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kzoo_core.queue.spool import Spool

UUID = uuid_of(1)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = opened(tmp_path / "state")
    yield spool
    spool.close()


def lay(directory: Path, submission: Submission) -> Path:
    """Lay a submission's directory somewhere, right or wrong."""
    directory.mkdir(parents=True)
    (directory / "package.tar.gz").write_bytes(b"package")
    (directory / "submission.json").write_bytes(write_submission(submission))
    return directory


def recovered(spool: Spool) -> Recovery:
    """Recover, and see that a second time finds nothing more to do."""
    first = recover(spool)
    second = recover(spool)
    assert second.submissions == first.submissions
    assert second.sizes == first.sizes
    assert (second.notes, second.corrupt) == ((), 0)
    return first


def test_an_empty_spool_has_nothing_to_say(spool: Spool) -> None:
    assert recovered(spool) == Recovery((), {}, (), (), 0)


def test_everything_in_order_is_read_back_oldest_first(spool: Spool) -> None:
    made = [
        accepted(pending(4), now=at(50)),
        pending(3),
        reported(pending(2)),
        confirmed(pending(1)),
    ]
    for submission in made:
        lay(spool.home(submission), submission)
    found = recovered(spool)
    assert found.submissions == tuple(reversed(made))
    assert found.notes == ()
    home = spool.home(made[0])
    assert found.sizes == {uuid_of(4): 7 + (home / "submission.json").stat().st_size}
    assert spool.directory(uuid_of(4)) == home


@pytest.mark.parametrize(
    ("where", "submission"),
    [
        ("pending", claimed()),
        ("running", reported()),
        ("pending", reported()),
        ("running", states.expire(claimed(), now=at(900), settings=SETTINGS)),
        ("reported", accepted()),
        ("pending", states.cancel(pending(), now=at(2), by="alice")),
    ],
)
def test_a_directory_that_lags_behind_its_record_is_moved_on(
    spool: Spool, where: str, submission: Submission
) -> None:
    lay(spool.root / where / UUID, submission)
    found = recovered(spool)
    home = spool.home(submission)
    assert found.submissions == (submission,)
    said = f"{where}/{UUID}: its record says {submission.state}, "
    assert found.notes == (f"{said}moved to {home.relative_to(spool.root)}",)
    assert (home / "package.tar.gz").is_file()


def test_what_was_never_acknowledged_is_removed(spool: Spool) -> None:
    lay(spool.root / "tmp" / UUID, pending())
    (spool.root / "tmp" / "file").write_bytes(b"x")
    (spool.root / "tmp" / "link").symlink_to(spool.root / "secret")
    found = recovered(spool)
    assert found.submissions == ()
    assert found.notes == (
        f"tmp/{UUID}: never acknowledged, removed",
        "tmp/file: never acknowledged, removed",
        "tmp/link: never acknowledged, removed",
    )
    assert (spool.root / "secret").exists()


def test_a_half_written_file_is_removed(spool: Spool) -> None:
    home = lay(spool.home(pending()), pending())
    (home / ".submission.json.tmp").write_bytes(b"{")
    found = recovered(spool)
    assert found.notes == (f"pending/{UUID}/.submission.json.tmp: half written, removed",)
    assert found.submissions == (pending(),)


def test_of_two_copies_the_one_further_on_is_kept_and_the_other_set_aside(
    spool: Spool,
) -> None:
    twice = claimed(states.expire(confirmed(), now=at(900), settings=SETTINGS))
    orders: list[tuple[Submission, Submission]] = [
        (pending(), claimed()),
        (claimed(), twice),
        (twice, reported()),
        (reported(), accepted()),
        (pending(), accepted()),
    ]
    for behind, ahead in orders:
        for place in (behind, ahead):
            shutil.rmtree(spool.home(place), ignore_errors=True)
        other = "running" if behind.state is ahead.state else str(behind.state)
        where = spool.root / ("pending" if other == "running" else other) / UUID
        lay(where, behind)
        lay(spool.home(ahead), ahead)
        found = recover(spool)
        assert found.submissions == (ahead,)
        assert found.corrupt == 1
        kept = spool.home(ahead).relative_to(spool.root)
        assert f"a copy that is further on lies in {kept}; moved to corrupt/" in found.notes[0]
        shutil.rmtree(spool.home(ahead))


@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_running_copies_the_one_with_the_highest_attempt_is_kept(
    spool: Spool, swapped: bool
) -> None:
    second = claimed(states.expire(confirmed(), now=at(900), settings=SETTINGS))
    copies = [claimed(), second]
    lay(spool.root / "pending" / UUID, copies[not swapped])
    lay(spool.root / "running" / UUID, copies[swapped])
    found = recovered(spool)
    assert found.submissions == (second,)
    assert found.corrupt == 1
    assert spool.directory(UUID) == spool.root / "running" / UUID


def test_a_copy_in_another_month_is_set_aside(spool: Spool) -> None:
    lay(spool.home(accepted()), accepted())
    lay(spool.root / "done" / "2026-07" / UUID, accepted())
    found = recovered(spool)
    assert found.submissions == (accepted(),)
    assert found.corrupt == 1
    assert spool.home(accepted()).is_dir()


def broken(change: Callable[[dict[str, object]], object], base: Submission) -> bytes:
    document = json.loads(write_submission(base))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"{", "the submission's record is not what the queue writes"),
        (b"", "the submission's record is not what the queue writes"),
        (write_submission(pending(2)), f"its record is of submission {uuid_of(2)}"),
        (
            broken(lambda it: it.update(attempts=it["attempts"] * 2), claimed()),  # type: ignore[operator]
            "its attempts are numbered [1, 1]",
        ),
        (
            broken(lambda it: it.update(outcome="lost"), pending()),
            "its state pending does not go with its outcome lost",
        ),
        (
            broken(lambda it: it.update(finished_at=None), accepted()),
            "its state done does not go with its outcome accepted",
        ),
        (
            broken(lambda it: it.update(attempts=[]), claimed()),
            "its state is running without an attempt",
        ),
    ],
)
def test_a_record_that_cannot_be_true_is_set_aside_and_kept(
    spool: Spool, record: bytes, says: str
) -> None:
    home = lay(spool.root / "pending" / UUID, pending())
    (home / "submission.json").write_bytes(record)
    found = recovered(spool)
    assert found.submissions == ()
    assert found.corrupt == 1
    assert found.notes[0].startswith(f"pending/{UUID}: {says}")
    assert found.notes[0].endswith(f"; moved to corrupt/{UUID}")
    kept = spool.root / "corrupt" / UUID
    assert (kept / "submission.json").read_bytes() == record
    assert (kept / "package.tar.gz").read_bytes() == b"package"


def test_strangers_are_set_aside_each_under_a_name_of_its_own(spool: Spool) -> None:
    (spool.root / "pending" / "notes").write_text("a file")
    (spool.root / "running" / "notes").mkdir()
    (spool.root / "done" / "notes").mkdir()
    found = recovered(spool)
    assert found.corrupt == 3
    assert found.notes == (
        "done/notes: it is no month; moved to corrupt/notes",
        "pending/notes: it has no submission.json; moved to corrupt/notes.2",
        "running/notes: it has no submission.json; moved to corrupt/notes.3",
    )
    assert (spool.root / "corrupt" / "notes.2").read_text() == "a file"


def test_a_record_that_cannot_be_opened_is_set_aside(spool: Spool) -> None:
    (spool.root / "pending" / UUID / "submission.json").mkdir(parents=True)
    says = "its submission.json cannot be read: Is a directory"
    assert recovered(spool).notes == (f"pending/{UUID}: {says}; moved to corrupt/{UUID}",)


def test_a_live_submission_without_its_package_is_set_aside(spool: Spool) -> None:
    home = lay(spool.home(claimed()), claimed())
    (home / "package.tar.gz").unlink()
    found = recovered(spool)
    assert found.notes == (f"running/{UUID}: it has no package.tar.gz; moved to corrupt/{UUID}",)


def test_a_finished_submission_needs_its_package_no_more(spool: Spool) -> None:
    home = lay(spool.home(accepted()), accepted())
    (home / "package.tar.gz").unlink()
    assert recovered(spool).submissions[0].state is State.DONE
