from __future__ import annotations

import gzip
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from kzoo_core.contract.documents import load_json
from kzoo_server.keys import STAGE
from kzoo_server.runner_protocol import Bodies
from tests.server.stub_runner import StubRunner, registration

if TYPE_CHECKING:
    from aiohttp import web

    from tests.server.api_client import ApiClient
    from tests.server.conftest import Serve, Served

UUID = "00000000-0000-4000-8000-000000000000"
JSON = {"Content-Type": "application/json"}


def replace_handler(served: Served, canonical: str, handler: Any) -> None:
    """Let a route answer with ``handler``: a bug, as far as the server can tell."""
    for route in served.app.router.routes():
        if route.resource is not None and route.resource.canonical == canonical:
            route._handler = handler


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_route_that_does_not_exist_is_answered_in_the_envelope(
    api: ApiClient, method: str
) -> None:
    answer = await api.request(method, "/api/kernel?x=1")
    assert answer.status == 404
    assert answer.error == {
        "code": "NOT_FOUND",
        "message": f"there is no call {method} /api/kernel",
        "details": [],
        "retry": False,
        "hint": "the calls are listed in /api/openapi.yaml",
    }


async def test_a_method_that_a_route_does_not_have_is_answered_in_the_envelope(
    api: ApiClient,
) -> None:
    answer = await api.request("DELETE", "/api/submissions")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD, POST"
    assert answer.error == {
        "code": "METHOD_NOT_ALLOWED",
        "message": "/api/submissions does not answer DELETE; it answers GET HEAD POST",
        "details": [],
        "retry": False,
        "hint": "the calls are listed in /api/openapi.yaml",
    }


async def test_a_sane_request_id_of_the_client_is_kept(api: ApiClient) -> None:
    answer = await api.get("/healthz", headers={"X-Request-Id": "trace-1.A_b"})
    assert answer.headers["X-Request-Id"] == "trace-1.A_b"


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "naïve", '"quoted"'])
async def test_any_other_request_id_is_replaced(api: ApiClient, given: str) -> None:
    answer = await api.get("/healthz", headers={"X-Request-Id": given})
    assert answer.headers["X-Request-Id"].startswith("request-")


async def test_a_bug_is_answered_with_its_request_id_and_logged_with_its_traceback(
    server: Served,
) -> None:
    async def bug(_: web.Request) -> web.Response:
        raise LookupError("inner secret")

    replace_handler(server, "/api/runners", bug)
    with capture_logs() as lines:
        answer = await server.api.get("/api/runners", headers={"X-Request-Id": "r-7"})
    assert answer.status == 500
    assert answer.error == {
        "code": "INTERNAL",
        "message": "the server failed at this call; the fault is its own",
        "details": [],
        "retry": False,
        "hint": "its log has the traceback under request id r-7",
    }
    assert b"inner secret" not in answer.body
    [bug_line] = [line for line in lines if line["event"] == "request.bug"]
    assert bug_line["exc_info"] is True
    assert bug_line["path"] == "/api/runners"


async def test_every_call_is_one_log_line_without_its_query(api: ApiClient) -> None:
    with capture_logs() as lines:
        await api.get("/api/kernels?q=secret")
    [line] = [line for line in lines if line["event"] == "request"]
    assert line["method"] == "GET"
    assert line["path"] == "/api/kernels"
    assert line["status"] == 200
    assert line["duration_ms"] >= 0
    assert "secret" not in str(line)


async def test_a_path_cannot_forge_a_second_log_line(api: ApiClient) -> None:
    with capture_logs() as lines:
        await api.get("/api/kernels/a%0Aevent=forged%20x")
    [line] = [line for line in lines if line["event"] == "request"]
    assert line["path"] == "/api/kernels/a%0Aevent=forged%20x"


async def test_a_runner_token_reaches_no_log_line(api: ApiClient) -> None:
    with capture_logs() as lines:
        runner = await StubRunner.register(api)
        await runner.heartbeat()
        await runner.ask(wait=0)
    assert runner.registered["runner_token"] not in str(lines)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/xml"])
async def test_a_json_call_takes_nothing_but_json(api: ApiClient, content_type: str | None) -> None:
    answer = await api.post(
        "/api/runner/register",
        data=b"{}",
        skip_auto_headers=["Content-Type"],
        headers={"Content-Type": content_type} if content_type else {},
    )
    assert answer.status == 415
    assert answer.error == {
        "code": "UNSUPPORTED_MEDIA_TYPE",
        "message": f"the body's Content-Type is {content_type or 'missing'}, "
        "expected application/json",
        "details": [],
        "retry": False,
        "hint": "send the header Content-Type: application/json",
    }


