"""Submissions, for those who send them: submit, list, look, follow, withdraw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_core.errors import Forbidden, Retryable
from kzoo_core.ids import parse_kernel_id, parse_submitter_id
from kzoo_server import views
from kzoo_server.answers import json_answer
from kzoo_server.bodies import BodyPace
from kzoo_server.housekeeping import free_bytes
from kzoo_server.keys import HELD, SETTINGS, STAGE, STEPS
from kzoo_server.queries import Query, cursor_checked
from kzoo_server.runner_calls import uuid_of
from kzoo_server.uploads import SUBMITTER_HEADER, UploadLimits, disk_low, received

if TYPE_CHECKING:
    from kzoo_core.lifecycle.system import System
    from kzoo_core.queue.records import Submission

ROUTES = web.RouteTableDef()


@ROUTES.post("/api/submissions")
async def submit(request: web.Request) -> web.StreamResponse:
    """Take a package into the queue; 202 once that is durable."""
    settings = request.app[SETTINGS]
    with Query(request.query):
        system = request.app[STAGE].system
    if await free_bytes(settings.state_directory) < settings.min_free_bytes:
        raise disk_low(
            f"less than {settings.min_free_bytes} bytes are free under the state directory"
        )
    upload = received(
        request,
        directory=settings.state_directory / "tmp",
        limits=UploadLimits(settings.archive_limit_bytes, settings.summary_limit_bytes),
        pace=BodyPace(settings.body_pause_s, settings.body_total_s),
    )
    async with upload as (form, archive):
        try:
            submission = await request.app[STEPS].run(system.admission.submit(form, archive))
        except Retryable as error:
            if error.code != "DISK_FULL":
                raise
            raise disk_low(error.message) from error
    return json_answer(
        views.submitted_view(submission, system.queue.position(submission.uuid)), status=202
    )


@ROUTES.get("/api/submissions")
async def submissions(request: web.Request) -> web.StreamResponse:
    """Answer with a page of submissions, newest first."""
    settings = request.app[SETTINGS]
    with Query(request.query, "submitter", "kernel_id", "state", "limit", "cursor") as query:
        submitter = query.parsed("submitter", parse_submitter_id)
        kernel_id = query.parsed("kernel_id", parse_kernel_id)
        state = query.choice("state", ("queued", "running", "done"))
        limit = query.limit(settings.page_default, settings.page_max)
        cursor = query.text("cursor")
    system = request.app[STAGE].readable
    with cursor_checked(cursor):
        page = system.queue.list(
            submitter_id=submitter, kernel_id=kernel_id, status=state, limit=limit, cursor=cursor
        )
    return json_answer(
        {
            "items": [_whole(system, submission) for submission in page.items],
            "next_cursor": page.next_cursor,
        }
    )


@ROUTES.get("/api/submissions/{uuid}")
async def submission(request: web.Request) -> web.StreamResponse:
    """Answer with one submission, whole."""
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].readable
    return json_answer(_whole(system, system.queue.get(uuid)))


@ROUTES.get("/api/submissions/{uuid}/status")
async def status(request: web.Request) -> web.StreamResponse:
    """Answer with the status: held until it is done, or has moved past ``since``."""
    settings = request.app[SETTINGS]
    uuid = uuid_of(request)
    with Query(request.query, "wait", "since") as query:
        wait_s = query.seconds("wait", settings.wait_default_s, settings.wait_max_s)
        since = query.whole("since", None)
    system = request.app[STAGE].readable
    found = system.queue.get(uuid)
    if wait_s > 0:
        held = await request.app[HELD].hold(
            request, lambda: system.queue.wait(uuid, since=since, wait_s=wait_s)
        )
        found = held if held is not None else system.queue.get(uuid)
    return json_answer(views.status_view(found, system.queue.position(uuid)))


@ROUTES.get("/api/submissions/{uuid}/output")
async def output(request: web.Request) -> web.StreamResponse:
    """Answer with what the newest reported attempt printed."""
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].readable
    found = await system.queue.output(uuid)
    limit = request.app[SETTINGS].stdout_limit_bytes
    view = await asyncio.to_thread(views.output_view, uuid, found.attempt, found.report, limit)
    return json_answer(view)


@ROUTES.post("/api/submissions/{uuid}/cancel")
async def cancel(request: web.Request) -> web.StreamResponse:
    """Withdraw a submission that waits; a submitter who names himself cancels his own only."""
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].system
    submitter_id = system.queue.get(uuid).submitter_id
    by = request.headers.get(SUBMITTER_HEADER, submitter_id)
    if by != submitter_id:
        raise Forbidden(
            "NOT_YOURS",
            f"submission {uuid} is {submitter_id}'s, "
            f"the header {SUBMITTER_HEADER} says {by[:80]!r}",
            hint="cancel your own submissions",
        )
    cancelled = await request.app[STEPS].run(system.queue.cancel(uuid, by=by))
    return json_answer(_whole(system, cancelled))


def _whole(system: System, found: Submission) -> dict[str, object]:
    return views.submission_view(found, system.queue.position(found.uuid))
