"""Runners: who they are, and the protocol by which they take, run and report attempts."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_core.clock import format_time
from kzoo_core.errors import BadInput, Problem
from kzoo_core.ids import ClaimId, RunnerId, parse_claim_id, parse_submission_id
from kzoo_core.queue.records import Outcome
from kzoo_core.queue.states import StaleAttempt
from kzoo_server import views
from kzoo_server.answers import json_answer
from kzoo_server.envelope import envelope
from kzoo_server.keys import CLOCK, DOCUMENT, HELD, SETTINGS, STAGE, STEPS
from kzoo_server.queries import Query
from kzoo_server.ranges import ranged_answer
from kzoo_server.requests import current_request_id
from kzoo_server.runner_calls import (
    as_record,
    attempt_token,
    calling_runner,
    json_body,
    uuid_of,
)
from kzoo_server.runner_protocol import (
    PROTOCOL_MAX,
    PROTOCOL_MIN,
    Bodies,
    ClaimRequest,
    require_same,
)
from kzoo_server.waiting import has_left

if TYPE_CHECKING:
    from kzoo_core.lifecycle.settlement import ReportAnswer
    from kzoo_core.lifecycle.system import System
    from kzoo_core.queue.exchange import Claimed
    from kzoo_core.queue.runners import Runner
    from kzoo_server.runner_protocol import Result
    from kzoo_server.settings import ServerSettings

ROUTES = web.RouteTableDef()


@ROUTES.get("/api/runners")
async def runners(request: web.Request) -> web.StreamResponse:
    """Answer with every runner that is known, and what each runs."""
    with Query(request.query):
        system = request.app[STAGE].readable
    now = request.app[CLOCK].now()
    return json_answer(
        {
            "items": [
                _runner_view(system, runner, up=system.runners.is_up(runner, now=now))
                for runner in system.runners.all()
            ]
        }
    )


@ROUTES.post("/api/runner/register")
async def register(request: web.Request) -> web.StreamResponse:
    """Give a runner its identity; the same name and instance get the same one."""
    with Query(request.query):
        system = request.app[STAGE].system
    body = await json_body(request, "the registration")
    info = await as_record(request, Bodies(request.app[DOCUMENT]).registration, body)
    runner, token = system.runners.register(info, now=request.app[CLOCK].now())
    settings = request.app[SETTINGS]
    return json_answer(
        {
            "runner_id": runner.runner_id,
            "runner_token": token,
            "heartbeat_s": settings.heartbeat_s,
            "lease_s": settings.lease_s,
            "poll_s": settings.wait_default_s,
            "limits": _limits(settings),
            "protocol": {"min": PROTOCOL_MIN, "max": PROTOCOL_MAX},
        }
    )


@ROUTES.post("/api/runner/claim")
async def claim(request: web.Request) -> web.StreamResponse:
    """Give a runner its next attempt, held until there is one."""
    with Query(request.query, "wait") as query:
        wait_s = _claim_wait(request, query)
    system = request.app[STAGE].system
    runner = calling_runner(request, system)
    body = await json_body(request, "the claim")
    wanted = await as_record(request, Bodies(request.app[DOCUMENT]).claim, body)
    return await _claim(request, system, runner, wanted, wait_s)


@ROUTES.get("/api/runner/claim", allow_head=False)
async def claim_by_query(request: web.Request) -> web.StreamResponse:
    """The same, its members as query parameters: the authoring guide, section 1, draws it so."""
    with Query(request.query, "wait", "runner_id", "claim_id", "submission") as query:
        wait_s = _claim_wait(request, query)
        query.required("runner_id")
        query.required("claim_id")
        wanted = ClaimRequest(
            RunnerId(query.text("runner_id") or ""),
            query.parsed("claim_id", parse_claim_id) or ClaimId(""),
            query.parsed("submission", parse_submission_id),
        )
    system = request.app[STAGE].system
    return await _claim(request, system, calling_runner(request, system), wanted, wait_s)


@ROUTES.get("/api/runner/package/{uuid}")
async def package(request: web.Request) -> web.StreamResponse:
    """Answer with the archive that an attempt runs, as it was frozen at the claim (D13)."""
    uuid = uuid_of(request)
    with Query(request.query, "attempt") as query:
        query.required("attempt")
        attempt = query.whole("attempt", None, low=1) or 0
    system = request.app[STAGE].readable
    calling_runner(request, system)
    data = await system.queue.attempt_package(uuid, attempt, attempt_token(request))
    digest = system.queue.get(uuid).attempts[attempt - 1].package_sha256
    return ranged_answer(request, data, etag=f'"{digest}"', content_type="application/gzip")


@ROUTES.post("/api/runner/heartbeat")
async def heartbeat(request: web.Request) -> web.StreamResponse:
    """Take a runner's word for what it does, and say what it should do."""
    with Query(request.query):
        system = request.app[STAGE].readable
    runner = calling_runner(request, system)
    body = await json_body(request, "the heartbeat")
    beat = await as_record(request, Bodies(request.app[DOCUMENT]).heartbeat, body)
    require_same(runner, beat.runner_id)
    system.runners.seen(
        runner.runner_id, now=request.app[CLOCK].now(), state=beat.state, gpus=beat.gpus
    )
    reply = await request.app[STEPS].run(system.queue.heartbeat(runner.runner_id, beat.beats))
    return json_answer(
        {
            "directives": [
                {"uuid": item.uuid, "attempt": item.attempt, "do": item.do.value}
                for item in reply.directives
            ],
            "unknown": [{"uuid": item.uuid, "attempt": item.attempt} for item in reply.unknown],
            "action": "none",
        }
    )


