"""The durable seam: whole files or none, names that last, one owner."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from kzoo_core import durable
from kzoo_core.errors import Conflict


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was fsynced, in order, while the real fsync still runs."""
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def test_a_file_is_synced_under_its_temporary_name_and_then_its_directory(
    tmp_path: Path, synced: list[str]
) -> None:
    durable.write_file(tmp_path / "a", b"one", mode=0o600)
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert synced == [".a.tmp", tmp_path.name]


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.write_file(tmp_path / "a", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        durable.write_file(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_missing_directories_are_made_and_each_is_synced_in_its_parent(
    tmp_path: Path, synced: list[str]
) -> None:
    durable.make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [tmp_path.name, "a"]
    durable.make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_a_directory_where_a_file_lies_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(NotADirectoryError) as refused:
            durable.make_directory(path)
        assert refused.value.filename == str(tmp_path / "file")


def test_a_move_makes_both_directories_durable(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    durable.move(tmp_path / "a" / "x", tmp_path / "b" / "y")
    assert (tmp_path / "b" / "y").read_bytes() == b"1"
    assert synced == ["b", "a"]


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    durable.remove_file(tmp_path / "nothing")
    durable.remove_tree(tmp_path / "nowhere")
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    durable.remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_a_file_written_elsewhere_can_be_synced(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "a").write_bytes(b"1")
    durable.fsync_file(tmp_path / "a")
    assert synced == ["a"]


def _try_lock(path: str, answer: multiprocessing.queues.Queue[str]) -> None:
    try:
        with durable.exclusive_lock(Path(path), owner="server"):
            answer.put("held")
    except Conflict as error:
        answer.put(f"{error.code}: {error.message}")


def test_a_second_process_is_told_that_the_directory_has_an_owner(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.queues.Queue[str] = context.Queue()
    with durable.exclusive_lock(lock, owner="server"):
        assert lock.read_text().strip() == str(os.getpid())
        child = context.Process(target=_try_lock, args=(str(lock), answer))
        child.start()
        assert answer.get(timeout=30) == f"LOCKED: {tmp_path} is in use by another server"
        child.join(30)
    with durable.exclusive_lock(lock, owner="server"):
        pass
    answer.close()
    answer.join_thread()
