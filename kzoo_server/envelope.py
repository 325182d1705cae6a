"""The error envelope: the one form of every answer that is no success."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from kzoo_core.errors import (
    BadInput,
    Broken,
    Conflict,
    Forbidden,
    Gone,
    KzooError,
    NotFound,
    Retryable,
    TooLarge,
    Unauthorized,
)
from kzoo_server.answers import json_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_CODE = {
    "BAD_BODY": 400,
    "BAD_HEADER": 400,
    "BAD_MULTIPART": 400,
    "BAD_PATH": 400,
    "BAD_QUERY": 400,
    "BAD_REQUEST": 400,
    "REQUEST_TIMEOUT": 408,
    "LOG_MISMATCH": 412,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "LOG_GAP": 416,
    "RANGE_NOT_SATISFIABLE": 416,
    "PROTOCOL_MISMATCH": 426,
    "QUEUE_FULL": 429,
    "DISK_LOW": 507,
}
"""Status of the codes for which the kind of the error says too little."""

_BY_KIND: tuple[tuple[type[KzooError], int], ...] = (
    (BadInput, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Gone, 410),
    (Conflict, 409),
    (TooLarge, 413),
    (Retryable, 503),
    (Broken, 500),
)

_CODES_OF_HTTP = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}

RETRY_AFTER_S = 1.0
"""What a client is told to wait when the error itself does not say."""


def status_of(error: KzooError) -> int:
    """Return the HTTP status of an error: by its code where that is listed, else by its kind."""
    if error.code in _BY_CODE:
        return _BY_CODE[error.code]
    return next((status for kind, status in _BY_KIND if isinstance(error, kind)), 500)


def envelope(
    error: KzooError,
    request_id: str,
    *,
    extra: Mapping[str, object] | None = None,
    beside: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Answer with the envelope of ``error``.

    ``extra`` are members of ``error`` that only the call knows, ``beside`` members next to it. A
    status 429 or 503 carries ``Retry-After`` in whole seconds and ``retry: true``; 401 carries
    ``WWW-Authenticate``.
    """
    status = status_of(error)
    body = {**error.as_json(request_id), **(extra or {})}
    fields = dict(headers or {})
    if status in {429, 503}:
        wait_s = RETRY_AFTER_S if error.retry_after_s is None else error.retry_after_s
        fields[hdrs.RETRY_AFTER] = str(max(1, math.ceil(wait_s)))
    if status == HTTPStatus.UNAUTHORIZED:
        fields[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return json_answer({"error": body, **(beside or {})}, status=status, headers=fields)


def envelope_of_http(
    error: web.HTTPException, request: web.BaseRequest, request_id: str
) -> web.Response:
    """Answer with the envelope of what aiohttp itself refused: unknown route, method, size."""
    status = error.status
    code = _CODES_OF_HTTP.get(status, HTTPStatus(status).name)
    hint = "the calls are listed in /api/openapi.yaml"
    headers: dict[str, str] = {}
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = " ".join(sorted(error.allowed_methods))
        message = f"{request.path} does not answer {request.method}; it answers {allowed}"
        headers[hdrs.ALLOW] = ", ".join(sorted(error.allowed_methods))
    elif status == HTTPStatus.NOT_FOUND:
        message = f"there is no call {request.method} {request.path}"
    else:
        message = error.text or error.reason or HTTPStatus(status).phrase
    body = {
        "code": code,
        "message": message,
        "details": [],
        "request_id": request_id,
        "retry": False,
        "hint": hint,
    }
    return json_answer({"error": body}, status=status, headers=headers)


def internal_error(request_id: str) -> web.Response:
    """Answer with the envelope of a bug: nothing of it but the id under which it was logged."""
    return envelope(
        Broken(
            "INTERNAL",
            "the server failed at this call; the fault is its own",
            hint=f"its log has the traceback under request id {request_id}",
        ),
        request_id,
    )
