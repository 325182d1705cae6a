"""The runner's calls, typed, over the shared HTTP transport.

Each call is tried once: when to ask again is the machine's (or the log relay's) to decide. Whatever
keeps a call from going through is a ``CallRefused`` whose refusal the machine understands.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.client.failures import ConnectionLost
from kzoo_core.errors import KzooError
from kzoo_core.runner.answers import (
    Unreadable,
    read_beat_answer,
    read_claimed,
    read_delivery,
    read_registered,
)
from kzoo_core.runner.events import Call, Refusal
from kzoo_core.runner.records import PROTOCOL_MAX, PROTOCOL_MIN, Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from kzoo_core.client.transport import Answer, Transport
    from kzoo_core.ids import ClaimId, Sha256
    from kzoo_core.queue.records import Phase
    from kzoo_core.runner.records import (
        AttemptKey,
        Beat,
        BeatAnswer,
        ClaimedAttempt,
        Registered,
        Registration,
    )

Parsed = TypeVar("Parsed")

CLAIM_MARGIN_S = 15.0
"""What a held claim may take beyond the hold itself."""
CALL_TIMEOUT_S = 30.0
TRANSFER_TIMEOUT_S = 120.0
"""A package (≤ 8 MiB) or a result's body over a slow line."""

_RANGE = re.compile(r"bytes=0-(\d+)", re.ASCII)


class CallRefused(Exception):
    """A call did not go through; ``held`` is what a 416 says the server has of the log."""

    def __init__(self, refusal: Refusal, *, held: int = 0) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.held = held


class Identity:
    """Who the server takes this runner for: set by the main thread, read by both.

    Both members are replaced in one assignment, so a reader never sees half of a change.
    """

    def __init__(self) -> None:
        self._current: tuple[int, Registered | None] = (0, None)

    def adopt(self, registered: Registered) -> None:
        """Take a new registration's answer as the identity."""
        self._current = (self._current[0] + 1, registered)

    @property
    def number(self) -> int:
        """How many registrations there have been."""
        return self._current[0]

    @property
    def registered(self) -> Registered | None:
        """The newest registration's answer."""
        return self._current[1]

    def snapshot(self) -> tuple[int, Registered]:
        """Return number and answer together; a caller that was never registered is a bug."""
        number, registered = self._current
        if registered is None:
            raise RuntimeError("a runner's call is made after it registered")
        return number, registered


