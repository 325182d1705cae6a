from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_server.keys import HELD
from tests.packages import KERNEL_ID, output_bytes, package_tarball, valid_package
from tests.server.eventually import eventually
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from tests.server.api_client import ApiClient
    from tests.server.conftest import Served

UUID = "00000000-0000-4000-8000-000000000000"
ARCHIVE = package_tarball(valid_package())
QUEUED = {
    "kernel_id": KERNEL_ID,
    "status": "queued",
    "phase": "queued",
    "revision": 1,
    "position": 1,
    "attempt": None,
    "mode": "ranked",
    "outcome": None,
    "reason": None,
    "commit_sha": None,
    "records": [],
}
CALLS = [
    ("GET", ""),
    ("GET", "/status?wait=0"),
    ("GET", "/output"),
    ("GET", "/log"),
    ("POST", "/cancel"),
]


async def held(server: Served) -> None:
    """Wait until a request is held."""
    await eventually(lambda: len(server.app[HELD]) > 0)


@pytest.mark.parametrize(("method", "suffix"), CALLS)
async def test_an_unknown_submission_is_not_found(api: ApiClient, method: str, suffix: str) -> None:
    answer = await api.request(method, f"/api/submissions/{UUID}{suffix}")
    assert answer.status == 404
    assert answer.error == {
        "code": "SUBMISSION_NOT_FOUND",
        "message": f"there is no submission {UUID}",
        "details": [],
        "retry": False,
        "hint": "check the uuid: kzoo runs, or GET /api/submissions, lists them",
    }


@pytest.mark.parametrize(("method", "suffix"), CALLS)
@pytest.mark.parametrize("uuid", ["nope", UUID.upper().replace("0", "A"), "%20", "a%2Fb"])
async def test_a_malformed_uuid_says_what_one_looks_like(
    api: ApiClient, method: str, suffix: str, uuid: str
) -> None:
    answer = await api.request(method, f"/api/submissions/{uuid}{suffix}")
    assert answer.status == 400
    assert answer.error["code"] == "BAD_PATH"
    [problem] = answer.error["details"]
    assert problem["code"] == "bad_uuid"
    assert problem["expected"] == "is a lower-case UUID such as the submission's answer gave"


