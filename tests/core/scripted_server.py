"""A real aiohttp server that answers, fails and drops as a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

from kzoo_core.client import RetryPolicy, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Script:
    """A server that answers its calls one after another with the handlers it was given."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []
        self.calls: list[tuple[str, str, dict[str, str], bytes]] = []
        self.waits: list[float] = []
        self.url = ""

    def then(self, *handlers: Handler) -> None:
        self.handlers.extend(handlers)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.calls.append((request.method, request.path_qs, dict(request.headers), body))
        return await self.handlers.pop(0)(request)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def transport(self, *, timeout_s: float = 5.0, tries: int = 4) -> Transport:
        return Transport(
            self.url,
            timeout_s=timeout_s,
            retry=RetryPolicy(tries=tries),
            random=random.Random(7),
            sleep=self.sleep,
        )


@asynccontextmanager
async def serving() -> AsyncIterator[Script]:
    """Serve a script on a free port of the loopback."""
    scripted = Script()
    app = web.Application(client_max_size=16 << 20)
    app.router.add_route("*", "/{tail:.*}", scripted.serve)
    async with TestServer(app) as server:
        scripted.url = str(server.make_url("")).rstrip("/")
        yield scripted


def answers(
    status: int = 200,
    body: object = None,
    *,
    text: str | None = None,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        if text is not None:
            return web.Response(
                status=status, text=text, content_type=content_type, headers=headers
            )
        return web.json_response(body, status=status, headers=headers)

    return handle


def fails(
    status: int, code: str, *, retry: bool = False, headers: dict[str, str] | None = None
) -> Handler:
    error = {"code": code, "message": f"{code} said", "details": [], "request_id": "r-1"}
    return answers(status, {"error": {**error, "retry": retry}}, headers=headers)


async def drops(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stops_in_the_middle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"half": ')
    assert request.transport is not None
    request.transport.close()
    return response


async def never_answers(request: web.Request) -> web.StreamResponse:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return web.Response()
