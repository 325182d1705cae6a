from __future__ import annotations

import asyncio
import base64
import errno
import io
import itertools
import logging
import sys
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.client.transport import Transport
from kzoo_core.clock import SystemClock
from kzoo_core.errors import Conflict
from kzoo_core.ids import ClaimId
from kzoo_core.runner.backends.environment import DEFAULT_ALLOWED
from kzoo_core.runner.backends.local import LocalBackend
from kzoo_core.runner.backends.processes import marked_processes
from kzoo_core.runner.daemon import RunnerDaemon
from kzoo_core.runner.logfmt import LogfmtFormatter
from kzoo_core.runner.settings import RunnerSettings
from tests.core.runner.conftest import REGISTRATION
from tests.core.runner.packages import printed_by_benchmark
from tests.core.runner.polling import until
from tests.core.runner.scripted_server import LOST, Failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.core.runner.scripted_server import Planned, ScriptedServer

HANGS = "import sys, time\nprint('hanging', file=sys.stderr, flush=True)\ntime.sleep(600)"


class Bench:
    """Daemons on one state directory, one after another, and what they wrote."""

    def __init__(self, server: ScriptedServer, state: Path) -> None:
        self.server = server
        self.state = state
        self.instance = f"test{uuid.uuid4().hex}"
        self.lines = io.StringIO()
        self.claim_ids = itertools.count(1)
        self.log = logging.getLogger(f"test-daemon-{self.instance}")
        handler = logging.StreamHandler(self.lines)
        handler.setFormatter(LogfmtFormatter())
        self.log.handlers[:] = [handler]
        self.log.setLevel(logging.INFO)
        self.log.propagate = False

    def daemon(self, **settings: Any) -> RunnerDaemon:
        quick: dict[str, Any] = {
            "arch": "gfx928",
            "retry_least_s": 0.02,
            "retry_most_s": 0.1,
            "log_flush_s": 0.01,
            "log_close_s": 5.0,
            "kill_grace_s": 0.2,
            "register_patience_s": 20.0,
            "drain_patience_s": 20.0,
        }
        return RunnerDaemon(
            RunnerSettings(server=self.server.url, **{**quick, **settings}),
            state=self.state,
            registration=REGISTRATION,
            backend=LocalBackend(
                python=Path(sys.executable),
                instance=self.instance,
                environment={"PATH": "/usr/bin:/bin"},
                allow=DEFAULT_ALLOWED,
                clock=SystemClock(),
                log=self.log,
            ),
            new_transport=lambda: Transport(self.server.url, random=Random(1)),
            clock=SystemClock(),
            random=Random(1),
            new_claim_id=lambda: ClaimId(f"claim-{next(self.claim_ids)}"),
            log=self.log,
        )

    @property
    def results(self) -> list[Path]:
        directory = self.state / "results"
        return sorted(directory.iterdir()) if directory.is_dir() else []

    @property
    def work(self) -> list[Path]:
        directory = self.state / "work"
        return sorted(directory.iterdir()) if directory.is_dir() else []

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[RunnerDaemon]:
        """Run a daemon beside the block, and see that it ends when it has been told to."""
        daemon = self.daemon(**settings)
        task = asyncio.create_task(daemon.run())
        try:
            yield daemon
            async with asyncio.timeout(20):
                self.code = await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def bench(server: ScriptedServer, tmp_path: Path) -> Bench:
    return Bench(server, tmp_path / "state")


async def phase_of(server: ScriptedServer, planned: Planned, phase: str) -> None:
    """Wait until a heartbeat says that the attempt is in ``phase``."""

    def said() -> bool:
        return any(
            {"uuid": planned.key.uuid, "attempt": 1, "phase": phase} in beat.json["attempts"]
            for beat in server.calls("heartbeat")
        )

    await server.until(said)