@ROUTES.post("/api/submissions/{uuid}/result")
async def result(request: web.Request) -> web.StreamResponse:
    """Take how an attempt ended, durably, and answer with the verdict on it."""
    settings = request.app[SETTINGS]
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].readable
    runner = calling_runner(request, system)
    token = attempt_token(request)
    body = await json_body(request, "the result", settings.result_limit_bytes)
    told = await as_record(request, Bodies(request.app[DOCUMENT]).result, body)
    require_same(runner, told.runner_id)
    try:
        answer = await request.app[STEPS].run(
            system.settlement.report(
                uuid, told.attempt, token, told.report, told.digest, log=told.log
            )
        )
    except StaleAttempt as stale:
        return envelope(stale, current_request_id(), extra={"stored": stale.stored})
    if answer.verdict is not None and answer.verdict.malformed and not answer.repeated:
        raise _malformed(answer)
    return json_answer(
        _result_view(answer, told),
        status=HTTPStatus.OK if answer.repeated else HTTPStatus.ACCEPTED,
    )


@ROUTES.post("/api/runner/release/{uuid}")
async def release(request: web.Request) -> web.StreamResponse:
    """Take back an attempt that has not begun."""
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].readable
    runner = calling_runner(request, system)
    token = attempt_token(request)
    body = await json_body(request, "the release")
    told = await as_record(request, Bodies(request.app[DOCUMENT]).release, body)
    require_same(runner, told.runner_id)
    after = await request.app[STEPS].run(
        system.queue.release(uuid, told.attempt, token, why=told.why)
    )
    return json_answer({"uuid": uuid, "status": after.public_status})


async def _claim(
    request: web.Request, system: System, runner: Runner, wanted: ClaimRequest, wait_s: float
) -> web.Response:
    """Claim, held; whoever hung up or meets a stopping server gets nothing, and loses nothing."""
    require_same(runner, wanted.runner_id)
    claimed = await request.app[HELD].hold(
        request,
        lambda: system.claims.claim(
            runner,
            wanted.claim_id,
            wait_s=wait_s,
            only=wanted.only,
            present=lambda: not has_left(request),
        ),
    )
    if claimed is None:
        return web.Response(status=HTTPStatus.NO_CONTENT)
    return json_answer(_claimed_view(claimed, request.app[SETTINGS]))


