"""The application: what a request finds in it, and how the system inside is opened and closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from kzoo_core.lifecycle.system import System, SystemSettings
from kzoo_core.queue.settings import QueueSettings
from kzoo_server import housekeeping, routes
from kzoo_server.documents import api_document
from kzoo_server.keys import (
    CLOCK,
    DOCUMENT,
    HELD,
    METRICS,
    NEW_REQUEST_ID,
    PREPARED,
    SETTINGS,
    STAGE,
    STEPS,
    TOKEN_BYTES,
)
from kzoo_server.metrics import Metrics
from kzoo_server.prepared import PreparedBoard
from kzoo_server.requests import enveloped, observed
from kzoo_server.stage import Stage
from kzoo_server.steps import DurableSteps
from kzoo_server.waiting import HeldRequests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kzoo_core.clock import Clock
    from kzoo_core.queue.records import Submission
    from kzoo_server.settings import ServerSettings

log = structlog.get_logger()

LOG_MARK_BYTES = 1024 * 1024
"""What a log may have beyond its head and tail: the mark where it was cut, and slack."""


def create_app(
    settings: ServerSettings,
    clock: Clock,
    *,
    new_request_id: Callable[[], str],
    token_bytes: Callable[[int], bytes],
) -> web.Application:
    """Return the application; it opens the system when it starts and closes it when it ends.

    It serves from the first moment: until the system is open every call but the health ones
    answers 503. ``app[STAGE]`` says how far it is; ``new_request_id`` makes the id of a request
    that brought none, ``token_bytes`` returns that many random bytes.
    """
    app = web.Application(
        middlewares=[observed, enveloped],
        handler_args={"access_log": None},
    )
    app[SETTINGS] = settings
    app[CLOCK] = clock
    app[STAGE] = Stage(clock.now())
    app[METRICS] = Metrics()
    app[HELD] = HeldRequests()
    app[STEPS] = DurableSteps()
    app[PREPARED] = PreparedBoard()
    app[DOCUMENT] = api_document()
    app[NEW_REQUEST_ID] = new_request_id
    app[TOKEN_BYTES] = token_bytes
    routes.add_routes(app)
    app.on_shutdown.append(_stop_serving)
    app.cleanup_ctx.append(_system)
    return app


def system_settings(settings: ServerSettings) -> SystemSettings:
    """Return what the system has to know of the server's settings."""
    return SystemSettings(
        repository=settings.repo,
        state=settings.state_directory,
        index_path=settings.index_path,
        queue=QueueSettings(
            heartbeat_s=settings.heartbeat_s,
            lease_s=settings.lease_s,
            confirm_s=settings.confirm_s,
            restart_grace_s=settings.restart_grace_s,
            max_charged=settings.max_charged,
            max_released=settings.max_released,
            max_unconfirmed=settings.max_unconfirmed,
            max_requeued=settings.max_requeued,
            attempts_per_kernel=settings.attempts_per_kernel,
            keep_done=settings.keep_done,
            keep_done_bytes=settings.keep_done_bytes,
            log_bytes=settings.log_head_bytes + settings.log_tail_bytes + LOG_MARK_BYTES,
            idempotency_s=settings.idempotency_s,
            runner_forget_s=settings.runner_forget_s,
            max_runners=settings.max_runners,
            max_wait_s=settings.wait_max_s,
            freeze_timeout_s=settings.freeze_timeout_s,
            disk_timeout_s=settings.disk_timeout_s,
            start_timeout_s=settings.start_timeout_s,
        ),
        limits=settings.package_limits,
        board_poll_s=settings.board_poll_s,
    )


async def _system(app: web.Application) -> AsyncIterator[None]:
    drained = asyncio.Event()
    keeper = asyncio.create_task(_keep_system(app, drained), name="system")
    yield
    app[STAGE].stop()
    drained.set()
    if app[STAGE].opened is None:
        keeper.cancel()  # still opening: what was begun is undone by the close
    await asyncio.gather(keeper, return_exceptions=True)


async def _keep_system(app: web.Application, drained: asyncio.Event) -> None:
    """Open the system, keep it until the stage ends, close it; a failure ends the process."""
    stage, settings = app[STAGE], app[SETTINGS]
    try:
        system = System(system_settings(settings), app[CLOCK], token_bytes=app[TOKEN_BYTES])
        try:
            await asyncio.to_thread(app[DOCUMENT].make_ready)
            await system.start()
            system.queue.subscribe(_counting(app[METRICS]))
            stage.open(system)
            log.info("system.open", head=system.board.snapshot and system.board.snapshot.revision)
            await housekeeping.keep_house(
                system, stage, app[HELD], app[METRICS], sweep_s=settings.sweep_s
            )
            await drained.wait()  # calls that were under way still need it
            await app[STEPS].drained()
        finally:
            await system.close()
            stage.closed()
    except Exception as error:  # noqa: BLE001 - whatever it is ends the process, and is told there
        stage.fail(error)


def _counting(metrics: Metrics) -> Callable[[Submission], None]:
    def changed(submission: Submission) -> None:
        if submission.outcome is not None:
            metrics.finished(submission.outcome)

    return changed


async def _stop_serving(app: web.Application) -> None:
    """End the held requests, so that the server has nothing to wait for but work in progress."""
    app[STAGE].stop()
    app[HELD].end_all()
