from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.clock import SystemClock
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from tests.packages import (
    KERNEL_ID,
    output_bytes,
    output_document,
    package_tarball,
    valid_package,
)
from tests.server.conftest import SEEDED
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.api_client import ApiClient
    from tests.server.conftest import Serve, Served
    from tests.server.stub_runner import Attempt

ARCHIVE = package_tarball(valid_package())
GOOD = output_bytes()


def changed(change: Callable[[Any], object]) -> bytes:
    """Return a good output with something changed in its document."""
    document = output_document()
    change(document)
    return json.dumps(document).encode()


@pytest.fixture
async def attempt(api: ApiClient) -> Attempt:
    """Return an attempt that runs."""
    await api.submitted(ARCHIVE)
    return await (await StubRunner.register(api)).claim()


async def test_an_accepted_result_is_answered_with_its_verdict_and_committed(
    attempt: Attempt,
) -> None:
    answer = await attempt.report()
    assert answer.status == 202
    body = answer.json()
    assert body.pop("status") in {"running", "done"}
    assert body == {
        "uuid": attempt.uuid,
        "attempt": 1,
        "accepted": True,
        "outcome": None,
        "reason": None,
    }
    status = await attempt.runner.api.done(attempt.uuid)
    assert (status["outcome"], status["reason"]) == ("accepted", None)
    record = (await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}")).json()
    assert record["commit_sha"] != record["bench_commit_sha"]
    assert record["attempts"][0]["end"] == "reported"


