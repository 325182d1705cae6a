from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kzoo_core.client.transport import Transport
from kzoo_core.runner.protocol import Identity, RunnerApi
from kzoo_core.runner.records import Registration
from tests.core.runner.scripted_server import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

REGISTRATION = Registration(
    name="node1",
    arch="gfx928",
    product="K100_AI",
    features=("mfma",),
    backend="local",
    isolation="none",
    version="0.1.0",
    boot_id="boot",
    instance="abc",
)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
async def api(server: ScriptedServer) -> AsyncIterator[RunnerApi]:
    """The calls of a runner that has registered."""
    identity = Identity()
    async with Transport(server.url, random=Random(1)) as transport:
        registering = RunnerApi(transport, identity)
        identity.adopt(await registering.register(REGISTRATION))
        yield registering
