"""A runner without processes: it speaks the protocol and reports whatever a test wants."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.packages import output_bytes

if TYPE_CHECKING:
    from tests.server.api_client import Answer, ApiClient

ARCH = "gfx928"


@dataclass
class Attempt:
    """One attempt that a stub runner holds."""

    runner: StubRunner
    answer: dict[str, Any]

    @property
    def uuid(self) -> str:
        return str(self.answer["uuid"])

    @property
    def number(self) -> int:
        return int(self.answer["attempt"])

    @property
    def headers(self) -> dict[str, str]:
        """Both tokens."""
        return {**self.runner.headers, "X-Attempt-Token": self.answer["attempt_token"]}

    async def package(self, **headers: str) -> Answer:
        return await self.runner.api.get(
            self.answer["package_url"], headers={**self.headers, **headers}
        )

    async def log(self, data: bytes, *, offset: int = 0, phase: str | None = None) -> Answer:
        lies = f"bytes {offset}-{offset + len(data) - 1}/*"
        mark = {"X-Phase": phase} if phase is not None else {}
        return await self.patch_log(data, **{"Content-Range": lies, **mark})

    async def close_log(self, whole: bytes) -> Answer:
        digest = hashlib.sha256(whole).hexdigest()
        lies = f"bytes */{len(whole)}"
        return await self.patch_log(b"", **{"Content-Range": lies, "X-Log-Sha256": digest})

    async def patch_log(self, data: bytes, **headers: str) -> Answer:
        return await self.runner.api.request(
            "PATCH",
            f"/api/runner/log/{self.uuid}?attempt={self.number}",
            data=data,
            headers={**self.headers, "Content-Type": "application/octet-stream", **headers},
        )

    def result_body(self, stdout: bytes | None = None, **changes: Any) -> dict[str, Any]:
        """Return the body of a good result; ``changes`` replace members."""
        printed = output_bytes(self.answer["kernel_id"]) if stdout is None else stdout
        body = {
            "attempt": self.number,
            "runner_id": self.runner.runner_id,
            "build_ok": True,
            "exit_codes": {"build": 0, "benchmark": 0},
            "failure": None,
            "stdout_base64": base64.b64encode(printed).decode(),
            "durations_s": {"build": 0.5, "benchmark": 1.5},
            "environment": {"driver": "none"},
        }
        return {**body, **changes}

    async def report(self, stdout: bytes | None = None, **changes: Any) -> Answer:
        return await self.report_body(self.result_body(stdout, **changes))

    async def report_body(self, body: Any) -> Answer:
        return await self.runner.api.post(
            f"/api/submissions/{self.uuid}/result", json=body, headers=self.headers
        )

    async def release(self, why: str = "draining") -> Answer:
        return await self.runner.api.post(
            f"/api/runner/release/{self.uuid}",
            json={"attempt": self.number, "runner_id": self.runner.runner_id, "why": why},
            headers=self.headers,
        )

    async def heartbeat(self, phase: str = "build") -> Answer:
        return await self.runner.heartbeat(
            {"uuid": self.uuid, "attempt": self.number, "phase": phase}
        )


@dataclass
class StubRunner:
    """A registered runner."""

    api: ApiClient
    registration: dict[str, Any]
    registered: dict[str, Any] = field(default_factory=dict)
    _claims: int = 0

    @classmethod
    async def register(cls, api: ApiClient, name: str = "stub", **changes: Any) -> Self:
        """Register a runner and return it; ``changes`` replace members of the body."""
        runner = cls(api, registration(name, **changes))
        answer = await api.post("/api/runner/register", json=runner.registration)
        assert answer.status == 200, answer.body
        runner.registered = answer.json()
        return runner

    @property
    def runner_id(self) -> str:
        return str(self.registered["runner_id"])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.registered['runner_token']}"}

    async def ask(
        self, *, wait: float = 10, claim_id: str | None = None, only: str | None = None
    ) -> Answer:
        """Claim, and return the answer as it is."""
        self._claims += 1
        body = {
            "runner_id": self.runner_id,
            "claim_id": claim_id or f"claim-{self._claims}",
            "submission": only,
        }
        return await self.api.post(
            f"/api/runner/claim?wait={wait}", json=body, headers=self.headers
        )

    async def claim(self, **arguments: Any) -> Attempt:
        """Claim what is there."""
        answer = await self.ask(**arguments)
        assert answer.status == 200, answer.body
        return Attempt(self, answer.json())

    async def heartbeat(self, *attempts: dict[str, Any], **changes: Any) -> Answer:
        body = {
            "runner_id": self.runner_id,
            "state": "busy" if attempts else "idle",
            "attempts": list(attempts),
            **changes,
        }
        return await self.api.post("/api/runner/heartbeat", json=body, headers=self.headers)

    async def run_one(self, stdout: bytes | None = None, **changes: Any) -> Answer:
        """Claim the next submission and report it, well unless told otherwise."""
        attempt = await self.claim()
        return await attempt.report(stdout, **changes)


def registration(name: str = "stub", **changes: Any) -> dict[str, Any]:
    """Return the body of a registration."""
    body: dict[str, Any] = {
        "name": name,
        "arch": ARCH,
        "product": "K100",
        "features": ["mfma_f32_16x16"],
        "gpus": [{"index": 0, "memory_bytes": 1024}],
        "backend": "stub",
        "isolation": "none",
        "version": "0.1.0",
        "protocol": {"min": 1, "max": 1},
        "boot_id": "boot-1",
        "instance": f"{name}-1",
    }
    return {**body, **changes}
