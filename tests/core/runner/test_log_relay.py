from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from kzoo_core.ids import ClaimId
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backoff import Backoff
from kzoo_core.runner.log_buffer import LogBuffer
from kzoo_core.runner.log_relay import RESENDS, LogRelay
from kzoo_core.runner.records import RunnerLimits
from tests.core.runner.scripted_server import LOST, Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kzoo_core.runner.events import Refusal
    from kzoo_core.runner.protocol import RunnerApi
    from kzoo_core.runner.records import AttemptKey
    from tests.core.runner.scripted_server import ScriptedServer


class Relayed:
    """A relay that runs, its buffer and what it complained of."""

    def __init__(self, relay: LogRelay, buffer: LogBuffer, key: AttemptKey) -> None:
        self.relay = relay
        self.buffer = buffer
        self.key = key
        self.refusals: list[Refusal] = []


@asynccontextmanager
async def relaying(
    api: RunnerApi,
    server: ScriptedServer,
    *,
    head_bytes: int = 1_000_000,
    chunk_bytes: int = 1000,
    flush_s: float = 0.01,
) -> AsyncIterator[Relayed]:
    server.plan()
    claimed = await api.claim(ClaimId("c1"), 0.0)
    assert claimed is not None
    claimed = replace(claimed, limits=RunnerLimits(log_chunk_bytes=chunk_bytes))
    buffer = LogBuffer(head_bytes=head_bytes, tail_bytes=100)
    refusals: list[Refusal] = []
    relay = LogRelay(
        buffer,
        api=api,
        claimed=claimed,
        pace=Backoff(least_s=0.01, most_s=0.05, random=Random(1)),
        flush_s=flush_s,
        on_refused=refusals.append,
    )
    relayed = Relayed(relay, buffer, claimed.key)
    relayed.refusals = refusals
    async with asyncio.TaskGroup() as group:
        task = group.create_task(relay.run())
        yield relayed
        task.cancel()


