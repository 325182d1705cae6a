"""A checkout's files follow the branch, and what people edit there survives."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.records import PackageFile
from kzoo_core.store.worktree import (
    MARKER,
    WorktreeState,
    WorktreeStatus,
    follow,
    start_following,
)
from tests.core.store.samples import KERNEL, OTHER, accepted, git, package, seed

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository

CLEAN = WorktreeState(WorktreeStatus.CLEAN)
SOURCE = f"{KERNEL}/src/kernel.py"


@pytest.fixture
def synced(checkout: KernelRepository) -> KernelRepository:
    """A checkout with two kernels whose files are in place."""
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    assert follow(checkout) == CLEAN
    return checkout


def status(checkout: KernelRepository) -> list[str]:
    return git(checkout.path, "status", "--short").splitlines()


def test_a_bare_repository_has_no_files_to_follow(repository: KernelRepository) -> None:
    accepted(repository)

    assert follow(repository) == WorktreeState(WorktreeStatus.NONE)


def test_an_unborn_branch_is_followed(checkout: KernelRepository) -> None:
    assert follow(checkout) == CLEAN


def test_the_first_commit_brings_all_files(checkout: KernelRepository) -> None:
    accepted(checkout, submitted=package(source=b"fast\n"))

    assert follow(checkout) == CLEAN
    assert (checkout.path / SOURCE).read_bytes() == b"fast\n"
    assert status(checkout) == []


def test_changed_added_and_removed_files_follow_an_accept(synced: KernelRepository) -> None:
    accepted(synced, 1, submitted=package(source=b"1\n", extra={"old.txt": PackageFile(b"x")}))
    follow(synced)
    run = PackageFile(b"#!/bin/sh\n", executable=True)
    accepted(synced, 2, submitted=package(source=b"2\n", extra={"run.sh": run}))

    assert follow(synced) == CLEAN
    kernel = synced.path / KERNEL
    assert (kernel / "src/kernel.py").read_bytes() == b"2\n"
    assert (kernel / "run.sh").stat().st_mode & 0o111 == 0o111
    assert not (kernel / "old.txt").exists()
    assert status(synced) == []


def test_several_accepts_are_followed_at_once(synced: KernelRepository) -> None:
    accepted(synced, 1)
    accepted(synced, 2)

    assert follow(synced) == CLEAN
    assert (synced.path / SOURCE).read_bytes() == b"# round 2\n"
    assert status(synced) == []


def test_unrelated_edits_survive(synced: KernelRepository) -> None:
    (synced.path / OTHER / "src/kernel.py").write_text("mine\n")
    (synced.path / "notes.txt").write_text("mine too\n")
    accepted(synced)

    assert follow(synced) == CLEAN
    assert (synced.path / OTHER / "src/kernel.py").read_text() == "mine\n"
    assert status(synced) == [f" M {OTHER}/src/kernel.py", "?? notes.txt"]


def test_a_conflicting_edit_stops_the_sync_and_the_commit_stands(synced: KernelRepository) -> None:
    (synced.path / SOURCE).write_text("mine\n")
    (synced.path / OTHER / "src/kernel.py").write_text("mine\n")
    done = accepted(synced)

    state = follow(synced)

    assert state.status is WorktreeStatus.DIRTY
    assert state.message is not None
    assert state.message.startswith(f"the files in {synced.path} do not follow the branch: ")
    assert SOURCE in state.message
    assert "Accepted submissions are committed" in state.message
    assert (synced.path / SOURCE).read_text() == "mine\n"
    assert synced.head() == done.bench_commit


def test_the_sync_goes_on_when_the_edit_is_out_of_the_way(synced: KernelRepository) -> None:
    (synced.path / SOURCE).write_text("mine\n")
    accepted(synced, 1)
    assert follow(synced).status is WorktreeStatus.DIRTY
    (synced.path / SOURCE).write_bytes(package().files["src/kernel.py"].data)
    accepted(synced, 2)

    assert follow(synced) == CLEAN
    assert (synced.path / SOURCE).read_bytes() == b"# round 2\n"
    assert status(synced) == []


def test_an_untracked_file_in_the_way_is_not_overwritten(synced: KernelRepository) -> None:
    (synced.path / KERNEL / "new.txt").write_text("mine\n")
    accepted(synced, submitted=package(extra={"new.txt": PackageFile(b"theirs\n")}))

    assert follow(synced).status is WorktreeStatus.DIRTY
    assert (synced.path / KERNEL / "new.txt").read_text() == "mine\n"


def test_a_touched_file_with_the_same_bytes_is_no_edit(synced: KernelRepository) -> None:
    data = (synced.path / SOURCE).read_bytes()
    (synced.path / SOURCE).unlink()
    (synced.path / SOURCE).write_bytes(data)
    accepted(synced)

    assert follow(synced) == CLEAN


def test_a_commit_made_in_the_checkout_is_followed(synced: KernelRepository) -> None:
    (synced.path / "README.md").write_text("hello\n")
    git(synced.path, "add", "README.md")
    git(synced.path, "commit", "-qm", "by hand")
    accepted(synced)

    assert follow(synced) == CLEAN
    assert (synced.path / "README.md").read_text() == "hello\n"
    assert status(synced) == []


def test_a_sync_that_was_cut_off_before_its_marker_is_repeated(synced: KernelRepository) -> None:
    before = synced.refs.read(MARKER)
    assert before is not None
    done = accepted(synced)
    follow(synced)
    assert synced.refs.compare_and_swap(MARKER, done.bench_commit, before)

    assert follow(synced) == CLEAN
    assert synced.refs.read(MARKER) == done.bench_commit
    assert status(synced) == []


def test_a_checkout_served_for_the_first_time_counts_as_in_step(checkout: KernelRepository) -> None:
    seed(checkout, package(seeded=True), package(OTHER, seeded=True))
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / OTHER / "src/kernel.py").write_text("staged\n")
    git(checkout.path, "add", "-A")

    start_following(checkout)
    accepted(checkout)

    assert follow(checkout) == CLEAN
    assert status(checkout) == [f"M  {OTHER}/src/kernel.py"]


def test_a_crash_before_the_very_first_sync_loses_no_file(checkout: KernelRepository) -> None:
    accepted(checkout)

    start_following(checkout)

    assert follow(checkout) == CLEAN
    assert (checkout.path / SOURCE).exists()


def test_hooks_and_filters_of_the_user_do_not_run(
    synced: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = synced.git_directory / "hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {synced.path}/hook-ran\n")
    hook.chmod(0o755)
    config = synced.path.parent / "gitconfig"
    config.write_text("[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    accepted(synced, submitted=package(source=b"a\nb\n"))

    assert follow(synced) == CLEAN
    assert (synced.path / SOURCE).read_bytes() == b"a\nb\n"
    assert not (synced.path / "hook-ran").exists()


def test_a_held_index_is_dirty_and_not_broken(synced: KernelRepository) -> None:
    (synced.git_directory / "index.lock").touch()
    accepted(synced)

    state = follow(synced)

    assert state.status is WorktreeStatus.DIRTY
    assert state.message is not None
    assert "index.lock" in state.message


@pytest.mark.parametrize(
    "fault",
    [FileNotFoundError(2, "No such file or directory: 'git'"), subprocess.TimeoutExpired("git", 1)],
)
def test_a_machine_without_a_working_git_is_dirty_and_says_so(
    synced: KernelRepository, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    accepted(synced)

    def no_git(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(subprocess, "run", no_git)
    state = follow(synced)

    assert state.status is WorktreeStatus.DIRTY
    assert state.message is not None
    assert "git" in state.message