async def test_a_submission_waits_in_the_queue(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    status = await api.get(f"/api/submissions/{uuid}/status?wait=0")
    assert status.json() == {"uuid": uuid, **QUEUED}


async def test_the_record_has_everything_but_tokens(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE, fields={"optimization_summary": "vector loads"})
    attempt = await (await StubRunner.register(api)).claim()
    answer = await api.get(f"/api/submissions/{uuid}")
    record = answer.json()
    assert record["submitter_id"] == "alice"
    assert record["optimization_summary"] == "vector loads"
    assert record["arch"] == "gfx928"
    assert record["package_bytes"] > 0
    [run] = record["attempts"]
    assert run.pop("claimed_at").endswith("Z")
    assert run == {
        "attempt": 1,
        "runner_id": attempt.runner.runner_id,
        "arch": "gfx928",
        "isolation": "none",
        "phase": "claimed",
        "ended_at": None,
        "end": None,
        "detail": None,
    }
    for secret in (attempt.answer["attempt_token"], "claim-1", "token"):
        assert secret not in answer.body.decode()


@pytest.mark.parametrize(
    ("query", "found"), [("wait=-1", "-1"), ("wait=abc", "abc"), ("wait=61", "61")]
)
async def test_a_wait_that_is_no_number_of_seconds_is_refused(
    api: ApiClient, query: str, found: str
) -> None:
    uuid = await api.submitted(ARCHIVE)
    answer = await api.get(f"/api/submissions/{uuid}/status?{query}")
    assert answer.status == 400
    assert answer.error == {
        "code": "BAD_QUERY",
        "message": f"wait is {found!r}",
        "details": [
            {
                "code": "bad_query",
                "message": f"wait is {found!r}",
                "severity": "error",
                "pointer": "/query/wait",
                "found": found,
                "expected": "a number of seconds from 0 to 60",
            }
        ],
        "retry": False,
    }


async def test_the_long_poll_is_held_until_the_submission_is_done(server: Served) -> None:
    uuid = await server.api.submitted(ARCHIVE)
    poll = asyncio.create_task(server.api.get(f"/api/submissions/{uuid}/status"))
    await held(server)
    runner = await StubRunner.register(server.api)
    await runner.run_one()
    status = (await poll).json()
    assert (status["status"], status["outcome"], status["phase"]) == ("done", "accepted", "done")
    assert len(status["commit_sha"]) == 40
    assert status["position"] is None
    assert status["records"] == [
        {
            "test_case_id": case,
            "metric": "latency_ms",
            "unit": "ms",
            "value": value,
            "previous": None,
        }
        for case, value in (("n4", 1.5), ("n8", 3.25))
    ]


async def test_a_poll_with_since_is_held_until_the_next_change(server: Served) -> None:
    uuid = await server.api.submitted(ARCHIVE)
    seen = (await server.api.get(f"/api/submissions/{uuid}/status?since=0")).json()
    assert seen["revision"] == 1
    poll = asyncio.create_task(server.api.get(f"/api/submissions/{uuid}/status?since=1"))
    await held(server)
    await (await StubRunner.register(server.api)).claim()
    changed = (await poll).json()
    assert changed["revision"] > 1
    assert (changed["status"], changed["phase"], changed["attempt"]) == ("running", "claimed", 1)


async def test_a_poll_whose_time_is_up_answers_with_what_is(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    answer = await api.get(f"/api/submissions/{uuid}/status?wait=0.05")
    assert answer.json()["status"] == "queued"


async def test_a_done_submission_is_answered_at_once(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    await api.post(f"/api/submissions/{uuid}/cancel")
    assert (await api.get(f"/api/submissions/{uuid}/status?wait=60")).json()["status"] == "done"


async def test_a_poll_whose_client_hung_up_is_held_no_longer(server: Served) -> None:
    uuid = await server.api.submitted(ARCHIVE)
    poll = asyncio.create_task(server.api.get(f"/api/submissions/{uuid}/status?wait=60"))
    await held(server)
    poll.cancel()
    await eventually(lambda: len(server.app[HELD]) == 0)


async def test_a_stopping_server_answers_the_polls_it_holds(server: Served) -> None:
    uuid = await server.api.submitted(ARCHIVE)
    poll = asyncio.create_task(server.api.get(f"/api/submissions/{uuid}/status?wait=60"))
    await held(server)
    async with asyncio.timeout(5):
        await server.stop()
    assert (await poll).json()["status"] == "queued"


async def test_submissions_are_listed_newest_first_and_filtered(api: ApiClient) -> None:
    other = "gfx928/Norm/RMSNorm/fp32/other"
    mine = [await api.submitted(ARCHIVE) for _ in range(3)]
    theirs = await api.submitted(
        package_tarball(valid_package(other)), kernel_id=other, submitter_id="bob", header="bob"
    )
    await api.post(f"/api/submissions/{mine[0]}/cancel")

    async def uuids(query: str) -> list[str]:
        items = (await api.get(f"/api/submissions{query}")).json()["items"]
        return [item["uuid"] for item in items]

    assert await uuids("") == [theirs, *reversed(mine)]
    assert await uuids("?submitter=bob") == [theirs]
    assert await uuids(f"?kernel_id={KERNEL_ID}&state=queued") == [mine[2], mine[1]]
    assert await uuids("?state=done") == [mine[0]]
    page = (await api.get("/api/submissions?submitter=alice&limit=2")).json()
    assert [item["uuid"] for item in page["items"]] == [mine[2], mine[1]]
    assert await uuids(f"?submitter=alice&limit=2&cursor={page['next_cursor']}") == [mine[0]]


async def test_a_page_that_is_made_in_parts_is_whole_and_in_order(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kzoo_server.routes.submissions._AT_ONCE", 2)
    made = [await api.submitted(ARCHIVE) for _ in range(5)]
    page = (await api.get("/api/submissions")).json()
    assert [item["uuid"] for item in page["items"]] == made[::-1]
    assert [item["position"] for item in page["items"]] == [5, 4, 3, 2, 1]
    assert page["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("state=pending", "/query/state"),
        ("submitter=a%20b", "/query/submitter"),
        ("kernel_id=a//b", "/query/kernel_id"),
        ("cursor=zzz", "/query/cursor"),
        ("submiter=bob", "/query/submiter"),
    ],
)
async def test_a_listing_refuses_filters_that_make_no_sense(
    api: ApiClient, query: str, pointer: str
) -> None:
    answer = await api.get(f"/api/submissions?{query}")
    assert answer.status == 400
    assert answer.error["code"] == "BAD_QUERY"
    assert [item["pointer"] for item in answer.error["details"]] == [pointer]


async def test_a_submission_that_waits_can_be_withdrawn_once(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    cancelled = await api.post(
        f"/api/submissions/{uuid}/cancel", headers={"X-Submitter-Id": "alice"}
    )
    assert cancelled.status == 200
    assert cancelled.json()["outcome"] == "cancelled"
    assert cancelled.json()["reason"]["message"] == (
        "cancelled by alice while it waited in the queue"
    )
    again = await api.post(f"/api/submissions/{uuid}/cancel")
    assert again.status == 409
    assert again.error["code"] == "NOT_CANCELLABLE"
    assert again.error["details"][0]["found"] == "done (cancelled)"
    assert again.error["details"][0]["expected"] == "queued"


async def test_a_running_submission_cannot_be_withdrawn(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    await (await StubRunner.register(api)).claim()
    answer = await api.post(f"/api/submissions/{uuid}/cancel")
    assert answer.status == 409
    assert answer.error["code"] == "NOT_CANCELLABLE"
    assert answer.error["details"][0]["found"] == "running"
    assert answer.error["hint"] == "wait until the run is over"


async def test_nobody_withdraws_what_another_submitted(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    answer = await api.post(
        f"/api/submissions/{uuid}/cancel", headers={"X-Submitter-Id": "mallory"}
    )
    assert answer.status == 403
    assert answer.error == {
        "code": "NOT_YOURS",
        "message": f"submission {uuid} is alice's, the header X-Submitter-Id says 'mallory'",
        "details": [],
        "retry": False,
        "hint": "cancel your own submissions",
    }
    status = await api.get(f"/api/submissions/{uuid}/status?wait=0")
    assert status.json()["status"] == "queued"


async def test_the_output_is_what_the_attempt_printed(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    missing = await api.get(f"/api/submissions/{uuid}/output")
    assert missing.status == 404
    assert missing.error["code"] == "NO_OUTPUT"
    stdout = output_bytes(KERNEL_ID)
    await (await StubRunner.register(api)).run_one(stdout)
    assert (await api.get(f"/api/submissions/{uuid}/output")).json() == {
        "uuid": uuid,
        "attempt": 1,
        "stdout": stdout.decode(),
        "build_exit_code": 0,
        "benchmark_exit_code": 0,
        "failure": None,
        "durations_s": {"build": 0.5, "benchmark": 1.5},
        "environment": {"driver": "none"},
        "document": json.loads(stdout),
    }


async def test_output_that_is_no_text_is_kept_byte_for_byte(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    await (await StubRunner.register(api)).run_one(b"\xff\xfe")
    shown: Any = (await api.get(f"/api/submissions/{uuid}/output")).json()
    assert shown["stdout"] == "\ufffd\ufffd"
    assert shown["stdout_base64"] == "//4="
    assert shown["document"] is None


async def test_a_check_is_accepted_without_a_commit(server: Served) -> None:
    snapshot = server.system.board.snapshot
    uuid = await server.api.submitted(ARCHIVE, fields={"mode": "check"})
    await (await StubRunner.register(server.api)).run_one()
    status = await server.api.done(uuid)
    assert (status["mode"], status["outcome"]) == ("check", "accepted")
    assert (status["commit_sha"], status["records"]) == (None, [])
    assert server.system.board.snapshot is snapshot
