from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import pytest

from kzoo_server.keys import HELD
from tests.packages import package_tarball, valid_package
from tests.server.eventually import eventually
from tests.server.stub_runner import Attempt, StubRunner

if TYPE_CHECKING:
    from tests.server.api_client import ApiClient
    from tests.server.conftest import Serve, Served

ARCHIVE = package_tarball(valid_package())


@pytest.fixture
async def attempt(api: ApiClient) -> Attempt:
    """Return an attempt that runs."""
    await api.submitted(ARCHIVE)
    return await (await StubRunner.register(api)).claim()


async def test_a_log_grows_by_chunks_and_is_read_from_an_offset(attempt: Attempt) -> None:
    first = await attempt.log(b"building\n")
    assert (first.status, first.headers["Range"], first.body) == (202, "bytes=0-8", b"")
    second = await attempt.log("läuft\n".encode(), offset=9)
    assert second.headers["Range"] == "bytes=0-15"
    path = f"/api/submissions/{attempt.uuid}/log"
    whole = await attempt.runner.api.get(path)
    assert whole.body.decode() == "building\nläuft\n"
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.headers["X-Next-Offset"] == "16"
    assert whole.headers["X-Log-Complete"] == "false"
    assert whole.headers["X-Attempt"] == "1"
    rest = await attempt.runner.api.get(f"{path}?from=9&attempt=1")
    assert rest.body.decode() == "läuft\n"
    none = await attempt.runner.api.get(f"{path}?from=16")
    assert (none.body, none.headers["X-Next-Offset"]) == (b"", "16")


async def test_what_was_sent_before_is_skipped(attempt: Attempt) -> None:
    await attempt.log(b"abcdef")
    overlap = await attempt.log(b"defghi", offset=3)
    assert overlap.headers["Range"] == "bytes=0-8"
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log")
    assert log.body == b"abcdefghi"


async def test_a_gap_tells_where_to_go_back_to(attempt: Attempt) -> None:
    await attempt.log(b"abc")
    gap = await attempt.log(b"xyz", offset=10)
    assert gap.status == 416
    assert gap.headers["Range"] == "bytes=0-2"
    message = "the chunk begins at byte 10, the log ends at 3"
    assert gap.error == {
        "code": "LOG_GAP",
        "message": message,
        "details": [
            {
                "code": "log_gap",
                "message": message,
                "severity": "error",
                "found": "10",
                "expected": "at most 3",
            }
        ],
        "retry": False,
        "hint": "send again from byte 3",
    }
    empty = await attempt.log(b"xyz", offset=10)
    assert empty.status == 416


async def test_a_gap_in_an_empty_log_has_no_range(attempt: Attempt) -> None:
    gap = await attempt.log(b"xyz", offset=10)
    assert gap.status == 416
    assert "Range" not in gap.headers


async def test_a_log_is_closed_with_its_digest(attempt: Attempt) -> None:
    await attempt.log(b"all of it\n")
    closed = await attempt.close_log(b"all of it\n")
    assert (closed.status, closed.headers["Range"]) == (202, "bytes=0-9")
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log?wait=60")
    assert log.headers["X-Log-Complete"] == "true"
    assert (await attempt.close_log(b"all of it\n")).status == 202
    more = await attempt.log(b"more", offset=10)
    assert more.status == 409
    assert more.error["code"] == "LOG_CLOSED"


async def test_an_empty_log_is_closed_too(attempt: Attempt) -> None:
    closed = await attempt.close_log(b"")
    assert (closed.status, "Range" in closed.headers) == (202, False)


async def test_a_log_that_is_not_what_was_sent_is_sent_again_from_the_beginning(
    attempt: Attempt,
) -> None:
    await attempt.log(b"abc")
    mismatch = await attempt.close_log(b"abd")
    assert mismatch.status == 412
    assert mismatch.error["code"] == "LOG_MISMATCH"
    assert mismatch.error["hint"] == "send it again from byte 0"
    [problem] = mismatch.error["details"]
    assert problem["found"] == f"3 bytes with sha256 {hashlib.sha256(b'abc').hexdigest()}"
    await attempt.log(b"abd")
    assert (await attempt.close_log(b"abd")).status == 202


async def test_phases_are_marked_beside_the_text(attempt: Attempt) -> None:
    await attempt.log(b"make\n", phase="build")
    await attempt.log(b"run\n", offset=5, phase="benchmark")
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log")
    assert log.headers["X-Log-Phases"] == "build=0, benchmark=5"
    status = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/status?wait=0")
    assert status.json()["phase"] == "benchmark"


