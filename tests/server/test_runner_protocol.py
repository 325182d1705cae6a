from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_server.keys import HELD
from tests.packages import KERNEL_ID, package_tarball, valid_package
from tests.server.conftest import SEEDED
from tests.server.eventually import eventually
from tests.server.stub_runner import StubRunner, registration

if TYPE_CHECKING:
    from tests.server.api_client import Answer, ApiClient
    from tests.server.conftest import Serve, Served

ARCHIVE = package_tarball(valid_package())
UUID = "00000000-0000-4000-8000-000000000000"
LIMITS = {
    "stdout_bytes": 1024 * 1024,
    "log_head_bytes": 3 * 1024 * 1024,
    "log_tail_bytes": 1024 * 1024,
    "log_chunk_bytes": 256 * 1024,
    "result_body_bytes": 8 * 1024 * 1024,
}


@pytest.fixture
async def runner(api: ApiClient) -> StubRunner:
    """Return a registered runner."""
    return await StubRunner.register(api)


async def test_a_runner_learns_its_identity_and_its_bounds(api: ApiClient) -> None:
    answer = await api.post("/api/runner/register", json=registration("node-1"))
    assert answer.status == 200
    body = answer.json()
    assert len(body.pop("runner_token")) >= 32
    assert body.pop("runner_id").startswith("node-1.")
    assert body == {
        "heartbeat_s": 15,
        "lease_s": 90,
        "poll_s": 30,
        "limits": LIMITS,
        "protocol": {"min": 1, "max": 1},
    }


async def test_times_are_settings(serve: Serve) -> None:
    served = await serve(heartbeat_s=1.5, lease_s=7, wait_default_s=3, bench_timeout_s=11)
    runner = await StubRunner.register(served.api)
    assert runner.registered["heartbeat_s"] == 1.5
    assert runner.registered["lease_s"] == 7
    assert runner.registered["poll_s"] == 3
    await served.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    assert attempt.answer["timeouts"] == {"build_s": 600, "bench_s": 11}


async def test_the_same_runner_again_is_the_same_with_a_new_token(runner: StubRunner) -> None:
    again = await StubRunner.register(runner.api)
    assert again.runner_id == runner.runner_id
    refused = await runner.heartbeat()
    assert refused.status == 401
    assert (await again.heartbeat()).status == 200
    other = await StubRunner.register(runner.api, instance="elsewhere")
    assert other.runner_id != runner.runner_id


@pytest.mark.parametrize(
    ("protocol", "who"), [({"min": 2, "max": 3}, "server"), ({"min": 0, "max": 0}, "runner")]
)
async def test_protocols_that_do_not_meet_are_refused(
    api: ApiClient, protocol: dict[str, int], who: str
) -> None:
    answer = await api.post("/api/runner/register", json=registration(protocol=protocol))
    assert answer.status == 426
    assert answer.error == {
        "code": "PROTOCOL_MISMATCH",
        "message": f"the runner speaks protocol {protocol['min']} to {protocol['max']}, "
        "this server 1 to 1",
        "details": [],
        "retry": False,
        "hint": f"update the {who}",
    }


async def test_a_wider_protocol_and_unknown_members_are_fine(api: ApiClient) -> None:
    body = registration(protocol={"min": 0, "max": 9, "flavour": "x"}, color="red")
    assert (await api.post("/api/runner/register", json=body)).status == 200


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "the header Authorization: Bearer … is missing"),
        ({"Authorization": "Basic x"}, "the header Authorization: Bearer … is missing"),
        ({"Authorization": "Bearer nope"}, "no registered runner has this token"),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/runner/claim"),
        ("GET", "/api/runner/claim?runner_id=r&claim_id=c"),
        ("POST", "/api/runner/heartbeat"),
        ("GET", f"/api/runner/package/{UUID}?attempt=1"),
        ("PATCH", f"/api/runner/log/{UUID}?attempt=1"),
        ("POST", f"/api/runner/release/{UUID}"),
        ("POST", f"/api/submissions/{UUID}/result"),
    ],
)
async def test_a_caller_without_a_known_token_is_no_runner(
    api: ApiClient, method: str, path: str, headers: dict[str, str], message: str
) -> None:
    answer = await api.request(method, path, headers=headers)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (answer.error["code"], answer.error["message"]) == ("UNKNOWN_RUNNER", message)


