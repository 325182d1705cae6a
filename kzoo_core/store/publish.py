"""Putting commits on top of the branch: build on the head, swap it in, or build again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kzoo_core.errors import Retryable
from kzoo_core.ids import CommitId
from kzoo_core.store.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Callable

    from dulwich.objects import ObjectID

    from kzoo_core.store.repository import KernelRepository

Result = TypeVar("Result")

TRIES = 10


class HeadMoved(Retryable):
    """Others moved the branch each time we had built on its head."""


def publish(
    repository: KernelRepository,
    build: Callable[[Draft, CommitId | None], tuple[ObjectID, Result]],
) -> Result:
    """Let ``build`` make commits on the head and move the branch to the last one, durably.

    ``build`` gets an empty draft and the head (``None``: unborn); it returns the new head and the
    result. When someone moved the branch meanwhile, it is called again with the new head, ten times
    at most; then ``HeadMoved``. What ``build`` raises passes through with nothing written.
    """
    for _ in range(TRIES):
        branch, head = repository.refs.head()
        draft = Draft(repository.objects)
        commit, result = build(draft, head)
        if repository.advance(branch, head, CommitId(commit.decode("ascii")), draft):
            return result
    raise HeadMoved(
        "HEAD_MOVED",
        f"the branch of {repository.path} moved {TRIES} times while a commit was being made",
        hint="try again; if it goes on, find out who pushes there in a loop",
    )