class RunnerApi:
    """The calls of one session; the heartbeat thread has a session and an instance of its own."""

    def __init__(self, transport: Transport, identity: Identity) -> None:
        self._transport = transport
        self._identity = identity

    async def register(self, registration: Registration) -> Registered:
        """Make the runner known and return who it is; the caller adopts the answer."""
        body = {
            "name": registration.name,
            "arch": registration.arch,
            "product": registration.product,
            "features": list(registration.features),
            "gpus": [],
            "backend": registration.backend,
            "isolation": registration.isolation,
            "version": registration.version,
            "protocol": {"min": PROTOCOL_MIN, "max": PROTOCOL_MAX},
            "boot_id": registration.boot_id,
            "instance": registration.instance,
        }
        try:
            answer = await self._transport.request(
                "POST", "/api/runner/register", json=body, timeout_s=CALL_TIMEOUT_S, retry=False
            )
            return _parsed(answer, read_registered)
        except KzooError as error:
            raise CallRefused(_refusal(Call.REGISTER, error, None, 0)) from error

    async def claim(self, claim_id: ClaimId, wait_s: float) -> ClaimedAttempt | None:
        """Ask for an attempt; ``None`` when there is none within ``wait_s``.

        The same ``claim_id`` gives the same attempt, so a lost answer is asked for again with it.
        """
        _, registered = self._identity.snapshot()
        answer = await self._send(
            Call.CLAIM,
            "POST",
            "/api/runner/claim",
            params={"wait": f"{wait_s:g}"},
            json={"runner_id": registered.runner_id, "claim_id": claim_id},
            timeout_s=wait_s + CLAIM_MARGIN_S,
        )
        if answer.status == 204:
            return None
        reader = partial(read_claimed, defaults=registered.limits)
        return self._read(Call.CLAIM, answer, reader)

    async def package(self, claimed: ClaimedAttempt) -> bytes:
        """Return the bytes frozen for this attempt, not yet verified."""
        answer = await self._send(
            Call.PACKAGE,
            "GET",
            claimed.package_path,
            params={"attempt": claimed.key.number},
            key=claimed.key,
            token=claimed.token,
            timeout_s=TRANSFER_TIMEOUT_S,
        )
        return answer.body

    async def heartbeat(self, beat: Beat, *, timeout_s: float) -> BeatAnswer:
        """Say what the runner is doing and return what the server makes of it."""
        _, registered = self._identity.snapshot()
        attempts = [
            {"uuid": key.uuid, "attempt": key.number, "phase": phase.value}
            for key, phase in beat.attempts
        ]
        answer = await self._send(
            Call.HEARTBEAT,
            "POST",
            "/api/runner/heartbeat",
            json={
                "runner_id": registered.runner_id,
                "state": beat.state,
                "attempts": attempts,
                "gpus": [],
            },
            timeout_s=timeout_s,
        )
        return self._read(Call.HEARTBEAT, answer, read_beat_answer)

    async def append_log(
        self, claimed: ClaimedAttempt, start: int, data: bytes, phase: Phase | None
    ) -> int:
        """Send bytes of the log that begin at ``start``; return how many the server now holds."""
        headers = {"Content-Range": f"bytes {start}-{start + len(data) - 1}/*"}
        if phase is not None:
            headers["X-Phase"] = phase.value
        answer = await self._patch_log(claimed, data, headers)
        held = _held(answer)
        return start + len(data) if held is None else held

    async def close_log(self, claimed: ClaimedAttempt, total: int, sha256: Sha256) -> None:
        """Say that the log is whole: its size and digest. 412 means that the server has others."""
        headers = {"Content-Range": f"bytes */{total}", "X-Log-Sha256": sha256}
        await self._patch_log(claimed, b"", headers)

    async def report(self, key: AttemptKey, token: str, body: bytes) -> Delivery:
        """Deliver a result; the same bytes may be sent again and count once."""
        answer = await self._send(
            Call.RESULT,
            "POST",
            f"/api/submissions/{key.uuid}/result",
            data=body,
            headers={"Content-Type": "application/json"},
            key=key,
            token=token,
            timeout_s=TRANSFER_TIMEOUT_S,
        )
        try:
            return read_delivery(answer.json())
        except KzooError:
            # The status alone says that it is durable there; nothing hangs on the body.
            return Delivery(None, None, None)

    async def release(self, key: AttemptKey, token: str, why: str) -> None:
        """Hand back an attempt that has not begun; it is not charged."""
        _, registered = self._identity.snapshot()
        await self._send(
            Call.RELEASE,
            "POST",
            f"/api/runner/release/{key.uuid}",
            json={"attempt": key.number, "runner_id": registered.runner_id, "why": why},
            key=key,
            token=token,
        )

    async def _patch_log(
        self, claimed: ClaimedAttempt, data: bytes, headers: Mapping[str, str]
    ) -> Answer:
        number = self._identity.number
        answer = await self._send(
            Call.LOG,
            "PATCH",
            f"/api/runner/log/{claimed.key.uuid}",
            params={"attempt": claimed.key.number},
            data=data,
            headers=headers,
            key=claimed.key,
            token=claimed.token,
            accept=(416,),
        )
        if answer.status == 416:
            refusal = Refusal(
                call=Call.LOG,
                status=416,
                message="the server lacks earlier bytes of the log",
                code="LOG_GAP",
                key=claimed.key,
                identity=number,
            )
            raise CallRefused(refusal, held=_held(answer) or 0)
        return answer

    async def _send(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | float | bool | None] | None = None,
        json: object = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: AttemptKey | None = None,
        token: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        accept: Container[int] = (),
    ) -> Answer:
        number, registered = self._identity.snapshot()
        secret = {"Authorization": f"Bearer {registered.runner_token}"}
        if token is not None:
            secret["X-Attempt-Token"] = token
        try:
            return await self._transport.request(
                method,
                path,
                params=params,
                json=json,
                data=data,
                headers={**secret, **(headers or {})},
                timeout_s=timeout_s,
                retry=False,
                accept=accept,
            )
        except KzooError as error:
            raise CallRefused(_refusal(call, error, key, number)) from error

    def _read(self, call: Call, answer: Answer, reader: Callable[[object], Parsed]) -> Parsed:
        try:
            return _parsed(answer, reader)
        except KzooError as error:
            raise CallRefused(_refusal(call, error, None, self._identity.number)) from error


def common_version(theirs: tuple[int, int] | None) -> int | None:
    """Return the newest protocol version that both sides speak, if there is one.

    A server that gives no range has accepted ours by answering.
    """
    least, most = theirs or (PROTOCOL_MIN, PROTOCOL_MAX)
    newest = min(most, PROTOCOL_MAX)
    return newest if newest >= max(least, PROTOCOL_MIN) else None


def _parsed(answer: Answer, reader: Callable[[object], Parsed]) -> Parsed:
    try:
        return reader(answer.json())
    except Unreadable as error:
        raise KzooError(
            "UNEXPECTED_ANSWER",
            f"{answer.url} answered something that this runner cannot read: {error}",
            hint="is this URL a kernel_zoo server, of a version that fits this runner?",
        ) from error


def _refusal(call: Call, error: KzooError, key: AttemptKey | None, identity: int) -> Refusal:
    lost = isinstance(error, ConnectionLost)
    status = None if lost else (error.status or 200)
    return Refusal(
        call=call,
        status=status,
        message=error.message if lost else f"{error.code}: {error.message}",
        code=error.code,
        key=key,
        retry_after_s=error.retry_after_s,
        identity=identity,
    )


def _held(answer: Answer) -> int | None:
    """Return how many bytes the ``Range`` header says are held, where it says so."""
    match = _RANGE.fullmatch(answer.headers.get("Range", ""))
    return None if match is None else int(match[1]) + 1
