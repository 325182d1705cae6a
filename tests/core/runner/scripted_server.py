"""A server that speaks the runner protocol from a script, and remembers all that it was told.

Real aiohttp on a real port. By default every call goes well; ``fail`` makes the next calls of a
kind go otherwise: another status, an answer that never comes although the call was taken in, or
half of one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from kzoo_core.ids import SubmissionId
from kzoo_core.runner.records import AttemptKey
from tests.core.runner.packages import KERNEL_ID, archive

ATTEMPT_TOKEN = "attempt-token-of-"
LOST = "the call is taken in, the answer lost"


@dataclass
class Planned:
    """One submission that the server hands out."""

    key: AttemptKey
    package: bytes
    package_sha256: str
    build_s: float = 20.0
    bench_s: float = 20.0
    limits: dict[str, int] = field(default_factory=dict)


@dataclass
class Seen:
    """One call as it came."""

    call: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class Failure:
    """How a call goes otherwise; ``lost`` takes it in and cuts the connection."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False
    code: str = "SCRIPTED"


class ScriptedServer:
    """See the module; an async context manager around a listening server."""

    def __init__(self, *, heartbeat_s: float = 0.1, poll_s: float = 0.2) -> None:
        self.heartbeat_s = heartbeat_s
        self.poll_s = poll_s
        self.planned: deque[Planned] = deque()
        self.seen: list[Seen] = []
        self.failures: dict[str, deque[Failure]] = defaultdict(deque)
        self.claims: dict[str, Planned] = {}
        self.logs: dict[AttemptKey, bytearray] = defaultdict(bytearray)
        self.marks: list[tuple[int, str]] = []
        self.closed: dict[AttemptKey, str] = {}
        self.results: dict[AttemptKey, dict[str, Any]] = {}
        self.directives: list[dict[str, Any]] = []
        self.unknown: list[dict[str, Any]] = []
        self.action = "none"
        self.registrations = 0
        self.protocol: dict[str, int] | None = None
        self.holding = asyncio.Event()
        self.changed = asyncio.Event()
        self._server: TestServer | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._script])
        app.router.add_post("/api/runner/register", self._register)
        app.router.add_post("/api/runner/claim", self._claim)
        app.router.add_get("/api/runner/package/{uuid}", self._package)
        app.router.add_post("/api/runner/heartbeat", self._heartbeat)
        app.router.add_patch("/api/runner/log/{uuid}", self._log)
        app.router.add_post("/api/submissions/{uuid}/result", self._result)
        app.router.add_post("/api/runner/release/{uuid}", self._release)
        self._server = TestServer(app)
        await self._server.start_server(shutdown_timeout=0.1)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        return str(self._server.make_url("")).rstrip("/")

    # --- the script ---------------------------------------------------------------------------

    def plan(self, benchmark: str | None = None, build: str | None = None, **more: Any) -> Planned:
        """Hand out a submission with these scripts at one of the next claims."""
        scripts = {"benchmark": benchmark, "build": build}
        data, digest = archive(**{name: text for name, text in scripts.items() if text is not None})
        number = len(self.claims) + len(self.planned) + 1
        uuid = SubmissionId(f"00000000-0000-0000-0000-{number:012d}")
        planned = Planned(AttemptKey(uuid, 1), data, digest, **more)
        self.planned.append(planned)
        return planned

    def fail(self, call: str, *failures: int | str | Failure) -> None:
        """Make the next calls of that kind go otherwise, in this order."""
        for failure in failures:
            if isinstance(failure, int):
                self.failures[call].append(Failure(failure))
            elif isinstance(failure, str):
                assert failure == LOST
                self.failures[call].append(Failure(lost=True))
            else:
                self.failures[call].append(failure)

    def calls(self, call: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.call == call]

    async def until(self, condition: Any, *, timeout_s: float = 15.0) -> None:
        """Return once ``condition()`` holds; looked at after every call."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    # --- the calls ----------------------------------------------------------------------------

    @web.middleware
    async def _script(self, request: web.Request, handler: Any) -> web.StreamResponse:
        call = request.path.split("/")[3] if "/runner/" in request.path else "result"
        body = await request.read()
        self.seen.append(Seen(call, dict(request.headers), body))
        failure = self.failures[call].popleft() if self.failures[call] else None
        try:
            if failure is not None and not failure.lost:
                return _envelope(failure.status, failure.code, failure.headers)
            refused = self._unauthorised(request, call)
            answer: web.StreamResponse = refused or await handler(request)
            if failure is not None:
                assert request.transport is not None
                request.transport.close()
            return answer
        finally:
            self.changed.set()

    def _unauthorised(self, request: web.Request, call: str) -> web.Response | None:
        if call == "register":
            return None
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _envelope(401, "UNKNOWN_RUNNER", {})
        uuid = request.match_info.get("uuid")
        token = f"{ATTEMPT_TOKEN}{uuid}"
        if uuid is not None and request.headers.get("X-Attempt-Token") != token:
            return _envelope(403, "WRONG_TOKEN", {})
        return None

    @property
    def token(self) -> str:
        return f"runner-token-{self.registrations}"

    @property
    def runner_id(self) -> str:
        return "node1-abc"

    async def _register(self, _: web.Request) -> web.Response:
        self.registrations += 1
        answer: dict[str, Any] = {
            "runner_id": self.runner_id,
            "runner_token": self.token,
            "heartbeat_s": self.heartbeat_s,
            "lease_s": 90,
            "poll_s": self.poll_s,
            "limits": {},
            "news": "of a later version",
        }
        if self.protocol is not None:
            answer["protocol"] = self.protocol
        return web.json_response(answer)

    async def _claim(self, request: web.Request) -> web.Response:
        claim_id = json.loads(await request.read())["claim_id"]
        if claim_id not in self.claims:
            if not self.planned:
                self.holding.set()
                await asyncio.sleep(float(request.query["wait"]))
            if not self.planned:
                return web.Response(status=204)
            self.claims[claim_id] = self.planned.popleft()
        planned = self.claims[claim_id]
        uuid = planned.key.uuid
        return web.json_response(
            {
                "uuid": uuid,
                "attempt": planned.key.number,
                "attempt_token": f"{ATTEMPT_TOKEN}{uuid}",
                "kernel_id": KERNEL_ID,
                "mode": "ranked",
                "arch": "gfx928",
                "package_url": f"/api/runner/package/{uuid}?attempt={planned.key.number}",
                "package_sha256": planned.package_sha256,
                "timeouts": {"build_s": planned.build_s, "bench_s": planned.bench_s},
                "limits": planned.limits,
                "cancel_grace_s": 0.2,
            }
        )

    async def _package(self, request: web.Request) -> web.Response:
        planned = self._planned_of(request)
        return web.Response(body=planned.package, content_type="application/gzip")

    async def _heartbeat(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"directives": self.directives, "unknown": self.unknown, "action": self.action}
        )

    async def _log(self, request: web.Request) -> web.Response:
        key = self._planned_of(request).key
        log = self.logs[key]
        held = {"Range": f"bytes=0-{len(log) - 1}"} if log else {}
        span = request.headers["Content-Range"].removeprefix("bytes ")
        if span.startswith("*/"):
            digest = hashlib.sha256(log).hexdigest()
            if digest != request.headers["X-Log-Sha256"] or int(span[2:]) != len(log):
                return _envelope(412, "LOG_DIFFERS", {})
            self.closed[key] = digest
            if phase := request.headers.get("X-Phase"):
                self.marks.append((len(log), phase))
            return web.Response(status=202, headers=held)
        first = int(span.partition("-")[0])
        body = await request.read()
        assert len(body) <= 256 * 1024
        if first > len(log):
            return _envelope(416, "LOG_GAP", held)
        if phase := request.headers.get("X-Phase"):
            self.marks.append((first, phase))
        log[first:] = body
        return web.Response(status=202, headers={"Range": f"bytes=0-{len(log) - 1}"})

    async def _result(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        key = AttemptKey(SubmissionId(request.match_info["uuid"]), body["attempt"])
        if key in self.results and self.results[key] != body:
            return _envelope(409, "RESULT_CONFLICT", {})
        self.results[key] = body
        answer = {"uuid": key.uuid, "attempt": key.number, "accepted": True, "outcome": None}
        return web.json_response(answer, status=202)

    async def _release(self, _: web.Request) -> web.Response:
        return web.json_response({})

    def _planned_of(self, request: web.Request) -> Planned:
        uuid = request.match_info["uuid"]
        return next(planned for planned in self.claims.values() if planned.key.uuid == uuid)

    def stdout_of(self, planned: Planned) -> bytes:
        """Return the standard output that was reported."""
        return base64.b64decode(self.results[planned.key]["stdout_base64"])


def _envelope(status: int, code: str, headers: dict[str, str]) -> web.Response:
    error = {
        "code": code,
        "message": f"scripted {status}",
        "details": [],
        "request_id": "r1",
        "retry": False,
    }
    return web.json_response({"error": error}, status=status, headers=headers)
