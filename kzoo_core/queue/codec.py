"""Records of the queue as the JSON that lies on disk, and back.

What is written is read back equal. Reading is strict about what it needs and deaf to fields that it
does not know, so that a later server of the same format can be followed by an earlier one.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar, cast

from kzoo_core.clock import parse_time
from kzoo_core.contract.records import Record, RunFailure, RunReport
from kzoo_core.errors import Broken, Problem, Severity
from kzoo_core.ids import (
    ClaimId,
    CommitId,
    KernelId,
    RunnerId,
    Sha256,
    SubmissionId,
    SubmitterId,
)
from kzoo_core.queue.keys import KeyUse
from kzoo_core.queue.records import (
    Attempt,
    AttemptEnd,
    Idempotency,
    Mode,
    Outcome,
    Phase,
    Reason,
    State,
    Submission,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Value = TypeVar("Value")
Made = TypeVar("Made")


class UnreadableRecord(Broken):
    """A file of the spool is not what the queue writes."""


def write_submission(submission: Submission) -> bytes:
    """Return the record as one JSON document of ASCII text."""
    attempt_items = [_attempt_json(attempt) for attempt in submission.attempts]
    reason = submission.reason
    return _dump(
        {
            "uuid": submission.uuid,
            "kernel_id": submission.kernel_id,
            "submitter_id": submission.submitter_id,
            "mode": submission.mode,
            "arch": submission.arch,
            "min_arch_feature": submission.min_arch_feature,
            "package_sha256": submission.package_sha256,
            "package_bytes": submission.package_bytes,
            "submitted_at": _write_time(submission.submitted_at),
            "optimization_summary": submission.optimization_summary,
            "warnings": [problem.as_json() for problem in submission.warnings],
            "state": submission.state,
            "revision": submission.revision,
            "charged": submission.charged,
            "uncharged": dict(submission.uncharged),
            "attempts": attempt_items,
            "outcome": submission.outcome,
            "reason": None
            if reason is None
            else {
                "code": reason.code,
                "message": reason.message,
                "details": [problem.as_json() for problem in reason.details],
            },
            "commit_sha": submission.commit_sha,
            "bench_commit_sha": submission.bench_commit_sha,
            "records": [
                {
                    "test_case_id": record.test_case_id,
                    "metric": record.metric,
                    "unit": record.unit,
                    "value": record.value,
                    "previous": record.previous,
                }
                for record in submission.records
            ],
            "finished_at": _optional(submission.finished_at, _write_time),
            "idempotency": None
            if submission.idempotency is None
            else {
                "key": submission.idempotency.key,
                "body_sha256": submission.idempotency.body_sha256,
            },
        }
    )


def read_submission(data: bytes) -> Submission:
    """Return the record that ``write_submission`` wrote; raises ``UnreadableRecord``."""
    return _read(data, "submission", _submission)


def write_report(report: RunReport, digest: Sha256) -> bytes:
    """Return a report without its stdout, which lies beside it as raw bytes."""
    return _dump(
        {
            "digest": digest,
            "build_ok": report.build_ok,
            "build_exit_code": report.build_exit_code,
            "benchmark_exit_code": report.benchmark_exit_code,
            "failure": None
            if report.failure is None
            else {"kind": report.failure.kind, "detail": report.failure.detail},
            "durations_s": dict(report.durations_s),
            "environment": dict(report.environment),
            "has_stdout": report.stdout is not None,
        }
    )


def read_report(data: bytes, stdout: Callable[[], bytes]) -> RunReport:
    """Return the report that ``write_report`` wrote; raises ``UnreadableRecord``.

    ``stdout`` is called only when the report has some.
    """

    def report(fields: _Fields) -> RunReport:
        failure = fields.inner("failure")
        return RunReport(
            build_ok=fields.take("build_ok", bool),
            build_exit_code=fields.maybe("build_exit_code", int),
            benchmark_exit_code=fields.maybe("benchmark_exit_code", int),
            failure=None
            if failure is None
            else RunFailure(failure.take("kind", str), failure.take("detail", str)),
            stdout=stdout() if fields.take("has_stdout", bool) else None,
            durations_s={
                phase: _number(seconds)
                for phase, seconds in fields.take("durations_s", dict).items()
            },
            environment=fields.take("environment", dict),
        )

    return _read(data, "report", report)


def write_keys(uses: Iterable[KeyUse]) -> bytes:
    """Return idempotency keys and what they stand for."""
    return _dump(
        {
            "keys": [
                {
                    "made_at": _write_time(use.made_at),
                    "uuid": use.uuid,
                    "submitter_id": use.submitter_id,
                    "key": use.key,
                    "body_sha256": use.body_sha256,
                }
                for use in uses
            ]
        }
    )


def read_keys(data: bytes) -> tuple[KeyUse, ...]:
    """Return what ``write_keys`` wrote; raises ``UnreadableRecord``."""
    return _read(data, "keys", lambda fields: fields.each("keys", _key_use))


class _Fields:
    """A JSON object whose fields are taken with the type that they must have."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"{type(value).__name__} where an object belongs")
        self._value = value

    def take(self, name: str, kind: type[Value]) -> Value:
        value = self._value[name]
        if type(value) is not kind:
            raise TypeError(f"{name} is {type(value).__name__}, not {kind.__name__}")
        return value

    def maybe(self, name: str, kind: type[Value]) -> Value | None:
        return None if self._value.get(name) is None else self.take(name, kind)

    def number(self, name: str) -> float:
        return _number(self._value[name])

    def maybe_number(self, name: str) -> float | None:
        return None if self._value.get(name) is None else self.number(name)

    def time(self, name: str) -> datetime:
        return parse_time(self.take(name, str))

    def maybe_time(self, name: str) -> datetime | None:
        return None if self._value.get(name) is None else self.time(name)

    def inner(self, name: str) -> _Fields | None:
        return None if self._value.get(name) is None else _Fields(self._value[name])

    def each(self, name: str, make: Callable[[_Fields], Value]) -> tuple[Value, ...]:
        return tuple(make(_Fields(item)) for item in self.take(name, list))


