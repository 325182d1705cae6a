"""Where a new kernel may not lie (D1), told against the head's trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.errors import Conflict
from kzoo_core.ids import KernelId
from kzoo_core.store.conflicts import kernel_id_conflict
from kzoo_core.store.packages import add_packages
from tests.core.store.samples import KERNEL, OTHER, T0, git, package, seed

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository


@pytest.mark.parametrize(
    ("kernel_id", "expected"),
    [
        (KERNEL, None),
        (OTHER, None),
        ("gfx950/Norm/RMSNorm/fp32/plain", None),
        (f"{KERNEL}/inner", f"it lies inside the kernel {KERNEL}"),
        (f"{KERNEL}/src/inner", f"it lies inside the kernel {KERNEL}"),
        ("gfx928/Norm", f"the kernel {KERNEL} lies inside it"),
        ("gfx928", f"the kernel {KERNEL} lies inside it"),
        (
            "gfx928/Norm/RMSNorm/fp32/PLAIN",
            "it differs only in letter case from gfx928/Norm/RMSNorm/fp32/plain",
        ),
        ("gfx928/norm/RMSNorm/fp32/plain", "it differs only in letter case from gfx928/Norm"),
        ("GFX928/new", "it differs only in letter case from gfx928"),
        ("readme.MD", "it differs only in letter case from README.md"),
        ("README.md", "README.md is a file"),
        ("README.md/kernel", "README.md is a file"),
        ("notes", "the directory notes is there already and is no kernel"),
        ("notes/kernel", None),
    ],
)
def test_a_kernel_id_collides_with_what_lies_in_the_head(
    checkout: KernelRepository, kernel_id: str, expected: str | None
) -> None:
    seed(checkout)
    git(checkout.path, "reset", "-q", "--hard")
    (checkout.path / "README.md").write_text("hello\n")
    (checkout.path / "notes").mkdir()
    (checkout.path / "notes/todo.md").write_text("nothing\n")
    git(checkout.path, "add", "-A")
    git(checkout.path, "commit", "-qm", "by hand")

    assert kernel_id_conflict(checkout, checkout.head(), KernelId(kernel_id)) == expected


def test_nothing_collides_in_a_repository_without_a_commit(repository: KernelRepository) -> None:
    assert kernel_id_conflict(repository, None, KERNEL) is None


def test_packages_are_added_with_their_seeds_by_one_commit(repository: KernelRepository) -> None:
    packages = [package(KERNEL, seeded=True), package(OTHER, seeded=True)]

    commit = add_packages(
        repository, packages, message="Add the examples\n", author="maintainer", when=T0
    )

    log = git(repository.path, "log", "--format=%H|%an|%cn|%s|%P")
    assert log == f"{commit}|maintainer|kernel_zoo|Add the examples|\n"
    assert [repository.read_package(commit, each.kernel_id) for each in packages] == packages


def test_added_packages_leave_the_others_alone(repository: KernelRepository) -> None:
    seed(repository, package(KERNEL, seeded=True))

    commit = seed(repository, package(OTHER, seeded=True))

    assert repository.read_package(commit, KERNEL) == package(KERNEL, seeded=True)
    assert set(repository.kernel_ids(commit)) == {KERNEL, OTHER}


@pytest.mark.parametrize("there_already", [True, False])
def test_packages_that_collide_are_refused_whole(
    repository: KernelRepository, there_already: bool
) -> None:
    inner = package(KernelId(f"{KERNEL}/inner"), seeded=True)
    head = seed(repository, package(OTHER, seeded=True), *([package()] if there_already else []))
    added = [inner] if there_already else [package(), inner]

    with pytest.raises(Conflict) as caught:
        add_packages(repository, added, message="x\n", author="maintainer", when=T0)

    assert caught.value.code == "KERNEL_ID_CONFLICT"
    assert "cannot be added: " in caught.value.message
    assert str(KERNEL) in caught.value.message
    assert repository.head() == head
