"""One submission's files on disk, and what a failing disk means."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

from kzoo_core import durable
from kzoo_core.errors import Broken, Conflict, NotFound, Retryable
from kzoo_core.queue.codec import read_submission
from kzoo_core.queue.recovery import recover
from kzoo_core.queue.spool import Spool, SpoolFailed, report_files
from tests.core.queue.samples import (
    DIGEST,
    OTHER_DIGEST,
    REPORT,
    accepted,
    claimed,
    confirmed,
    opened,
    pending,
    reported,
    seeded_bytes,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PACKAGE = b"package"


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = opened(tmp_path / "state")
    yield spool
    spool.close()


def tree(root: Path) -> set[str]:
    """Return every file below the state directory but its own three."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix() for path in files} - {"format", "lock", "secret"}


def failing(
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    code: int,
    *,
    when: Callable[[Path], bool] = lambda _path: True,
    after: bool = False,
) -> None:
    """Let one function of ``durable`` raise ``OSError``, before or after it has done its work."""
    real = getattr(durable, function)

    def fail(path: Path, *rest: object, **named: object) -> None:
        if not when(path):
            real(path, *rest, **named)
            return
        if after:
            real(path, *rest, **named)
        raise OSError(code, "injected", str(path))

    monkeypatch.setattr(durable, function, fail)


# opening