async def test_an_attempt_is_claimed_run_logged_and_reported(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()

    assert await bench.daemon(once=True).run() == 0

    assert server.stdout_of(planned) == printed_by_benchmark(server.runner_id)
    result = server.results[planned.key]
    assert (result["attempt"], result["runner_id"], result["build_ok"]) == (
        1,
        server.runner_id,
        True,
    )
    assert result["exit_codes"] == {"build": 0, "benchmark": 0}
    assert (result["failure"], "logs_base64" in result) == (None, False)
    assert result["environment"]["isolation"] == "none"
    assert server.logs[planned.key] == b"building\nmeasuring\n"
    assert planned.key in server.closed
    assert server.marks == [(0, "build"), (9, "benchmark")]
    assert (bench.results, bench.work) == ([], [])
    assert marked_processes(f"{bench.instance}/") == []


async def test_the_claim_is_confirmed_and_each_phase_is_said_by_heartbeats(
    bench: Bench, server: ScriptedServer
) -> None:
    server.heartbeat_s = 600.0  # so that only news is said
    planned = server.plan()

    await bench.daemon(once=True).run()

    phases = [
        attempt["phase"]
        for beat in server.calls("heartbeat")
        for attempt in beat.json["attempts"]
        if attempt["uuid"] == planned.key.uuid
    ]
    # Two pieces of news may go out in one heartbeat, never in another order.
    order = ["claimed", "build", "benchmark", "reported"]
    assert phases == [phase for phase in order if phase in phases]
    assert phases


async def test_every_line_about_an_attempt_names_it_and_none_names_a_token(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("result", 503)

    await bench.daemon(once=True).run()

    text = bench.lines.getvalue()
    for word in ("claimed", "phase", "ended", "refused", "delivered"):
        lines = [line for line in text.splitlines() if f"event={word}" in line]
        assert lines, word
        assert all(f"attempt={planned.key}" in line for line in lines)
    assert "runner-token" not in text
    assert "attempt-token" not in text


async def test_a_runner_for_one_attempt_leaves_when_there_is_none(
    bench: Bench, server: ScriptedServer
) -> None:
    assert await bench.daemon(once=True).run() == 0
    assert len(server.calls("claim")) == 1


async def test_a_claim_whose_answer_was_lost_is_asked_again_with_its_id(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.plan()
    server.fail("claim", LOST)

    assert await bench.daemon(once=True).run() == 0

    assert [seen.json["claim_id"] for seen in server.calls("claim")] == ["claim-1", "claim-1"]
    assert list(server.results) == [planned.key]


async def test_a_result_whose_answer_was_lost_is_sent_again_byte_for_byte(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("result", LOST, 500, Failure(503, {"Retry-After": "0"}))

    assert await bench.daemon(once=True).run() == 0

    bodies = [seen.body for seen in server.calls("result")]
    assert len(bodies) == 4
    assert len(set(bodies)) == 1
    assert list(server.results) == [planned.key]
    assert bench.results == []


@pytest.mark.parametrize("status", [409, 422])
async def test_a_result_that_is_recorded_or_not_wanted_leaves_the_disk(
    bench: Bench, server: ScriptedServer, status: int
) -> None:
    server.plan()
    server.fail("result", status)

    assert await bench.daemon(once=True).run() == 0
    assert (len(server.calls("result")), bench.results) == (1, [])


async def test_a_result_that_is_too_large_is_sent_with_less(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("result", 413, 413)

    assert await bench.daemon(once=True).run() == 0

    result = server.results[planned.key]
    assert (result["stdout_base64"], result["failure"]["kind"]) == (None, "output_limit")


async def test_attempts_follow_each_other_until_the_runner_is_asked_to_stop(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = [server.plan(), server.plan()]

    async with bench.running() as daemon:
        await server.until(lambda: len(server.results) == 2)
        await server.holding.wait()
        daemon.request_stop()

    assert bench.code == 0
    assert list(server.results) == [item.key for item in planned]


async def test_a_runner_that_is_asked_to_stop_finishes_what_runs_and_claims_nothing_more(
    bench: Bench, server: ScriptedServer, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    planned = server.plan(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.005)\nprint('ok')"
    )
    server.plan()

    async with bench.running() as daemon:
        await phase_of(server, planned, "benchmark")
        daemon.request_stop()
        await server.until(
            lambda: any(beat.json["state"] == "draining" for beat in server.calls("heartbeat"))
        )
        go.touch()

    assert bench.code == 0
    assert server.stdout_of(planned) == b"ok\n"
    assert len(server.calls("claim")) == 1


async def test_asked_twice_the_runner_kills_what_runs_and_says_that_it_was_the_runner(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan(HANGS)

    async with bench.running() as daemon:
        await phase_of(server, planned, "benchmark")
        daemon.request_stop()
        daemon.request_stop()

    assert bench.code == 0
    assert server.results[planned.key]["failure"] == {
        "kind": "runner_error",
        "detail": "runner stopped",
    }
    assert marked_processes(f"{bench.instance}/") == []


async def test_asked_twice_while_a_package_is_fetched_the_runner_hands_the_attempt_back(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("package", Failure(503, {"Retry-After": "100"}))

    async with bench.running() as daemon:
        await server.until(lambda: bool(server.calls("package")))
        await until(lambda: "call=package" in bench.lines.getvalue())
        daemon.request_stop()
        daemon.request_stop()

    assert bench.code == 0
    (release,) = server.calls("release")
    assert release.json == {
        "attempt": planned.key.number,
        "runner_id": server.runner_id,
        "why": "the runner was stopped before the attempt began",
    }
    assert server.results == {}


async def test_asked_three_times_the_runner_leaves_and_nothing_of_it_stays(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan(HANGS)

    async with bench.running() as daemon:
        await phase_of(server, planned, "benchmark")
        for _ in range(3):
            daemon.request_stop()

    assert bench.code == 3
    assert server.results == {}
    assert (bench.work, marked_processes(f"{bench.instance}/")) == ([], [])


async def test_a_runner_that_the_server_forgot_registers_again_and_keeps_its_attempt(
    bench: Bench, server: ScriptedServer, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    planned = server.plan(
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.005)\nprint('ok')"
    )

    async with bench.running(once=True):
        await phase_of(server, planned, "benchmark")
        server.registrations += 10  # as after a restart: the old token is unknown
        await server.until(lambda: len(server.calls("register")) == 2)
        go.touch()

    assert bench.code == 0
    assert server.stdout_of(planned) == b"ok\n"
    assert len(server.calls("register")) == 2


async def test_a_runner_that_is_refused_again_after_registering_again_ends_with_3(
    bench: Bench, server: ScriptedServer
) -> None:
    server.heartbeat_s = 600.0
    server.fail("heartbeat", 500)  # the one that is sent at once proves nothing
    server.fail("claim", 401, 401)

    assert await bench.daemon().run() == 3
    assert len(server.calls("register")) == 2
    assert "refused again after registering once more" in bench.lines.getvalue()


async def test_a_runner_that_is_too_old_ends_with_7(bench: Bench, server: ScriptedServer) -> None:
    server.fail("claim", 426)

    assert await bench.daemon().run() == 7


async def test_a_server_of_other_protocol_versions_ends_the_runner_with_7(
    bench: Bench, server: ScriptedServer
) -> None:
    server.protocol = {"min": 2, "max": 3}

    assert await bench.daemon().run() == 7
    assert server.calls("claim") == []


async def test_a_server_that_does_not_take_the_runner_ends_it_with_3(
    bench: Bench, server: ScriptedServer
) -> None:
    server.fail("register", 503, 403)

    assert await bench.daemon().run() == 3
    assert "SCRIPTED: scripted 403" in bench.lines.getvalue()


async def test_an_attempt_that_the_server_cancels_is_stopped_and_not_reported(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan(HANGS)
    after = server.plan()

    async with bench.running() as daemon:
        await phase_of(server, planned, "benchmark")
        server.directives = [{"uuid": planned.key.uuid, "attempt": 1, "do": "cancel"}]
        await server.until(lambda: after.key in server.results)
        daemon.request_stop()

    assert list(server.results) == [after.key]
    assert bench.results == []


async def test_an_attempt_that_the_server_does_not_know_is_stopped(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan(HANGS)

    async with bench.running(once=True):
        await phase_of(server, planned, "benchmark")
        server.unknown = [{"uuid": planned.key.uuid, "attempt": 1}]

    assert (bench.code, server.results, bench.work) == (0, {}, [])


async def test_a_log_of_a_stale_attempt_stops_it(bench: Bench, server: ScriptedServer) -> None:
    server.plan(HANGS)
    server.fail("log", 409)

    async with bench.running(once=True):
        pass

    assert (bench.code, server.results) == (0, {})


async def test_a_server_that_takes_no_log_gets_the_result_all_the_same_with_the_log_in_it(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("log", *[503] * 10_000)

    assert await bench.daemon(once=True, log_close_s=0.2).run() == 0

    logs = base64.b64decode(server.results[planned.key]["logs_base64"])
    assert logs == b"building\nmeasuring\n"
    assert server.stdout_of(planned) == printed_by_benchmark(server.runner_id)


async def test_a_package_with_another_digest_is_not_run(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    planned.package_sha256 = "0" * 64

    assert await bench.daemon(once=True).run() == 0

    failure = server.results[planned.key]["failure"]
    assert failure["kind"] == "runner_error"
    assert f"the claim says {'0' * 64}" in failure["detail"]
    assert server.results[planned.key]["exit_codes"] == {"build": None, "benchmark": None}


async def test_a_package_that_does_not_come_at_first_is_asked_for_again(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("package", 503, LOST)

    assert await bench.daemon(once=True).run() == 0
    assert server.results[planned.key]["failure"] is None


async def test_a_package_that_never_comes_is_handed_back(
    bench: Bench, server: ScriptedServer
) -> None:
    server.plan()
    server.fail("package", *[500] * 5)

    assert await bench.daemon(once=True).run() == 3

    (release,) = server.calls("release")
    assert release.json["why"] == "the package could not be downloaded"


async def test_a_result_that_cannot_be_delivered_waits_on_disk_for_the_next_start(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    server.fail("result", *[503] * 10_000)
    assert await bench.daemon(once=True, drain_patience_s=0.1).run() == 3
    (kept,) = bench.results
    assert kept.name == f"{planned.key}.result"
    sent = server.calls("result")[0].body
    server.failures["result"].clear()

    assert await bench.daemon(once=True).run() == 0

    assert server.calls("result")[-1].body == sent
    assert bench.results == []
    reported = {"uuid": planned.key.uuid, "attempt": 1, "phase": "reported"}
    assert any(reported in beat.json["attempts"] for beat in server.calls("heartbeat"))


async def test_a_result_is_delivered_from_memory_when_the_disk_does_not_take_it(
    bench: Bench, server: ScriptedServer
) -> None:
    planned = server.plan()
    bench.state.mkdir()
    (bench.state / "results").write_text("in the way")

    assert await bench.daemon(once=True).run() == 0

    assert planned.key in server.results
    assert "a result is kept in memory alone" in bench.lines.getvalue()


async def test_scratch_and_results_that_cannot_be_removed_hold_nothing_up(
    bench: Bench, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    planned = server.plan()
    monkeypatch.setattr("kzoo_core.runner.attempt.remove", stuck)
    monkeypatch.setattr("kzoo_core.runner.spool.ResultSpool.remove", stuck)

    assert await bench.daemon(once=True).run() == 0

    assert planned.key in server.results
    text = bench.lines.getvalue()
    assert 'event="scratch stays behind"' in text
    assert 'event="a result stays on disk"' in text


async def test_what_a_killed_runner_left_is_removed_before_anything_is_claimed(
    bench: Bench, server: ScriptedServer
) -> None:
    (bench.state / "work" / "old-1" / "workdir").mkdir(parents=True)

    assert await bench.daemon(once=True).run() == 0

    assert bench.work == []
    assert "removed what a killed runner left" in bench.lines.getvalue()


async def test_a_state_directory_has_one_runner(bench: Bench, server: ScriptedServer) -> None:
    async with bench.running() as daemon:
        await server.holding.wait()
        with pytest.raises(Conflict) as caught:
            await bench.daemon().run()
        daemon.request_stop()

    assert caught.value.code == "LOCKED"
    assert caught.value.message == f"{bench.state} is in use by another kzoo-runner"


async def test_a_crash_of_the_heartbeat_ends_the_runner(
    bench: Bench, server: ScriptedServer
) -> None:
    made = 0
    daemon = bench.daemon()
    original = daemon._new_transport

    def second_breaks() -> Transport:
        nonlocal made
        made += 1
        if made > 1:
            raise RuntimeError("no transport for the heartbeat")
        return original()

    daemon._new_transport = second_breaks

    with pytest.raises(ExceptionGroup) as caught:
        await daemon.run()

    assert caught.group_contains(RuntimeError, match="no transport for the heartbeat")