async def test_a_claim_names_everything_that_the_run_needs(runner: StubRunner) -> None:
    uuid = await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    body = dict(attempt.answer)
    assert len(body.pop("attempt_token")) >= 16
    package = await attempt.package()
    assert body.pop("package_sha256") == hashlib.sha256(package.body).hexdigest()
    assert body == {
        "uuid": uuid,
        "attempt": 1,
        "kernel_id": KERNEL_ID,
        "mode": "ranked",
        "arch": "gfx928",
        "package_url": f"/api/runner/package/{uuid}?attempt=1",
        "timeouts": {"build_s": 600, "bench_s": 600},
        "limits": LIMITS,
        "cancel_grace_s": 10,
    }


async def test_the_same_claim_gives_the_same_attempt(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    first = await runner.ask(claim_id="c-1")
    again = await runner.ask(claim_id="c-1")
    assert first.json() == again.json()
    assert (await runner.ask(wait=0, claim_id="c-2")).status == 204


async def test_a_claim_by_query_is_the_same_claim(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    first = await runner.ask(claim_id="c-1")
    path = f"/api/runner/claim?runner_id={runner.runner_id}&claim_id=c-1&wait=0"
    again = await runner.api.get(path, headers=runner.headers)
    assert (again.status, again.json()) == (200, first.json())


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("", ["/query/runner_id", "/query/claim_id"]),
        ("runner_id=r&claim_id=a%20b", ["/query/claim_id"]),
        ("runner_id=r&claim_id=c&submission=x&wait=-1", ["/query/wait", "/query/submission"]),
    ],
)
async def test_a_claim_by_query_says_what_is_missing(
    runner: StubRunner, query: str, pointers: list[str]
) -> None:
    answer = await runner.api.get(f"/api/runner/claim?{query}", headers=runner.headers)
    assert answer.status == 400
    assert [item["pointer"] for item in answer.error["details"]] == pointers


async def test_with_nothing_to_do_a_claim_is_answered_empty(runner: StubRunner) -> None:
    answer = await runner.ask(wait=0.05)
    assert (answer.status, answer.body) == (204, b"")


async def test_a_claim_is_held_until_there_is_something(server: Served, runner: StubRunner) -> None:
    claiming = asyncio.create_task(runner.ask(wait=30))
    await eventually(lambda: len(server.app[HELD]) > 0)
    uuid = await server.api.submitted(ARCHIVE)
    assert (await claiming).json()["uuid"] == uuid


async def test_a_runner_takes_only_what_it_can_run(api: ApiClient) -> None:
    await api.submitted(ARCHIVE)
    needs = "gfx928/Norm/RMSNorm/fp32/needs"
    package = valid_package(needs, desc={"min_arch_feature": "mfma_f32_16x16"})
    await api.submitted(package_tarball(package), kernel_id=needs)
    other = await StubRunner.register(api, "other", arch="gfx936")
    assert (await other.ask(wait=0)).status == 204
    plain = await StubRunner.register(api, "plain", features=[])
    assert (await plain.claim()).answer["kernel_id"] == KERNEL_ID
    assert (await plain.ask(wait=0)).status == 204
    able = await StubRunner.register(api, "able")
    assert (await able.claim()).answer["kernel_id"] == needs


