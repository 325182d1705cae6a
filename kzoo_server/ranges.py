"""A single ``Range`` of bytes, as RFC 9110 section 14 has it."""

from __future__ import annotations

import re
from http import HTTPStatus

from aiohttp import hdrs, web

from kzoo_core.errors import BadInput
from kzoo_server.answers import matches_etag, not_modified
from kzoo_server.envelope import envelope
from kzoo_server.requests import current_request_id

_RANGE = re.compile(r"bytes=(?P<first>[0-9]{1,15})?-(?P<last>[0-9]{1,15})?", re.ASCII)


def ranged_answer(
    request: web.Request, data: bytes, *, etag: str, content_type: str
) -> web.Response:
    """Answer with ``data`` or the part of it that is asked for.

    304 when the client holds it; 206 with the part; 416 in the envelope where there is no such
    part. A ``Range`` of another form (several ranges, another unit) is ignored, and so is one whose
    ``If-Range`` names another state.
    """
    if matches_etag(request, etag):
        return not_modified(etag)
    headers = {hdrs.ETAG: etag, hdrs.ACCEPT_RANGES: "bytes"}
    part = _part(request, etag, len(data))
    if part is None:
        return web.Response(body=data, headers=headers, content_type=content_type)
    first, end = part
    if first >= end:
        error = BadInput(
            "RANGE_NOT_SATISFIABLE",
            f"there is no {request.headers[hdrs.RANGE]} in {len(data)} bytes",
            hint="ask for bytes that exist",
        )
        return envelope(
            error, current_request_id(), headers={hdrs.CONTENT_RANGE: f"bytes */{len(data)}"}
        )
    headers[hdrs.CONTENT_RANGE] = f"bytes {first}-{end - 1}/{len(data)}"
    return web.Response(
        body=data[first:end],
        status=HTTPStatus.PARTIAL_CONTENT,
        headers=headers,
        content_type=content_type,
    )


def _part(request: web.Request, etag: str, size: int) -> tuple[int, int] | None:
    """Return first byte and end of the range that is asked for, ``None`` for the whole."""
    match = _RANGE.fullmatch(request.headers.get(hdrs.RANGE, ""))
    if match is None or match["first"] is match["last"] is None:
        return None
    if request.headers.get(hdrs.IF_RANGE, etag) != etag:
        return None
    if match["first"] is None:
        return max(0, size - int(match["last"])), size
    end = size if match["last"] is None else min(size, int(match["last"]) + 1)
    return int(match["first"]), end
