"""Putting whole packages into the repository by one ordinary commit, which is no attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.errors import Conflict
from kzoo_core.ids import CommitId
from kzoo_core.store.conflicts import conflict_in_tree
from kzoo_core.store.objects import DIRECTORY_MODE, Entry, object_id
from kzoo_core.store.publish import publish
from kzoo_core.store.repository import mode_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dulwich.objects import ObjectID

    from kzoo_core.contract.records import Package
    from kzoo_core.store.draft import Draft
    from kzoo_core.store.repository import KernelRepository


def add_packages(
    repository: KernelRepository,
    packages: Sequence[Package],
    *,
    message: str,
    author: str,
    when: datetime,
) -> CommitId:
    """Commit ``packages`` with all their files, the seed of bench_result.yaml among them.

    A kernel that is there already is replaced whole. ``author`` is a name such as a submitter_id.
    Raises ``Conflict`` with code ``KERNEL_ID_CONFLICT`` when one of them may not lie where it
    would (D1), and what ``publish`` raises.
    """

    def build(draft: Draft, head: CommitId | None) -> tuple[ObjectID, CommitId]:
        root = repository.root(head) if head is not None else None
        directories: dict[str, Entry] = {
            package.kernel_id: Entry(DIRECTORY_MODE, _directory(draft, package))
            for package in packages
        }
        tree = draft.graft(root, directories)
        for package in packages:
            kernel_id = package.kernel_id
            conflict = conflict_in_tree(draft, root, kernel_id)
            conflict = conflict or conflict_in_tree(draft, tree, kernel_id)
            if conflict is not None:
                raise Conflict(
                    "KERNEL_ID_CONFLICT",
                    f"{kernel_id} cannot be added: {conflict}",
                    hint="choose a kernel_id that is neither inside nor above another kernel's, "
                    "and differs from others by more than letter case",
                )
        parent = object_id(head) if head is not None else None
        commit = draft.add_commit(tree, parent, author=author, when=when, message=message)
        return commit, CommitId(commit.decode("ascii"))

    return publish(repository, build)


def _directory(draft: Draft, package: Package) -> ObjectID:
    files = {
        path: Entry(mode_of(file), draft.add_blob(file.data))
        for path, file in package.files.items()
    }
    return draft.graft(None, files)
