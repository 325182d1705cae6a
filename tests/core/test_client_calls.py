"""The typed calls of people and agents, against a scripted server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.client import KzooClient
from kzoo_core.clock import ManualClock
from kzoo_core.errors import Broken, Conflict, Retryable
from kzoo_core.ids import KernelId, SubmissionId, SubmitterId
from tests.core.scripted_server import Script, answers, drops, fails, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from tests.core.scripted_server import Handler

UUID = SubmissionId("0b9ad2f2-6c2c-4a8e-9a51-0d1f5f0b6c11")


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    async with serving() as scripted:
        yield scripted


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
