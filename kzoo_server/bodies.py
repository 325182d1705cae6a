"""Request bodies: read with a bound and against slow senders, JSON taken strictly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from kzoo_core.contract.documents import load_json
from kzoo_core.errors import BadInput, KzooError, Problem, Retryable, TooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    Result = TypeVar("Result")

JSON_TYPE = "application/json"
_LARGE_BYTES = 64 * 1024
"""A body above this is parsed beside the loop: a megabyte of small numbers takes 70 ms."""


@dataclass(frozen=True, slots=True)
class BodyPace:
    """How slow a body may come: the longest pause inside it and the longest time in all, in s."""

    pause_s: float
    total_s: float

    async def chunk(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Await one piece of a body.

        Raises ``Retryable`` with code ``REQUEST_TIMEOUT`` after ``pause_s``, ``BadInput`` with code
        ``BAD_BODY`` where the transfer coding is broken, ``ConnectionError`` when the client left.
        """
        try:
            async with asyncio.timeout(self.pause_s):
                return await read()
        except TimeoutError as error:
            raise Retryable(
                "REQUEST_TIMEOUT",
                f"nothing of the request's body came for {self.pause_s:g} seconds",
                hint="send it again over a better connection",
            ) from error
        except web.RequestPayloadError as error:
            raise BadInput(
                "BAD_BODY", "the request's body ended before the length that its header gave"
            ) from error

    async def whole(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Await everything of a body; raises ``Retryable`` ``REQUEST_TIMEOUT`` past ``total_s``."""
        try:
            async with asyncio.timeout(self.total_s):
                return await read()
        except TimeoutError as error:
            raise Retryable(
                "REQUEST_TIMEOUT",
                f"the request's body was not complete after {self.total_s:g} seconds",
                hint="send it again over a better connection",
            ) from error


def too_large(what: str, limit_bytes: int) -> TooLarge:
    """Say that a body or a part of it is over its bound."""
    return TooLarge(
        "TOO_LARGE",
        f"{what} has more than {limit_bytes} bytes",
        hint=f"send at most {limit_bytes} bytes",
    )


def require_type(request: web.BaseRequest, wanted: str) -> None:
    """Raise ``BadInput`` with code ``UNSUPPORTED_MEDIA_TYPE`` unless the body is ``wanted``."""
    found = request.headers.get(hdrs.CONTENT_TYPE)
    if found is None or request.content_type != wanted:
        raise BadInput(
            "UNSUPPORTED_MEDIA_TYPE",
            f"the body's Content-Type is {found or 'missing'!s}, expected {wanted}",
            hint=f"send the header Content-Type: {wanted}",
        )


async def read_bytes(
    request: web.BaseRequest, *, what: str, limit_bytes: int, pace: BodyPace
) -> bytes:
    """Return the whole body; stops reading at the bound.

    Raises ``TooLarge`` with code ``TOO_LARGE``, and what ``BodyPace`` raises.
    """
    if request.content_length is not None and request.content_length > limit_bytes:
        raise too_large(what, limit_bytes)

    async def read() -> bytes:
        body = bytearray()
        while chunk := await pace.chunk(request.content.readany):
            body += chunk
            if len(body) > limit_bytes:
                raise too_large(what, limit_bytes)
        return bytes(body)

    return await pace.whole(read)


async def read_object(
    request: web.BaseRequest, *, what: str, limit_bytes: int, pace: BodyPace
) -> dict[str, object]:
    """Return a body that is one JSON object, taken strictly (no NaN, no duplicate keys).

    Raises ``BadInput`` with code ``BAD_BODY`` (400, never the 422 that tells a runner that its
    result was recorded) or ``UNSUPPORTED_MEDIA_TYPE``, and what ``read_bytes`` raises.
    """
    require_type(request, JSON_TYPE)
    body = await read_bytes(request, what=what, limit_bytes=limit_bytes, pace=pace)
    try:
        if len(body) > _LARGE_BYTES:
            document = await asyncio.to_thread(load_json, body, max_bytes=limit_bytes)
        else:
            document = load_json(body, max_bytes=limit_bytes)
    except KzooError as error:
        raise BadInput(
            "BAD_BODY",
            f"{what} is no JSON document: {error.message}",
            hint=error.hint,
            details=error.details,
        ) from error
    if not isinstance(document, dict):
        raise bad_body(
            Problem(
                code="bad_body",
                message=f"{what} is no JSON object",
                found=type(document).__name__,
                expected="an object",
            )
        )
    return document


def bad_body(*problems: Problem) -> BadInput:
    """Say what is wrong with a body's members: code ``BAD_BODY``, the first problem first."""
    return BadInput("BAD_BODY", problems[0].message, hint=problems[0].hint, details=problems)
