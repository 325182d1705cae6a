from __future__ import annotations

import asyncio
import threading
import time
from random import Random
from typing import TYPE_CHECKING

from kzoo_core.client.transport import Transport
from kzoo_core.ids import SubmissionId
from kzoo_core.queue.records import Phase
from kzoo_core.runner.heartbeat import Heartbeat
from kzoo_core.runner.protocol import Identity, RunnerApi
from kzoo_core.runner.records import Advice, AttemptKey, Beat
from tests.core.runner.conftest import REGISTRATION
from tests.core.runner.polling import until
from tests.core.runner.scripted_server import LOST, Failure, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.runner.events import Refusal
    from kzoo_core.runner.records import BeatAnswer

KEY = AttemptKey(SubmissionId("11111111-2222-3333-4444-555555555555"), 1)
IDLE = Beat("idle", ())


class Listener:
    """A heartbeat and what it told, in its own thread."""

    def __init__(self, identity: Identity, new_transport: Callable[[], Transport]) -> None:
        self.answers: list[BeatAnswer] = []
        self.refusals: list[Refusal] = []
        self.crashes: list[BaseException] = []
        self.threads: set[str] = set()
        self.heartbeat = Heartbeat(
            identity=identity,
            new_transport=new_transport,
            first=IDLE,
            on_answer=self._heard,
            on_refused=self.refusals.append,
            on_crash=self.crashes.append,
        )

    def _heard(self, answer: BeatAnswer) -> None:
        self.answers.append(answer)
        self.threads.add(threading.current_thread().name)


async def registered(server: ScriptedServer) -> Identity:
    identity = Identity()
    async with Transport(server.url, random=Random(1)) as transport:
        identity.adopt(await RunnerApi(transport, identity).register(REGISTRATION))
    return identity


def listener(identity: Identity, url: str) -> Listener:
    return Listener(identity, lambda: Transport(url, random=Random(2)))


class ServerInThread:
    """A scripted server with a loop of its own, so that a test may block the loop it is in."""

    def __init__(self) -> None:
        self.server: ScriptedServer
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    async def _serve(self) -> None:
        async with ScriptedServer(heartbeat_s=0.1) as self.server:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self.server

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


async def test_heartbeats_arrive_while_the_main_loop_is_blocked() -> None:
    with ServerInThread() as server:
        mine = listener(await registered(server), server.url)
        mine.heartbeat.start()
        try:
            await until(lambda: len(mine.answers) >= 1)
            before = len(server.calls("heartbeat"))
            time.sleep(0.8)  # noqa: ASYNC251 - eight intervals in which this loop does nothing
            arrived = len(server.calls("heartbeat")) - before
        finally:
            mine.heartbeat.stop()

    assert arrived >= 2
    assert mine.threads == {"heartbeat"}


async def test_news_is_said_at_once_and_the_same_again_is_no_news(server: ScriptedServer) -> None:
    server.heartbeat_s = 600.0
    mine = listener(await registered(server), server.url)
    mine.heartbeat.start()
    try:
        await server.until(lambda: len(server.calls("heartbeat")) == 1)
        await until(lambda: len(mine.answers) == 1)
        mine.heartbeat.say(IDLE)
        mine.heartbeat.say(Beat("busy", ((KEY, Phase.BUILD),)))
        await server.until(lambda: len(server.calls("heartbeat")) == 2)
    finally:
        await asyncio.to_thread(mine.heartbeat.stop)

    first, second = (seen.json for seen in server.calls("heartbeat"))
    assert (first["state"], first["attempts"]) == ("idle", [])
    assert (second["state"], second["attempts"]) == (
        "busy",
        [{"uuid": KEY.uuid, "attempt": 1, "phase": "build"}],
    )


async def test_answers_and_refusals_are_handed_on_and_neither_ends_the_heartbeat(
    server: ScriptedServer,
) -> None:
    server.heartbeat_s = 0.01
    server.action = "drain"
    server.fail("heartbeat", 401, LOST, 503)
    mine = listener(await registered(server), server.url)
    mine.heartbeat.start()
    try:
        await until(lambda: len(mine.answers) >= 1)
    finally:
        await asyncio.to_thread(mine.heartbeat.stop)

    assert [refusal.status for refusal in mine.refusals] == [401, None, 503]
    assert mine.refusals[0].identity == 1
    assert mine.answers[0].advice is Advice.DRAIN


async def test_a_new_identity_is_taken_up_by_the_next_heartbeat(server: ScriptedServer) -> None:
    server.heartbeat_s = 0.02
    identity = await registered(server)
    mine = listener(identity, server.url)
    mine.heartbeat.start()
    try:
        await until(lambda: len(mine.answers) >= 1)
        server.registrations += 1
        await until(lambda: bool(mine.refusals))
        answered = len(mine.answers)
        async with Transport(server.url, random=Random(1)) as transport:
            identity.adopt(await RunnerApi(transport, identity).register(REGISTRATION))
        await until(lambda: len(mine.answers) > answered)
    finally:
        await asyncio.to_thread(mine.heartbeat.stop)

    assert {refusal.status for refusal in mine.refusals} == {401}


async def test_stopping_does_not_wait_for_a_call_or_an_interval(server: ScriptedServer) -> None:
    server.heartbeat_s = 600.0
    mine = listener(await registered(server), server.url)
    mine.heartbeat.start()
    await until(lambda: len(mine.answers) >= 1)

    began = time.monotonic()
    await asyncio.to_thread(mine.heartbeat.stop)

    assert time.monotonic() - began < 3
    mine.heartbeat.say(Beat("busy", ()))  # nobody listens any more, and nothing breaks


async def test_a_heartbeat_that_never_began_can_be_stopped(server: ScriptedServer) -> None:
    mine = listener(await registered(server), server.url)

    mine.heartbeat.say(Beat("busy", ()))
    mine.heartbeat.stop()

    assert server.calls("heartbeat") == []


async def test_a_crash_of_the_thread_is_told(server: ScriptedServer) -> None:
    def broken() -> Transport:
        raise RuntimeError("no transport today")

    mine = Listener(await registered(server), broken)
    mine.heartbeat.start()
    try:
        await until(lambda: bool(mine.crashes))
    finally:
        mine.heartbeat.stop()

    assert str(mine.crashes[0]) == "no transport today"


async def test_a_server_that_asks_for_silence_gets_it(server: ScriptedServer) -> None:
    server.heartbeat_s = 0.01
    server.fail("heartbeat", Failure(503, {"Retry-After": "0.3"}))
    mine = listener(await registered(server), server.url)
    began = time.monotonic()
    mine.heartbeat.start()
    try:
        await until(lambda: len(mine.answers) >= 1)
    finally:
        await asyncio.to_thread(mine.heartbeat.stop)

    assert time.monotonic() - began >= 0.3
