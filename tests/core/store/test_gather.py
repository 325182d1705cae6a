"""Gathering packs: fewer files, every object still there, nothing of other people touched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kzoo_core.store.accept import find_accept
from kzoo_core.store.gather import TOGETHER, Gatherer
from kzoo_core.store.repository import KernelRepository
from tests.core.store.samples import KERNEL, T0, accepted, fsck, git, package, seed, submission_id

if TYPE_CHECKING:
    from pathlib import Path


def packs(repository: KernelRepository) -> list[Path]:
    return sorted((repository.git_directory / "objects/pack").glob("*.pack"))


def objects(repository: KernelRepository) -> list[str]:
    return sorted(
        git(repository.path, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    )


def filled(repository: KernelRepository, count: int = TOGETHER) -> None:
    for number in range(1, count + 1):
        accepted(repository, number)


def test_enough_small_packs_become_one_with_every_object(repository: KernelRepository) -> None:
    filled(repository)
    before = objects(repository)

    assert Gatherer(repository).gather() == TOGETHER - 1

    assert len(packs(repository)) == 1
    assert objects(repository) == before
    assert fsck(repository.path) == ""
    git(repository.path, "verify-pack", str(packs(repository)[0]))


def test_too_few_packs_stay_as_they_are(repository: KernelRepository) -> None:
    filled(repository, TOGETHER - 1)
    before = packs(repository)

    assert Gatherer(repository).gather() == 0
    assert packs(repository) == before


def test_the_open_repository_and_other_readers_go_on_reading(repository: KernelRepository) -> None:
    filled(repository, TOGETHER // 2)
    with KernelRepository(repository.path) as reader:
        assert reader.read_package(reader.head(), KERNEL) is not None
        for number in range(TOGETHER // 2 + 1, TOGETHER + 1):
            accepted(repository, number)

        Gatherer(repository).gather()

        for each in (repository, reader):
            assert find_accept(each, submission_id(1), since=T0) is not None
            assert each.read_package(each.head(), KERNEL) is not None
    accepted(repository, TOGETHER + 1)


def test_an_object_that_lies_in_several_packs_is_kept_once(repository: KernelRepository) -> None:
    for number in range(1, TOGETHER + 1):
        accepted(repository, number, submitted=package(source=b"%d\n" % (number % 2)))

    Gatherer(repository).gather()

    listed = git(repository.path, "verify-pack", "-v", str(packs(repository)[0]))
    names = [line[:40] for line in listed.splitlines() if " blob " in line]
    assert len(names) == len(set(names))
    assert fsck(repository.path) == ""


def test_gathered_packs_are_gathered_again_when_there_are_enough_of_their_size(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.store.gather.TOGETHER", 3)
    monkeypatch.setattr("kzoo_core.store.gather.SMALLEST_CLASS_BYTES", 4096)
    gatherer = Gatherer(repository)
    most = 0
    for number in range(1, 41):
        accepted(repository, number)
        gatherer.gather()
        most = max(most, len(packs(repository)))

    assert most <= 9
    assert fsck(repository.path) == ""
    assert find_accept(repository, submission_id(1), since=T0) is not None


def test_packs_that_git_made_and_packs_to_keep_are_left_alone(
    repository: KernelRepository,
) -> None:
    filled(repository, 3)
    git(repository.path, "repack", "-qad")
    foreign = packs(repository)[0]
    for number in range(4, TOGETHER + 4):
        accepted(repository, number)
    kept = next(path for path in packs(repository) if path != foreign)
    kept.with_suffix(".keep").touch()
    accepted(repository, TOGETHER + 4)

    assert Gatherer(repository).gather() == TOGETHER - 1

    assert foreign in packs(repository)
    assert kept in packs(repository)
    assert fsck(repository.path) == ""


def test_what_git_laid_beside_a_gathered_pack_goes_with_it(repository: KernelRepository) -> None:
    filled(repository)
    for path in packs(repository):
        path.with_suffix(".bitmap").touch()
        path.with_suffix(".rev").touch()

    assert Gatherer(repository).gather() == TOGETHER - 1

    (left,) = packs(repository)
    assert sorted(left.parent.iterdir()) == [left.with_suffix(".idx"), left]


@pytest.mark.parametrize("mark", [".promisor", ".mtimes"])
def test_a_pack_with_a_meaning_of_its_own_is_left_alone(
    repository: KernelRepository, mark: str
) -> None:
    filled(repository)
    marked = packs(repository)[0]
    marked.with_suffix(mark).touch()

    assert Gatherer(repository).gather() == 0
    assert marked in packs(repository)


def test_packs_of_git_alone_are_looked_at_once(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.store.gather.TOGETHER", 1)
    filled(repository, 2)
    git(repository.path, "repack", "-qad")
    gatherer = Gatherer(repository)
    assert gatherer.gather() == 0

    def no_reading(_: Path) -> bytes:
        raise AssertionError("a foreign pack was read again")

    monkeypatch.setattr("pathlib.Path.read_bytes", no_reading)
    assert gatherer.gather() == 0


def test_nothing_is_gathered_beside_a_multi_pack_index(repository: KernelRepository) -> None:
    filled(repository)
    git(repository.path, "multi-pack-index", "write")

    assert Gatherer(repository).gather() == 0


def test_a_failed_write_leaves_the_old_packs(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(repository)
    before = packs(repository)

    def no_fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", no_fsync)
    with pytest.raises(OSError, match="Input/output error"):
        Gatherer(repository).gather()
    monkeypatch.undo()

    assert packs(repository) == before
    assert fsck(repository.path) == ""


def test_an_index_that_belongs_to_another_pack_is_not_copied_from(
    repository: KernelRepository,
) -> None:
    filled(repository, TOGETHER)
    first, second = packs(repository)[:2]
    first.with_suffix(".idx").chmod(0o644)
    first.with_suffix(".idx").write_bytes(second.with_suffix(".idx").read_bytes())

    assert Gatherer(repository).gather() == 0
    assert first in packs(repository)


def test_a_seeded_repository_is_gathered_too(repository: KernelRepository) -> None:
    seed(repository)
    filled(repository, TOGETHER - 1)

    assert Gatherer(repository).gather() == TOGETHER - 1
    assert fsck(repository.path) == ""
