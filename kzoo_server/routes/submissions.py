"""Submissions, for those who send them: submit, list, look, follow, withdraw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from kzoo_core.errors import Forbidden, Gone, Retryable
from kzoo_core.ids import parse_kernel_id, parse_submitter_id
from kzoo_server import views
from kzoo_server.answers import JSON_TYPE, json_answer, json_bytes
from kzoo_server.bodies import BodyPace
from kzoo_server.envelope import envelope
from kzoo_server.housekeeping import free_bytes
from kzoo_server.keys import HELD, SETTINGS, STAGE, STEPS
from kzoo_server.queries import Query, cursor_checked
from kzoo_server.requests import current_request_id
from kzoo_server.runner_calls import uuid_of
from kzoo_server.uploads import SUBMITTER_HEADER, UploadLimits, disk_low, received

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.ids import SubmissionId
    from kzoo_core.lifecycle.system import System
    from kzoo_core.queue.records import Submission

ROUTES = web.RouteTableDef()
_AT_ONCE = 50
"""How many items of a page are made before other calls get their turn."""


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
        package_problems=system.admission.package_problems,
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
    items = [
        await _rendered(system, page.items[begin : begin + _AT_ONCE])
        for begin in range(0, len(page.items), _AT_ONCE)
    ]
    body = b'{"items":[%b],"next_cursor":%b}' % (b",".join(items), json_bytes(page.next_cursor))
    return web.Response(body=body, content_type=JSON_TYPE)


@ROUTES.get("/api/submissions/{uuid}")
async def submission(request: web.Request) -> web.StreamResponse:
    """Answer with one submission, whole."""
    uuid = uuid_of(request)
    with Query(request.query):
        system = request.app[STAGE].readable
    try:
        return json_answer(_whole(system, system.queue.get(uuid)))
    except Gone as gone:
        return await _evicted(system, uuid, gone)


@ROUTES.get("/api/submissions/{uuid}/status")
async def status(request: web.Request) -> web.StreamResponse:
    """Answer with the status: held until it is done, or has moved past ``since``."""
    settings = request.app[SETTINGS]
    uuid = uuid_of(request)
    with Query(request.query, "wait", "since") as query:
        wait_s = query.seconds("wait", settings.wait_default_s, settings.wait_max_s)
        since = query.whole("since", None)
    system = request.app[STAGE].readable
    try:
        found = system.queue.get(uuid)
        if wait_s > 0:
            held = await request.app[HELD].hold(
                request, lambda: system.queue.wait(uuid, since=since, wait_s=wait_s)
            )
            found = held if held is not None else system.queue.get(uuid)
    except Gone as gone:
        return await _evicted(system, uuid, gone)
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


async def _evicted(system: System, uuid: SubmissionId, gone: Gone) -> web.Response:
    """Answer 410 with what git still says."""
    past = await system.past.find(uuid)
    accepted = None if past is None else views.past_view(*past)
    return envelope(gone, current_request_id(), extra={"accepted": accepted})


async def _rendered(system: System, some: Sequence[Submission]) -> bytes:
    """Render a few items of a page: 1000 at once held up every other call (measured: 58 ms).

    Positions can be asked for on the loop alone, the rest happens in a thread.
    """
    ranked = [(item, system.queue.position(item.uuid)) for item in some]
    return await asyncio.to_thread(
        lambda: b",".join(json_bytes(views.submission_view(*pair)) for pair in ranked)
    )


def _whole(system: System, found: Submission) -> dict[str, object]:
    return views.submission_view(found, system.queue.position(found.uuid))
