"""Serving: listen, say when ready, end within seconds of a signal."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from kzoo_core import durable
from kzoo_core.errors import BadInput
from kzoo_server.app import create_app
from kzoo_server.keys import STAGE
from kzoo_server.stage import Step
from kzoo_server.unreadable import EnvelopingRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_server.settings import ServerSettings

log = structlog.get_logger()

SIGNALS = (signal.SIGTERM, signal.SIGINT)
CLOSING_SHARE = 0.5
"""The part of ``stop_s`` that calls under way get; the rest is for the git step and the queue."""


async def serve(
    settings: ServerSettings,
    clock: Clock,
    *,
    new_request_id: Callable[[], str],
    token_bytes: Callable[[int], bytes],
    leave_at_once: Callable[[int], None],
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then end in order: no new calls, held ones answered, git done.

    The ready file gets the URL once the socket listens and the board is built, and is removed at
    the end; just before it is written ``on_ready`` is called. A second signal calls
    ``leave_at_once`` with its number. Raises ``BadInput`` with code
    ``CANNOT_LISTEN``, and what kept the system from opening or from going on.
    """
    app = create_app(settings, clock, new_request_id=new_request_id, token_bytes=token_bytes)
    stage = app[STAGE]
    runner = EnvelopingRunner(
        app, handle_signals=False, shutdown_timeout=settings.stop_s * CLOSING_SHARE
    )
    _on_signals(stage.stop, stage.ending.is_set, leave_at_once)
    _remove(settings.ready_file)  # one that a killed process left would lie
    try:
        await runner.setup()
        url = await _listen(runner, settings)
        log.info("server.listening", url=url)
        await stage.settled.wait()
        if stage.step is Step.READY:
            on_ready()
            await _announce(settings.ready_file, url)
        await stage.ending.wait()
        log.info("server.stopping")
    finally:
        await runner.cleanup()
        _off_signals()
        _remove(settings.ready_file)
    if stage.failure is not None:
        raise stage.failure
    log.info("server.stopped")


async def _listen(runner: web.AppRunner, settings: ServerSettings) -> str:
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as error:
        raise BadInput(
            "CANNOT_LISTEN",
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}",
            hint=_way_out(error),
        ) from error
    host, port = runner.addresses[0][:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _way_out(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "name an address of this machine with --host"
    if isinstance(error, PermissionError):
        return "this user may not listen there; choose a port above 1023 with --port"
    return "another server may be running there; choose another one with --port"


async def _announce(ready_file: Path | None, url: str) -> None:
    if ready_file is not None:
        await asyncio.to_thread(_write_ready_file, ready_file, url)
    log.info("server.ready", url=url)


def _write_ready_file(path: Path, url: str) -> None:
    try:
        durable.write_file(path, f"{url}\n".encode())
    except OSError as error:
        raise BadInput(
            "CANNOT_WRITE", f"cannot write the ready file {path}: {error.strerror or error}"
        ) from error


def _remove(ready_file: Path | None) -> None:
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)


def _on_signals(
    stop: Callable[[], None], stopping: Callable[[], bool], leave_at_once: Callable[[int], None]
) -> None:
    loop = asyncio.get_running_loop()

    def heard(number: int) -> None:
        if stopping():
            leave_at_once(number)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, heard, number)


def _off_signals() -> None:
    for number in SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)
