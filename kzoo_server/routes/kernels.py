"""The board: kernels, one kernel, its history, the whole index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_core.errors import NotFound, Retryable
from kzoo_core.ids import CommitId, parse_kernel_id
from kzoo_server import views
from kzoo_server.answers import json_answer, json_bytes, matches_etag, not_modified, prepared_answer
from kzoo_server.documents import etag_of
from kzoo_server.keys import PREPARED, SETTINGS, STAGE
from kzoo_server.listing import CATEGORY_FILTERS, SORTS, KernelFilter
from kzoo_server.prepared import etag
from kzoo_server.queries import Query, cursor_checked, path_value

if TYPE_CHECKING:
    from kzoo_core.ids import KernelId
    from kzoo_core.lifecycle.board import BoardSnapshot
    from kzoo_core.lifecycle.system import System
    from kzoo_core.queue.records import Submission

ROUTES = web.RouteTableDef()

_STATUSES = ("normal", "frozen", "deprecated")
_TEXT_FILTERS = (*CATEGORY_FILTERS, "tag", "owner", "q")


@ROUTES.get("/api/kernels")
async def kernels(request: web.Request) -> web.StreamResponse:
    """Answer with a page of the board; 304 while the board is the one that the client holds."""
    settings = request.app[SETTINGS]
    names = (*_TEXT_FILTERS, "status", "valid", "sort", "limit", "cursor")
    with Query(request.query, *names) as query:
        texts = {name: query.text(name) for name in _TEXT_FILTERS}
        status = query.choice("status", _STATUSES)
        valid = query.truth("valid")
        sort = query.choice("sort", SORTS) or "kernel_id"
        limit = query.limit(settings.page_default, settings.page_max)
        cursor = query.text("cursor")
    snapshot = _snapshot(request.app[STAGE].readable)
    if matches_etag(request, etag(snapshot)):
        return not_modified(etag(snapshot))
    wanted = KernelFilter(status=status, valid=valid, sort=sort, **texts)
    with cursor_checked(cursor):
        body = await request.app[PREPARED].page(snapshot, wanted, cursor=cursor, limit=limit)
    return prepared_answer(request, body.plain, etag=etag(snapshot), compressed=body.compressed)


@ROUTES.get("/api/index.json")
async def index(request: web.Request) -> web.StreamResponse:
    """Answer with index.json."""
    with Query(request.query):
        snapshot = _snapshot(request.app[STAGE].readable)
    if matches_etag(request, etag(snapshot)):
        return not_modified(etag(snapshot))
    body = await request.app[PREPARED].index(snapshot)
    return prepared_answer(request, body.plain, etag=etag(snapshot), compressed=body.compressed)


@ROUTES.get("/api/kernels/{kernel_id:.+}/bench-history")
async def bench_history(request: web.Request) -> web.StreamResponse:
    """Answer with a page of what was accepted for one kernel."""
    settings = request.app[SETTINGS]
    kernel_id = path_value(request.match_info, "kernel_id", parse_kernel_id)
    with Query(request.query, "test_case", "metric", "limit", "cursor") as query:
        test_case, metric = query.text("test_case"), query.text("metric")
        limit = query.limit(settings.page_default, settings.page_max)
        cursor = query.text("cursor")
    system = request.app[STAGE].readable
    if kernel_id not in _snapshot(system).by_id:
        raise _unknown(kernel_id)
    with cursor_checked(cursor):
        page = await system.board.history(
            kernel_id, limit=limit, cursor=CommitId(cursor) if cursor is not None else None
        )
    return json_answer(
        views.history_view(
            kernel_id, page.items, page.next_cursor, test_case=test_case, metric=metric
        )
    )


@ROUTES.get("/api/kernels/{kernel_id:.+}")
async def kernel(request: web.Request) -> web.StreamResponse:
    """Answer with one kernel; its ETag is a digest of the answer, which has the running attempt."""
    kernel_id = path_value(request.match_info, "kernel_id", parse_kernel_id)
    with Query(request.query):
        system = request.app[STAGE].readable
    _snapshot(system)
    detail = await system.board.kernel(kernel_id)
    if detail is None:
        raise _unknown(kernel_id)
    body = json_bytes(views.kernel_view(detail, _running(system, kernel_id)))
    return prepared_answer(request, body, etag=etag_of(body))


def _snapshot(system: System) -> BoardSnapshot:
    if system.board.snapshot is None:
        raise Retryable("STARTING", "the board is not built yet", hint="try again in a moment")
    return system.board.snapshot


def _running(system: System, kernel_id: KernelId) -> Submission | None:
    page = system.queue.list(kernel_id=kernel_id, status="running", limit=1)
    return page.items[0] if page.items else None


def _unknown(kernel_id: KernelId) -> NotFound:
    return NotFound(
        "KERNEL_NOT_FOUND",
        f"there is no kernel {kernel_id}",
        hint="kzoo kernels --q WORDS, or GET /api/kernels?q=…, finds kernels by words",
    )
