"""What happens around every call: its id, its log line, its measures, its error as an envelope."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING

import structlog
from aiohttp import web

from kzoo_core.errors import KzooError
from kzoo_core.queue.spool import SpoolFailed
from kzoo_server.envelope import envelope, envelope_of_http, internal_error
from kzoo_server.keys import CLOCK, METRICS, NEW_REQUEST_ID, STAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = structlog.get_logger()

REQUEST_ID_HEADER = "X-Request-Id"
_REQUEST_ID: ContextVar[str] = ContextVar("request_id")

_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_LEFT = 499
"""What the log and the measures call an answer that nobody was there to take."""


@web.middleware
async def observed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id, log it in one line and measure it.

    A client's ``X-Request-Id`` is taken when it is 1 to 64 characters of ``A-Za-z0-9._-``. The line
    has the path as it was sent, so that it stays one line, and no query: that may one day carry
    what is nobody's business.
    """
    request_id = _request_id(request)
    _REQUEST_ID.set(request_id)
    clock = request.app[CLOCK]
    began_s = clock.monotonic()
    status = _CLIENT_LEFT
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        try:
            response = await handler(request)
            status = response.status
            if not response.prepared:
                response.headers[REQUEST_ID_HEADER] = request_id
            return response
        finally:
            took_s = clock.monotonic() - began_s
            request.app[METRICS].request(request.method, route_name(request), status, took_s)
            log.info(
                "request",
                method=request.method,
                path=request.rel_url.raw_path,
                status=status,
                duration_ms=round(took_s * 1000, 3),
            )


@web.middleware
async def enveloped(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into the error envelope; a bug is logged with its traceback.

    A spool that cannot be made durable ends the process: nothing it would acknowledge now is safe.
    """
    request_id = current_request_id()
    try:
        return await handler(request)
    except SpoolFailed as error:
        request.app[STAGE].fail(error)
        return envelope(error, request_id)
    except KzooError as error:
        return envelope(error, request_id)
    except web.HTTPException as error:
        return envelope_of_http(error, request, request_id)
    except ConnectionError:
        # The client left. Nobody will read this; raised, it would be logged as a fault of ours.
        return web.Response(status=_CLIENT_LEFT)
    except Exception:  # the one edge where a bug becomes an answer
        log.exception("request.bug", method=request.method, path=request.rel_url.raw_path)
        return internal_error(request_id)


def current_request_id() -> str:
    """Return the id of the request that the running handler serves."""
    return _REQUEST_ID.get()


def route_name(request: web.Request) -> str:
    """Return the route's template, so that measures have a bounded number of labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


def _request_id(request: web.Request) -> str:
    given = request.headers.get(REQUEST_ID_HEADER, "")
    return given if _SANE_REQUEST_ID.fullmatch(given) else request.app[NEW_REQUEST_ID]()