async def test_a_log_arrives_while_it_is_written_and_is_closed_with_its_digest(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        relayed.buffer.begin(Phase.BUILD)
        relayed.relay.write(b"one\n")
        await server.until(lambda: server.logs[relayed.key] == b"one\n")
        relayed.buffer.begin(Phase.BENCHMARK)
        relayed.relay.write(b"two\n")
        await server.until(lambda: server.logs[relayed.key] == b"one\ntwo\n")

        assert relayed.relay.begun
        assert await relayed.relay.finish(5.0)

    assert server.closed == {relayed.key: hashlib.sha256(b"one\ntwo\n").hexdigest()}
    assert server.marks == [(0, "build"), (4, "benchmark")]
    assert relayed.refusals == []


async def test_bytes_that_come_close_together_are_sent_together(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server, flush_s=0.1) as relayed:
        for _ in range(50):
            relayed.relay.write(b"line\n")
        await server.until(lambda: server.logs[relayed.key] == b"line\n" * 50)

    assert len(server.calls("log")) == 1


async def test_no_chunk_is_larger_than_the_server_allows(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server, chunk_bytes=1000) as relayed:
        relayed.relay.write(b"x" * 4500)
        assert await relayed.relay.finish(5.0)

    sizes = [len(seen.body) for seen in server.calls("log")]
    assert sizes == [1000, 1000, 1000, 1000, 500, 0]


async def test_a_log_without_a_byte_is_closed_as_an_empty_one(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        assert await relayed.relay.finish(5.0)

    (closing,) = server.calls("log")
    assert closing.headers["Content-Range"] == "bytes */0"
    assert not relayed.relay.begun


async def test_what_was_lost_on_the_way_is_sent_again_and_counted_once(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", LOST, 503, Failure(429, {"Retry-After": "0"}), LOST)
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"abc" * 1000)
        assert await relayed.relay.finish(5.0)

    assert server.logs[relayed.key] == b"abc" * 1000
    assert relayed.key in server.closed


async def test_a_server_that_forgot_bytes_gets_them_again_from_where_it_is(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"first ")
        await server.until(lambda: server.logs[relayed.key] == b"first ")
        del server.logs[relayed.key][2:]
        relayed.relay.write(b"second")
        assert await relayed.relay.finish(5.0)

    assert server.logs[relayed.key] == b"first second"
    ranges = [seen.headers["Content-Range"] for seen in server.calls("log")]
    assert ranges == ["bytes 0-5/*", "bytes 6-11/*", "bytes 2-11/*", "bytes */12"]


async def test_a_server_that_holds_other_bytes_gets_all_of_them_again(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"right")
        await server.until(lambda: server.logs[relayed.key] == b"right")
        server.logs[relayed.key][:] = b"wrong"
        assert await relayed.relay.finish(5.0)

    assert server.logs[relayed.key] == b"right"
    assert server.closed == {relayed.key: hashlib.sha256(b"right").hexdigest()}


async def test_a_digest_that_is_disputed_for_ever_is_left(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")
        await server.until(lambda: server.logs[relayed.key] == b"x")
        server.fail("log", *[status for _ in range(RESENDS + 1) for status in (412, 202)])

        assert not await relayed.relay.finish(5.0)

    assert [refusal.status for refusal in relayed.refusals] == [412]
    closings = [seen for seen in server.calls("log") if not seen.body]
    assert len(closings) == RESENDS + 1


async def test_a_log_that_is_too_large_for_the_server_is_cut_there_and_says_so(
    api: RunnerApi, server: ScriptedServer
) -> None:
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"kept")
        await server.until(lambda: server.logs[relayed.key] == b"kept")
        server.fail("log", 413)
        relayed.relay.write(b"too much")
        await server.until(lambda: len(server.logs[relayed.key]) > 4)
        relayed.relay.write(b"and more")
        assert await relayed.relay.finish(5.0)

    expected = b"kept\n[kernel_zoo: cut by the server, 8 bytes left out]\n"
    assert server.logs[relayed.key] == expected
    assert server.closed == {relayed.key: hashlib.sha256(expected).hexdigest()}


async def test_a_log_that_is_too_large_even_when_cut_is_left(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", 413, 413)
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")
        assert not await relayed.relay.finish(5.0)

    assert [refusal.status for refusal in relayed.refusals] == [413]


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 426])
async def test_a_refusal_for_good_ends_the_relay_and_is_told(
    api: RunnerApi, server: ScriptedServer, status: int
) -> None:
    server.fail("log", status)
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")
        await server.until(lambda: bool(server.calls("log")))
        assert not await relayed.relay.finish(5.0)
        relayed.relay.write(b"y")

    assert [(refusal.status, refusal.key) for refusal in relayed.refusals] == [
        (status, relayed.key)
    ]
    assert len(server.calls("log")) == 1


async def test_a_log_that_is_closed_already_is_no_word_on_its_attempt(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", Failure(409, code="LOG_CLOSED"))
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")
        assert not await relayed.relay.finish(5.0)

    assert relayed.refusals == []
    assert len(server.calls("log")) == 1


async def test_a_401_is_told_and_the_log_goes_on_with_the_new_identity(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", 401)
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")
        assert await relayed.relay.finish(5.0)

    assert [refusal.status for refusal in relayed.refusals] == [401]
    assert server.logs[relayed.key] == b"x"


async def test_the_end_of_a_log_holds_nothing_up_for_longer_than_it_may(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", *[503] * 1000)
    async with relaying(api, server) as relayed:
        relayed.relay.write(b"x")

        assert not await relayed.relay.finish(0.2)

    assert not relayed.relay.begun


async def test_a_server_that_keeps_nothing_of_what_it_takes_is_not_flooded(
    api: RunnerApi, server: ScriptedServer
) -> None:
    server.fail("log", *[Failure(202, {"Range": "bytes=0-0"})] * 100)
    async with relaying(api, server) as relayed:
        relayed.relay._pace = Backoff(least_s=5.0, most_s=5.0, random=Random(1))
        relayed.relay.write(b"xy")

        assert not await relayed.relay.finish(0.3)

    assert [seen.body for seen in server.calls("log")] == [b"xy", b"y"]
