"""One HTTP call, against a real server that misbehaves as each test tells it to."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from kzoo_core.client import (
    Answer,
    ConnectionLost,
    RetryPolicy,
    Transport,
)
from kzoo_core.client.transport import cause_of
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
    Severity,
    TooLarge,
    Unauthorized,
)
from tests.core.scripted_server import (
    Script,
    answers,
    drops,
    fails,
    never_answers,
    serving,
    stops_in_the_middle,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.core.scripted_server import Handler


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    async with serving() as scripted:
        yield scripted


async def caught(script: Script, *, method: str = "GET", tries: int = 4) -> KzooError:
    async with script.transport(tries=tries) as transport:
        with pytest.raises(KzooError) as info:
            await transport.request(method, "/api/thing")
    return info.value


async def test_an_answer_gives_status_headers_and_parsed_body(script: Script) -> None:
    script.then(answers(200, {"a": 1}, headers={"X-Request-Id": "r-9"}))
    async with script.transport() as transport:
        answer = await transport.request(
            "GET",
            "/api/kernels/a b/c",
            params={"q": "ä&b", "valid": True, "limit": 3, "cursor": None},
            headers={"X-Extra": "yes"},
        )
    assert isinstance(answer, Answer)
    assert (answer.status, answer.json()) == (200, {"a": 1})
    assert answer.headers["x-request-id"] == "r-9"
    method, path, headers, body = script.calls[0]
    assert (method, body) == ("GET", b"")
    assert path == "/api/kernels/a%20b/c?q=%C3%A4%26b&valid=true&limit=3"
    assert headers["X-Extra"] == "yes"
    assert headers["User-Agent"].startswith("kernel_zoo/")


async def test_a_json_body_of_many_megabytes_is_sent_as_a_stream(script: Script) -> None:
    script.then(answers(202, {}))
    async with script.transport() as transport:
        await transport.request("POST", "/api/x", json={"stdout": "ä" * (2 << 20)})
    _, _, headers, body = script.calls[0]
    assert headers["Content-Type"] == "application/json"
    assert len(body) == len('{"stdout": ""}') + (4 << 20)


async def test_bytes_are_sent_as_they_are(script: Script) -> None:
    script.then(answers(202, {}))
    async with script.transport() as transport:
        await transport.request(
            "PATCH", "/api/x", data=b"\x00\xff", headers={"Content-Range": "bytes 0-1/*"}
        )
    assert script.calls[0][3] == b"\x00\xff"
    assert script.calls[0][2]["Content-Range"] == "bytes 0-1/*"


async def test_not_modified_is_an_answer(script: Script) -> None:
    async def not_modified(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=304)

    script.then(not_modified)
    async with script.transport() as transport:
        assert (await transport.request("GET", "/api/x")).status == 304


async def test_an_accepted_error_status_comes_back_with_its_headers(script: Script) -> None:
    script.then(fails(416, "RANGE_GAP", headers={"Range": "bytes=0-99"}))
    async with script.transport() as transport:
        answer = await transport.request("PATCH", "/api/x", data=b"x", accept={412, 416})
    assert (answer.status, answer.headers["Range"]) == (416, "bytes=0-99")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadInput),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (405, BadInput),
        (409, Conflict),
        (410, Gone),
        (412, BadInput),
        (413, TooLarge),
        (422, BadInput),
        (426, BadInput),
        (429, Retryable),
        (500, Broken),
        (503, Retryable),
        (507, Retryable),
    ],
)
async def test_a_status_becomes_the_error_that_says_what_to_do(
    script: Script, status: int, kind: type[KzooError]
) -> None:
    script.then(fails(status, "SOME_CODE"))
    error = await caught(script, tries=1)
    assert type(error) is kind
    assert (error.code, error.message) == ("SOME_CODE", "SOME_CODE said")
    assert (error.status, error.request_id) == (status, "r-1")


async def test_an_envelope_that_says_retry_is_retryable_whatever_its_status(
    script: Script,
) -> None:
    script.then(fails(409, "HEAD_MOVED", retry=True))
    assert type(await caught(script)) is Retryable


async def test_an_envelope_gives_its_problems_and_its_hint(script: Script) -> None:
    first = {
        "code": "bad_dtype",
        "message": "no such dtype",
        "severity": "error",
        "file": ".kernel_package/desc.yaml",
        "pointer": "/io_signature/0/dtype",
        "line": 3,
        "column": 5,
        "found": "'float16'",
        "expected": "a generic name",
        "hint": "write fp16",
    }
    second = {"code": "csv", "message": "a table", "severity": "warning", "new_member": [1]}
    script.then(
        answers(
            422,
            {
                "error": {
                    "code": "VALIDATION_ERROR",
                    "message": "2 problems",
                    "details": [first, second, "no problem"],
                    "request_id": "r-2",
                    "retry": False,
                    "hint": "see kzoo guide",
                }
            },
        )
    )
    error = await caught(script)
    assert error.hint == "see kzoo guide"
    assert error.details == (
        Problem(
            code="bad_dtype",
            message="no such dtype",
            file=".kernel_package/desc.yaml",
            pointer="/io_signature/0/dtype",
            line=3,
            column=5,
            found="'float16'",
            expected="a generic name",
            hint="write fp16",
        ),
        Problem(code="csv", message="a table", severity=Severity.WARNING),
    )


async def test_html_of_a_proxy_names_the_url_and_what_came(script: Script) -> None:
    script.then(
        answers(502, text="<html>\n <h1>Bad Gateway</h1>", content_type="text/html"),
    )
    error = await caught(script, tries=1)
    assert isinstance(error, Retryable)
    assert (error.code, error.status) == ("UNEXPECTED_ANSWER", 502)
    assert error.message == (
        f"{script.url}/api/thing answered 502 Bad Gateway with 28 bytes of text/html that begin "
        "'<html> <h1>Bad Gateway</h1>', not with an error of kernel_zoo"
    )
    assert error.hint == (
        "something in front of the server answered for it; try again when it is back"
    )


@pytest.mark.parametrize(
    "text", ['{"error": {"code": "X", "mess', '{"detail": "x"}', "[1]", "", '{"error": "x"}']
)
async def test_an_error_that_is_no_envelope_is_said_to_be_none(script: Script, text: str) -> None:
    script.then(answers(404, text=text))
    error = await caught(script)
    assert (type(error), error.code) == (NotFound, "UNEXPECTED_ANSWER")
    assert repr(text) in error.message or "an empty body" in error.message
    assert error.hint is not None
    assert "KERNEL_ZOO_SERVER" in error.hint


async def test_an_unknown_status_number_is_named(script: Script) -> None:
    script.then(answers(599, text="odd"))
    error = await caught(script)
    assert isinstance(error, Broken)
    assert "answered 599 (no standard status)" in error.message


async def test_half_a_json_with_status_200_names_the_url_and_what_came(script: Script) -> None:
    script.then(answers(200, text='{"half": '))
    async with script.transport() as transport:
        answer = await transport.request("GET", "/api/thing")
        with pytest.raises(Broken) as info:
            answer.json()
    assert info.value.code == "UNEXPECTED_ANSWER"
    assert info.value.message == (
        f"{script.url}/api/thing answered 9 bytes of application/json that begin "
        "'{\"half\":', not JSON"
    )


async def test_an_answer_without_end_is_cut_off(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_core.client.transport.ANSWER_LIMIT_BYTES", 1000)
    script.then(answers(200, text="x" * 1001))
    error = await caught(script)
    assert (type(error), error.code) == (Broken, "ANSWER_TOO_LARGE")
    assert error.message == f"{script.url}/api/thing answers with more than 1000 bytes"


async def test_an_envelope_whose_details_are_no_list_has_no_problems(script: Script) -> None:
    script.then(answers(404, {"error": {"code": "X", "message": "m", "details": "odd"}}))
    assert (await caught(script)).details == ()


async def test_a_redirect_is_not_followed_but_named(script: Script) -> None:
    script.then(
        answers(301, text="moved", headers={"Location": "https://zoo.invalid/api/thing"}),
    )
    error = await caught(script)
    assert isinstance(error, Broken)
    assert error.hint == (
        "the address redirects to https://zoo.invalid/api/thing: point --server there"
    )
    assert len(script.calls) == 1


async def test_a_refused_connection_names_the_url_the_cause_and_what_to_do() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        transport = Transport(
            f"http://127.0.0.1:{port}", retry=RetryPolicy(tries=1), random=random.Random(1)
        )
        async with transport:
            with pytest.raises(ConnectionLost) as info:
                await transport.request("GET", "/api/health")
    error = info.value
    assert error.code == "CONNECTION_FAILED"
    assert error.message == (
        f"no answer from http://127.0.0.1:{port}/api/health: Connection refused"
    )
    assert error.hint is not None
    assert "kzoo-server" in error.hint
    assert "--server URL" in error.hint
    assert error.status is None


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not"),
        (ConnectionResetError(104, "odd words"), "Connection reset by peer"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (aiohttp.ClientError(), "ClientError"),
    ],
)
def test_a_lost_connection_says_why_in_the_systems_own_words(error: Exception, cause: str) -> None:
    assert cause_of(error).startswith(cause)


@pytest.mark.parametrize("loss", [drops, stops_in_the_middle])
async def test_a_dropped_connection_is_tried_again_on_a_get(script: Script, loss: Handler) -> None:
    script.then(loss, loss, answers(200, {"ok": True}))
    async with script.transport() as transport:
        answer = await transport.request("GET", "/api/thing")
    assert answer.json() == {"ok": True}
    assert len(script.calls) == 3
    assert script.waits  # fewer than two: aiohttp itself repeats a GET on a connection that closed


async def test_a_get_is_given_up_after_the_tries_of_its_policy(script: Script) -> None:
    script.then(drops, drops, drops, drops, drops, drops, drops, drops)
    error = await caught(script, tries=3)
    assert isinstance(error, ConnectionLost)
    assert len(script.waits) == 2


async def test_waits_are_full_jitter_under_a_doubling_bound() -> None:
    policy = RetryPolicy(first_s=1.0, limit_s=5.0)
    source = random.Random(3)
    for failed, bound in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (9, 5.0)]:
        drawn = [policy.wait_s(failed, None, source) for _ in range(200)]
        assert min(drawn) >= 0.0
        assert bound * 0.9 < max(drawn) <= bound


async def test_a_post_is_never_sent_twice_by_itself(script: Script) -> None:
    script.then(drops)
    error = await caught(script, method="POST")
    assert isinstance(error, ConnectionLost)
    assert (len(script.calls), script.waits) == (1, [])


async def test_a_post_that_is_idempotent_is_sent_again_with_the_same_body(script: Script) -> None:
    script.then(drops, fails(503, "STARTING"), answers(202, {}))
    async with script.transport() as transport:
        await transport.request("POST", "/api/x", json={"claim_id": "c"}, retry=True)
    assert [call[3] for call in script.calls] == [b'{"claim_id": "c"}'] * 3


async def test_a_form_that_can_be_read_once_is_not_sent_again(script: Script) -> None:
    script.then(drops)
    form = aiohttp.FormData({"a": "1"})
    async with script.transport() as transport:
        with pytest.raises(ConnectionLost):
            await transport.request("POST", "/api/x", data=form, retry=True)
    assert len(script.calls) == 1


async def test_retry_after_is_waited_out_before_the_next_try(script: Script) -> None:
    script.then(fails(503, "STARTING", headers={"Retry-After": "3"}), answers(200, {}))
    async with script.transport() as transport:
        await transport.request("GET", "/api/thing")
    assert len(script.waits) == 1
    assert 3.0 <= script.waits[0] <= 3.25


async def test_a_retry_after_that_is_too_long_is_left_to_the_caller(script: Script) -> None:
    script.then(fails(429, "TOO_MANY_SUBMISSIONS", headers={"Retry-After": "600"}))
    error = await caught(script)
    assert (error.retry_after_s, script.waits) == (600.0, [])


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"])
async def test_a_retry_after_that_is_no_number_of_seconds_is_left(
    script: Script, value: str
) -> None:
    script.then(fails(429, "BUSY", headers={"Retry-After": value}))
    assert (await caught(script, tries=1)).retry_after_s is None


async def test_a_conflict_is_not_tried_again(script: Script) -> None:
    script.then(fails(409, "KERNEL_FROZEN"))
    await caught(script)
    assert len(script.calls) == 1


async def test_a_slow_answer_is_a_lost_connection_that_says_how_long(script: Script) -> None:
    script.then(never_answers)
    async with script.transport(timeout_s=0.05, tries=1) as transport:
        with pytest.raises(ConnectionLost) as info:
            await transport.request("GET", "/api/thing")
    assert info.value.message == (
        f"no answer from {script.url}/api/thing: no whole answer came within 0.05 s"
    )


@pytest.mark.parametrize(
    "address",
    ["", "localhost:8000", "ftp://x", "http://", "http://x:0", "http://x?y=1", "http://["],
)
def test_an_address_that_is_no_server_is_refused_before_any_call(address: str) -> None:
    with pytest.raises(BadInput) as info:
        Transport(address, random=random.Random(1))
    assert info.value.code == "BAD_SERVER_URL"
    assert repr(address) in info.value.message
    assert info.value.hint == "write it like http://127.0.0.1:8000"


def test_an_address_with_a_path_of_its_own_keeps_it() -> None:
    transport = Transport("https://host/zoo/", random=random.Random(1))
    assert transport.base_url == "https://host/zoo"


async def test_a_transport_outside_its_block_says_how_it_is_used(script: Script) -> None:
    with pytest.raises(RuntimeError, match="inside its 'async with'"):
        await script.transport().request("GET", "/api/x")
