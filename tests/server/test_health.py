from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from kzoo_core.lifecycle.system import System
from kzoo_core.store.worktree import WorktreeState, WorktreeStatus
from kzoo_core.version import __version__
from kzoo_server.keys import STAGE
from tests.packages import package_tarball, valid_package
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from tests.server.api_client import ApiClient
    from tests.server.conftest import Serve, Served

UNKNOWN: dict[str, object] = {
    "queue": {"pending": None, "running": None, "reported": None, "done": None},
    "runners": {"up": None, "known": None},
    "head": None,
    "index": {"revision": None, "kernels": None, "age_s": None},
    "writer": {"state": None, "queued": None, "worktree": None},
    "disk": {"free_bytes": None},
    "faults": [],
}


@pytest.fixture
def slow_start(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let every system wait for an event before it starts, as for a board built from git."""
    go = asyncio.Event()
    start = System.start

    async def waits(self: System) -> None:
        await go.wait()
        await start(self)

    monkeypatch.setattr(System, "start", waits)
    return go


async def test_a_starting_server_is_alive_and_serves_nothing_else(
    serve: Serve, slow_start: asyncio.Event
) -> None:
    served = await serve(ready=False)
    api = served.api
    alive = await api.get("/healthz")
    assert (alive.status, alive.json()) == (200, {"status": "alive"})
    ready = await api.get("/readyz")
    assert ready.status == 503
    assert ready.error == {
        "code": "NOT_READY",
        "message": "the server takes no work",
        "details": [{"code": "starting", "message": "the server is starting", "severity": "error"}],
        "retry": True,
    }
    for path in ("/api/kernels", "/api/index.json", "/api/submissions", "/api/runners"):
        answer = await api.get(path)
        assert (answer.status, answer.error["code"]) == (503, "STARTING")
    health = await api.get("/api/health")
    assert health.status == 503
    body = health.json()
    assert body.pop("error")["code"] == "STARTING"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body.pop("started_at"))
    assert body == {"status": "starting", "version": __version__, **UNKNOWN}
    assert (await api.get("/metrics")).status == 200
    slow_start.set()
    await served.app[STAGE].settled.wait()
    assert (await api.get("/readyz")).json() == {"status": "ready"}
    assert (await api.get("/api/kernels")).status == 200


async def test_a_server_that_is_stopped_while_it_starts_stops(
    serve: Serve, slow_start: asyncio.Event
) -> None:
    served = await serve(ready=False)
    await served.stop()
    assert served.app[STAGE].failure is None
    assert not slow_start.is_set()


async def test_a_healthy_server_says_how_everything_is(server: Served) -> None:
    await StubRunner.register(server.api)
    await server.api.submitted(package_tarball(valid_package()))
    body = (await server.api.get("/api/health")).json()
    snapshot = server.system.board.snapshot
    assert snapshot is not None
    assert body.pop("started_at").endswith("Z")
    assert body.pop("disk")["free_bytes"] > 0
    assert body["index"].pop("age_s") >= 0
    assert body == {
        "status": "ok",
        "version": __version__,
        "queue": {"pending": 1, "running": 0, "reported": 0, "done": 0},
        "runners": {"up": 1, "known": 1},
        "head": snapshot.revision,
        "index": {"revision": snapshot.revision, "kernels": 1},
        "writer": {"state": "idle", "queued": 0, "worktree": "none"},
        "faults": [],
    }


async def test_a_server_whose_disk_is_low_says_so_and_takes_no_submission(serve: Serve) -> None:
    served = await serve(min_free_bytes=2**62)
    health = (await served.api.get("/api/health")).json()
    assert health["status"] == "degraded"
    assert health["faults"] == ["the disk under the state directory is low"]
    ready = await served.api.get("/readyz")
    assert ready.status == 503
    [problem] = ready.error["details"]
    assert problem["code"] == "disk_low"
    assert problem["expected"] == f"at least {2**62} bytes"
    refused = await served.api.submit(package_tarball(valid_package()))
    assert refused.status == 507
    assert refused.error == {
        "code": "DISK_LOW",
        "message": f"less than {2**62} bytes are free under the state directory",
        "details": [],
        "retry": False,
        "hint": "nothing was kept; try again when an operator has made room",
    }
    assert served.uploads == []


async def test_a_writer_that_failed_makes_the_server_not_ready(server: Served) -> None:
    server.system.writer.fault = "OSError: [Errno 5] Input/output error"
    ready = await server.api.get("/readyz")
    assert ready.status == 503
    assert ready.error["details"] == [
        {
            "code": "writer_failed",
            "message": "commits fail: OSError: [Errno 5] Input/output error",
            "severity": "error",
        }
    ]
    health = (await server.api.get("/api/health")).json()
    assert health["status"] == "degraded"
    assert health["faults"] == ["commits fail: OSError: [Errno 5] Input/output error"]


async def test_a_board_that_cannot_be_rebuilt_makes_the_server_degraded(serve: Serve) -> None:
    served = await serve(board_poll_s=3600)
    served.system.board.fault = "Broken: the head cannot be read"
    health = (await served.api.get("/api/health")).json()
    assert health["status"] == "degraded"
    assert health["faults"] == ["the board cannot be rebuilt: Broken: the head cannot be read"]


async def test_a_worktree_that_cannot_follow_makes_the_server_degraded_and_still_ready(
    server: Served,
) -> None:
    server.system.writer.worktree = WorktreeState(WorktreeStatus.DIRTY, "an edit is in the way")
    health = (await server.api.get("/api/health")).json()
    assert (health["status"], health["writer"]["worktree"]) == ("degraded", "dirty")
    assert health["faults"] == ["worktree_dirty: an edit is in the way"]
    assert (await server.api.get("/readyz")).status == 200


async def test_a_board_that_is_not_built_serves_no_kernels(serve: Serve) -> None:
    served = await serve(board_poll_s=3600)
    served.system.board.snapshot = None
    ready = await served.api.get("/readyz")
    assert [item["code"] for item in ready.error["details"]] == ["board_not_built"]
    kernels = await served.api.get("/api/kernels")
    assert (kernels.status, kernels.error["code"]) == (503, "STARTING")
    assert kernels.error["message"] == "the board is not built yet"


async def test_a_stopping_server_is_alive_and_not_ready(server: Served) -> None:
    server.app[STAGE].stop()
    assert (await server.api.get("/healthz")).status == 200
    ready = await server.api.get("/readyz")
    assert [item["code"] for item in ready.error["details"]] == ["stopping"]
    health = await server.api.get("/api/health")
    assert health.status == 503
    assert health.json()["status"] == "stopping"
    assert health.json()["error"]["code"] == "STOPPING"


async def test_the_measures_are_in_the_text_format_of_prometheus(api: ApiClient) -> None:
    uuid = await api.submitted(package_tarball(valid_package()))
    runner = await StubRunner.register(api)
    await runner.run_one()
    await api.done(uuid)
    await api.get("/api/kernels/no/such/kernel")
    answer = await api.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    text = answer.body.decode()
    lines = set(text.splitlines())
    assert {
        'kzoo_queue_submissions{state="pending"} 0.0',
        'kzoo_queue_submissions{state="done"} 1.0',
        'kzoo_runners{which="up"} 1.0',
        'kzoo_submissions_finished_total{outcome="accepted"} 1.0',
        'kzoo_submissions_finished_total{outcome="lost"} 0.0',
        'kzoo_http_requests_total{method="GET",route="/api/kernels/{kernel_id}",status="404"} 1.0',
        "kzoo_held_requests 0.0",
    } <= lines
    assert "kzoo_http_request_seconds_bucket" in text
    assert "kzoo_event_loop_lag_seconds_count" in text
    assert "kzoo_index_age_seconds" in text
    assert "no/such/kernel" not in text
    assert uuid not in text
