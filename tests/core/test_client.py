"""The HTTP client against a real server that misbehaves as each test tells it to."""

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
    KzooClient,
    RetryPolicy,
    Transport,
)
from kzoo_core.client.transport import cause_of
from kzoo_core.clock import ManualClock
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
from kzoo_core.ids import KernelId, SubmissionId, SubmitterId
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

UUID = SubmissionId("0b9ad2f2-6c2c-4a8e-9a51-0d1f5f0b6c11")


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


# ------------------------------------------------------------------------------------- the calls


def status(**changes: object) -> dict[str, object]:
    view: dict[str, object] = {
        "uuid": UUID,
        "kernel_id": "gfx928/Norm/RMSNorm/fp32/a",
        "status": "queued",
        "phase": "queued",
        "revision": 1,
        "position": 2,
        "attempt": None,
        "mode": "ranked",
        "outcome": None,
        "reason": None,
        "commit_sha": None,
        "records": [],
    }
    return {**view, **changes}


SUBMITTED = {
    "uuid": UUID,
    "status": "queued",
    "position": 1,
    "status_url": f"/api/submissions/{UUID}/status",
    "log_url": f"/api/submissions/{UUID}/log",
    "warnings": [],
}


async def test_submit_sends_identity_key_and_archive_and_repeats_them_after_a_drop(
    script: Script,
) -> None:
    script.then(drops, answers(202, SUBMITTED))
    archive = b"\x1f\x8b" + b"z" * (2 << 20)
    async with KzooClient(script.transport()) as client:
        view = await client.submit(
            archive,
            kernel_id=KernelId("a/b"),
            submitter_id=SubmitterId("alice"),
            mode="check",
            summary="快",
            idempotency_key="key-1",
        )
    assert view["uuid"] == UUID
    assert len(script.calls) == 2
    for method, path, headers, body in script.calls:
        assert (method, path) == ("POST", "/api/submissions")
        assert headers["X-Submitter-Id"] == "alice"
        assert headers["Idempotency-Key"] == "key-1"
        assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
        for part in [
            b'name="kernel_id"\r\n\r\na/b\r\n',
            b'name="submitter_id"\r\n\r\nalice\r\n',
            b'name="mode"\r\n\r\ncheck\r\n',
            b'name="optimization_summary"\r\n\r\n' + "快".encode() + b"\r\n",
            b'name="package"; filename="package.tar.gz"\r\n\r\n' + archive + b"\r\n",
        ]:
            assert part in body.replace(
                b"Content-Type: text/plain; charset=utf-8\r\n", b""
            ).replace(b"Content-Type: application/gzip\r\n", b"")


async def test_an_answer_that_lacks_members_is_refused_and_they_are_named(script: Script) -> None:
    view = status()
    del view["phase"], view["records"]
    script.then(answers(200, view))
    async with KzooClient(script.transport()) as client:
        with pytest.raises(Broken, match="not a StatusView: it lacks phase, records"):
            await client.status(UUID)


async def test_an_answer_that_is_no_object_is_refused(script: Script) -> None:
    script.then(answers(200, ["x"]))
    async with KzooClient(script.transport()) as client:
        with pytest.raises(Broken, match="not a JSON object"):
            await client.runners()


async def test_every_reading_call_asks_for_its_own_path(script: Script) -> None:
    page: dict[str, object] = {"items": [], "next_cursor": None}
    kernel_id = KernelId("a/b")
    script.then(
        answers(200, {**page, "revision": "r", "total": 0}),
        answers(
            200,
            {
                "kernel_id": "a/b",
                "revision": "r",
                "valid": True,
                "problems": [],
                "desc": None,
                "cases": [],
                "running": None,
            },
        ),
        answers(200, {**page, "kernel_id": "a/b"}),
        answers(200, page),
        answers(200, {"items": []}),
        answers(200, text='{"kernels": []}\n'),
        answers(200, {"$id": "x"}),
    )
    async with KzooClient(script.transport()) as client:
        await client.kernels({"arch": "gfx928", "valid": False}, sort="-updated_at", limit=5)
        await client.kernel(kernel_id)
        await client.history(kernel_id, test_case="small", metric="m", limit=2, cursor="c")
        await client.submissions(submitter="alice", kernel_id="a/b", state="done", limit=1)
        await client.runners()
        assert await client.index() == b'{"kernels": []}\n'
        assert await client.schema("desc") == {"$id": "x"}
    assert [call[1] for call in script.calls] == [
        "/api/kernels?arch=gfx928&valid=false&sort=-updated_at&limit=5",
        "/api/kernels/a/b",
        "/api/kernels/a/b/bench-history?test_case=small&metric=m&limit=2&cursor=c",
        "/api/submissions?submitter=alice&kernel_id=a/b&state=done&limit=1",
        "/api/runners",
        "/api/index.json",
        "/api/schemas/desc",
    ]


async def test_output_is_what_an_attempt_printed(script: Script) -> None:
    view: dict[str, object] = {
        "uuid": UUID,
        "attempt": 1,
        "stdout": "{}",
        "build_exit_code": 0,
        "benchmark_exit_code": 0,
        "failure": None,
        "durations_s": {"build": 0.5},
        "environment": {},
        "document": {},
    }
    script.then(answers(200, view))
    async with KzooClient(script.transport()) as client:
        assert (await client.output(UUID))["stdout"] == "{}"
    assert script.calls[0][1] == f"/api/submissions/{UUID}/output"


async def test_health_of_a_starting_server_is_an_answer(script: Script) -> None:
    view: dict[str, object] = {
        "status": "starting",
        "version": "0",
        "started_at": "2026-08-02T00:00:00Z",
        "queue": {},
        "runners": {},
        "head": None,
        "index": {},
        "writer": {},
        "disk": {},
    }
    script.then(answers(503, view))
    async with KzooClient(script.transport()) as client:
        assert (await client.health())["status"] == "starting"