async def test_a_runner_may_ask_for_one_submission(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    wanted = await runner.api.submitted(package_tarball(valid_package(SEEDED)), kernel_id=SEEDED)
    assert (await runner.claim(only=wanted)).uuid == wanted
    missing = await runner.ask(only=UUID)
    assert missing.status == 404
    assert missing.error["code"] == "SUBMISSION_NOT_FOUND"


async def test_one_attempt_of_a_kernel_runs_at_a_time(runner: StubRunner) -> None:
    first = await runner.api.submitted(ARCHIVE)
    second = await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    assert attempt.uuid == first
    assert (await runner.ask(wait=0)).status == 204
    await attempt.report()
    assert (await runner.claim()).uuid == second


async def test_a_claim_of_another_runner_is_refused(runner: StubRunner) -> None:
    other = await StubRunner.register(runner.api, "other")
    answer = await runner.api.post(
        "/api/runner/claim",
        json={"runner_id": other.runner_id, "claim_id": "c"},
        headers=runner.headers,
    )
    assert answer.status == 403
    assert answer.error == {
        "code": "WRONG_RUNNER",
        "message": f"the token is that of {runner.runner_id}, the call names {other.runner_id}",
        "details": [],
        "retry": False,
        "hint": "use the runner_id and the token of one and the same registration",
    }


async def test_a_runner_that_hung_up_gets_nothing(server: Served, runner: StubRunner) -> None:
    claiming = asyncio.create_task(runner.ask(wait=30))
    await eventually(lambda: len(server.app[HELD]) > 0)
    claiming.cancel()
    await eventually(lambda: len(server.app[HELD]) == 0)
    await server.api.submitted(ARCHIVE)
    other = await StubRunner.register(server.api, "other")
    assert (await other.claim()).number == 1


async def test_a_submission_is_not_given_to_a_runner_that_has_just_hung_up(
    server: Served, runner: StubRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.app[HELD], "end_gone", lambda: None)  # nobody looked yet
    claiming = asyncio.create_task(runner.ask(wait=30))
    await eventually(lambda: len(server.app[HELD]) > 0)
    claiming.cancel()
    uuid = await server.api.submitted(ARCHIVE)
    await eventually(lambda: len(server.app[HELD]) == 0)
    status = (await server.api.get(f"/api/submissions/{uuid}/status?wait=0")).json()
    assert (status["phase"], status["attempt"]) == ("queued", None)


async def test_a_stopping_server_answers_the_claims_it_holds(
    server: Served, runner: StubRunner
) -> None:
    claiming = asyncio.create_task(runner.ask(wait=30))
    await eventually(lambda: len(server.app[HELD]) > 0)
    async with asyncio.timeout(5):
        await server.stop()
    assert (await claiming).status == 204


async def test_the_package_has_a_projection_of_the_scoreboard(runner: StubRunner) -> None:
    await runner.api.submitted(package_tarball(valid_package(SEEDED)), kernel_id=SEEDED)
    attempt = await runner.claim()
    package = await attempt.package()
    assert package.headers["Content-Type"] == "application/gzip"
    assert package.headers["ETag"] == f'"{attempt.answer["package_sha256"]}"'
    with tarfile.open(fileobj=io.BytesIO(package.body)) as tar:
        names = tar.getnames()
        board = tar.extractfile(f"{SEEDED}/.kernel_package/bench_result.yaml")
        assert board is not None
        assert b"0000000" not in board.read()
    assert f"{SEEDED}/src/kernel.py" in names


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=10-", slice(10, None)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=5-999999", slice(5, None)),
    ],
)
async def test_a_part_of_the_package_can_be_asked_for(
    runner: StubRunner, asked: str, part: slice
) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    whole = (await attempt.package()).body
    answer = await attempt.package(Range=asked)
    first = range(len(whole))[part][0]
    last = range(len(whole))[part][-1]
    assert answer.status == 206
    assert answer.body == whole[part]
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(whole)}"


async def test_a_part_that_does_not_exist_is_refused(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    size = len((await attempt.package()).body)
    answer = await attempt.package(Range="bytes=999999-")
    assert answer.status == 416
    assert answer.headers["Content-Range"] == f"bytes */{size}"
    assert answer.error["code"] == "RANGE_NOT_SATISFIABLE"
    assert answer.error["message"] == f"there is no bytes=999999- in {size} bytes"


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1,4-5"},
        {"Range": "lines=1-2"},
        {"Range": "bytes=-"},
        {"Range": "bytes=0-9", "If-Range": '"other"'},
    ],
)
async def test_a_range_of_another_form_is_answered_with_the_whole(
    runner: StubRunner, headers: dict[str, str]
) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    answer = await attempt.package(**headers)
    assert answer.status == 200
    assert hashlib.sha256(answer.body).hexdigest() == attempt.answer["package_sha256"]


