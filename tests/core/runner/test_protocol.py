from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kzoo_core.client.transport import Transport
from kzoo_core.ids import ClaimId, Sha256
from kzoo_core.queue.exchange import Order
from kzoo_core.queue.records import Phase
from kzoo_core.runner.events import Call, Refusal
from kzoo_core.runner.protocol import CallRefused, Identity, RunnerApi, common_version
from kzoo_core.runner.records import Advice, Beat, BeatAnswer, Delivery
from tests.core.runner.conftest import REGISTRATION
from tests.core.runner.scripted_server import LOST, Failure

if TYPE_CHECKING:
    from kzoo_core.runner.records import ClaimedAttempt
    from tests.core.runner.scripted_server import ScriptedServer


async def claim(api: RunnerApi, server: ScriptedServer) -> ClaimedAttempt:
    server.plan()
    claimed = await api.claim(ClaimId("c1"), 0.0)
    assert claimed is not None
    return claimed


async def test_a_registration_says_who_the_runner_is_and_which_versions_it_speaks(
    api: RunnerApi, server: ScriptedServer
) -> None:
    (seen,) = server.calls("register")

    assert seen.json == {
        "name": "node1",
        "arch": "gfx928",
        "product": "K100_AI",
        "features": ["mfma"],
        "gpus": [],
        "backend": "local",
        "isolation": "none",
        "version": "0.1.0",
        "protocol": {"min": 1, "max": 1},
        "boot_id": "boot",
        "instance": "abc",
    }
    assert "Authorization" not in seen.headers


async def test_a_claim_without_an_answer_gives_nothing(
    api: RunnerApi, server: ScriptedServer
) -> None:
    assert await api.claim(ClaimId("c1"), 0.0) is None
    assert server.calls("claim")[0].json == {"runner_id": "node1-abc", "claim_id": "c1"}


