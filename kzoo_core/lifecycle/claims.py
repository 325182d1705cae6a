"""Claims: what an attempt runs is frozen the moment a runner takes the submission (D13)."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import read_archive, write_archive
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.records import Package, PackageFile, Scoreboard
from kzoo_core.contract.scoreboard_file import dump_scoreboard
from kzoo_core.contract.verdict import VerdictReason
from kzoo_core.queue.exchange import Frozen, Refused
from kzoo_core.queue.records import Reason
from kzoo_core.store.scoreboard import SCHEMA_VERSION, projection

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.ids import ClaimId, KernelId, SubmissionId
    from kzoo_core.lifecycle.board import Board
    from kzoo_core.queue.exchange import Claimed
    from kzoo_core.queue.records import Submission
    from kzoo_core.queue.runners import Runner
    from kzoo_core.queue.service import SubmissionQueue


class Claims:
    """Hands submissions to runners, each with a package that cannot change any more."""

    def __init__(self, queue: SubmissionQueue, board: Board, limits: PackageLimits) -> None:
        self._queue = queue
        self._board = board
        self._limits = limits

    async def claim(
        self,
        runner: Runner,
        claim_id: ClaimId,
        *,
        wait_s: float,
        only: SubmissionId | None = None,
        present: Callable[[], bool] = lambda: True,
    ) -> Claimed | None:
        """Return the next submission that ``runner`` may run, waiting up to ``wait_s``.

        A runner that is no longer ``present`` when its turn comes gets none.
        """
        return await self._queue.claim(
            runner, claim_id, wait_s=wait_s, only=only, freeze=self._freeze, present=present
        )

    async def _freeze(self, submission: Submission, archive: bytes) -> Frozen | Refused:
        facts = await self._board.head_facts(submission.kernel_id)
        if facts.frozen:
            return Refused(
                Reason(
                    code=VerdictReason.FROZEN.value,
                    message="the kernel was frozen while the submission waited",
                )
            )
        if facts.conflict is not None:
            return Refused(
                Reason(code=VerdictReason.KERNEL_ID_CONFLICT.value, message=facts.conflict)
            )
        frozen = await asyncio.to_thread(
            freeze_package, archive, submission.kernel_id, facts.scoreboard, self._limits
        )
        return Frozen(package=frozen, base_tree=facts.tree)


def freeze_package(
    archive: bytes, kernel_id: KernelId, scoreboard: Scoreboard | None, limits: PackageLimits
) -> bytes:
    """Return the canonical archive with the projection of the head's scoreboard added (D13)."""
    package = read_archive(io.BytesIO(archive), limits, kernel_id=kernel_id)
    board = scoreboard or Scoreboard(schema_version=SCHEMA_VERSION, kernel_id=kernel_id, cases=())
    files = dict(package.files)
    files[SCOREBOARD_PATH] = PackageFile(dump_scoreboard(projection(board)))
    return write_archive(Package(kernel_id, files))
