"""The body of a result as it is posted: made once, kept byte for byte, cut only when refused.

The server knows a result by the digest of these bytes, so a resend has to be the same bytes.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from kzoo_core.contract.verdict import FailureKind

if TYPE_CHECKING:
    from kzoo_core.contract.records import RunReport
    from kzoo_core.ids import RunnerId
    from kzoo_core.runner.records import AttemptKey


def result_body(
    report: RunReport,
    *,
    key: AttemptKey,
    runner_id: RunnerId,
    logs: bytes | None,
    limit_bytes: int,
) -> bytes:
    """Return the JSON body of a report.

    ``logs`` travel with it only when nothing of them could be sent before, and only when the whole
    stays within ``limit_bytes``.
    """
    document: dict[str, object] = {
        "attempt": key.number,
        "runner_id": runner_id,
        "build_ok": report.build_ok,
        "exit_codes": {"build": report.build_exit_code, "benchmark": report.benchmark_exit_code},
        "failure": None
        if report.failure is None
        else {"kind": report.failure.kind, "detail": report.failure.detail},
        "stdout_base64": None if report.stdout is None else _base64(report.stdout),
        "durations_s": {name: round(value, 6) for name, value in report.durations_s.items()},
        "environment": dict(report.environment),
    }
    if logs:
        with_logs = _dump({**document, "logs_base64": _base64(logs)})
        if len(with_logs) <= limit_bytes:
            return with_logs
    return _dump(document)


def cut_body(body: bytes, cuts: int) -> bytes:
    """Return a result that the server found too large: without its log, then without its output.

    Output that cannot be delivered is output over the limit, and the result says so.
    """
    if cuts == 0:
        return body
    document = json.loads(body)
    document.pop("logs_base64", None)
    if cuts > 1:
        document["stdout_base64"] = None
        document["failure"] = document["failure"] or {
            "kind": FailureKind.OUTPUT_LIMIT.value,
            "detail": f"the server takes no result of {len(body)} bytes",
        }
    return _dump(document)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _dump(document: dict[str, object]) -> bytes:
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
