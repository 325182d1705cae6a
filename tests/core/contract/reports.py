"""A good report of a valid package, and how tests make bad ones of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.package import check_submission
from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.contract.verdict import (
    MALFORMED,
    Verdict,
    VerdictContext,
    VerdictReason,
    judge,
)
from tests.packages import output_document, valid_package

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = valid_package()
CHECKED = check_submission(PACKAGE)
assert CHECKED.desc is not None
assert CHECKED.metas is not None
CONTEXT = VerdictContext(
    kernel_id=PACKAGE.kernel_id,
    desc=CHECKED.desc,
    metas=CHECKED.metas,
    package_paths=frozenset(PACKAGE.files),
    runner_arch="gfx928",
)
REPORT = RunReport(
    build_ok=True,
    build_exit_code=0,
    benchmark_exit_code=0,
    failure=None,
    stdout=json.dumps(output_document()).encode(),
)


def with_failure(kind: str, detail: str = "the detail") -> RunReport:
    return replace(REPORT, failure=RunFailure(kind, detail))


def with_stdout(stdout: bytes | None) -> RunReport:
    return replace(REPORT, stdout=stdout)


def changed(change: Callable[[Any], object]) -> RunReport:
    document = output_document()
    change(document)
    return with_stdout(json.dumps(document).encode())


def rejected(
    report: RunReport, reason: VerdictReason, context: VerdictContext = CONTEXT
) -> Verdict:
    verdict = judge(report, context)
    assert not verdict.accepted
    assert verdict.reason is reason
    assert verdict.malformed == (reason in MALFORMED)
    return verdict