MALFORMED: dict[str, tuple[bytes, str, str, list[dict[str, object]]]] = {
    "NaN": (
        GOOD.replace(b"1.5", b"NaN"),
        "non_finite",
        "holds NaN in line 1, column 437",
        [
            {"code": "non_finite"},
            {"code": "non_finite_number", "line": 1, "column": 437, "expected": "finite numbers"},
        ],
    ),
    "two documents": (
        GOOD + GOOD,
        "output_not_json",
        "a second document follows the first in line 2, column 1",
        [
            {"code": "output_not_json"},
            {
                "code": "json_two_documents",
                "line": 2,
                "column": 1,
                "expected": "exactly one JSON document",
            },
        ],
    ),
    "log lines on stdout": (
        b"warming up\n" + GOOD,
        "output_not_json",
        "begins with text that is no JSON in line 1, column 1",
        [
            {"code": "output_not_json"},
            {"code": "json_stray_text", "line": 1, "column": 1},
        ],
    ),
    "nothing": (
        b"",
        "output_not_json",
        "standard output is not exactly one JSON document",
        [{"code": "output_not_json"}, {"code": "json_empty", "found": "nothing"}],
    ),
    "a key twice": (
        b'{"kernel_id": "a", "kernel_id": "b"}',
        "output_not_json",
        "the key kernel_id is given twice in line 1, column 20",
        [{"code": "output_not_json"}, {"code": "json_duplicate_key", "column": 20}],
    ),
    "another schema": (
        changed(lambda document: document["cases"][0].update(accept="yes")),
        "schema",
        'cases[0].accept is "yes"; expected true or false',
        [
            {"code": "schema"},
            {
                "code": "wrong_type",
                "pointer": "/cases/0/accept",
                "found": '"yes"',
                "expected": "true or false",
            },
        ],
    ),
    "a missing case": (
        changed(lambda document: document["cases"].pop()),
        "case_set_mismatch",
        "cases missing: n8",
        [
            {
                "code": "case_set_mismatch",
                "pointer": "/cases",
                "found": "n4",
                "expected": "n4, n8",
                "hint": "report every case of KERNEL_ZOO_TEST_CASE_METAS exactly once",
            }
        ],
    ),
    "an extra case": (
        changed(
            lambda document: document["cases"].append(
                document["cases"][0] | {"test_case_id": "n16"}
            )
        ),
        "case_set_mismatch",
        "cases not in the metas: n16",
        [{"code": "case_set_mismatch", "found": "n4, n8, n16", "expected": "n4, n8"}],
    ),
    "a failed case accepted": (
        changed(lambda document: document["cases"][0].update(correctness="failed")),
        "failed_case_accepted",
        "n4",
        [
            {
                "code": "failed_case_accepted",
                "pointer": "/cases/0/accept",
                "found": "correctness failed, accept true",
                "expected": "accept false",
            }
        ],
    ),
    "an accept with a failed case": (
        changed(lambda document: document["cases"][0].update(correctness="failed", accept=False)),
        "accept_with_failed_case",
        "n4",
        [
            {
                "code": "accept_with_failed_case",
                "pointer": "/cases/0/correctness",
                "found": "failed",
                "expected": "every case passed, or overall.accept false",
            }
        ],
    ),
    "another kernel_id": (
        changed(lambda document: document.update(kernel_id=SEEDED)),
        "kernel_id_mismatch",
        SEEDED,
        [
            {
                "code": "kernel_id_mismatch",
                "pointer": "/kernel_id",
                "found": SEEDED,
                "expected": KERNEL_ID,
                "hint": "take it from the environment variable KERNEL_ZOO_KERNEL_ID",
            }
        ],
    ),
    "another arch": (
        changed(lambda document: document.update(arch="gfx936")),
        "arch_mismatch",
        "gfx936",
        [{"code": "arch_mismatch", "pointer": "/arch", "expected": "gfx928"}],
    ),
    "an undeclared metric": (
        changed(
            lambda document: document["cases"][0]["metrics"].append({"name": "speed", "value": 1})
        ),
        "metric_set_mismatch",
        "speed",
        [{"code": "metric_set_mismatch", "pointer": "/cases/0/metrics"}],
    ),
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_output_is_told_recorded_and_delivered(
    server: Served, attempt: Attempt, what: str
) -> None:
    stdout, reason, message, details = MALFORMED[what]
    snapshot = server.system.board.snapshot
    answer = await attempt.report(stdout)
    assert answer.status == 422
    error = answer.error
    told = error.pop("details")
    assert message in error["message"]
    status = await attempt.runner.api.done(attempt.uuid)
    assert error == {
        "code": "RESULT_REJECTED",
        "message": f"the submission is rejected: {status['reason']['message']}",
        "retry": False,
        "hint": "the result is recorded; do not send it again",
    }
    assert len(told) == len(details)
    for found, expected in zip(told, details, strict=True):
        assert expected.items() <= found.items()
    assert told[0]["code"] == reason
    assert status["outcome"] == "rejected"
    assert status["reason"]["code"] == reason
    assert status["reason"]["details"] == told[-len(status["reason"]["details"]) :]
    assert (status["commit_sha"], status["records"]) == (None, [])
    output = (await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/output")).json()
    assert output["stdout"] == stdout.decode()
    assert server.system.board.snapshot is snapshot


REJECTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "accept with build_ok false": (
        {"stdout": changed(lambda document: document["overall"].update(build_ok=False))},
        "build_not_ok",
        "the build was not good",
    ),
    "the benchmark's own verdict": (
        {
            "stdout": changed(
                lambda document: document["overall"].update(
                    accept=False, accept_reason="slower than the best"
                )
            )
        },
        "benchmark_rejected",
        "slower than the best",
    ),
    "exit 1 after accept": (
        {"exit_codes": {"build": 0, "benchmark": 1}},
        "benchmark_failed",
        "exit code 1",
    ),
    "a build that failed": (
        {"exit_codes": {"build": 3, "benchmark": None}, "stdout_base64": None},
        "build_failed",
        "exit code 3",
    ),
    "a build that is not good": (
        {"build_ok": False, "exit_codes": {"build": 0}, "stdout_base64": None},
        "build_failed",
        "the build failed",
    ),
    "a timeout": (
        {
            "failure": {"kind": "timeout", "detail": "benchmark.py ran for 600 s"},
            "stdout_base64": None,
        },
        "timeout",
        "benchmark.py ran for 600 s",
    ),
}


@pytest.mark.parametrize("what", REJECTED)
async def test_a_rejection_is_the_packages_doing_and_delivered(attempt: Attempt, what: str) -> None:
    changes, reason, message = REJECTED[what]
    answer = await attempt.report(**changes)
    assert answer.status == 202
    body = answer.json()
    told = body.pop("reason")
    assert body == {
        "uuid": attempt.uuid,
        "attempt": 1,
        "accepted": False,
        "outcome": "rejected",
        "status": "done",
    }
    assert told["code"] == reason
    assert message in told["message"]
    status = await attempt.runner.api.done(attempt.uuid)
    assert (status["outcome"], status["reason"]) == ("rejected", told)


async def test_a_failure_of_the_infrastructure_is_tried_again(attempt: Attempt) -> None:
    failure = {"kind": "gpu_fault", "detail": "XID 79"}
    answer = await attempt.report(failure=failure, stdout_base64=None)
    assert answer.status == 202
    assert answer.json() == {
        "uuid": attempt.uuid,
        "attempt": 1,
        "accepted": False,
        "outcome": None,
        "reason": {"code": "gpu_fault", "message": "XID 79", "details": []},
        "status": "queued",
    }
    record = (await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}")).json()
    assert (record["status"], record["charged"]) == ("queued", 1)
    assert record["attempts"][0]["end"] == "infrastructure"
    again = await attempt.runner.claim()
    assert (again.uuid, again.number) == (attempt.uuid, 2)


async def test_infrastructure_that_fails_three_times_loses_the_submission(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    runner = await StubRunner.register(api)
    answers = [
        await runner.run_one(failure={"kind": "engine_error", "detail": f"try {number}"})
        for number in (1, 2, 3)
    ]
    assert [answer.json()["outcome"] for answer in answers] == [None, None, "lost"]
    status = await api.done(uuid)
    assert status["outcome"] == "lost"
    assert status["reason"]["code"] == "lost"
    assert len(status["reason"]["details"]) == 3


async def test_the_same_result_again_is_the_same_result(attempt: Attempt) -> None:
    first = await attempt.report()
    await attempt.runner.api.done(attempt.uuid)
    again = await attempt.report()
    assert (first.status, again.status) == (202, 200)
    assert again.json() == {
        "uuid": attempt.uuid,
        "attempt": 1,
        "accepted": True,
        "outcome": "accepted",
        "reason": None,
        "status": "done",
    }


async def test_a_rejected_result_again_has_the_same_reason(attempt: Attempt) -> None:
    first = await attempt.report(b"")
    again = await attempt.report(b"")
    assert (first.status, again.status) == (422, 200)
    assert (again.json()["accepted"], again.json()["outcome"]) == (False, "rejected")
    assert again.json()["reason"]["code"] == "output_not_json"


async def test_another_result_of_the_same_attempt_is_refused(attempt: Attempt) -> None:
    await attempt.report()
    other = await attempt.report(exit_codes={"build": 0, "benchmark": 1})
    assert other.status == 409
    error = other.error
    [problem] = error.pop("details")
    assert error == {
        "code": "RESULT_CONFLICT",
        "message": f"attempt 1 of submission {attempt.uuid} has another result already",
        "retry": False,
        "hint": "an attempt has one result; the first one stands",
    }
    assert problem["code"] == "result_conflict"
    assert (await attempt.runner.api.done(attempt.uuid))["outcome"] == "accepted"


async def test_the_order_of_members_and_unknown_ones_decide_what_is_the_same(
    attempt: Attempt,
) -> None:
    body = attempt.result_body()
    await attempt.report_body(body)
    turned = dict(reversed(list(body.items())))
    assert (await attempt.report_body(turned)).status == 200
    assert (await attempt.report_body({**body, "digests": {}})).status == 409


async def test_a_stale_result_is_kept_and_told_so(api: ApiClient) -> None:
    await api.submitted(ARCHIVE)
    runner = await StubRunner.register(api)
    old = await runner.claim()
    await old.release()
    new = await runner.claim()
    stale = await old.report()
    assert stale.status == 409
    error = stale.error
    [problem] = error.pop("details")
    assert error == {
        "code": "STALE_ATTEMPT",
        "message": f"attempt 1 of submission {old.uuid} is over: released",
        "retry": False,
        "hint": "stop working on it and claim again",
        "stored": True,
    }
    assert problem["found"] == "attempt 1, which ended as released"
    assert problem["expected"] == "attempt 2, the newest"
    assert (await new.report()).status == 202


async def test_an_evicted_submission_is_gone_with_what_git_still_says(serve: Serve) -> None:
    served = await serve(keep_done=1)
    runner = await StubRunner.register(served.api)
    uuid = await served.api.submitted(ARCHIVE)
    attempt = await runner.claim()
    assert (await attempt.report()).status == 202
    done = await served.api.done(uuid)
    record = (await served.api.get(f"/api/submissions/{uuid}")).json()
    withdrawn = []
    for _ in range(2):
        withdrawn.append(await served.api.submitted(ARCHIVE))
        await served.api.post(f"/api/submissions/{withdrawn[-1]}/cancel")
    await served.system.sweep()

    for call in ("", "/status?wait=0", "/status"):
        answer = await served.api.get(f"/api/submissions/{uuid}{call}")
        assert answer.status == 410
        error = answer.error
        assert error.pop("accepted").pop("recorded_at").endswith("Z")
        assert error == {
            "code": "SUBMISSION_EVICTED",
            "message": f"submission {uuid} is finished and its files are no longer kept",
            "details": [],
            "retry": False,
            "hint": "what was accepted is in the kernel's history",
        }
    told = (await served.api.get(f"/api/submissions/{uuid}")).error["accepted"]
    del told["recorded_at"]
    assert told == {
        "kernel_id": KERNEL_ID,
        "attempt": 1,
        "submitter_id": "alice",
        "runner_id": runner.runner_id,
        "arch": "gfx928",
        "isolation": "none",
        "package_sha256": record["package_sha256"],
        "commit_sha": done["commit_sha"],
        "bench_commit_sha": record["bench_commit_sha"],
    }
    answer = await served.api.get(f"/api/submissions/{withdrawn[0]}/status")
    assert (answer.status, answer.error["accepted"]) == (410, None)


async def test_an_output_without_its_text_counts_as_printed(attempt: Attempt) -> None:
    answer = await attempt.report(stdout_base64=None, output=output_document())
    assert answer.status == 202
    assert answer.json()["accepted"] is True
    await attempt.runner.api.done(attempt.uuid)
    output = (await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/output")).json()
    assert output["document"] == output_document()


@pytest.mark.parametrize(
    ("build_ok", "accepted", "code"), [(True, True, None), (False, False, "build_failed")]
)
async def test_a_runner_without_exit_codes_is_taken_at_its_word(
    attempt: Attempt, *, build_ok: bool, accepted: bool, code: str | None
) -> None:
    runner = attempt.runner
    body = {
        "attempt": attempt.number,
        "runner_id": runner.runner_id,
        "build_ok": build_ok,
        "output": output_document(),
    }
    path = f"/api/submissions/{attempt.uuid}/result"
    answer = await runner.api.post(path, json=body, headers=attempt.headers)
    assert (answer.status, answer.json()["accepted"]) == (202, accepted)
    done = await runner.api.done(attempt.uuid)
    assert (done["reason"] or {}).get("code") == code


@pytest.mark.parametrize(
    ("changes", "pointer", "expected"),
    [
        ({"output": {}}, "/output", "one of them"),
        (
            {"stdout_base64": "no base64!"},
            "/stdout_base64",
            "base64 of RFC 4648, padded, without line breaks",
        ),
        (
            {"logs_base64": "YQ"},
            "/logs_base64",
            "base64 of RFC 4648, padded, without line breaks",
        ),
        ({"attempt": 0}, "/attempt", "at least 1"),
        ({"build_ok": "yes"}, "/build_ok", "true or false"),
        ({"durations_s": {"build": "fast"}}, "/durations_s/build", "a number or null"),
        ({"exit_codes": {"build": 1.5}}, "/exit_codes/build", "a whole number or null"),
    ],
)
async def test_a_body_that_is_wrong_is_no_delivery(
    attempt: Attempt, changes: dict[str, Any], pointer: str, expected: str
) -> None:
    answer = await attempt.report(**changes)
    assert answer.status == 400
    assert answer.error["code"] == "BAD_BODY"
    [problem] = answer.error["details"]
    assert (problem["pointer"], problem["expected"]) == (pointer, expected)
    status = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/status?wait=0")
    assert status.json()["status"] == "running"


async def test_a_failure_of_a_kind_that_does_not_exist_is_no_delivery(attempt: Attempt) -> None:
    answer = await attempt.report(failure={"kind": "gremlins", "detail": "x"})
    assert answer.status == 400
    assert [item["pointer"] for item in answer.error["details"]] == ["/failure"]


async def test_a_result_over_its_bound_is_refused_and_may_be_cut(serve: Serve) -> None:
    served = await serve(result_limit_bytes=10_000)
    await served.api.submitted(ARCHIVE)
    attempt = await (await StubRunner.register(served.api)).claim()
    log = base64.b64encode(b"x" * 20_000).decode()
    answer = await attempt.report(logs_base64=log)
    assert answer.status == 413
    assert answer.error["message"] == "the result has more than 10000 bytes"
    assert (await attempt.report()).status == 202


async def test_a_kernel_frozen_meanwhile_is_rejected_at_the_verdict(
    repository: Path, attempt: Attempt
) -> None:
    with KernelRepository(repository) as opened:
        package = valid_package(desc={"status": "frozen"}, scoreboard=True)
        add_packages(opened, [package], message="m", author="bob", when=SystemClock().now())
    answer = await attempt.report()
    assert answer.status == 202
    assert answer.json()["reason"]["code"] == "frozen"
    assert (await attempt.runner.api.done(attempt.uuid))["outcome"] == "rejected"
