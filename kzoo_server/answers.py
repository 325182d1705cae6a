"""Answers with a body: JSON bytes, prepared bytes, and the conditional ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON_TYPE = "application/json"


def json_bytes(value: object) -> bytes:
    """Return ``value`` as compact UTF-8 JSON; raises ``ValueError`` for NaN and infinities.

    Text that is no Unicode (a lone surrogate out of someone's JSON) stays the escape it was.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Answer with ``value`` as JSON."""
    return web.Response(
        body=json_bytes(value), status=status, headers=headers, content_type=JSON_TYPE
    )


def matches_etag(request: web.BaseRequest, etag: str) -> bool:
    """Whether the client's ``If-None-Match`` holds ``etag`` (weak comparison, RFC 9110 13.1.2)."""
    asked = request.headers.get(hdrs.IF_NONE_MATCH)
    if asked is None:
        return False
    if asked.strip() == "*":
        return True
    return etag in (item.strip().removeprefix("W/") for item in asked.split(","))


def not_modified(etag: str) -> web.Response:
    """Answer 304: what the client holds is still right."""
    return web.Response(status=304, headers={hdrs.ETAG: etag, hdrs.CACHE_CONTROL: "no-cache"})


def accepts_gzip(request: web.BaseRequest) -> bool:
    """Whether the client takes a gzip body (``gzip;q=0`` refuses it)."""
    for item in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def prepared_answer(
    request: web.BaseRequest,
    body: bytes,
    *,
    etag: str,
    compressed: bytes | None = None,
    content_type: str = JSON_TYPE,
    charset: str | None = None,
) -> web.Response:
    """Answer with bytes that were made before the request came: 304, gzip or as they are."""
    if matches_etag(request, etag):
        return not_modified(etag)
    headers = {hdrs.ETAG: etag, hdrs.CACHE_CONTROL: "no-cache", hdrs.VARY: hdrs.ACCEPT_ENCODING}
    if compressed is not None and accepts_gzip(request):
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        body = compressed
    return web.Response(body=body, headers=headers, content_type=content_type, charset=charset)
