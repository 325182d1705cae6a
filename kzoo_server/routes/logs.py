"""The log of an attempt: its runner appends and closes, everybody reads."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import hdrs, web

from kzoo_core.errors import BadInput, Problem
from kzoo_core.queue.logs import LogGap
from kzoo_core.queue.records import Phase
from kzoo_server import views
from kzoo_server.bodies import BodyPace, bad_body, read_bytes
from kzoo_server.envelope import envelope
from kzoo_server.keys import HELD, SETTINGS, STAGE, STEPS
from kzoo_server.queries import Query
from kzoo_server.requests import current_request_id
from kzoo_server.runner_calls import attempt_token, calling_runner, uuid_of
from kzoo_server.runner_protocol import ClosingRange, content_range, log_digest

ROUTES = web.RouteTableDef()

_PHASES = {"build": Phase.BUILD, "benchmark": Phase.BENCHMARK}


@ROUTES.get("/api/submissions/{uuid}/log")
async def read(request: web.Request) -> web.StreamResponse:
    """Answer with the bytes from ``from`` on; held while there is nothing new."""
    settings = request.app[SETTINGS]
    uuid = uuid_of(request)
    with Query(request.query, "from", "attempt", "wait") as query:
        start = query.whole("from", 0) or 0
        attempt = query.whole("attempt", None, low=1)
        wait_s = query.seconds("wait", 0.0, settings.wait_max_s)
    queue = request.app[STAGE].readable.queue
    part = await queue.read_log(uuid, attempt=attempt, start=start)
    if wait_s > 0 and not part.data and not part.complete:
        held = await request.app[HELD].hold(
            request,
            lambda: queue.read_log(uuid, attempt=attempt, start=start, wait_s=wait_s),
        )
        part = held if held is not None else part
    if start > part.size:
        problem = Problem(
            code="bad_query",
            message=f"from is {start}, the log has {part.size} bytes",
            pointer="/query/from",
            found=str(start),
            expected=f"at most {part.size}",
        )
        raise BadInput("RANGE_NOT_SATISFIABLE", problem.message, details=(problem,))
    return web.Response(
        body=part.data,
        headers=views.log_headers(part),
        content_type="text/plain",
        charset="utf-8",
    )


@ROUTES.patch("/api/runner/log/{uuid}")
async def append(request: web.Request) -> web.StreamResponse:
    """Take a chunk of a log, or close it; ``Range`` says what is kept."""
    settings = request.app[SETTINGS]
    uuid = uuid_of(request)
    with Query(request.query, "attempt") as query:
        query.required("attempt")
        attempt = query.whole("attempt", None, low=1) or 0
    system = request.app[STAGE].readable
    calling_runner(request, system)
    token = attempt_token(request)
    lies = content_range(request.headers.get(hdrs.CONTENT_RANGE))
    data = await read_bytes(
        request,
        what="the chunk",
        limit_bytes=settings.log_chunk_limit_bytes,
        pace=BodyPace(settings.body_pause_s, settings.body_total_s),
    )
    if isinstance(lies, ClosingRange):
        digest = log_digest(request.headers.get("X-Log-Sha256"))
        _require_length(data, 0)
        closing = system.queue.close_log(uuid, attempt, token, size=lies.total, sha256=digest)
        await request.app[STEPS].run(closing)
        return _kept(lies.total)
    _require_length(data, lies.last - lies.first + 1)
    try:
        size = await request.app[STEPS].run(
            system.queue.append_log(
                uuid, attempt, token, offset=lies.first, data=data, phase=_phase(request)
            )
        )
    except LogGap as gap:
        return envelope(gap, current_request_id(), headers=_range(gap.size))
    return _kept(size)


def _kept(size: int) -> web.Response:
    return web.Response(status=HTTPStatus.ACCEPTED, headers=_range(size))


def _range(size: int) -> dict[str, str]:
    return {hdrs.RANGE: f"bytes=0-{size - 1}"} if size > 0 else {}


def _phase(request: web.Request) -> Phase | None:
    word = request.headers.get("X-Phase")
    if word is None or word in _PHASES:
        return _PHASES[word] if word is not None else None
    problem = Problem(
        code="bad_header",
        message=f"the header X-Phase is {word[:80]!r}",
        found=word[:80],
        expected="build or benchmark",
    )
    raise BadInput("BAD_HEADER", problem.message, details=(problem,))


def _require_length(data: bytes, length: int) -> None:
    if len(data) != length:
        raise bad_body(
            Problem(
                code="bad_body",
                message=f"the body has {len(data)} bytes, its Content-Range says {length}",
                found=f"{len(data)} bytes",
                expected=f"{length} bytes",
            )
        )
