"""The claim: how a runner gets its next attempt, once, whatever becomes of the answer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kzoo_core.errors import Retryable
from kzoo_core.ids import Sha256
from kzoo_core.queue import states
from kzoo_core.queue.claimants import Wanted
from kzoo_core.queue.core import QueueCore
from kzoo_core.queue.exchange import Claimed, Frozen, Refused
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.spool import PACKAGE, attempt_package_name
from kzoo_core.queue.tokens import token_sha256

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_core.ids import ClaimId, RunnerId, SubmissionId
    from kzoo_core.queue.runners import Runner
    from kzoo_core.queue.settings import QueueSettings

Freeze = Callable[[Submission, bytes], Awaitable[Frozen | Refused]]
"""Makes what an attempt will run of a submission and its canonical package (D13)."""


class Claiming(QueueCore):
    """What a runner without an attempt asks of the queue."""

    # A claim that is asked twice at once is answered one after the other; a gate lives as long as
    # somebody stands at it.
    _gates: WeakValueDictionary[tuple[RunnerId, ClaimId], asyncio.Lock]

    def __init__(
        self,
        root: Path,
        settings: QueueSettings,
        clock: Clock,
        *,
        token_bytes: Callable[[int], bytes],
    ) -> None:
        super().__init__(root, settings, clock, token_bytes=token_bytes)
        self._gates = WeakValueDictionary()

    async def claim(
        self,
        runner: Runner,
        claim_id: ClaimId,
        *,
        wait_s: float,
        freeze: Freeze,
        only: SubmissionId | None = None,
        present: Callable[[], bool] = lambda: True,
    ) -> Claimed | None:
        """Give the runner its next attempt, durably, waiting up to ``wait_s`` for one.

        ``only`` asks for one submission and no other; ``present`` says whether the runner is still
        there to hear the answer. ``None``: nothing for this runner, ``only`` is over, or it left.
        The same ``claim_id`` returns the same attempt and token for as long as the attempt is open,
        also after a restart. An answer that never arrives, or a caller that is cancelled once the
        attempt is made, leaves a claim that nobody confirms: it expires.

        While ``freeze`` works its submission is reserved. What it raises is handed on, and the
        submission waits again. Raises also ``NotFound`` or ``Gone`` for ``only``, ``Retryable``
        ``FREEZE_TIMEOUT`` or ``DISK_FULL``, and ``SpoolFailed``.
        """
        end = asyncio.get_running_loop().time() + self._wait_s(wait_s)
        gate = self._gates.setdefault((runner.runner_id, claim_id), asyncio.Lock())
        try:
            async with asyncio.timeout_at(end):
                await gate.acquire()
        except TimeoutError:
            return None
        try:
            again = self._ledger.book.claimed(runner.runner_id, claim_id)
            if again is not None:
                return self._claimed(again)
            wanted = Wanted(runner.capability, only)
            return await self._claim(
                runner, claim_id, wanted, end=end, freeze=freeze, present=present
            )
        finally:
            gate.release()

    async def _claim(
        self,
        runner: Runner,
        claim_id: ClaimId,
        wanted: Wanted,
        *,
        end: float,
        freeze: Freeze,
        present: Callable[[], bool],
    ) -> Claimed | None:
        only = wanted.only
        while only is None or self._ledger.get(only).state is not State.DONE:
            left_s = end - asyncio.get_running_loop().time()
            uuid = await self._ledger.claimants.next(wanted, left_s)
            if uuid is None:
                return None
            try:
                if not present():
                    return None
                claimed = await self._make_attempt(uuid, runner, claim_id, freeze)
            finally:
                self._ledger.claimants.give_back(uuid)
            if claimed is not None:
                return self._claimed(claimed)
        return None

    async def _make_attempt(
        self, uuid: SubmissionId, runner: Runner, claim_id: ClaimId, freeze: Freeze
    ) -> Submission | None:
        """Freeze a reserved submission and claim it; ``None`` when it may not, or cannot, run."""
        frozen = await self._freeze(uuid, freeze)
        now = self._clock.now()
        if isinstance(frozen, Refused):
            await self._ledger.change(
                uuid, _if_pending(partial(states.refuse, now=now, reason=frozen.reason))
            )
            return None
        digest = await self._disk.run(partial(_sha256, frozen.package))
        number = len(self._ledger.get(uuid).attempts) + 1
        claim = partial(
            states.claim,
            now=now,
            settings=self._settings,
            runner_id=runner.runner_id,
            claim_id=claim_id,
            token_sha256=token_sha256(self._ledger.secret.attempt_token(uuid, number)),
            arch=runner.info.arch,
            isolation=runner.info.isolation,
            package_sha256=digest,
            base_tree=frozen.base_tree,
        )
        before, after = await self._ledger.change(
            uuid, _if_pending(claim), {attempt_package_name(number): frozen.package}
        )
        return None if after is before else after

    async def _freeze(self, uuid: SubmissionId, freeze: Freeze) -> Frozen | Refused:
        submission = self._ledger.get(uuid)
        package = await self._disk.run(partial(self._spool.read, uuid, PACKAGE))
        try:
            async with asyncio.timeout(self._settings.freeze_timeout_s):
                return await freeze(submission, package)
        except TimeoutError as error:
            self._ledger.lineup.served([submission.submitter_id])
            raise Retryable(
                "FREEZE_TIMEOUT",
                f"submission {uuid} was not made ready to run within "
                f"{self._settings.freeze_timeout_s:g} s",
                retry_after_s=5,
            ) from error
        except Exception:
            # Whatever is wrong with this one: the next claim shall begin with somebody else's.
            self._ledger.lineup.served([submission.submitter_id])
            raise

    def _claimed(self, submission: Submission) -> Claimed:
        attempt = submission.attempts[-1]
        token = self._ledger.secret.attempt_token(submission.uuid, attempt.number)
        return Claimed(submission, attempt, token)


def _if_pending(
    transition: Callable[[Submission], Submission],
) -> Callable[[Submission], Submission]:
    """Leave a submission alone that was cancelled, or whose late result came, meanwhile."""

    def changed(submission: Submission) -> Submission:
        return transition(submission) if submission.state is State.PENDING else submission

    return changed


def _sha256(data: bytes) -> Sha256:
    return Sha256(hashlib.sha256(data).hexdigest())
