"""One attempt's whole run: execution and log relay side by side, then the result's body."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kzoo_core.contract.verdict import FailureKind
from kzoo_core.runner.backends.base import StopSignal
from kzoo_core.runner.backoff import Backoff
from kzoo_core.runner.execution import Execution
from kzoo_core.runner.log_buffer import LogBuffer
from kzoo_core.runner.log_relay import LogRelay
from kzoo_core.runner.logfmt import fields
from kzoo_core.runner.result import result_body
from kzoo_core.runner.work import remove

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger
    from pathlib import Path
    from random import Random

    from kzoo_core.ids import RunnerId
    from kzoo_core.queue.records import Phase
    from kzoo_core.runner.backends.base import Backend
    from kzoo_core.runner.events import Refusal
    from kzoo_core.runner.protocol import RunnerApi
    from kzoo_core.runner.records import ClaimedAttempt

LOG_RETRY_LEAST_S = 0.25
LOG_RETRY_MOST_S = 10.0


class AttemptRun:
    """Runs one claimed attempt in ``root``, which is gone afterwards; ``stop`` ends it early."""

    def __init__(
        self,
        claimed: ClaimedAttempt,
        *,
        runner_id: RunnerId,
        root: Path,
        backend: Backend,
        api: RunnerApi,
        random: Random,
        kill_grace_s: float,
        log_flush_s: float,
        log_close_s: float,
        on_phase: Callable[[Phase], None],
        on_refused: Callable[[Refusal], None],
        log: Logger,
    ) -> None:
        self.stop = StopSignal()
        self.machine_failed = False
        """Whether, once it has run, the result says that this machine is what failed."""
        self._claimed = claimed
        self._runner_id = runner_id
        self._root = root
        self._backend = backend
        self._log_close_s = log_close_s
        self._on_phase = on_phase
        self._log = log
        limits = claimed.limits
        self._buffer = LogBuffer(head_bytes=limits.log_head_bytes, tail_bytes=limits.log_tail_bytes)
        self._relay = LogRelay(
            self._buffer,
            api=api,
            claimed=claimed,
            pace=Backoff(least_s=LOG_RETRY_LEAST_S, most_s=LOG_RETRY_MOST_S, random=random),
            flush_s=log_flush_s,
            on_refused=on_refused,
        )
        self._execution = Execution(
            claimed,
            runner_id=runner_id,
            root=root,
            backend=backend,
            stop=self.stop,
            kill_grace_s=kill_grace_s,
            log=self._relay.write,
            on_phase=self._begin_phase,
        )

    async def run(self, archive: bytes) -> bytes:
        """Return the body of the result, ready to be kept and posted."""
        try:
            async with asyncio.TaskGroup() as group:
                relaying = group.create_task(self._relay.run())
                report = await self._execution.run(archive)
                await self._relay.finish(self._log_close_s)
                relaying.cancel()
        finally:
            await self._backend.clean(self._claimed.key)
            await self._remove_root()
        failure = report.failure
        self.machine_failed = failure is not None and FailureKind(failure.kind).is_infrastructure
        return result_body(
            report,
            key=self._claimed.key,
            runner_id=self._runner_id,
            logs=None if self._relay.begun else self._buffer.content(),
            limit_bytes=self._claimed.limits.result_body_bytes,
        )

    async def _remove_root(self) -> None:
        try:
            await asyncio.to_thread(remove, self._root)
        except OSError as error:
            # The next start tries again; a result is not given up for what it leaves behind.
            self._log.warning(
                "scratch stays behind", extra=fields(attempt=self._claimed.key, why=error)
            )

    def _begin_phase(self, phase: Phase) -> None:
        self._buffer.begin(phase)
        self._on_phase(phase)