def test_a_new_state_directory_gets_its_format_and_a_private_secret(tmp_path: Path) -> None:
    spool = opened(tmp_path / "a" / "state")
    root = spool.root
    assert (root / "format").read_text() == "1\n"
    assert stat.S_IMODE((root / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o700
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == [
        "corrupt",
        "done",
        "late",
        "pending",
        "reported",
        "running",
        "tmp",
    ]
    spool.close()


def test_the_secret_survives(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    token = first.open(seeded_bytes(1).randbytes).attempt_token(uuid_of(1), 1)
    first.close()
    second = Spool(tmp_path)
    assert second.open(seeded_bytes(2).randbytes).attempt_token(uuid_of(1), 1) == token
    second.close()


def test_a_state_directory_has_one_owner(spool: Spool) -> None:
    with pytest.raises(Conflict) as caught:
        opened(spool.root)
    assert caught.value.code == "LOCKED"
    assert caught.value.message == f"{spool.root} is in use by another kzoo-server"
    spool.close()
    opened(spool.root).close()


def test_a_newer_format_is_refused_and_the_directory_left_free(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("2\n")
    for _ in range(2):
        with pytest.raises(Broken) as caught:
            opened(tmp_path)
        assert caught.value.code == "STATE_TOO_NEW"
        assert caught.value.message == (
            f"{tmp_path} has format 2, this server knows formats up to 1"
        )
        assert caught.value.hint == "use the kernel_zoo that wrote it, or a later one"


@pytest.mark.parametrize("text", [b"", b"one", b"\xff", "²".encode()])
def test_a_format_that_is_no_number_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "format").write_bytes(text)
    with pytest.raises(Broken) as caught:
        opened(tmp_path)
    assert caught.value.code == "STATE_UNREADABLE"
    assert "expected a format number" in caught.value.message


def test_a_secret_that_was_cut_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(Broken) as caught:
        opened(tmp_path)
    assert caught.value.code == "STATE_UNREADABLE"
    assert caught.value.message == f"{tmp_path / 'secret'} holds 5 bytes, expected 32"


# the way of one submission


def test_a_submission_is_in_one_directory_at_each_step(spool: Spool) -> None:
    submission = pending()
    spool.add(submission, PACKAGE)
    home = f"pending/{submission.uuid}"
    assert tree(spool.root) == {f"{home}/package.tar.gz", f"{home}/submission.json"}

    spool.change(claimed(), {"attempt-1.tar.gz": b"frozen"})
    assert tree(spool.root) == {
        f"running/{submission.uuid}/{name}"
        for name in ("package.tar.gz", "submission.json", "attempt-1.tar.gz")
    }

    spool.change(reported(), report_files(1, REPORT, DIGEST))
    spool.change(accepted(), {})
    assert tree(spool.root) == {
        f"done/2026-08/{submission.uuid}/{name}"
        for name in (
            "package.tar.gz",
            "submission.json",
            "attempt-1.tar.gz",
            "report-1.json",
            "stdout-1",
        )
    }
    assert spool.read(submission.uuid, "package.tar.gz") == PACKAGE
    assert spool.read(submission.uuid, "attempt-1.tar.gz") == b"frozen"
    assert spool.read(submission.uuid, "stdout-1") == REPORT.stdout
    assert read_submission(spool.read(submission.uuid, "submission.json")) == accepted()


def test_a_change_within_a_state_replaces_the_record_in_its_place(spool: Spool) -> None:
    spool.add(pending(), PACKAGE)
    spool.change(claimed(), {})
    spool.change(confirmed(), {})
    assert read_submission(spool.read(pending().uuid, "submission.json")) == confirmed()


def test_the_size_counts_every_file(spool: Spool) -> None:
    spool.add(pending(), PACKAGE)
    record = len(spool.read(pending().uuid, "submission.json"))
    assert spool.size(pending().uuid) == len(PACKAGE) + record


def test_what_is_not_there_is_not_found(spool: Spool) -> None:
    spool.add(pending(), PACKAGE)
    with pytest.raises(NotFound) as caught:
        spool.read(pending().uuid, "stdout-1")
    assert (caught.value.code, caught.value.message) == (
        "NO_SUCH_FILE",
        f"submission {pending().uuid} has no stdout-1",
    )
    with pytest.raises(NotFound) as caught:
        spool.read(uuid_of(9), "stdout-1")
    assert caught.value.code == "SUBMISSION_NOT_FOUND"


def test_a_file_that_cannot_be_read_is_broken_but_does_not_condemn_the_spool(
    spool: Spool,
) -> None:
    spool.add(pending(), PACKAGE)
    (spool.directory(pending().uuid) / "stdout-1").mkdir()
    with pytest.raises(Broken) as caught:
        spool.read(pending().uuid, "stdout-1")
    assert caught.value.code == "SPOOL_UNREADABLE"
    assert not isinstance(caught.value, SpoolFailed)


def test_an_evicted_submission_leaves_nothing(spool: Spool) -> None:
    spool.add(pending(), PACKAGE)
    spool.change(reported(), {})
    spool.change(accepted(), {})
    spool.keep_late(pending().uuid, 1, REPORT, DIGEST)
    spool.evict(pending().uuid)
    assert tree(spool.root) == set()
    assert recover(spool).submissions == ()


# late results


def test_the_first_late_result_of_an_attempt_is_kept(spool: Spool) -> None:
    uuid = pending().uuid
    assert spool.keep_late(uuid, 1, REPORT, DIGEST)
    assert spool.keep_late(uuid, 1, REPORT, DIGEST)
    assert not spool.keep_late(uuid, 1, REPORT, OTHER_DIGEST)
    assert spool.keep_late(uuid, 2, REPORT, OTHER_DIGEST)
    assert tree(spool.root) == {
        f"late/{uuid}/{name}" for name in ("report-1.json", "stdout-1", "report-2.json", "stdout-2")
    }
    assert (spool.root / "late" / uuid / "stdout-1").read_bytes() == REPORT.stdout


# a failing disk


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", ["package.tar.gz", "submission.json"])
def test_a_full_disk_at_submission_is_said_and_leaves_nothing(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, "write_file", code, when=lambda path: path.name == name)
        with pytest.raises(Retryable) as caught:
            spool.add(pending(), PACKAGE)
    assert caught.value.code == "DISK_FULL"
    assert caught.value.message == "the server's disk is full: nothing was changed"
    assert caught.value.hint == "an operator has to make room; then send it again"
    assert caught.value.retry_after_s == 60
    assert list((spool.root / "tmp").iterdir()) == []
    assert tree(spool.root) == set()
    spool.add(pending(), PACKAGE)
    assert len(tree(spool.root)) == 2


def test_a_full_disk_at_the_rename_of_a_submission_leaves_nothing(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "move", errno.ENOSPC)
    with pytest.raises(Retryable):
        spool.add(pending(), PACKAGE)
    assert tree(spool.root) == set()


def test_a_full_disk_after_the_rename_of_a_submission_is_no_harmless_one(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "move", errno.ENOSPC, after=True)
    with pytest.raises(SpoolFailed) as caught:
        spool.add(pending(), PACKAGE)
    assert caught.value.message.startswith("a change was made but may not be durable")
    assert len(tree(spool.root)) == 2


@pytest.mark.parametrize("name", ["report-1.json", "stdout-1", "submission.json"])
def test_a_full_disk_at_a_change_leaves_the_earlier_record(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spool.add(pending(), PACKAGE)
    spool.change(claimed(), {})
    with monkeypatch.context() as patch:
        failing(patch, "write_file", errno.ENOSPC, when=lambda path: path.name == name)
        with pytest.raises(Retryable) as caught:
            spool.change(reported(), report_files(1, REPORT, DIGEST))
    assert caught.value.code == "DISK_FULL"
    assert spool.directory(pending().uuid) == spool.root / "running" / pending().uuid
    assert read_submission(spool.read(pending().uuid, "submission.json")) == claimed()
    spool.change(reported(), report_files(1, REPORT, DIGEST))


def test_a_full_disk_once_the_record_is_written_is_no_harmless_one(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.add(pending(), PACKAGE)
    with monkeypatch.context() as patch:
        failing(patch, "write_file", errno.ENOSPC, after=True)
        with pytest.raises(SpoolFailed):
            spool.change(claimed(), {})
    with monkeypatch.context() as patch:
        failing(patch, "move", errno.ENOSPC)
        with pytest.raises(SpoolFailed):
            spool.change(claimed(), {})


@pytest.mark.parametrize("function", ["write_file", "move", "make_directory"])
def test_an_error_of_the_disk_condemns_the_spool(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    spool.add(pending(), PACKAGE)
    spool.change(reported(), {})
    failing(monkeypatch, function, errno.EIO)
    with pytest.raises(SpoolFailed) as caught:
        spool.change(accepted(), {})
    assert caught.value.code == "SPOOL_FAILED"
    assert "[Errno 5] injected" in caught.value.message
    assert caught.value.hint == (
        "look at the disk, then start the server again; it recovers what was acknowledged"
    )
    assert isinstance(caught.value, Broken)


def test_an_fsync_that_fails_at_submission_condemns_the_spool(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SpoolFailed) as caught:
        spool.add(pending(), PACKAGE)
    assert caught.value.message == ("the spool cannot be relied on any more: [Errno 5] injected")
