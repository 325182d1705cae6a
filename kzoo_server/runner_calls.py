"""What the calls of runners have in common: who calls, and on whose attempt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import hdrs

from kzoo_core.errors import BadInput, Problem, Unauthorized
from kzoo_core.ids import parse_submission_id
from kzoo_server.bodies import BodyPace, read_object
from kzoo_server.keys import CLOCK, SETTINGS
from kzoo_server.queries import path_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from aiohttp import web

    from kzoo_core.ids import SubmissionId
    from kzoo_core.lifecycle.system import System
    from kzoo_core.queue.runners import Runner

    Record = TypeVar("Record")

ATTEMPT_TOKEN_HEADER = "X-Attempt-Token"  # noqa: S105 - a header's name
_SCHEME = "Bearer "
_SMALL_BYTES = 16 * 1024
"""What a body of an honest runner has, but for a result. A megabyte takes up to 0.9 s to check."""


def calling_runner(request: web.Request, system: System) -> Runner:
    """Return the runner whose token the request carries, and note that it was heard.

    Raises ``Unauthorized`` with code ``UNKNOWN_RUNNER``.
    """
    header = request.headers.get(hdrs.AUTHORIZATION, "")
    if not header.startswith(_SCHEME):
        raise Unauthorized(
            "UNKNOWN_RUNNER",
            "the header Authorization: Bearer … is missing",
            hint="register, and send the runner_token with every call",
        )
    runner = system.runners.authenticate(header.removeprefix(_SCHEME).strip())
    return system.runners.seen(runner.runner_id, now=request.app[CLOCK].now())


def attempt_token(request: web.Request) -> str:
    """Return the attempt's token; raises ``BadInput`` with code ``BAD_HEADER`` without one."""
    token = request.headers.get(ATTEMPT_TOKEN_HEADER)
    if token:
        return token
    problem = Problem(
        code="bad_header",
        message=f"the header {ATTEMPT_TOKEN_HEADER} is missing",
        found="no header",
        expected=f"{ATTEMPT_TOKEN_HEADER}: the attempt_token that the claim gave",
    )
    raise BadInput("BAD_HEADER", problem.message, details=(problem,))


def uuid_of(request: web.Request) -> SubmissionId:
    """Return the submission that the path names; raises ``BadInput`` with code ``BAD_PATH``."""
    return path_value(request.match_info, "uuid", parse_submission_id)


async def json_body(
    request: web.Request, what: str, limit_bytes: int | None = None
) -> dict[str, object]:
    """Return the request's JSON object within the settings' bounds; see ``read_object``."""
    settings = request.app[SETTINGS]
    return await read_object(
        request,
        what=what,
        limit_bytes=settings.json_limit_bytes if limit_bytes is None else limit_bytes,
        pace=BodyPace(settings.body_pause_s, settings.body_total_s),
    )


async def as_record(
    request: web.Request, read: Callable[[Mapping[str, Any]], Record], body: Mapping[str, Any]
) -> Record:
    """Return the record that ``read`` makes of ``body``; a large one is checked beside the loop."""
    length = request.content_length
    if length is not None and length <= _SMALL_BYTES:
        return read(body)
    return await asyncio.to_thread(read, body)
