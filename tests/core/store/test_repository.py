"""Making and opening a repository, and reading it, whoever wrote it."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import pytest
from dulwich.objects import ObjectID

from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.errors import BadInput, Broken, Conflict
from kzoo_core.ids import CommitId, KernelId
from kzoo_core.store.index import IndexBuilder
from kzoo_core.store.repository import KernelRepository
from kzoo_core.store.sweep import make_ready
from tests.core.store.samples import KERNEL, OTHER, accepted, git, package, seed

if TYPE_CHECKING:
    from pathlib import Path


def test_init_makes_a_bare_repository_with_an_unborn_main(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kernels.git"

    with KernelRepository.init(path) as repository:
        assert (repository.bare, repository.worktree, repository.head()) == (True, None, None)

    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git(path, "config", "core.bare") == "true\n"


def test_init_can_make_a_checkout(tmp_path: Path) -> None:
    with KernelRepository.init(tmp_path / "kernels", bare=False) as repository:
        assert repository.worktree == tmp_path / "kernels"
        assert repository.git_directory == tmp_path / "kernels" / ".git"

    assert git(tmp_path / "kernels", "status", "--short") == ""


def test_init_owns_the_settings_and_git_does_not_complain(tmp_path: Path) -> None:
    KernelRepository.init(tmp_path / "k").close()

    said = git(tmp_path / "k", "config", "--get-regexp", "^(gc|core.fsync|receive|maintenance)")
    assert said.splitlines() == [
        "core.fsync committed,loose-object,reference",
        "gc.auto 0",
        "receive.autogc false",
        "maintenance.auto false",
    ]
    assert git(tmp_path / "k", "count-objects", check=False) == "0 objects, 0 kilobytes\n"


def test_init_opens_the_repository_that_is_there(tmp_path: Path) -> None:
    with KernelRepository.init(tmp_path / "k") as first:
        head = seed(first)

    with KernelRepository.init(tmp_path / "k") as second:
        assert second.head() == head


def test_init_refuses_a_directory_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine\n")

    with pytest.raises(BadInput) as caught:
        KernelRepository.init(tmp_path)

    assert caught.value.code == "NOT_EMPTY"
    assert caught.value.message == f"{tmp_path} is there already and is no git repository"
    assert caught.value.hint == "name a new or an empty directory"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_init_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("mine\n")

    with pytest.raises(BadInput, match="is there already and is no git repository"):
        KernelRepository.init(tmp_path / "k")


@pytest.mark.parametrize(
    ("there", "asked", "said"),
    [
        (True, False, "it is bare, a checkout was asked for"),
        (False, True, "it is a checkout, a bare one was asked for"),
    ],
)
def test_init_refuses_a_repository_of_the_other_kind(
    tmp_path: Path, there: bool, asked: bool, said: str
) -> None:
    KernelRepository.init(tmp_path / "k", bare=there).close()

    with pytest.raises(BadInput) as caught:
        KernelRepository.init(tmp_path / "k", bare=asked)

    assert caught.value.code == "REPOSITORY_UNSUPPORTED"
    assert caught.value.message == f"there is already a repository at {tmp_path / 'k'}: {said}"
    assert caught.value.hint is not None


def test_opening_what_is_no_repository_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        KernelRepository(tmp_path)

    assert caught.value.code == "NOT_A_REPOSITORY"
    assert caught.value.message == f"there is no git repository at {tmp_path}"
    assert caught.value.hint == f"make one: kzoo-server init --repo {tmp_path}"


def test_opening_changes_nothing_on_disk(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "k")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "k").rglob("*")}

    with KernelRepository(tmp_path / "k") as repository:
        assert repository.head() is None

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "k").rglob("*")} == before


def test_a_linked_worktree_is_refused(tmp_path: Path) -> None:
    with KernelRepository.init(tmp_path / "k", bare=False) as repository:
        seed(repository)
    git(tmp_path / "k", "worktree", "add", "-q", "../linked", "HEAD")

    with pytest.raises(BadInput) as caught:
        KernelRepository(tmp_path / "linked")

    assert caught.value.code == "REPOSITORY_UNSUPPORTED"
    assert caught.value.message == f"{tmp_path / 'linked'} is a linked worktree or a submodule"


def test_the_inside_of_a_checkout_is_refused(checkout: KernelRepository) -> None:
    with pytest.raises(BadInput) as caught:
        KernelRepository(checkout.git_directory)

    assert caught.value.code == "REPOSITORY_UNSUPPORTED"
    assert caught.value.hint == f"name the checkout itself: {checkout.path}"


def test_another_object_format_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "k")

    with pytest.raises(BadInput) as caught:
        KernelRepository(tmp_path / "k")

    assert caught.value.code == "REPOSITORY_UNSUPPORTED"
    assert caught.value.message == f"{tmp_path / 'k'} has extensions.objectformat = sha256"
    assert caught.value.hint == "serve a repository with objectformat = sha1"


def test_a_configuration_that_does_not_parse_is_named(repository: KernelRepository) -> None:
    (repository.git_directory / "config").write_text("[core\n")

    with pytest.raises(Broken) as caught:
        KernelRepository(repository.path)

    assert caught.value.code == "REPOSITORY_UNREADABLE"
    assert str(repository.git_directory / "config") in caught.value.message


def test_settings_are_added_behind_a_persons_own_lines(repository: KernelRepository) -> None:
    config = repository.git_directory / "config"
    git(repository.path, "config", "gc.auto", "6700")
    config.write_text(config.read_text() + "# mine\n[alias]\n\tst = status")

    said = make_ready(repository)

    assert said == [f"set gc.auto in {config}"]
    assert "# mine\n[alias]\n\tst = status\n" in config.read_text()
    assert git(repository.path, "config", "gc.auto") == "0\n"
    assert make_ready(repository) == []


def test_only_one_process_holds_the_lock(repository: KernelRepository) -> None:
    with repository.lock(), pytest.raises(Conflict) as caught, repository.lock():
        pass

    assert caught.value.code == "LOCKED"
    assert caught.value.message == f"{repository.git_directory} is in use by another kzoo-server"
    with repository.lock():
        pass


def test_a_package_is_read_with_its_scoreboard_and_modes(repository: KernelRepository) -> None:
    extra = {"run.sh": PackageFile(b"#!/bin/sh\n", executable=True)}
    written = package(seeded=True, extra=extra)
    head = seed(repository, written)

    assert repository.read_package(head, KERNEL) == written
    assert repository.read_file(head, f"{KERNEL}/{SCOREBOARD_PATH}") == (
        written.files[SCOREBOARD_PATH].data
    )


def test_what_is_not_there_is_none(repository: KernelRepository) -> None:
    assert repository.read_package(None, KERNEL) is None
    head = seed(repository)

    assert repository.read_package(head, OTHER) is None
    assert repository.read_file(head, f"{KERNEL}/src") is None
    assert repository.read_file(head, f"{KERNEL}/src/kernel.py/below") is None
    assert repository.kernel_tree(head, KernelId("gfx928/Norm")) is None
    assert repository.kernel_tree(head, KernelId(f"{KERNEL}/src/kernel.py")) is None


def test_the_tree_of_a_kernel_is_what_git_says(repository: KernelRepository) -> None:
    head = seed(repository)

    assert f"{repository.kernel_tree(head, KERNEL)}\n" == (
        git(repository.path, "rev-parse", f"HEAD:{KERNEL}")
    )


def test_all_kernels_are_found_at_any_depth(repository: KernelRepository) -> None:
    shallow = KernelId("lone")
    assert repository.kernel_ids(None) == ()
    head = seed(repository, *(package(name, seeded=True) for name in (KERNEL, OTHER, shallow)))

    assert sorted(repository.kernel_ids(head)) == sorted([KERNEL, OTHER, shallow])


def test_commits_of_others_are_read_loose_and_packed(checkout: KernelRepository) -> None:
    seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / KERNEL / "src/kernel.py").write_text("by hand\n")

    git(checkout.path, "commit", "-qam", "by hand")
    head = checkout.head()
    assert head is not None
    assert checkout.read_file(head, f"{KERNEL}/src/kernel.py") == b"by hand\n"

    (checkout.path / KERNEL / "src/kernel.py").write_text("again\n")
    git(checkout.path, "commit", "-qam", "again")
    git(checkout.path, "repack", "-qad")
    head = checkout.head()
    assert head is not None
    assert checkout.read_file(head, f"{KERNEL}/src/kernel.py") == b"again\n"


def test_a_link_in_a_package_is_not_read_as_a_file(checkout: KernelRepository) -> None:
    seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / KERNEL / "src/link.py").symlink_to("/etc/passwd")
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-qm", "a link")
    head = checkout.head()
    assert head is not None

    read = checkout.read_package(head, KERNEL)

    assert isinstance(read, Package)
    assert "src/link.py" not in read.files
    assert checkout.read_file(head, f"{KERNEL}/src/link.py") is None


def test_a_missing_object_is_named_with_what_to_do(repository: KernelRepository) -> None:
    missing = CommitId("12" * 20)

    with pytest.raises(Broken) as caught:
        repository.read_file(missing, "README.md")

    assert caught.value.code == "OBJECT_UNREADABLE"
    assert caught.value.message == (
        f"object {missing} in {repository.git_directory / 'objects'} is missing"
    )
    assert caught.value.hint is not None
    assert "git fsck" in caught.value.hint


def test_an_object_of_another_type_is_named(repository: KernelRepository) -> None:
    head = seed(repository)
    tree = repository.kernel_tree(head, KERNEL)
    assert tree is not None

    with pytest.raises(Broken, match=r"is of type 2, expected 1$"):
        repository.read_file(CommitId(tree), "README.md")


def test_an_emptied_loose_object_is_named(repository: KernelRepository) -> None:
    empty = repository.git_directory / "objects" / "12" / ("12" * 19)
    empty.parent.mkdir()
    empty.touch()

    with pytest.raises(Broken, match=r"cannot be read \("):
        repository.read_file(CommitId("12" * 20), "README.md")


def test_another_reader_sees_an_accept_without_being_reopened(
    repository: KernelRepository,
) -> None:
    seed(repository)
    with KernelRepository(repository.path) as reader:
        assert reader.head() == repository.head()
        done = accepted(repository)

        assert reader.head() == done.bench_commit
        assert reader.read_package(reader.head(), KERNEL) == (
            repository.read_package(done.bench_commit, KERNEL)
        )


def deep_tree(repository: KernelRepository, depth: int) -> str:
    """Commit a package that someone pushed with a directory deeper than Python's stack."""
    blob = git(repository.path, "hash-object", "-w", "--stdin", given="deep\n").strip()
    tree = git(repository.path, "mktree", given=f"100644 blob {blob}\tend\n").strip()
    for _ in range(depth):
        raw = b"40000 d\0" + bytes.fromhex(tree)
        sha = hashlib.sha1(b"tree %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()
        path = repository.git_directory / "objects" / sha[:2] / sha[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"tree %d\0" % len(raw) + raw))
        tree = sha
    contract = git(repository.path, "rev-parse", f"HEAD:{KERNEL}/.kernel_package").strip()
    kernel = git(
        repository.path,
        "mktree",
        given=f"040000 tree {contract}\t.kernel_package\n040000 tree {tree}\tsrc\n",
    ).strip()
    for segment in reversed(KERNEL.split("/")):
        kernel = git(repository.path, "mktree", given=f"040000 tree {kernel}\t{segment}\n").strip()
    commit = git(repository.path, "commit-tree", kernel, "-p", "HEAD", "-m", "deep").strip()
    git(repository.path, "update-ref", "refs/heads/main", commit)
    return commit


