from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.errors import (
    BadInput,
    Broken,
    Conflict,
    Forbidden,
    Gone,
    KzooError,
    NotFound,
    Problem,
    Retryable,
    TooLarge,
    Unauthorized,
)
from kzoo_core.queue.logs import LogGap, LogMismatch
from kzoo_server.envelope import envelope, internal_error, status_of

if TYPE_CHECKING:
    from aiohttp import web


def body_of(response: web.Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("VALIDATION_ERROR", ""), 422),
        (BadInput("BAD_QUERY", ""), 400),
        (BadInput("BAD_PATH", ""), 400),
        (BadInput("BAD_BODY", ""), 400),
        (BadInput("UNSUPPORTED_MEDIA_TYPE", ""), 415),
        (BadInput("PROTOCOL_MISMATCH", ""), 426),
        (Unauthorized("UNKNOWN_RUNNER", ""), 401),
        (Forbidden("WRONG_RUNNER", ""), 403),
        (NotFound("KERNEL_NOT_FOUND", ""), 404),
        (Retryable("REQUEST_TIMEOUT", ""), 408),
        (Conflict("KERNEL_FROZEN", ""), 409),
        (Gone("SUBMISSION_EVICTED", ""), 410),
        (LogMismatch("a", "b"), 412),
        (TooLarge("TOO_LARGE", ""), 413),
        (LogGap(3, 5), 416),
        (Retryable("QUEUE_FULL", ""), 429),
        (Retryable("DISK_FULL", ""), 503),
        (Broken("DISK_LOW", ""), 507),
        (Broken("NO_OUTPUT", ""), 500),
        (KzooError("ODD", ""), 500),
    ],
)
def test_the_status_says_what_the_caller_can_do(error: KzooError, status: int) -> None:
    assert status_of(error) == status


def test_an_error_is_rendered_whole() -> None:
    error = BadInput(
        "VALIDATION_ERROR",
        "two things are wrong",
        hint="mend them",
        details=(Problem(code="one", message="first"), Problem(code="two", message="second")),
    )
    response = envelope(error, "r-1")
    assert response.status == 422
    assert response.content_type == "application/json"
    assert body_of(response) == {
        "error": {
            "code": "VALIDATION_ERROR",
            "message": "two things are wrong",
            "details": [
                {"code": "one", "message": "first", "severity": "error"},
                {"code": "two", "message": "second", "severity": "error"},
            ],
            "request_id": "r-1",
            "retry": False,
            "hint": "mend them",
        }
    }


@pytest.mark.parametrize(("after_s", "header"), [(None, "1"), (0.2, "1"), (1.2, "2"), (60, "60")])
def test_what_may_go_through_later_says_when(after_s: float | None, header: str) -> None:
    response = envelope(Retryable("STARTING", "soon", retry_after_s=after_s), "r-1")
    assert response.headers["Retry-After"] == header
    assert body_of(response)["error"]["retry"] is True


def test_an_unknown_caller_is_told_the_scheme() -> None:
    assert envelope(Unauthorized("UNKNOWN_RUNNER", ""), "r").headers["WWW-Authenticate"] == "Bearer"


def test_a_bug_shows_nothing_but_the_request_id() -> None:
    response = internal_error("r-9")
    assert response.status == 500
    assert body_of(response)["error"] == {
        "code": "INTERNAL",
        "message": "the server failed at this call; the fault is its own",
        "details": [],
        "request_id": "r-9",
        "retry": False,
        "hint": "its log has the traceback under request id r-9",
    }


def test_text_that_is_no_unicode_does_not_break_the_answer() -> None:
    response = envelope(NotFound("KERNEL_NOT_FOUND", "there is no \ud800"), "r")
    assert body_of(response)["error"]["message"] == "there is no \ud800"