async def test_a_reader_is_held_until_something_is_logged(server: Served, attempt: Attempt) -> None:
    path = f"/api/submissions/{attempt.uuid}/log?from=0&wait=30"
    reading = asyncio.create_task(server.api.get(path))
    await eventually(lambda: len(server.app[HELD]) > 0)
    await attempt.log(b"news\n")
    assert (await reading).body == b"news\n"


async def test_a_log_of_a_submission_that_never_ran_is_empty(api: ApiClient) -> None:
    uuid = await api.submitted(ARCHIVE)
    log = await api.get(f"/api/submissions/{uuid}/log")
    assert (log.status, log.body, log.headers["X-Log-Complete"]) == (200, b"", "false")
    assert "X-Attempt" not in log.headers


async def test_a_log_ends_when_its_submission_does(attempt: Attempt) -> None:
    await attempt.log(b"unclosed")
    await attempt.report()
    await attempt.runner.api.done(attempt.uuid)
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log?wait=60")
    assert (log.body, log.headers["X-Log-Complete"]) == (b"unclosed", "true")


async def test_a_log_that_came_with_the_result_is_shown_when_none_was_sent(
    attempt: Attempt,
) -> None:
    await attempt.report(logs_base64="d2hvbGUK")
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log")
    assert log.body == b"whole\n"


async def test_a_log_that_came_with_the_result_replaces_none(attempt: Attempt) -> None:
    await attempt.log(b"live\n")
    await attempt.report(logs_base64="d2hvbGUK")
    log = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log")
    assert log.body == b"live\n"


async def test_a_read_behind_the_end_is_refused(attempt: Attempt) -> None:
    await attempt.log(b"abc")
    answer = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log?from=4")
    assert answer.status == 416
    assert answer.error["code"] == "RANGE_NOT_SATISFIABLE"
    assert answer.error["message"] == "from is 4, the log has 3 bytes"
    assert answer.error["details"][0]["expected"] == "at most 3"


async def test_a_log_of_an_attempt_that_never_was_is_not_found(attempt: Attempt) -> None:
    answer = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log?attempt=2")
    assert answer.status == 404
    assert answer.error["code"] == "UNKNOWN_ATTEMPT"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("from=-1", "a whole number from 0"),
        ("attempt=0", "a whole number from 1"),
        ("wait=61", "a number of seconds from 0 to 60"),
    ],
)
async def test_a_bad_range_is_refused(attempt: Attempt, query: str, expected: str) -> None:
    answer = await attempt.runner.api.get(f"/api/submissions/{attempt.uuid}/log?{query}")
    assert answer.status == 400
    assert answer.error["details"][0]["expected"] == expected


async def test_a_chunk_over_its_bound_is_refused(serve: Serve) -> None:
    served = await serve(log_chunk_limit_bytes=1000)
    await served.api.submitted(ARCHIVE)
    attempt = await (await StubRunner.register(served.api)).claim()
    answer = await attempt.log(b"x" * 1001)
    assert answer.status == 413
    assert answer.error["message"] == "the chunk has more than 1000 bytes"


@pytest.mark.parametrize("lies", [None, "", "bytes 5-3/*", "bytes 0-2", "lines 0-2/*", "bytes */x"])
async def test_a_chunk_says_where_it_lies(attempt: Attempt, lies: str | None) -> None:
    headers = {} if lies is None else {"Content-Range": lies}
    answer = await attempt.patch_log(b"abc", **headers)
    assert answer.status == 400
    assert answer.error["code"] == "BAD_HEADER"
    [problem] = answer.error["details"]
    assert problem["found"] == ("no header" if lies is None else lies)
    assert problem["expected"] == "bytes FIRST-LAST/*, or bytes */TOTAL to close the log"


async def test_a_chunk_has_the_length_that_it_says(attempt: Attempt) -> None:
    answer = await attempt.patch_log(b"abc", **{"Content-Range": "bytes 0-9/*"})
    assert answer.status == 400
    assert answer.error["code"] == "BAD_BODY"
    assert answer.error["message"] == "the body has 3 bytes, its Content-Range says 10"


@pytest.mark.parametrize("digest", [None, "abc", "A" * 64])
async def test_a_log_is_not_closed_without_a_digest(attempt: Attempt, digest: str | None) -> None:
    headers = {"Content-Range": "bytes */0"} | ({"X-Log-Sha256": digest} if digest else {})
    answer = await attempt.patch_log(b"", **headers)
    assert answer.status == 400
    assert answer.error["code"] == "BAD_HEADER"
    assert answer.error["details"][0]["found"] == (digest or "no header")


async def test_a_phase_that_is_none_is_refused(attempt: Attempt) -> None:
    answer = await attempt.log(b"abc", phase="warm-up")
    assert answer.status == 400
    assert answer.error["details"][0]["expected"] == "build or benchmark"
