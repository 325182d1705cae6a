"""Packs as we write them: read by stock git, whole or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dulwich.pack import apply_delta
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.store.draft import Draft
from kzoo_core.store.objects import FILE_MODE, Entry
from kzoo_core.store.packs import KEEP_MARK, release_pack, remove_pack, splice, write_pack
from tests.core.store.samples import git

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository


@given(
    head=st.binary(max_size=300),
    tail=st.binary(max_size=300),
    before=st.binary(max_size=40),
    after=st.binary(max_size=400),
)
def test_a_splice_gives_the_target_back(
    head: bytes, tail: bytes, before: bytes, after: bytes
) -> None:
    base, target = head + before + tail, head + after + tail

    assert b"".join(apply_delta(base, splice(base, target))) == target


def test_a_splice_of_large_ends_is_cut_into_copies() -> None:
    base = bytes(range(256)) * 70_000
    target = base[:9_000_000] + b"new" + base[9_000_003:]

    delta = splice(base, target)

    assert len(delta) < 40
    assert b"".join(apply_delta(base, delta)) == target


def draft_of(repository: KernelRepository, **files: bytes) -> Draft:
    draft = Draft(repository.objects)
    draft.graft(
        None, {name: Entry(FILE_MODE, draft.add_blob(data)) for name, data in files.items()}
    )
    return draft


def test_git_verifies_a_pack_of_small_and_large_objects(repository: KernelRepository) -> None:
    draft = draft_of(repository, small=b"x", empty=b"", large=os.urandom(200_000))
    directory = repository.git_directory / "objects/pack"

    name = write_pack(directory, draft.made)

    said = subprocess.run(
        ["git", "verify-pack", "-v", str(directory / f"{name}.idx")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.count(" blob ") == 3
    assert said.count(" tree ") == 1
    assert (directory / f"{name}.pack").read_bytes()[-20:].hex() == name.removeprefix("pack-")


def test_the_second_version_of_a_tree_is_stored_as_a_difference(
    repository: KernelRepository,
) -> None:
    draft = Draft(repository.objects)
    files = {f"f{number}": Entry(FILE_MODE, draft.add_blob(b"%d" % number)) for number in range(50)}
    first = draft.graft(None, files)
    draft.graft(first, {"f7": Entry(FILE_MODE, draft.add_blob(b"new"))})
    directory = repository.git_directory / "objects/pack"

    name = write_pack(directory, draft.made)

    said = git(directory, "verify-pack", "-v", f"{name}.idx")
    assert "chain length = 1: 1 object" in said


def test_a_reader_finds_the_objects_of_an_adopted_pack_without_listing(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of(repository, a=b"content")
    name = write_pack(repository.git_directory / "objects/pack", draft.made)
    repository.objects.adopt(name)

    def no_listing(*_: object) -> list[str]:
        raise AssertionError("the directory was listed")

    monkeypatch.setattr(os, "listdir", no_listing)
    blob = next(item for item in draft.made.values() if item.data == b"content")
    assert repository.objects.blob(blob.sha) == b"content"


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_fsync_leaves_no_file_behind(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    directory = repository.git_directory / "objects/pack"
    real, calls = os.fsync, iter(range(10))

    def fsync(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(5, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output error"):
        write_pack(directory, draft_of(repository, a=b"1").made)

    assert list(directory.iterdir()) == []


def test_an_index_that_cannot_be_put_in_place_leaves_no_pack_without_one(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = repository.git_directory / "objects/pack"
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.suffix == ".idx":
            raise OSError(5, "Input/output error")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="Input/output error"):
        write_pack(directory, draft_of(repository, a=b"1").made)

    assert list(directory.iterdir()) == []


def test_every_file_and_the_directory_are_fsynced_before_a_pack_counts(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = repository.git_directory / "objects/pack"
    real, synced = os.fsync, []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    name = write_pack(directory, draft_of(repository, a=b"1").made)

    assert synced == [f"tmp_kzoo_{name}.pack", f"tmp_kzoo_{name}.idx", "pack"]


def test_a_new_pack_is_marked_to_be_kept_until_it_is_released(
    repository: KernelRepository, tmp_path: Path
) -> None:
    name = write_pack(tmp_path, draft_of(repository, a=b"1").made)
    mark = tmp_path / f"{name}.keep"
    assert mark.read_bytes() == KEEP_MARK

    release_pack(tmp_path, name)

    assert sorted(path.suffix for path in tmp_path.glob("pack-*")) == [".idx", ".pack"]


def test_a_removed_pack_is_gone_with_all_beside_it(
    repository: KernelRepository, tmp_path: Path
) -> None:
    name = write_pack(tmp_path, draft_of(repository, a=b"1").made)

    remove_pack(tmp_path, name)

    assert list(tmp_path.glob("pack-*")) == []
