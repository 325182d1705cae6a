"""What has to be done now and then while the server runs."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import structlog

from kzoo_core.errors import KzooError
from kzoo_core.queue.spool import SpoolFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kzoo_core.lifecycle.system import System
    from kzoo_server.metrics import Metrics
    from kzoo_server.stage import Stage
    from kzoo_server.waiting import HeldRequests

log = structlog.get_logger()

BEAT_S = 1.0
"""How often gone clients are looked for and the event loop is timed."""


async def keep_house(
    system: System, stage: Stage, held: HeldRequests, metrics: Metrics, *, sweep_s: float
) -> None:
    """Sweep and watch until the stage ends; raises ``SpoolFailed`` when the spool has failed."""
    clock = asyncio.get_running_loop().time
    woke_s = clock()

    async def beat() -> None:
        nonlocal woke_s
        metrics.lag(clock() - woke_s - BEAT_S)
        held.end_gone()
        woke_s = clock()

    async def sweep() -> None:
        await system.sweep()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(every(BEAT_S, beat, until=stage.ending), name="beat")
        tasks.create_task(every(sweep_s, sweep, until=stage.ending), name="sweep")


async def every(
    period_s: float, action: Callable[[], Awaitable[None]], *, until: asyncio.Event
) -> None:
    """Do ``action`` after each ``period_s`` until the event is set.

    A failure is logged and tried again at the next turn; ``SpoolFailed`` is raised.
    """
    while True:
        try:
            async with asyncio.timeout(period_s):
                await until.wait()
                return
        except TimeoutError:
            pass
        try:
            await action()
        except SpoolFailed:
            raise
        except KzooError as error:
            log.warning("housekeeping.refused", code=error.code, message=error.message)
        except Exception:  # a bug in one turn must not end the next ones
            log.exception("housekeeping.failed")


async def free_bytes(directory: Path) -> int:
    """Return the free bytes of the disk that ``directory`` lies on, or will lie on."""
    return await asyncio.to_thread(_free_bytes, directory)


def _free_bytes(directory: Path) -> int:
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free
