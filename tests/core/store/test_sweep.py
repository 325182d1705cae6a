"""The sweep at start: what a crash left, and what may be somebody's work in progress."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Broken
from kzoo_core.store.packs import KEEP_MARK
from kzoo_core.store.repository import KernelRepository
from kzoo_core.store.sweep import sweep
from tests.core.store.samples import KERNEL, accepted, fsck, git, seed

if TYPE_CHECKING:
    from pathlib import Path


def never(_: float) -> None:
    raise AssertionError("nothing to wait for")


def made(path: Path, *, age_s: float = 0.0, data: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, times=(time.time() - age_s,) * 2)
    return path


def test_a_clean_repository_is_left_as_it_is(repository: KernelRepository) -> None:
    accepted(repository)

    assert sweep(repository, never) == []


def test_an_unborn_branch_is_fine(repository: KernelRepository) -> None:
    assert sweep(repository, never) == []


def test_stale_locks_are_removed(repository: KernelRepository) -> None:
    git_directory = repository.git_directory
    names = ["HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock"]
    locks = [made(git_directory / name, age_s=60) for name in names]

    said = sweep(repository, never)

    assert said == [f"removed the stale lock {name}" for name in names]
    assert not any(lock.exists() for lock in locks)
    accepted(repository)


def test_a_young_lock_is_given_a_second_to_go_away(repository: KernelRepository) -> None:
    lock = made(repository.git_directory / "refs/heads/main.lock")
    pauses: list[float] = []

    def git_ends(seconds: float) -> None:
        pauses.append(seconds)
        lock.unlink()

    assert sweep(repository, git_ends) == []
    assert pauses == [1.0]


def test_a_young_lock_that_stays_was_left_by_our_own_crash(repository: KernelRepository) -> None:
    lock = made(repository.git_directory / "refs/heads/main.lock")
    pauses: list[float] = []

    assert sweep(repository, pauses.append) == ["removed the stale lock refs/heads/main.lock"]
    assert pauses == [1.0]
    assert not lock.exists()


def test_a_lock_that_another_process_took_meanwhile_is_left_alone(
    repository: KernelRepository,
) -> None:
    lock = made(repository.git_directory / "refs/heads/main.lock")

    def taken_again(_: float) -> None:
        made(lock.with_name("next"))
        lock.with_name("next").replace(lock)

    assert sweep(repository, taken_again) == []
    assert lock.exists()


def test_our_own_lock_is_no_stale_one(repository: KernelRepository) -> None:
    with repository.lock():
        os.utime(repository.git_directory / "kernel-zoo.lock", times=(0, 0))

        assert sweep(repository, never) == []


@pytest.mark.parametrize(("age_s", "removed"), [(600.0, False), (4000.0, True)])
def test_the_lock_of_the_index_may_be_held_while_an_editor_is_open(
    checkout: KernelRepository, age_s: float, removed: bool
) -> None:
    lock = made(checkout.git_directory / "index.lock", age_s=age_s)

    said = sweep(checkout, never)

    assert lock.exists() is not removed
    assert said == (["removed the stale lock index.lock"] if removed else [])


def test_packs_that_were_not_finished_are_removed_unless_git_may_be_writing_them(
    repository: KernelRepository,
) -> None:
    packs = repository.git_directory / "objects/pack"
    ours = made(packs / "tmp_kzoo_pack-12.pack", data=b"PACK")
    dead = made(packs / "tmp_pack_old", age_s=4000, data=b"PACK")
    live = made(packs / "tmp_pack_new", age_s=60, data=b"PACK")

    said = sweep(repository, never)

    assert said == [
        "removed the unfinished pack tmp_kzoo_pack-12.pack",
        "removed the unfinished pack tmp_pack_old",
    ]
    assert (ours.exists(), dead.exists(), live.exists()) == (False, False, True)


def test_a_pack_without_an_index_is_removed_unless_git_may_be_indexing_it(
    repository: KernelRepository,
) -> None:
    seed(repository)
    packs = repository.git_directory / "objects/pack"
    dead = made(packs / "pack-12.pack", age_s=4000, data=b"PACK")
    live = made(packs / "pack-34.pack", age_s=60, data=b"PACK")
    for whole in packs.glob("pack-*.idx"):
        made(whole.with_suffix(".pack"), age_s=4000, data=whole.with_suffix(".pack").read_bytes())

    said = sweep(repository, never)

    assert said == ["removed pack-12.pack, a pack without an index"]
    assert (dead.exists(), live.exists()) == (False, True)


def test_a_keep_mark_of_ours_is_removed_and_one_of_git_is_not(
    repository: KernelRepository,
) -> None:
    packs = repository.git_directory / "objects/pack"
    ours = made(packs / "pack-12.keep", data=KEEP_MARK)
    pushed = made(packs / "pack-34.keep", data=b"receive-pack 17 on node")

    said = sweep(repository, never)

    assert said == ["removed the keep mark pack-12.keep"]
    assert (ours.exists(), pushed.exists()) == (False, True)


def test_empty_objects_are_removed_so_that_they_can_be_written_again(
    checkout: KernelRepository,
) -> None:
    head = seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    blob = git(checkout.path, "hash-object", "-w", "--stdin", given="lost in a crash\n").strip()
    path = checkout.git_directory / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(b"")

    said = sweep(checkout, never)

    assert said == [f"removed the empty object {blob[2:]}"]
    assert (
        git(checkout.path, "hash-object", "-w", "--stdin", given="lost in a crash\n").strip()
        == blob
    )
    assert path.stat().st_size > 0
    assert checkout.head() == head
    assert fsck(checkout.path) == ""


@pytest.mark.parametrize("suffix", [".idx", ".pack"])
def test_a_pack_that_a_crash_emptied_does_not_break_every_read(
    repository: KernelRepository, suffix: str
) -> None:
    accepted(repository)
    packs = repository.git_directory / "objects/pack"
    made(packs / f"pack-{'12' * 20}.idx", data=b"" if suffix == ".idx" else b"index")
    made(packs / f"pack-{'12' * 20}.pack", data=b"" if suffix == ".pack" else b"PACK")

    with KernelRepository(repository.path) as reopened:
        said = sweep(reopened, never)

        assert said == [f"removed pack-{'12' * 20}.idx, the index of an empty pack"]
        assert reopened.read_package(reopened.head(), KERNEL) is not None


def committed_by_hand(checkout: KernelRepository) -> str:
    """Commit a file with git, loose objects and all, and return the commit."""
    seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / KERNEL / "src/kernel.py").write_text("by hand\n")
    git(checkout.path, "commit", "-qam", "by hand")
    return git(checkout.path, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize(
    "what", ["HEAD", "HEAD^{tree}", f"HEAD:{KERNEL}", f"HEAD:{KERNEL}/src/kernel.py"]
)
@pytest.mark.parametrize("damage", ["emptied", "missing", "garbled"])
def test_a_head_that_cannot_be_read_is_named_with_what_to_do(
    checkout: KernelRepository, what: str, damage: str
) -> None:
    head = committed_by_hand(checkout)
    sha = git(checkout.path, "rev-parse", what).strip()
    path = checkout.git_directory / "objects" / sha[:2] / sha[2:]
    path.chmod(0o644)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "emptied" else b"garbage")

    with pytest.raises(Broken) as caught:
        sweep(checkout, never)

    assert caught.value.code == "HEAD_UNREADABLE"
    assert caught.value.message.startswith(
        f"the newest commit {head} of {checkout.path} cannot be read"
    )
    assert sha in caught.value.message
    assert caught.value.hint is not None
    assert "git update-ref refs/heads/main <last good commit>" in caught.value.hint


def test_after_an_empty_object_was_found_every_tree_is_read(checkout: KernelRepository) -> None:
    committed_by_hand(checkout)
    for text in ("one\n", "two\n"):
        (checkout.path / "README.md").write_text(text)
        git(checkout.path, "add", "README.md")
        git(checkout.path, "commit", "-qm", text)
    sha = git(checkout.path, "rev-parse", f"HEAD:{KERNEL}/src/kernel.py").strip()
    (checkout.git_directory / "objects" / sha[:2] / sha[2:]).unlink()
    assert sweep(checkout, never) == []
    made(checkout.git_directory / "objects/12" / ("12" * 19))

    with pytest.raises(Broken, match=f"object {sha} in .* is missing"):
        sweep(checkout, never)


def test_submodules_and_links_are_passed_over(checkout: KernelRepository) -> None:
    committed_by_hand(checkout)
    (checkout.path / "link").symlink_to("README.md")
    git(checkout.path, "add", "link")
    git(checkout.path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},nested")
    git(checkout.path, "commit", "-qm", "odd things")

    assert sweep(checkout, never) == []
