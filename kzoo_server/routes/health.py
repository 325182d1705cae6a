"""How the server is: alive, ready, well, measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from kzoo_core.clock import format_time
from kzoo_core.errors import Problem, Retryable
from kzoo_core.version import __version__
from kzoo_server import metrics
from kzoo_server.answers import json_answer
from kzoo_server.envelope import envelope
from kzoo_server.housekeeping import free_bytes
from kzoo_server.keys import CLOCK, HELD, METRICS, SETTINGS, STAGE
from kzoo_server.queries import Query
from kzoo_server.requests import current_request_id
from kzoo_server.stage import Step

if TYPE_CHECKING:
    from kzoo_core.lifecycle.system import System

ROUTES = web.RouteTableDef()


@ROUTES.get("/healthz")
async def alive(request: web.Request) -> web.StreamResponse:
    """Answer that the process is alive, whatever it is doing."""
    with Query(request.query):
        return json_answer({"status": "alive"})


@ROUTES.get("/readyz")
async def ready(request: web.Request) -> web.StreamResponse:
    """Answer whether submissions and claims are taken; 503 names every reason why not."""
    with Query(request.query):
        stage = request.app[STAGE]
    problems = []
    if stage.step is not Step.READY:
        problems.append(Problem(code=stage.step.value, message=f"the server is {stage.step.value}"))
    if stage.opened is not None:
        problems += await _obstacles(stage.opened, request)
    if problems:
        raise Retryable("NOT_READY", "the server takes no work", details=tuple(problems))
    return json_answer({"status": "ready"})


@ROUTES.get("/api/health")
async def health(request: web.Request) -> web.StreamResponse:
    """Answer how the server is, whole; before and after it serves with 503 and what is known."""
    with Query(request.query):
        stage = request.app[STAGE]
    if stage.opened is None or stage.step is not Step.READY:
        return _unavailable(request)
    system = stage.opened
    faults = [problem.message for problem in await _obstacles(system, request)]
    if system.board.fault is not None:
        faults.append(f"the board cannot be rebuilt: {system.board.fault}")
    if system.writer.worktree.message is not None:
        faults.append(f"worktree_dirty: {system.writer.worktree.message}")
    return json_answer(
        {
            "status": "degraded" if faults else "ok",
            "version": __version__,
            "started_at": format_time(stage.started_at),
            "queue": queue_depths(system),
            "runners": runner_counts(system, request),
            "head": _head(system),
            "index": {
                "revision": _head(system),
                "kernels": len(system.board.snapshot.entries) if system.board.snapshot else 0,
                "age_s": _index_age_s(system, request) or 0.0,
            },
            "writer": _writer(system),
            "disk": {"free_bytes": await free_bytes(request.app[SETTINGS].state_directory)},
            "faults": faults,
        }
    )


@ROUTES.get("/metrics")
async def measures(request: web.Request) -> web.StreamResponse:
    """Answer with the measures; those of the system are missing until it is open."""
    with Query(request.query):
        system = request.app[STAGE].opened
    text = request.app[METRICS].exposition(
        queue=queue_depths(system) if system is not None else {},
        runners=runner_counts(system, request) if system is not None else {},
        index_age_s=_index_age_s(system, request) if system is not None else None,
        held=len(request.app[HELD]),
        free_bytes=await free_bytes(request.app[SETTINGS].state_directory),
    )
    return web.Response(body=text, headers={hdrs.CONTENT_TYPE: metrics.CONTENT_TYPE})


def queue_depths(system: System) -> dict[str, int]:
    """Return how many submissions are in each state."""
    return dataclasses.asdict(system.queue.counts())


def runner_counts(system: System, request: web.Request) -> dict[str, int]:
    """Return how many runners are known and how many of them up."""
    now = request.app[CLOCK].now()
    runners = system.runners.all()
    up = sum(system.runners.is_up(runner, now=now) for runner in runners)
    return {"up": up, "known": len(runners)}


async def _obstacles(system: System, request: web.Request) -> list[Problem]:
    """Return what keeps an open system from doing its work."""
    settings = request.app[SETTINGS]
    problems = []
    if system.board.snapshot is None:
        problems.append(Problem(code="board_not_built", message="the board is not built yet"))
    if system.writer.fault is not None:
        problems.append(
            Problem(code="writer_failed", message=f"commits fail: {system.writer.fault}")
        )
    free = await free_bytes(settings.state_directory)
    if free < settings.min_free_bytes:
        problems.append(
            Problem(
                code="disk_low",
                message="the disk under the state directory is low",
                found=f"{free} bytes free",
                expected=f"at least {settings.min_free_bytes} bytes",
            )
        )
    return problems


def _writer(system: System) -> dict[str, object]:
    writer = system.writer
    return {
        "state": writer.state.value,
        "queued": writer.queued,
        "worktree": writer.worktree.status.value,
    }


def _head(system: System) -> str | None:
    return (system.board.snapshot.revision or None) if system.board.snapshot else None


def _index_age_s(system: System, request: web.Request) -> float | None:
    if system.board.snapshot is None:
        return None
    age = request.app[CLOCK].now() - system.board.snapshot.built_at
    return max(0.0, age.total_seconds())


def _unavailable(request: web.Request) -> web.Response:
    """Answer 503 in both shapes: the envelope, and health with null for what is not known."""
    stage = request.app[STAGE]
    step = stage.step.value if stage.step is not Step.READY else Step.STOPPING.value
    error = Retryable(
        step.upper(), f"the server is {step}", hint="try again in a moment; /readyz says when"
    )
    return envelope(
        error,
        current_request_id(),
        beside={
            "status": step,
            "version": __version__,
            "started_at": format_time(stage.started_at),
            "queue": dict.fromkeys(("pending", "running", "reported", "done")),
            "runners": dict.fromkeys(("up", "known")),
            "head": None,
            "index": dict.fromkeys(("revision", "kernels", "age_s")),
            "writer": dict.fromkeys(("state", "queued", "worktree")),
            "disk": dict.fromkeys(("free_bytes",)),
            "faults": [],
        },
    )
