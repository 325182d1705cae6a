"""Where a new kernel may not lie: the rules of D1 that need the repository to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.store.objects import PACKAGE_DIRECTORY, is_kernel

if TYPE_CHECKING:
    from dulwich.objects import ObjectID

    from kzoo_core.ids import CommitId, KernelId
    from kzoo_core.store.objects import Tree, TreeReader
    from kzoo_core.store.repository import KernelRepository


def kernel_id_conflict(
    repository: KernelRepository, commit: CommitId | None, kernel_id: KernelId
) -> str | None:
    """Say what ``kernel_id`` collides with in ``commit``, or ``None`` when it may be written there.

    The answer continues the sentence "<kernel_id> cannot be added: …". Raises ``Broken`` for a
    commit that cannot be read.
    """
    if commit is None:
        return None
    return conflict_in_tree(repository.objects, repository.root(commit), kernel_id)


def conflict_in_tree(trees: TreeReader, root: ObjectID | None, kernel_id: KernelId) -> str | None:
    """Do the same for the tree ``root`` (``None``: empty), which may be one of a draft.

    A kernel that is there already never collides by its name, but it may not hold another one: an
    accept replaces the whole directory (D23).
    """
    tree = trees.tree(root) if root is not None else {}
    segments = kernel_id.split("/")
    for depth, segment in enumerate(segments, start=1):
        path = "/".join(segments[:depth])
        entry = tree.get(segment.encode("utf-8"))
        if entry is None:
            twin = _twin(tree, segment)
            above = path[: len(path) - len(segment)]
            return f"it differs only in letter case from {above}{twin}" if twin else None
        if not entry.is_directory:
            return f"{path} is a file"
        tree = trees.tree(entry.sha)
        if depth < len(segments) and is_kernel(tree):
            return f"it lies inside the kernel {path}"
        if depth == len(segments):
            return _conflict_below(trees, entry.sha, kernel_id)
    return None


def first_kernel_below(trees: TreeReader, tree: ObjectID, path: str) -> str | None:
    """Return the path of the first kernel strictly below the directory ``path``, if any."""
    for name, entry in trees.tree(tree).items():
        if not entry.is_directory or name == PACKAGE_DIRECTORY:
            continue
        below = f"{path}/{name.decode('utf-8', 'backslashreplace')}"
        if is_kernel(trees.tree(entry.sha)):
            return below
        found = first_kernel_below(trees, entry.sha, below)
        if found is not None:
            return found
    return None


def _conflict_below(trees: TreeReader, tree: ObjectID, kernel_id: KernelId) -> str | None:
    inner = first_kernel_below(trees, tree, kernel_id)
    if inner is not None:
        return f"the kernel {inner} lies inside it"
    if not is_kernel(trees.tree(tree)):
        return f"the directory {kernel_id} is there already and is no kernel"
    return None


def _twin(tree: Tree, segment: str) -> str | None:
    folded = segment.casefold()
    for name in tree:
        text = name.decode("utf-8", "backslashreplace")
        if text.casefold() == folded:
            return text
    return None
