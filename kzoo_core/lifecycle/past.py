"""What git still says of a submission whose record is no longer kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kzoo_core.store.readback import find_past

if TYPE_CHECKING:
    from kzoo_core.ids import CommitId, SubmissionId
    from kzoo_core.lifecycle.board import Board
    from kzoo_core.store.readback import PastAccept

COMMITS_READ = 20_000
"""How far back a question looks: it comes soon after the record went, and that outlived many."""
ANSWERS_KEPT = 1000


class PastAccepts:
    """Finds the accepts of evicted submissions in the trailers of the branch (D22).

    What was found, or was not, cannot change any more: it is kept, so that asking again is cheap.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._kept: OrderedDict[SubmissionId, tuple[CommitId, PastAccept] | None] = OrderedDict()

    async def find(self, uuid: SubmissionId) -> tuple[CommitId, PastAccept] | None:
        """Return R and what it says; ``None`` where the submission left no commit, or long ago."""
        if uuid not in self._kept:
            self._kept[uuid] = await self._board.read(
                lambda repository: find_past(repository, uuid, newest=COMMITS_READ)
            )
            if len(self._kept) > ANSWERS_KEPT:
                self._kept.popitem(last=False)
        return self._kept[uuid]
