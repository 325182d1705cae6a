from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kzoo_server.keys import NEW_REQUEST_ID
from kzoo_server.unreadable import EnvelopingRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


async def broken(_: web.Request) -> web.Response:
    raise ZeroDivisionError("a middleware would have caught it")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Give the port of an application without middlewares."""
    app = web.Application(handler_args={"access_log": None})
    app[NEW_REQUEST_ID] = lambda: "r1"
    app.router.add_get("/hello", hello)
    app.router.add_get("/broken", broken)
    runner = EnvelopingRunner(app, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def sent(port: int, data: bytes) -> tuple[str, dict[str, str], bytes]:
    """Send bytes, and return the status line, the headers and the body up to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


async def test_what_can_be_read_is_answered_as_ever(port: int) -> None:
    status, _, body = await sent(
        port, b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    assert (status, body) == ("HTTP/1.1 200 OK", b"hello")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n", "Invalid method encountered"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", ""),
        (
            b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
            "Got more than 8190 bytes when reading",
        ),
    ],
    ids=["method", "tls", "header"],
)
async def test_what_is_no_http_is_answered_with_the_envelope(
    port: int, data: bytes, why: str
) -> None:
    status, headers, body = await sent(port, data)
    assert status == "HTTP/1.0 400 Bad Request"
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Request-Id"] == "r1"
    error = json.loads(body)["error"]
    assert error.pop("message").startswith(f"the request cannot be read: {why}")
    assert error == {
        "code": "BAD_REQUEST",
        "details": [],
        "request_id": "r1",
        "retry": False,
        "hint": "the calls are listed in /api/openapi.yaml",
    }


async def test_what_no_middleware_caught_is_answered_with_the_envelope(port: int) -> None:
    status, _, body = await sent(port, b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n")
    assert status == "HTTP/1.1 500 Internal Server Error"
    assert json.loads(body)["error"]["code"] == "INTERNAL"


async def test_an_aiohttp_of_another_make_serves_on_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = web.AppRunner._make_server

    async def changed(runner: web.AppRunner) -> web.Server:
        made = await real(runner)
        del made._kwargs
        return made

    monkeypatch.setattr(web.AppRunner, "_make_server", changed)
    app = web.Application()
    app[NEW_REQUEST_ID] = lambda: "r1"
    runner = EnvelopingRunner(app, handle_signals=False)
    made = await runner._make_server()
    assert type(made) is web.Server