async def test_the_same_claim_id_gives_the_same_attempt_after_a_lost_answer(
    api: RunnerApi, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.plan()
    server.fail("claim", LOST)

    with pytest.raises(CallRefused) as caught:
        await api.claim(ClaimId("c1"), 0.0)
    again = await api.claim(ClaimId("c1"), 0.0)

    assert caught.value.refusal.status is None
    assert caught.value.refusal.call is Call.CLAIM
    assert again is not None
    assert again.key == planned.key


async def test_calls_of_an_attempt_carry_both_tokens(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)

    assert await api.package(claimed) == server.claims["c1"].package
    await api.release(claimed.key, claimed.token, "because")

    for call in ("package", "release"):
        (seen,) = server.calls(call)
        assert seen.headers["Authorization"] == "Bearer runner-token-1"
        assert seen.headers["X-Attempt-Token"] == claimed.token
    assert server.calls("release")[0].json == {
        "attempt": 1,
        "runner_id": "node1-abc",
        "why": "because",
    }


async def test_a_heartbeat_names_each_attempt_with_its_phase(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    item = {"uuid": claimed.key.uuid, "attempt": 1}
    server.directives = [{**item, "do": "cancel"}]
    server.unknown = [item]
    server.action = "drain"

    answer = await api.heartbeat(Beat("busy", ((claimed.key, Phase.BUILD),)), timeout_s=5.0)

    assert server.calls("heartbeat")[0].json == {
        "runner_id": "node1-abc",
        "state": "busy",
        "attempts": [{**item, "phase": "build"}],
        "gpus": [],
    }
    assert answer == BeatAnswer(((claimed.key, Order.CANCEL),), (claimed.key,), Advice.DRAIN)


async def test_a_log_is_sent_by_ranges_with_its_phase_marks_and_closed_with_its_digest(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)

    assert await api.append_log(claimed, 0, b"abc", Phase.BUILD) == 3
    assert await api.append_log(claimed, 3, b"de", None) == 5
    digest = Sha256("36bbe50ed96841d10443bcb670d6554f0a34b761be67ec9c4a8ad2c0c44ca42c")
    await api.close_log(claimed, 5, digest)

    first, second, closing = server.calls("log")
    assert (first.headers["Content-Range"], first.headers["X-Phase"]) == ("bytes 0-2/*", "build")
    assert second.headers["Content-Range"] == "bytes 3-4/*"
    assert "X-Phase" not in second.headers
    assert (closing.headers["Content-Range"], closing.body) == ("bytes */5", b"")
    assert closing.headers["X-Log-Sha256"] == digest
    assert server.closed == {claimed.key: digest}


async def test_a_gap_in_a_log_says_how_much_the_server_holds(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    await api.append_log(claimed, 0, b"abc", None)

    with pytest.raises(CallRefused) as some:
        await api.append_log(claimed, 10, b"x", None)
    server.logs.clear()
    with pytest.raises(CallRefused) as nothing:
        await api.append_log(claimed, 10, b"x", None)

    assert (some.value.held, nothing.value.held) == (3, 0)
    assert some.value.refusal == Refusal(
        call=Call.LOG,
        status=416,
        message="the server lacks earlier bytes of the log",
        code="LOG_GAP",
        key=claimed.key,
        identity=1,
    )


async def test_a_server_that_does_not_say_what_it_holds_has_what_was_sent(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    server.fail("log", 202)

    assert await api.append_log(claimed, 0, b"abc", None) == 3


async def test_a_result_is_posted_as_the_bytes_it_is(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    body = b'{ "attempt": 1,  "odd": "spaces" }'

    delivery = await api.report(claimed.key, claimed.token, body)

    (seen,) = server.calls("result")
    assert (seen.body, seen.headers["Content-Type"]) == (body, "application/json")
    assert delivery == Delivery(True, None, None)


async def test_a_result_is_delivered_whatever_the_answer_s_body_is(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    app = web.Application()

    async def plain(_: web.Request) -> web.Response:
        return web.Response(text="fine", status=202)

    app.router.add_post("/{tail:.*}", plain)
    other = TestServer(app)
    await other.start_server()
    async with other, Transport(str(other.make_url("")), random=Random(1)) as transport:
        api._transport = transport
        delivery = await api.report(claimed.key, claimed.token, b"{}")

    assert delivery == Delivery(None, None, None)


async def test_a_refusal_carries_status_reason_retry_after_and_identity(
    api: RunnerApi, server: ScriptedServer
) -> None:
    claimed = await claim(api, server)
    server.fail("package", Failure(503, {"Retry-After": "7"}, code="STARTING"))

    with pytest.raises(CallRefused) as caught:
        await api.package(claimed)

    assert caught.value.refusal == Refusal(
        call=Call.PACKAGE,
        status=503,
        message="STARTING: scripted 503",
        code="STARTING",
        key=claimed.key,
        retry_after_s=7.0,
        identity=1,
    )


async def test_no_call_is_tried_twice_by_itself(api: RunnerApi, server: ScriptedServer) -> None:
    claimed = await claim(api, server)
    server.fail("package", 503, 503)

    with pytest.raises(CallRefused):
        await api.package(claimed)

    assert len(server.calls("package")) == 1


@pytest.mark.parametrize("body", ["<html>", "{}", "[]"])
async def test_an_answer_that_is_not_the_protocol_s_is_told_from_no_answer(body: str) -> None:
    app = web.Application()

    async def stranger(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="text/html")

    app.router.add_post("/{tail:.*}", stranger)
    other = TestServer(app)
    await other.start_server()
    async with other, Transport(str(other.make_url("")), random=Random(1)) as transport:
        with pytest.raises(CallRefused) as caught:
            await RunnerApi(transport, Identity()).register(REGISTRATION)

    assert (caught.value.refusal.call, caught.value.refusal.status) == (Call.REGISTER, 200)
    assert caught.value.refusal.message.startswith("UNEXPECTED_ANSWER: ")


async def test_a_claim_that_cannot_be_read_is_refused(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("claim", Failure(200))

    with pytest.raises(CallRefused) as caught:
        await api.claim(ClaimId("c1"), 0.0)

    assert caught.value.refusal.status == 200
    assert "uuid is None, expected a text" in caught.value.refusal.message


async def test_a_runner_that_never_registered_makes_no_calls(server: ScriptedServer) -> None:
    async with Transport(server.url, random=Random(1)) as transport:
        with pytest.raises(RuntimeError, match="after it registered"):
            await RunnerApi(transport, Identity()).claim(ClaimId("c1"), 0.0)

    assert json.dumps([seen.call for seen in server.seen]) == "[]"


@pytest.mark.parametrize(
    ("theirs", "common"),
    [(None, 1), ((1, 1), 1), ((1, 9), 1), ((2, 3), None), ((0, 0), None)],
)
def test_ranges_of_versions_have_to_overlap_and_no_more(
    theirs: tuple[int, int] | None, common: int | None
) -> None:
    assert common_version(theirs) == common