def test_a_tree_deeper_than_pythons_stack_is_read_and_replaced(
    repository: KernelRepository,
) -> None:
    seed(repository)
    head = CommitId(deep_tree(repository, 1500))

    read = repository.read_package(head, KERNEL)
    assert read is not None
    assert f"src/{'d/' * 1500}end" in read.files
    assert repository.kernel_ids(head) == (KERNEL,)
    assert make_ready(repository) == []
    (entry,) = IndexBuilder().build(repository, head).entries
    assert entry.valid is False
    assert accepted(repository).records


def test_a_tree_that_is_not_well_formed_is_named(repository: KernelRepository) -> None:
    raw = b"tree 5\x00hello"
    sha = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
    path = repository.git_directory / "objects" / sha[:2] / sha[2:]
    path.parent.mkdir()
    path.write_bytes(zlib.compress(raw))

    with pytest.raises(Broken) as caught:
        repository.objects.tree(ObjectID(sha.encode()))

    assert caught.value.code == "OBJECT_UNREADABLE"
    assert sha in caught.value.message


def test_the_cache_of_trees_is_bounded(
    repository: KernelRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.store.objects.TREE_CACHE_ENTRIES", 3)
    monkeypatch.setattr("kzoo_core.store.parsed.KEPT", 1)
    for number, kernel in enumerate([KERNEL, OTHER, KERNEL, OTHER], start=1):
        accepted(repository, number, submitted=package(kernel, b"%d\n" % number))

    assert set(repository.kernel_ids(repository.head())) == {KERNEL, OTHER}
