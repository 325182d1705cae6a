"""Reading refs as they are on disk, and the compare-and-swap that git processes respect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Broken, Retryable
from kzoo_core.ids import CommitId
from kzoo_core.store.refs import LOCK_TRIES, Refs
from tests.core.store.samples import git, seed

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository

MAIN = "refs/heads/main"
NEW = CommitId("1" * 40)


def test_head_names_the_unborn_branch(repository: KernelRepository) -> None:
    assert repository.refs.head() == (MAIN, None)


def test_a_loose_ref_is_read(repository: KernelRepository) -> None:
    head = seed(repository)

    assert repository.refs.head() == (MAIN, head)
    assert repository.refs.read(MAIN) == head
    assert repository.refs.read("refs/heads/other") is None


def test_a_packed_ref_is_read_and_swapped(repository: KernelRepository) -> None:
    head = seed(repository)
    git(repository.path, "tag", "-am", "peeled", "v1")
    git(repository.path, "pack-refs", "--all")
    assert not (repository.git_directory / MAIN).exists()

    assert repository.refs.head() == (MAIN, head)
    assert repository.refs.read("refs/heads/other") is None
    assert repository.refs.compare_and_swap(MAIN, None, NEW) is False
    assert repository.refs.compare_and_swap(MAIN, head, NEW) is True
    assert repository.refs.read(MAIN) == NEW


def test_a_move_by_another_process_is_seen_at_once(repository: KernelRepository) -> None:
    head = seed(repository)
    tree = git(repository.path, "rev-parse", "HEAD^{tree}").strip()
    other = git(repository.path, "commit-tree", tree, "-p", head, "-m", "x").strip()

    git(repository.path, "update-ref", MAIN, other)

    assert repository.head() == other


def test_a_branch_that_is_a_symbolic_ref_is_followed(repository: KernelRepository) -> None:
    head = seed(repository)
    git(repository.path, "symbolic-ref", "refs/heads/alias", MAIN)
    git(repository.path, "symbolic-ref", "HEAD", "refs/heads/alias")

    assert repository.refs.head() == (MAIN, head)


def test_symbolic_refs_in_a_circle_end(repository: KernelRepository) -> None:
    for name, target in (("a", "b"), ("b", "a")):
        (repository.git_directory / "refs/heads" / name).write_text(f"ref: refs/heads/{target}\n")
    (repository.git_directory / "HEAD").write_text("ref: refs/heads/a\n")

    assert repository.refs.head()[1] is None


def test_a_detached_head_is_refused_with_what_to_do(repository: KernelRepository) -> None:
    head = seed(repository)
    (repository.git_directory / "HEAD").write_text(f"{head}\n")

    with pytest.raises(Broken) as caught:
        repository.head()

    assert caught.value.code == "HEAD_DETACHED"
    assert caught.value.message == f"HEAD of {repository.git_directory} does not name a branch"
    assert caught.value.hint is not None
    assert "git symbolic-ref HEAD refs/heads/main" in caught.value.hint


def test_an_emptied_ref_is_not_taken_for_an_unborn_branch(repository: KernelRepository) -> None:
    seed(repository)
    (repository.git_directory / MAIN).write_bytes(b"")

    with pytest.raises(Broken) as caught:
        repository.head()

    assert caught.value.code == "REF_UNREADABLE"
    assert caught.value.message == (
        f"{MAIN} in {repository.git_directory} holds b'', not an object name"
    )
    assert caught.value.hint == f"set it to the last good commit: git update-ref {MAIN} <commit>"


def test_a_ref_that_cannot_be_read_is_not_taken_for_an_unborn_branch(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(repository)

    def damaged(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("pathlib.Path.read_bytes", damaged)
    with pytest.raises(OSError, match="Input/output error"):
        repository.head()


def test_a_swap_from_nothing_does_not_overwrite(repository: KernelRepository) -> None:
    head = seed(repository)

    assert repository.refs.compare_and_swap(MAIN, None, NEW) is False
    assert repository.refs.read(MAIN) == head
    assert not list((repository.git_directory / "refs").rglob("*.lock"))


def test_a_new_ref_is_made_with_its_directories(repository: KernelRepository) -> None:
    assert repository.refs.compare_and_swap("refs/kernel-zoo/worktree", None, NEW) is True
    assert repository.refs.read("refs/kernel-zoo/worktree") == NEW


def test_a_lock_that_goes_away_is_waited_for(repository: KernelRepository) -> None:
    lock = repository.git_directory / f"{MAIN}.lock"
    lock.touch()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            lock.unlink()

    assert Refs(repository.git_directory, sleep).compare_and_swap(MAIN, None, NEW) is True
    assert len(pauses) == 3


def test_a_lock_that_stays_ends_the_wait_and_is_left_alone(repository: KernelRepository) -> None:
    head = seed(repository)
    lock = repository.git_directory / f"{MAIN}.lock"
    lock.touch()
    pauses: list[float] = []

    with pytest.raises(Retryable) as caught:
        Refs(repository.git_directory, pauses.append).compare_and_swap(MAIN, head, NEW)

    assert caught.value.code == "REF_LOCKED"
    assert caught.value.message == f"another process holds {lock}"
    assert caught.value.hint is not None
    assert sum(pauses) == pytest.approx(2.0)
    assert len(pauses) == LOCK_TRIES
    assert lock.exists()
    assert repository.head() == head


def test_git_cannot_move_the_branch_while_we_hold_its_lock(repository: KernelRepository) -> None:
    head = seed(repository)
    (repository.git_directory / f"{MAIN}.lock").touch()

    said = git(repository.path, "update-ref", MAIN, head, "0" * 40, check=False)

    assert "main.lock': File exists" in said


def test_a_failed_fsync_leaves_the_ref_and_no_lock(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = seed(repository)

    def no_fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", no_fsync)
    with pytest.raises(OSError, match="Input/output error"):
        repository.refs.compare_and_swap(MAIN, head, NEW)
    monkeypatch.undo()

    assert repository.head() == head
    assert not list((repository.git_directory / "refs").rglob("*.lock"))
