"""Held requests: long polls that end when their time is up, their client left or the server stops.

Without this a stopping server waits for its slowest poll (a minute, as measured with aiohttp and a
few polls held), and a claim could be handed to a runner that hung up long ago.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

Result = TypeVar("Result")


def has_left(request: web.BaseRequest) -> bool:
    """Whether the client closed the connection, so that no answer can reach it."""
    transport = request.transport
    return transport is None or transport.is_closing()


class HeldRequests:
    """The requests that wait now. Each has a timeout scope and no task of its own: it is cheap."""

    def __init__(self) -> None:
        self._held: dict[asyncio.Timeout, web.BaseRequest] = {}
        self._ended = False

    def __len__(self) -> int:
        return len(self._held)

    async def hold(
        self, request: web.BaseRequest, wait: Callable[[], Awaitable[Result]]
    ) -> Result | None:
        """Await ``wait()``; return ``None`` when the server stops or the client has left.

        What is awaited is cancelled then, so it must leave nothing half done.
        """
        if self._ended:
            return None
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._held[scope] = request
                return await wait()
        except TimeoutError:
            if not scope.expired():
                raise
            return None
        finally:
            self._held.pop(scope, None)

    def end_gone(self) -> None:
        """End those whose client has closed the connection; called on a timer."""
        for scope, request in list(self._held.items()):
            if has_left(request):
                self._end(scope)

    def end_all(self) -> None:
        """End all of them and hold none any more: the server stops."""
        self._ended = True
        for scope in list(self._held):
            self._end(scope)

    @staticmethod
    def _end(scope: asyncio.Timeout) -> None:
        if not scope.expired():
            scope.reschedule(asyncio.get_running_loop().time())
