"""The bodies that runners send, as records: pure, each checked by its schema in openapi.yaml."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.errors import BadInput, Forbidden, Problem
from kzoo_core.ids import ClaimId, RunnerId, Sha256, SubmissionId
from kzoo_core.queue.exchange import Beat
from kzoo_core.queue.records import Phase
from kzoo_core.queue.runners import RunnerInfo
from kzoo_server.bodies import bad_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kzoo_core.queue.runners import Runner
    from kzoo_server.documents import ApiDocument

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1
"""The protocol versions that this server speaks; a runner's range has to meet it."""

_CONTENT_RANGE = re.compile(
    r"bytes (?:(?P<first>[0-9]{1,15})-(?P<last>[0-9]{1,15})/(?:\*|[0-9]{1,15})"
    r"|\*/(?P<total>[0-9]{1,15}))",
    re.ASCII,
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENDED_WELL = {"build": 0, "benchmark": 0}
"""What a runner that only has the output means when it says that all was well (D15)."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a claim asks for."""

    runner_id: RunnerId
    claim_id: ClaimId
    only: SubmissionId | None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a runner is doing."""

    runner_id: RunnerId
    state: str
    beats: tuple[Beat, ...]
    gpus: tuple[Mapping[str, object], ...] | None


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended; ``digest`` tells the same report from another one."""

    attempt: int
    runner_id: RunnerId
    report: RunReport
    log: bytes | None
    digest: Sha256


@dataclass(frozen=True, slots=True)
class Release:
    """An attempt that is handed back."""

    attempt: int
    runner_id: RunnerId
    why: str


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """``bytes FIRST-LAST/*``: where a chunk of a log lies; both ends are in it."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ClosingRange:
    """``bytes */TOTAL``: the log is complete and has that many bytes."""

    total: int


class Bodies:
    """Reads runners' bodies. Every method raises ``BadInput`` ``BAD_BODY`` with all problems.

    Members that the schema does not know are ignored: another version may send more.
    """

    def __init__(self, document: ApiDocument) -> None:
        self._document = document

    def registration(self, body: Mapping[str, Any]) -> RunnerInfo:
        """Return what a runner says of itself.

        Raises ``BadInput`` with code ``PROTOCOL_MISMATCH`` (426) where no version fits both.
        """
        self._check("RegisterRequest", body)
        low, high = body["protocol"]["min"], body["protocol"]["max"]
        if high < PROTOCOL_MIN or low > PROTOCOL_MAX:
            raise BadInput(
                "PROTOCOL_MISMATCH",
                f"the runner speaks protocol {low} to {high}, "
                f"this server {PROTOCOL_MIN} to {PROTOCOL_MAX}",
                hint=f"update the {'runner' if high < PROTOCOL_MIN else 'server'}",
            )
        return RunnerInfo(
            name=body["name"],
            instance=body["instance"],
            arch=body["arch"],
            product=body.get("product"),
            features=frozenset(body.get("features", ())),
            gpus=tuple(body.get("gpus", ())),
            backend=body["backend"],
            isolation=body["isolation"],
            version=body["version"],
            boot_id=body["boot_id"],
        )

    def claim(self, body: Mapping[str, Any]) -> ClaimRequest:
        """Return what a claim asks for."""
        self._check("ClaimRequest", body)
        only = body.get("submission")
        return ClaimRequest(
            RunnerId(body["runner_id"]),
            ClaimId(body["claim_id"]),
            SubmissionId(only) if only is not None else None,
        )

    def heartbeat(self, body: Mapping[str, Any]) -> Heartbeat:
        """Return what a runner is doing."""
        self._check("HeartbeatRequest", body)
        return Heartbeat(
            runner_id=RunnerId(body["runner_id"]),
            state=body["state"],
            beats=tuple(
                Beat(SubmissionId(item["uuid"]), item["attempt"], Phase(item["phase"]))
                for item in body["attempts"]
            ),
            gpus=tuple(body["gpus"]) if "gpus" in body else None,
        )

    def result(self, body: Mapping[str, Any]) -> Result:
        """Return how an attempt ended; an ``output`` counts as the text that would print it (D15).

        A standard output that is too large is kept as it came: saying so is the verdict's.
        """
        self._check("ResultRequest", body)
        if body.get("output") is not None and body.get("stdout_base64") is not None:
            raise bad_body(
                Problem(
                    code="bad_body",
                    message="the body has both output and stdout_base64",
                    pointer="/output",
                    found="both",
                    expected="one of them",
                    hint="send stdout_base64 alone: it is the evidence",
                )
            )
        failure = body.get("failure")
        codes = body.get("exit_codes", _ENDED_WELL if body["build_ok"] and not failure else {})
        report = RunReport(
            build_ok=body["build_ok"],
            build_exit_code=codes.get("build"),
            benchmark_exit_code=codes.get("benchmark"),
            failure=RunFailure(failure["kind"], failure["detail"]) if failure else None,
            stdout=_stdout(body),
            durations_s={
                name: float(value)
                for name, value in body.get("durations_s", {}).items()
                if value is not None
            },
            environment=body.get("environment", {}),
        )
        log = body.get("logs_base64")
        return Result(
            attempt=body["attempt"],
            runner_id=RunnerId(body["runner_id"]),
            report=report,
            log=_decoded(log, "logs_base64") if log is not None else None,
            digest=Sha256(hashlib.sha256(canonical_json(body)).hexdigest()),
        )

    def release(self, body: Mapping[str, Any]) -> Release:
        """Return which attempt is handed back."""
        self._check("ReleaseRequest", body)
        return Release(body["attempt"], RunnerId(body["runner_id"]), body["why"])

    def _check(self, component: str, body: object) -> None:
        problems = self._document.body_problems(component, body)
        if problems:
            raise bad_body(*problems)


def canonical_json(value: object) -> bytes:
    """Return JSON that is the same for equal values: keys sorted, no spaces, ASCII."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def content_range(header: str | None) -> ChunkRange | ClosingRange:
    """Read the ``Content-Range`` of a log call; raises ``BadInput`` with code ``BAD_HEADER``."""
    match = _CONTENT_RANGE.fullmatch(header or "")
    if match is not None and match["total"] is not None:
        return ClosingRange(int(match["total"]))
    if match is not None and int(match["first"]) <= int(match["last"]):
        return ChunkRange(int(match["first"]), int(match["last"]))
    found = header[:80] if header is not None else "no header"
    problem = Problem(
        code="bad_header",
        message=f"Content-Range is {found!r}" if header is not None else "Content-Range is missing",
        found=found,
        expected="bytes FIRST-LAST/*, or bytes */TOTAL to close the log",
    )
    raise BadInput("BAD_HEADER", problem.message, details=(problem,))


def log_digest(header: str | None) -> Sha256:
    """Read ``X-Log-Sha256``; raises ``BadInput`` with code ``BAD_HEADER``."""
    if header is not None and _SHA256.fullmatch(header):
        return Sha256(header)
    found = header[:80] if header is not None else "no header"
    problem = Problem(
        code="bad_header",
        message=f"X-Log-Sha256 is {found!r}" if header is not None else "X-Log-Sha256 is missing",
        found=found,
        expected="the sha256 of the whole log, 64 lower-case hex digits",
    )
    raise BadInput("BAD_HEADER", problem.message, details=(problem,))


def require_same(runner: Runner, runner_id: RunnerId) -> None:
    """Raise ``Forbidden`` ``WRONG_RUNNER`` unless the token and the body name the same runner."""
    if runner.runner_id != runner_id:
        raise Forbidden(
            "WRONG_RUNNER",
            f"the token is that of {runner.runner_id}, the call names {runner_id[:128]}",
            hint="use the runner_id and the token of one and the same registration",
        )


def _stdout(body: Mapping[str, Any]) -> bytes | None:
    if body.get("output") is not None:
        return canonical_json(body["output"])
    text = body.get("stdout_base64")
    return _decoded(text, "stdout_base64") if text is not None else None


def _decoded(text: str, member: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        problem = Problem(
            code="bad_body",
            message=f"{member} is no base64: {error}",
            pointer=f"/{member}",
            found=repr(text[:40]),
            expected="base64 of RFC 4648, padded, without line breaks",
        )
        raise bad_body(problem) from error