def _read(data: bytes, what: str, make: Callable[[_Fields], Value]) -> Value:
    try:
        return make(_Fields(json.loads(data)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        found = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UnreadableRecord(
            "UNREADABLE_RECORD",
            f"the {what}'s record is not what the queue writes: {found}",
            hint="look at the file; the queue keeps it in corrupt/",
        ) from error


def _submission(fields: _Fields) -> Submission:
    reason = fields.inner("reason")
    key = fields.inner("idempotency")
    return Submission(
        uuid=SubmissionId(fields.take("uuid", str)),
        kernel_id=KernelId(fields.take("kernel_id", str)),
        submitter_id=SubmitterId(fields.take("submitter_id", str)),
        mode=Mode(fields.take("mode", str)),
        arch=fields.take("arch", str),
        min_arch_feature=fields.maybe("min_arch_feature", str),
        package_sha256=Sha256(fields.take("package_sha256", str)),
        package_bytes=fields.take("package_bytes", int),
        submitted_at=fields.time("submitted_at"),
        optimization_summary=fields.maybe("optimization_summary", str),
        warnings=fields.each("warnings", _problem),
        state=State(fields.take("state", str)),
        revision=fields.take("revision", int),
        charged=fields.take("charged", int),
        uncharged=_counts(fields.take("uncharged", dict)),
        attempts=fields.each("attempts", _attempt),
        outcome=_optional(fields.maybe("outcome", str), Outcome),
        reason=None
        if reason is None
        else Reason(
            code=reason.take("code", str),
            message=reason.take("message", str),
            details=reason.each("details", _problem),
        ),
        commit_sha=_optional(fields.maybe("commit_sha", str), CommitId),
        bench_commit_sha=_optional(fields.maybe("bench_commit_sha", str), CommitId),
        records=fields.each("records", _record),
        finished_at=fields.maybe_time("finished_at"),
        idempotency=None
        if key is None
        else Idempotency(
            key=key.take("key", str), body_sha256=Sha256(key.take("body_sha256", str))
        ),
    )


def _attempt_json(attempt: Attempt) -> dict[str, object]:
    return {
        "number": attempt.number,
        "runner_id": attempt.runner_id,
        "claim_id": attempt.claim_id,
        "token_sha256": attempt.token_sha256,
        "arch": attempt.arch,
        "isolation": attempt.isolation,
        "package_sha256": attempt.package_sha256,
        "base_tree": attempt.base_tree,
        "claimed_at": _write_time(attempt.claimed_at),
        "lease_expires_at": _write_time(attempt.lease_expires_at),
        "confirmed": attempt.confirmed,
        "phase": attempt.phase,
        "ended_at": _optional(attempt.ended_at, _write_time),
        "end": attempt.end,
        "detail": attempt.detail,
        "result_sha256": attempt.result_sha256,
    }


def _attempt(fields: _Fields) -> Attempt:
    return Attempt(
        number=fields.take("number", int),
        runner_id=RunnerId(fields.take("runner_id", str)),
        claim_id=ClaimId(fields.take("claim_id", str)),
        token_sha256=Sha256(fields.take("token_sha256", str)),
        arch=fields.take("arch", str),
        isolation=fields.take("isolation", str),
        package_sha256=Sha256(fields.take("package_sha256", str)),
        base_tree=fields.maybe("base_tree", str),
        claimed_at=fields.time("claimed_at"),
        lease_expires_at=fields.time("lease_expires_at"),
        confirmed=fields.take("confirmed", bool),
        phase=Phase(fields.take("phase", str)),
        ended_at=fields.maybe_time("ended_at"),
        end=_optional(fields.maybe("end", str), AttemptEnd),
        detail=fields.maybe("detail", str),
        result_sha256=_optional(fields.maybe("result_sha256", str), Sha256),
    )


def _problem(fields: _Fields) -> Problem:
    return Problem(
        code=fields.take("code", str),
        message=fields.take("message", str),
        severity=Severity(fields.take("severity", str)),
        file=fields.maybe("file", str),
        pointer=fields.maybe("pointer", str),
        line=fields.maybe("line", int),
        column=fields.maybe("column", int),
        found=fields.maybe("found", str),
        expected=fields.maybe("expected", str),
        hint=fields.maybe("hint", str),
    )


def _record(fields: _Fields) -> Record:
    return Record(
        test_case_id=fields.take("test_case_id", str),
        metric=fields.take("metric", str),
        unit=fields.take("unit", str),
        value=fields.number("value"),
        previous=fields.maybe_number("previous"),
    )


def _key_use(fields: _Fields) -> KeyUse:
    return KeyUse(
        made_at=fields.time("made_at"),
        uuid=SubmissionId(fields.take("uuid", str)),
        submitter_id=SubmitterId(fields.take("submitter_id", str)),
        key=fields.take("key", str),
        body_sha256=Sha256(fields.take("body_sha256", str)),
    )


def _counts(value: dict[str, object]) -> dict[str, int]:
    counts = {}
    for name, count in value.items():
        if type(count) is not int:
            raise TypeError(f"the count of {name} is {type(count).__name__}, not int")
        counts[name] = count
    return counts


def _number(value: object) -> float:
    if type(value) is not int and type(value) is not float:
        raise TypeError(f"{type(value).__name__} where a number belongs")
    return cast("float", value)


def _optional(value: Value | None, make: Callable[[Value], Made]) -> Made | None:
    return None if value is None else make(value)


def _write_time(moment: datetime) -> str:
    # Microseconds, unlike the whole seconds of what leaves the server: they keep the queue's order.
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _dump(document: dict[str, object]) -> bytes:
    return json.dumps(document, allow_nan=False).encode("ascii") + b"\n"
