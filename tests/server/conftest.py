"""A real server on a real repository and state directory; every answer is held to the document."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from kzoo_core.clock import SystemClock
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from kzoo_server.app import create_app
from kzoo_server.keys import STAGE
from kzoo_server.settings import ServerSettings
from tests.packages import valid_package
from tests.server.api_client import ApiClient
from tests.server.contract_check import contract_check

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp.test_utils import TestServer

    from kzoo_core.lifecycle.system import System
    from kzoo_server.stage import Stage

START_TIMEOUT_S = 20
SEEDED = "gfx928/Norm/RMSNorm/fp32/seeded"
"""A kernel that lies in the repository from the beginning, with placeholders for scores."""

CHECK = contract_check()


@dataclass
class Served:
    """A running server: how it is reached, and what is inside."""

    app: web.Application
    url: str
    api: ApiClient
    settings: ServerSettings
    server: TestServer
    violations: list[str]

    @property
    def system(self) -> System:
        """The open system."""
        return self.app[STAGE].system

    @property
    def uploads(self) -> list[Path]:
        """What lies where uploads are received."""
        return sorted((self.settings.state_directory / "tmp").iterdir())

    async def stop(self) -> None:
        """Stop as a signal does."""
        await self.server.close()


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Make a bare kernel repository with one seeded kernel."""
    path = tmp_path / "kernel_data"
    with KernelRepository.init(path) as made:
        add_packages(
            made,
            [valid_package(SEEDED, scoreboard=True)],
            message="seed",
            author="seed",
            when=SystemClock().now(),
        )
    return path


@pytest.fixture
async def serve(tmp_path: Path, repository: Path, aiohttp_server: Any) -> AsyncIterator[Serve]:
    """Start servers with settings of the test's own; each answer is checked at the end."""
    served: list[Served] = []
    async with aiohttp.ClientSession() as session:

        async def start(*, ready: bool = True, **settings: Any) -> Served:
            values: dict[str, Any] = {
                "repo": repository,
                "state": tmp_path / "state",
                "min_free_bytes": 0,
                "board_poll_s": 0.05,
                **settings,
            }
            one = await _start(ServerSettings(**values), session, aiohttp_server)
            served.append(one)
            if ready:
                await _ready(one.app[STAGE])
            return one

        yield start
    for one in served:
        assert one.violations == []


@pytest.fixture
async def server(serve: Serve) -> Served:
    """Start one server with the default settings."""
    return await serve()


@pytest.fixture
async def api(server: Served) -> ApiClient:
    """Return the client of that server."""
    return server.api


async def _ready(stage: Stage) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        await stage.settled.wait()
    if stage.failure is not None:
        raise stage.failure


async def _start(
    settings: ServerSettings, session: aiohttp.ClientSession, aiohttp_server: Any
) -> Served:
    numbers = itertools.count(1)
    app = create_app(
        settings,
        SystemClock(),
        new_request_id=lambda: f"request-{next(numbers)}",
        token_bytes=secrets.token_bytes,
    )
    violations: list[str] = []
    app.middlewares.insert(0, _checked(violations))
    test_server: TestServer = await aiohttp_server(app)
    url = str(test_server.make_url("")).rstrip("/")
    return Served(app, url, ApiClient(session, url), settings, test_server, violations)


def _checked(violations: list[str]) -> Any:
    @web.middleware
    async def checked(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        response = await handler(request)
        violations.extend(CHECK.violations(request, response))
        return response

    return checked
