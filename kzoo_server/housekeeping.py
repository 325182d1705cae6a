"""What has to be done now and then while the server runs."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import structlog

from kzoo_core.errors import KzooError
from kzoo_core.queue.spool import SpoolFailed

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.lifecycle.system import System
    from kzoo_server.metrics import Metrics
    from kzoo_server.stage import Stage
    from kzoo_server.waiting import HeldRequests

log = structlog.get_logger()

BEAT_S = 1.0
"""How often gone clients are looked for and the event loop is timed, at least."""


async def keep_house(
    system: System, stage: Stage, held: HeldRequests, metrics: Metrics, *, sweep_s: float
) -> None:
    """Sweep and watch until the stage ends; raises ``SpoolFailed`` when the spool has failed."""
    clock = asyncio.get_running_loop().time
    period_s = min(BEAT_S, sweep_s)
    swept_s = clock()
    stopping = asyncio.create_task(stage.ending.wait())
    failing = asyncio.create_task(system.queue.failed())
    try:
        while True:
            slept_s = clock()
            await asyncio.wait(
                {stopping, failing}, timeout=period_s, return_when=asyncio.FIRST_COMPLETED
            )
            if failing.done():
                raise failing.result()
            if stopping.done():
                return
            metrics.lag(clock() - slept_s - period_s)
            held.end_gone()
            if clock() - swept_s >= sweep_s:
                swept_s = clock()
                await _sweep(system)
    finally:
        stopping.cancel()
        failing.cancel()


async def _sweep(system: System) -> None:
    """Do what time asks for; what goes wrong is logged and tried again at the next turn."""
    try:
        await system.sweep()
    except SpoolFailed:
        raise
    except KzooError as error:
        log.warning("sweep.refused", code=error.code, message=error.message)
    except Exception:  # a bug in one turn must not end the next ones
        log.exception("sweep.failed")


async def free_bytes(directory: Path) -> int:
    """Return the free bytes of the disk that ``directory`` lies on, or will lie on."""
    return await asyncio.to_thread(_free_bytes, directory)


def _free_bytes(directory: Path) -> int:
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free
