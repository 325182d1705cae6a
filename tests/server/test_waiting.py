from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from kzoo_server.waiting import HeldRequests
from tests.server.eventually import eventually

if TYPE_CHECKING:
    from aiohttp import web


class Transport:
    def __init__(self) -> None:
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing


class Request:
    def __init__(self) -> None:
        self.transport: Transport | None = Transport()


def a_request() -> web.BaseRequest:
    return cast("web.BaseRequest", Request())


async def held_one(held: HeldRequests, request: web.BaseRequest) -> asyncio.Task[object]:
    never = asyncio.Event()
    before = len(held)
    task: asyncio.Task[object] = asyncio.create_task(held.hold(request, never.wait))
    await eventually(lambda: len(held) > before)
    return task


async def test_what_was_waited_for_is_handed_on() -> None:
    held = HeldRequests()

    async def answer() -> str:
        return "here"

    assert await held.hold(a_request(), answer) == "here"
    assert len(held) == 0


async def test_all_end_with_nothing_when_the_server_stops() -> None:
    held = HeldRequests()
    tasks = [await held_one(held, a_request()) for _ in range(3)]
    held.end_all()
    assert await asyncio.gather(*tasks) == [None, None, None]
    assert len(held) == 0


async def test_none_is_held_any_more_once_the_server_stops() -> None:
    held = HeldRequests()
    held.end_all()
    called = False

    async def wait() -> str:
        nonlocal called
        called = True
        return "here"

    assert await held.hold(a_request(), wait) is None
    assert not called


async def test_only_those_whose_client_left_end() -> None:
    held = HeldRequests()
    here, closing, gone = a_request(), a_request(), a_request()
    tasks = [await held_one(held, request) for request in (here, closing, gone)]
    cast("Transport", closing.transport).closing = True
    cast("Request", gone).transport = None
    held.end_gone()
    assert await asyncio.gather(*tasks[1:]) == [None, None]
    assert not tasks[0].done()
    held.end_gone()
    held.end_all()
    held.end_all()
    assert await tasks[0] is None


async def test_a_timeout_of_what_is_awaited_is_no_end_of_the_hold() -> None:
    async def fails() -> None:
        raise TimeoutError("git does not answer")

    with pytest.raises(TimeoutError, match="git does not answer"):
        await HeldRequests().hold(a_request(), fails)


async def test_a_handler_that_is_cancelled_stays_cancelled() -> None:
    held = HeldRequests()
    task = await held_one(held, a_request())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(held) == 0
