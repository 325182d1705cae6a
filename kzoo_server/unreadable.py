"""Requests that cannot be read as HTTP: even they are answered with the envelope.

aiohttp refuses an unknown method, a header that is too long or bytes that are no HTTP before any
middleware runs, with a plain text of its own.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kzoo_core.errors import BadInput
from kzoo_server.envelope import envelope, internal_error
from kzoo_server.keys import NEW_REQUEST_ID
from kzoo_server.requests import REQUEST_ID_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable


class EnvelopingRunner(web.AppRunner):
    """Runs the application so that what aiohttp itself refuses is an envelope too.

    aiohttp has no public way to choose the protocol. Should an inside that this leans on be gone in
    a later version, its own server is used as it is, and such requests get its plain text.
    """

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        options = getattr(made, "_kwargs", None)
        if options is None:
            return made
        return _Server(made, options, self.app[NEW_REQUEST_ID])


class _Server(web.Server):
    def __init__(
        self, made: web.Server, options: dict[str, Any], new_request_id: Callable[[], str]
    ) -> None:
        super().__init__(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=asyncio.get_running_loop(),
            **options,
        )
        self._options = options
        self._new_request_id = new_request_id

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._new_request_id, self._options)


class _Connection(web.RequestHandler):
    __slots__ = ("_new_request_id",)

    def __init__(
        self, server: web.Server, new_request_id: Callable[[], str], options: dict[str, Any]
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._new_request_id = new_request_id

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer with the envelope; raises ``ConnectionError`` when an answer has begun."""
        super().handle_error(request, status, exc, message)  # it logs
        request_id = self._new_request_id()
        answer = (
            internal_error(request_id)
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR
            else envelope(_unreadable(message), request_id)
        )
        answer.headers[REQUEST_ID_HEADER] = request_id
        answer.force_close()
        return answer


def _unreadable(message: str | None) -> BadInput:
    why = (message or "").partition("\n")[0].strip().rstrip(":")
    return BadInput(
        "BAD_REQUEST",
        f"the request cannot be read: {why or 'it is no HTTP'}",
        hint="the calls are listed in /api/openapi.yaml",
    )
