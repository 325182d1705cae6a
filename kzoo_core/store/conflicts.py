"""Where a new kernel may not lie: the rules of D1 that need the repository to be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.store.objects import is_kernel, walk_tree

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
    path = ""
    for segment in kernel_id.split("/"):
        if path and is_kernel(tree):
            return f"it lies inside the kernel {path}"
        entry = tree.get(segment.encode("utf-8"))
        above = f"{path}/" if path else ""
        if entry is None:
            twin = _twin(tree, segment)
            return f"it differs only in letter case from {above}{twin}" if twin else None
        path = f"{above}{segment}"
        if not entry.is_directory:
            return f"{path} is a file"
        tree = trees.tree(entry.sha)
    inner = first_kernel_below(trees, tree, kernel_id)
    if inner is not None:
        return f"the kernel {inner} lies inside it"
    return None if is_kernel(tree) else f"the directory {path} is there already and is no kernel"


def first_kernel_below(trees: TreeReader, tree: Tree, path: str) -> str | None:
    """Return the path of a kernel strictly below the directory ``tree`` at ``path``, if any."""
    for below, entry in walk_tree(trees, tree, f"{path}/"):
        if entry.is_directory and is_kernel(trees.tree(entry.sha)):
            return below
    return None


def _twin(tree: Tree, segment: str) -> str | None:
    folded = segment.casefold()
    for name in tree:
        text = name.decode("utf-8", "backslashreplace")
        if text.casefold() == folded:
            return text
    return None
