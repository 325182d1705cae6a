"""Records as JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.records import Record, RunFailure, RunReport
from kzoo_core.errors import Problem, Severity
from kzoo_core.ids import Sha256
from kzoo_core.queue import states
from kzoo_core.queue.codec import (
    UnreadableRecord,
    read_report,
    read_submission,
    write_report,
    write_submission,
)
from kzoo_core.queue.records import Idempotency, Mode, Outcome, Submission
from tests.core.queue.samples import (
    BENCH,
    DIGEST,
    REPORT,
    SETTINGS,
    SOURCE,
    accepted,
    at,
    claimed,
    confirmed,
    pending,
    reported,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def full() -> Submission:
    """Return a submission in which no field is empty."""
    lost = states.expire(confirmed(), now=at(900), settings=SETTINGS)
    problem = Problem(
        code="csv_file",
        message="a .csv file: 数据",
        severity=Severity.WARNING,
        file="data.csv",
        pointer="/a",
        line=3,
        column=4,
        found="x",
        expected="y",
        hint="z",
    )
    record = Record(test_case_id="small", metric="latency", unit="us", value=1.25, previous=None)
    done = states.finish(
        reported(lost, now=at(901.25)),
        now=at(902),
        outcome=Outcome.ACCEPTED,
        commit_sha=SOURCE,
        bench_commit_sha=BENCH,
        records=(record, replace(record, value=1.0, previous=2)),
    )
    return replace(
        done,
        mode=Mode.CHECK,
        min_arch_feature="mfma",
        optimization_summary="tile 换 64\ud800",
        warnings=(problem, Problem(code="a", message="b")),
        reason=states.cancel(pending(), now=at(1), by="x").reason,
        idempotency=Idempotency(key="k", body_sha256=Sha256("5" * 64)),
    )


def refused(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(write_submission(full()))
    change(document)
    with pytest.raises(UnreadableRecord) as caught:
        read_submission(json.dumps(document).encode())
    assert caught.value.code == "UNREADABLE_RECORD"
    assert caught.value.hint == "look at the file; the queue keeps it in corrupt/"
    return caught.value.message.removeprefix(
        "the submission's record is not what the queue writes: "
    )


@pytest.mark.parametrize("make", [pending, claimed, confirmed, reported, accepted, full])
def test_a_record_is_read_back_equal(make: Callable[[], Submission]) -> None:
    assert read_submission(write_submission(make())) == make()


@given(summary=st.text(), microseconds=st.integers(0, 10**12))
def test_any_text_and_any_time_survive(summary: str, microseconds: int) -> None:
    submission = replace(
        pending(), optimization_summary=summary, submitted_at=at(microseconds / 10**6)
    )
    assert read_submission(write_submission(submission)) == submission


def test_a_field_from_a_later_server_is_ignored() -> None:
    document = json.loads(write_submission(full())) | {"from_the_future": 1}
    assert read_submission(json.dumps(document).encode()) == full()


def test_what_is_missing_is_named() -> None:
    assert refused(lambda it: it.pop("kernel_id")) == "no field 'kernel_id'"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("revision", True, "revision is bool, not int"),
        ("revision", 1.0, "revision is float, not int"),
        ("attempts", {}, "attempts is dict, not list"),
        ("attempts", [3], "int where an object belongs"),
        ("reason", "no", "str where an object belongs"),
        ("uncharged", {"released": "1"}, "the count of released is str, not int"),
        ("state", "waiting", "'waiting' is not a valid State"),
        ("submitted_at", "yesterday", "'yesterday' is not an RFC 3339 time"),
    ],
)
def test_what_has_another_type_is_named(field: str, value: object, says: str) -> None:
    assert says in refused(lambda it: it.update({field: value}))


def test_a_record_value_must_be_a_number() -> None:
    assert refused(lambda it: it["records"][0].update(value="fast")) == (
        "str where a number belongs"
    )


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe\x00", b"[" * 100_000])
def test_what_is_no_json_object_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        read_submission(data)


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        RunReport(
            build_ok=False,
            build_exit_code=1,
            benchmark_exit_code=None,
            failure=RunFailure("build_failed", "exit 1"),
            stdout=None,
        ),
        replace(REPORT, stdout=b""),
    ],
)
def test_a_report_is_read_back_equal_with_its_stdout_beside_it(report: RunReport) -> None:
    stdout = report.stdout if report.stdout is not None else b"never asked for"
    assert read_report(write_report(report, DIGEST), lambda: stdout) == report


def test_a_broken_report_is_unreadable() -> None:
    with pytest.raises(UnreadableRecord) as caught:
        read_report(b'{"build_ok": 1}', bytes)
    assert caught.value.message == (
        "the report's record is not what the queue writes: build_ok is int, not bool"
    )