async def test_health_of_something_else_that_is_down_is_an_error(script: Script) -> None:
    script.then(fails(503, "STOPPING"))
    async with KzooClient(script.transport()) as client:
        with pytest.raises(Retryable, match="STOPPING said"):
            await client.health()


async def test_cancel_sends_the_identity(script: Script) -> None:
    script.then(fails(409, "NOT_CANCELLABLE"))
    client = KzooClient(script.transport(), submitter_id=SubmitterId("alice"))
    async with client:
        with pytest.raises(Conflict, match="NOT_CANCELLABLE said"):
            await client.cancel(UUID)
    assert script.calls[0][:2] == ("POST", f"/api/submissions/{UUID}/cancel")
    assert script.calls[0][2]["X-Submitter-Id"] == "alice"


async def test_wait_done_follows_the_revisions_to_the_end(script: Script) -> None:
    script.then(
        answers(200, status()),
        answers(200, status(status="running", phase="build", revision=4, attempt=1)),
        answers(200, status(status="done", phase="done", revision=7, outcome="accepted")),
    )
    seen: list[str] = []
    async with KzooClient(script.transport()) as client:
        last = await client.wait_done(
            UUID, clock=ManualClock(), on_change=lambda view: seen.append(view["phase"])
        )
    assert last["outcome"] == "accepted"
    assert seen == ["queued", "build", "done"]
    assert [call[1].partition("?")[2] for call in script.calls] == [
        "wait=0",
        "wait=30&since=1",
        "wait=30&since=4",
    ]


async def test_wait_done_returns_the_last_status_when_its_time_is_up(script: Script) -> None:
    clock = ManualClock()

    async def late(request: web.Request) -> web.StreamResponse:
        clock.advance(12.0)
        return await answers(200, status(revision=2))(request)

    script.then(answers(200, status()), late)
    async with KzooClient(script.transport()) as client:
        last = await client.wait_done(UUID, clock=clock, timeout_s=10.0)
    assert (last["status"], last["revision"]) == ("queued", 2)
    assert script.calls[1][1].endswith("?wait=10&since=1")


async def test_wait_done_outlives_a_server_that_is_started_again(script: Script) -> None:
    script.then(
        answers(200, status()),
        drops,
        fails(503, "STARTING"),
        answers(200, status(status="done", outcome="rejected", revision=2)),
    )
    troubles: list[str] = []
    async with KzooClient(script.transport(tries=1)) as client:
        last = await client.wait_done(
            UUID, clock=ManualClock(), on_trouble=lambda error: troubles.append(error.code)
        )
    assert last["outcome"] == "rejected"
    assert "STARTING" in troubles
    assert len(script.waits) == len(troubles)


async def test_wait_done_gives_up_on_a_server_that_stays_away(script: Script) -> None:
    clock = ManualClock()

    async def away(request: web.Request) -> web.StreamResponse:
        clock.advance(50.0)
        return await fails(503, "STARTING")(request)

    script.then(answers(200, status()), away, away, away, away)
    async with KzooClient(script.transport(tries=1)) as client:
        with pytest.raises(Retryable, match="STARTING said"):
            await client.wait_done(UUID, clock=clock)
    assert len(script.calls) == 4


async def test_wait_done_does_not_wait_for_a_server_that_was_never_there(script: Script) -> None:
    script.then(fails(503, "STARTING"))
    async with KzooClient(script.transport(tries=1)) as client:
        with pytest.raises(Retryable, match="STARTING said"):
            await client.wait_done(UUID, clock=ManualClock())
    assert (len(script.calls), script.waits) == (1, [])


def log(data: str, next_offset: int, *, complete: bool = False) -> Handler:
    headers = {
        "X-Next-Offset": str(next_offset),
        "X-Log-Complete": "true" if complete else "false",
        "X-Attempt": "2",
    }
    return answers(200, text=data, content_type="text/plain", headers=headers)


def query(call: tuple[str, str, dict[str, str], bytes]) -> str:
    return call[1].removeprefix(f"/api/submissions/{UUID}")


async def followed(script: Script) -> bytes:
    async with KzooClient(script.transport(tries=1)) as client:
        parts = client.follow_log(UUID, attempt=2, clock=ManualClock())
        return b"".join([part.data async for part in parts])


async def test_follow_log_asks_from_where_it_is_until_the_log_is_complete(script: Script) -> None:
    script.then(log("ab", 2), drops, log("cd", 4), log("", 4, complete=True))
    assert await followed(script) == b"abcd"
    assert {query(call) for call in script.calls} == {
        "/log?from=0&attempt=2&wait=0",
        "/log?from=2&attempt=2&wait=30",
        "/log?from=4&attempt=2&wait=30",
    }


@pytest.mark.parametrize("over", [{"attempt": 3}, {"attempt": 2, "status": "done"}])
async def test_follow_log_ends_where_nothing_more_can_come(
    script: Script, over: dict[str, object]
) -> None:
    script.then(
        log("ab", 2),
        log("", 2),
        answers(200, status(attempt=2, status="running")),
        log("", 2),
        answers(200, status(**over)),
        log("cd", 4),
        log("", 4),
        answers(200, status(**over)),
        log("", 4),
    )
    assert await followed(script) == b"abcd"
    assert script.handlers == []
    assert query(script.calls[-1]) == "/log?from=4&attempt=2&wait=0"


async def test_a_log_without_its_offset_is_refused(script: Script) -> None:
    script.then(answers(200, text="x", content_type="text/plain"))
    async with KzooClient(script.transport()) as client:
        with pytest.raises(Broken, match="it has no X-Next-Offset header"):
            await client.log(UUID)