def _claim_wait(request: web.Request, query: Query) -> float:
    settings = request.app[SETTINGS]
    return query.seconds("wait", settings.wait_default_s, settings.wait_max_s)


def _claimed_view(claimed: Claimed, settings: ServerSettings) -> dict[str, object]:
    submission, attempt = claimed.submission, claimed.attempt
    return {
        "uuid": submission.uuid,
        "attempt": attempt.number,
        "attempt_token": claimed.token,
        "kernel_id": submission.kernel_id,
        "mode": submission.mode.value,
        "arch": submission.arch,
        "package_url": f"/api/runner/package/{submission.uuid}?attempt={attempt.number}",
        "package_sha256": attempt.package_sha256,
        "timeouts": {"build_s": settings.build_timeout_s, "bench_s": settings.bench_timeout_s},
        "limits": _limits(settings),
        "cancel_grace_s": settings.cancel_grace_s,
    }


def _limits(settings: ServerSettings) -> dict[str, int]:
    return {
        "stdout_bytes": settings.stdout_limit_bytes,
        "log_head_bytes": settings.log_head_bytes,
        "log_tail_bytes": settings.log_tail_bytes,
        "log_chunk_bytes": settings.log_chunk_limit_bytes,
        "result_body_bytes": settings.result_limit_bytes,
    }


def _result_view(answer: ReportAnswer, told: Result) -> dict[str, object]:
    submission, verdict = answer.submission, answer.verdict
    ended_well = submission.outcome is Outcome.ACCEPTED
    accepted = verdict.accepted if verdict is not None else ended_well
    return {
        "uuid": submission.uuid,
        "attempt": told.attempt,
        "accepted": accepted,
        "outcome": submission.outcome.value if submission.outcome is not None else None,
        "reason": None if accepted else _reason(answer, told),
        "status": submission.public_status,
    }


def _reason(answer: ReportAnswer, told: Result) -> dict[str, object] | None:
    """Return why a report is no accept: the verdict, the submission's end, or the failure told."""
    verdict, failure = answer.verdict, told.report.failure
    if verdict is not None and verdict.reason is not None:
        return {
            "code": verdict.reason.value,
            "message": verdict.message,
            "details": views.problems_view(verdict.details),
        }
    if answer.submission.reason is not None:
        return views.reason_view(answer.submission.reason)
    if failure is not None:
        return {"code": failure.kind, "message": failure.detail, "details": []}
    return None


def _malformed(answer: ReportAnswer) -> BadInput:
    verdict = answer.verdict
    if verdict is None or verdict.reason is None:
        raise ValueError("only a verdict with a reason is malformed")
    details = verdict.details
    if not details or details[0].code != verdict.reason.value:
        details = (Problem(code=verdict.reason.value, message=verdict.message), *details)
    return BadInput(
        "RESULT_REJECTED",
        f"the submission is rejected: {verdict.message}",
        hint="the result is recorded; do not send it again",
        details=details,
    )


def _runner_view(system: System, runner: Runner, *, up: bool) -> dict[str, object]:
    info = runner.info
    return {
        "runner_id": runner.runner_id,
        "name": info.name,
        "arch": info.arch,
        "product": info.product,
        "features": sorted(info.features),
        "gpus": [dict(gpu) for gpu in runner.gpus],
        "backend": info.backend,
        "isolation": info.isolation,
        "version": info.version,
        "state": runner.state,
        "up": up,
        "last_seen_at": format_time(runner.last_seen_at),
        "attempts": [
            {
                "uuid": submission.uuid,
                "attempt": submission.attempts[-1].number,
                "phase": submission.phase.value,
                "kernel_id": submission.kernel_id,
            }
            for submission in system.queue.running_on(runner.runner_id)
        ],
    }