@pytest.mark.parametrize(
    ("body", "code", "found"),
    [
        (b"", "json_empty", "nothing"),
        (b"{", "json_syntax", None),
        (b'{"name": NaN}', "non_finite_number", None),
        (b'{"a": 1, "a": 2}', "json_duplicate_key", None),
        (b"{} {}", "json_two_documents", None),
        (b"[]", "bad_body", "list"),
        (b"\xff", "not_utf8", None),
    ],
)
async def test_a_body_that_is_no_json_object_says_where_it_breaks(
    api: ApiClient, body: bytes, code: str, found: str | None
) -> None:
    answer = await api.post(
        "/api/runner/register", data=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status == 400
    assert answer.error["code"] == "BAD_BODY"
    [problem] = answer.error["details"]
    assert problem["code"] == code
    if found is not None:
        assert problem["found"] == found


async def test_a_body_tells_everything_that_is_wrong_with_its_members(api: ApiClient) -> None:
    body = registration(arch=3, protocol={"min": 1})
    del body["backend"]
    answer = await api.post("/api/runner/register", json=body)
    assert answer.status == 400
    assert answer.error["code"] == "BAD_BODY"
    told = {(item["code"], item["pointer"]) for item in answer.error["details"]}
    assert told == {("missing_field", ""), ("wrong_type", "/arch"), ("missing_field", "/protocol")}


async def test_a_large_body_is_parsed_beside_the_loop_and_refused_alike(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def parse(body: bytes, *, max_bytes: int) -> object:
        threads.append(threading.current_thread())
        return load_json(body, max_bytes=max_bytes)

    monkeypatch.setattr("kzoo_server.bodies.load_json", parse)
    for body in (b"[1,", b"[" + b"1," * 50_000):
        answer = await api.post("/api/runner/register", data=body, headers=JSON)
        assert answer.status == 400
        assert answer.error["code"] == "BAD_BODY"
        assert "is no JSON document" in answer.error["message"]
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_a_large_record_is_checked_beside_the_loop(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    real = Bodies.registration

    def checked(bodies: Bodies, body: Any) -> Any:
        threads.append(threading.current_thread())
        return real(bodies, body)

    monkeypatch.setattr(Bodies, "registration", checked)
    small = await api.post("/api/runner/register", json=registration())
    large = await api.post("/api/runner/register", json=registration(features=["x"] * 10_000))
    assert (small.status, large.status) == (200, 400)
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_a_json_body_over_its_bound_is_refused(serve: Serve) -> None:
    served = await serve(json_limit_bytes=2048)
    answer = await served.api.post("/api/runner/register", json={"pad": "x" * 4096})
    assert answer.status == 413
    assert answer.error == {
        "code": "TOO_LARGE",
        "message": "the registration has more than 2048 bytes",
        "details": [],
        "retry": False,
        "hint": "send at most 2048 bytes",
    }


async def test_a_body_without_a_length_stops_at_its_bound(serve: Serve) -> None:
    served = await serve(json_limit_bytes=2048)

    async def endless() -> Any:
        for _ in range(1000):
            yield b" " * 1024

    answer = await served.api.post(
        "/api/runner/register", data=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status == 413
    assert answer.error["code"] == "TOO_LARGE"


async def test_an_answer_is_given_while_the_server_stops(server: Served) -> None:
    server.app[STAGE].stop()
    read = await server.api.get("/api/kernels")
    assert read.status == 200
    taken = await server.api.post("/api/runner/register", json=registration())
    assert taken.status == 503
    assert taken.headers["Retry-After"] == "1"
    assert taken.error == {
        "code": "STOPPING",
        "message": "the server is stopping",
        "details": [],
        "retry": True,
        "hint": "try again in a moment; /readyz says when",
    }


async def test_a_compressed_body_is_read_within_the_same_bound(serve: Serve) -> None:
    served = await serve(json_limit_bytes=2048)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    small = gzip.compress(json.dumps(registration()).encode())
    taken = await served.api.post("/api/runner/register", data=small, headers=headers)
    assert taken.status == 200
    bomb = gzip.compress(b" " * 50_000_000)
    refused = await served.api.post("/api/runner/register", data=bomb, headers=headers)
    assert refused.status == 413
    broken = await served.api.post("/api/runner/register", data=b"no gzip", headers=headers)
    assert broken.status == 400
    assert broken.error["code"] == "BAD_BODY"
