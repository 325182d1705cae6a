"""From what a server answered, or did not, to the error that says what a caller can do about it."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from kzoo_core.client.problems import problems_from_json
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

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Answers after which an idempotent call is tried again: busy, starting, or a proxy's own fault."""

_BY_STATUS: dict[int, type[KzooError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Retryable,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    425: Retryable,
    429: Retryable,
    502: Retryable,
    503: Retryable,
    504: Retryable,
    507: Retryable,
}
_EXCERPT = 120


class ConnectionLost(Retryable):
    """No whole answer came: refused, reset, timed out, or cut in the middle."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            "CONNECTION_FAILED",
            f"no answer from {url}: {cause}",
            hint="start a server with 'kzoo-server', or point to one with --server URL "
            "or KERNEL_ZOO_SERVER",
        )


def failure(status: int, headers: Mapping[str, str], body: bytes, url: str) -> KzooError:
    """Return the error that an answer of status 300 or more stands for.

    An error envelope gives its own code, message, hint and problems. Anything else (a proxy's HTML,
    half a JSON) gives ``UNEXPECTED_ANSWER`` with the URL, the status and how the body begins. The
    class follows the status: it says what the caller can do.
    """
    kind = _kind(status)
    envelope = _envelope(body)
    if envelope is None:
        error = kind(
            "UNEXPECTED_ANSWER",
            f"{url} answered {status} {_phrase(status)} with {_sketch(headers, body)}, "
            "not with an error of kernel_zoo",
            hint=_hint_for_stranger(status, headers),
        )
    else:
        hint = envelope.get("hint")
        details = envelope.get("details")
        error = (Retryable if envelope.get("retry") is True else kind)(
            str(envelope["code"]),
            str(envelope["message"]),
            hint=hint if isinstance(hint, str) else None,
            details=problems_from_json(details),
        )
        request_id = envelope.get("request_id")
        error.request_id = request_id if isinstance(request_id, str) else None
    error.status = status
    error.request_id = error.request_id or headers.get("X-Request-Id")
    error.retry_after_s = _retry_after(headers)
    return error


def is_envelope(body: bytes) -> bool:
    """Say whether a body is the product's error envelope."""
    return _envelope(body) is not None


def unreadable(url: str, headers: Mapping[str, str], body: bytes, wanted: str) -> Broken:
    """Return the error for a successful answer whose body is not what was asked for."""
    error = Broken(
        "UNEXPECTED_ANSWER",
        f"{url} answered {_sketch(headers, body)}, not {wanted}",
        hint="is this URL a kernel_zoo server, of a version that fits this client?",
    )
    error.request_id = headers.get("X-Request-Id")
    return error


def _kind(status: int) -> type[KzooError]:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return BadInput if 400 <= status < 500 else Broken


def _envelope(body: bytes) -> dict[str, object] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None
    named = isinstance(error.get("code"), str) and isinstance(error.get("message"), str)
    return error if named else None


def _sketch(headers: Mapping[str, str], body: bytes) -> str:
    """Describe a body in half a sentence: its type, its size and how it begins."""
    if not body:
        return "an empty body"
    content_type = headers.get("Content-Type", "no content type").partition(";")[0]
    begins = " ".join(body[: _EXCERPT * 4].decode("utf-8", "replace").split())[:_EXCERPT]
    return f"{len(body)} bytes of {content_type} that begin {begins!r}"


def _hint_for_stranger(status: int, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400 and "Location" in headers:
        return f"the address redirects to {headers['Location']}: point --server there"
    if status in RETRIED_STATUSES:
        return "something in front of the server answered for it; try again when it is back"
    return "is this URL a kernel_zoo server? point to one with --server URL or KERNEL_ZOO_SERVER"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return Retry-After in seconds; its date form is not used by this product and is left."""
    try:
        seconds = float(headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no standard status)"