async def test_a_package_that_the_runner_has_is_not_sent_again(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    etag = (await attempt.package()).headers["ETag"]
    answer = await attempt.package(**{"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")


async def test_a_heartbeat_moves_the_phase_and_says_what_to_do(runner: StubRunner) -> None:
    uuid = await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    answer = await runner.heartbeat(
        {"uuid": uuid, "attempt": 1, "phase": "benchmark"},
        {"uuid": UUID, "attempt": 1, "phase": "build"},
        gpus=[{"index": 0, "temperature_c": 61}],
    )
    assert answer.status == 200
    assert answer.json() == {
        "directives": [{"uuid": uuid, "attempt": 1, "do": "continue"}],
        "unknown": [{"uuid": UUID, "attempt": 1}],
        "action": "none",
    }
    [shown] = (await runner.api.get("/api/runners")).json()["items"]
    assert shown.pop("last_seen_at").endswith("Z")
    assert shown == {
        "runner_id": runner.runner_id,
        "name": "stub",
        "arch": "gfx928",
        "product": "K100",
        "features": ["mfma_f32_16x16"],
        "gpus": [{"index": 0, "temperature_c": 61}],
        "backend": "stub",
        "isolation": "none",
        "version": "0.1.0",
        "state": "busy",
        "up": True,
        "attempts": [{"uuid": uuid, "attempt": 1, "phase": "benchmark", "kernel_id": KERNEL_ID}],
    }
    await attempt.report()
    await runner.api.done(uuid)
    [shown] = (await runner.api.get("/api/runners")).json()["items"]
    assert shown["attempts"] == []


async def test_a_heartbeat_names_its_own_runner(runner: StubRunner) -> None:
    answer = await runner.heartbeat(runner_id="other")
    assert answer.status == 403
    assert answer.error["code"] == "WRONG_RUNNER"


async def test_an_attempt_of_another_is_to_be_aborted(runner: StubRunner) -> None:
    uuid = await runner.api.submitted(ARCHIVE)
    await runner.claim()
    other = await StubRunner.register(runner.api, "other")
    answer = await other.heartbeat({"uuid": uuid, "attempt": 1, "phase": "build"})
    assert answer.json()["directives"] == [{"uuid": uuid, "attempt": 1, "do": "abort"}]


async def test_an_attempt_that_has_not_begun_is_handed_back(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    released = await attempt.release()
    assert (released.status, released.json()) == (200, {"uuid": attempt.uuid, "status": "queued"})
    again = await runner.claim()
    assert (again.uuid, again.number) == (attempt.uuid, 2)
    await again.heartbeat("build")
    begun = await again.release()
    assert begun.status == 409
    assert begun.error["code"] == "ATTEMPT_BEGUN"
    assert begun.error["hint"] == "report its result, or a failure of the runner"


async def calls_on(attempt: Any) -> list[Answer]:
    """Make every call on an attempt."""
    return [
        await attempt.package(),
        await attempt.log(b"x"),
        await attempt.close_log(b""),
        await attempt.release(),
        await attempt.report(),
    ]


async def test_every_call_on_an_attempt_needs_the_attempts_own_token(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    attempt.answer["attempt_token"] = "x" * 43
    for answer in await calls_on(attempt):
        assert answer.status == 403
        assert answer.error["code"] == "BAD_ATTEMPT_TOKEN"
        assert answer.error["hint"] == "send the attempt_token that the claim's answer gave"
    attempt.answer["attempt_token"] = ""
    for answer in await calls_on(attempt):
        assert answer.status == 400
        assert answer.error["code"] == "BAD_HEADER"
        assert answer.error["message"] == "the header X-Attempt-Token is missing"


async def test_calls_on_an_attempt_that_is_not_the_newest_are_stale(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    old = await runner.claim()
    await old.release()
    await runner.claim()
    for answer in await calls_on(old):
        if answer.status != 200:
            assert answer.status == 409
            assert answer.error["code"] == "STALE_ATTEMPT"
            assert answer.error["hint"] == "stop working on it and claim again"


async def test_an_attempt_that_never_was_is_not_found(runner: StubRunner) -> None:
    await runner.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    attempt.answer["attempt"] = 7
    answer = await attempt.log(b"x")
    assert answer.status == 404
    assert answer.error["code"] == "UNKNOWN_ATTEMPT"


async def test_attempts_outlive_a_restart_of_the_server(serve: Serve) -> None:
    first = await serve()
    await first.api.submitted(ARCHIVE)
    runner = await StubRunner.register(first.api)
    attempt = await runner.claim(claim_id="c-1")
    await first.stop()
    second = await serve()
    unknown = await second.api.post("/api/runner/heartbeat", json={}, headers=runner.headers)
    assert (unknown.status, unknown.error["code"]) == (401, "UNKNOWN_RUNNER")
    again = await StubRunner.register(second.api)
    assert again.runner_id == runner.runner_id
    reclaimed = await again.claim(claim_id="c-1")
    assert reclaimed.answer["attempt_token"] == attempt.answer["attempt_token"]
    assert (await reclaimed.report()).status == 202
    assert (await second.api.done(attempt.uuid))["outcome"] == "accepted"


async def test_a_lease_that_runs_out_gives_the_submission_to_another(serve: Serve) -> None:
    served = await serve(lease_s=0.3, confirm_s=0.3, sweep_s=0.05)
    uuid = await served.api.submitted(ARCHIVE)
    silent = await StubRunner.register(served.api, "silent")
    attempt = await silent.claim()
    await attempt.heartbeat("build")
    other = await StubRunner.register(served.api, "other")
    again = await other.claim(wait=20)
    assert (again.uuid, again.number) == (uuid, 2)
    record = (await served.api.get(f"/api/submissions/{uuid}")).json()
    assert [item["end"] for item in record["attempts"]] == ["lost", None]
    assert record["charged"] == 1
