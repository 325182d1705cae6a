"""Commands on submissions that exist: status, cancel, runs, logs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kzoo_core.contract.schemas import validate
from tests.cli.views import (
    BENCH_SHA,
    KERNEL,
    SHA,
    UUID,
    accepted,
    attempt,
    rejected,
    running,
    submission,
)
from tests.core.scripted_server import Script, answers, fails

if TYPE_CHECKING:
    from tests.cli.console import Console, Ended
    from tests.core.scripted_server import Handler


async def run(console: Console, *argv: str) -> Ended:
    return await asyncio.to_thread(console.run, *argv)


@pytest.mark.parametrize("view", [submission(), running(), accepted(), rejected()])
def test_the_scripted_submissions_are_what_a_server_may_answer(view: dict[str, Any]) -> None:
    assert validate("submission", view) == []


async def test_status_of_a_waiting_submission_exits_0(script: Script, console: Console) -> None:
    script.then(answers(200, submission()))
    ended = await run(console, "status", UUID)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"queued      {KERNEL}\nsubmission  {UUID} by alice, ranked, 2 min ago\nposition    2\n"
    )


async def test_status_of_an_accepted_submission_shows_its_commits_and_records(
    script: Script, console: Console
) -> None:
    script.then(answers(200, accepted()))
    ended = await run(console, "status", UUID)
    assert ended.code == 0
    assert ended.out == (
        f"accepted    {KERNEL}\n"
        f"submission  {UUID} by alice, ranked, 2 min ago\n"
        "attempt     1 on node1-7f (gfx928, isolation none): reported\n"
        f"commit      {SHA}, scores in {BENCH_SHA}\n"
        "record      small: latency_us 12.25 us (was 15)\n"
    )


async def test_an_accepted_submission_without_a_record_says_so(
    script: Script, console: Console
) -> None:
    script.then(answers(200, accepted(records=[], bench_commit_sha=None)))
    lines = (await run(console, "status", UUID)).out.splitlines()
    assert lines[-2:] == [f"commit      {SHA}", "record      none: the best values stand"]


async def test_a_check_that_passed_says_that_nothing_was_committed(
    script: Script, console: Console
) -> None:
    view = accepted(mode="check", records=[], commit_sha=None, bench_commit_sha=None)
    script.then(answers(200, view))
    ended = await run(console, "status", UUID)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "commit      none: mode check commits nothing"


async def test_status_of_a_rejected_submission_says_why_and_exits_1(
    script: Script, console: Console
) -> None:
    script.then(answers(200, rejected()))
    ended = await run(console, "status", UUID)
    assert ended.code == 1
    assert ended.out.splitlines()[3:] == [
        "reason      metric_set_mismatch: case small lacks latency_us",
        "  error: /cases/0/metrics: no such metric [missing_metric]",
        "    expected: latency_us",
        "    hint: print every metric of the metas",
    ]


@pytest.mark.parametrize("outcome", ["lost", "failed", "cancelled"])
async def test_a_submission_that_ended_without_a_verdict_exits_4(
    script: Script, console: Console, outcome: str
) -> None:
    lost = attempt(end="lost", detail="no heartbeat for 90 s")
    view = accepted(outcome=outcome, attempts=[lost], commit_sha=None, records=[])
    script.then(answers(200, view))
    ended = await run(console, "status", UUID)
    assert ended.code == 4
    assert ended.out.splitlines()[0] == f"{outcome:<11} {KERNEL}"
    assert ended.out.splitlines()[2].endswith(": lost, no heartbeat for 90 s")


async def test_status_as_json_is_the_submission_as_the_server_gave_it(
    script: Script, console: Console
) -> None:
    script.then(answers(200, rejected(optimization_summary="\x1b[31m快")))
    ended = await run(console, "status", UUID, "--json")
    assert ended.code == 1
    assert ended.json() == rejected(optimization_summary="\x1b[31m快")
    assert "快" in ended.out


async def test_json_on_a_terminal_has_nothing_that_steers_it(
    script: Script, console: Console
) -> None:
    script.then(answers(200, submission(optimization_summary="a\x9b2Jb\u202e")))
    console.width = 80
    ended = await run(console, "status", UUID, "--json")
    assert "\x9b" not in ended.out
    assert "\u202e" not in ended.out
    assert ended.json()["optimization_summary"] == "ab"


async def test_waiting_prints_the_verdict_and_no_progress_where_there_is_no_terminal(
    script: Script, console: Console
) -> None:
    script.then(
        answers(200, submission()),
        answers(200, running()),
        answers(200, rejected()),
        answers(200, rejected()),
    )
    ended = await run(console, "status", UUID, "--wait")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith(f"rejected    {KERNEL}\n")
    assert [call[1].removeprefix(f"/api/submissions/{UUID}") for call in script.calls] == [
        "/status?wait=0",
        "/status?wait=30&since=1",
        "/status?wait=30&since=4",
        "",
    ]


async def test_waiting_draws_one_line_on_a_terminal_and_takes_it_off(
    script: Script, console: Console
) -> None:
    console.stderr_is_terminal = True

    def after(seconds: float, view: dict[str, Any]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            console.clock.advance(seconds)
            return await answers(200, view)(request)

        return handle

    script.then(
        after(0, submission()),
        after(65, running()),
        after(5, accepted()),
        answers(200, accepted()),
    )
    ended = await run(console, "status", UUID, "--wait")
    assert ended.code == 0
    assert ended.err == (
        "\r\x1b[Kqueued  position 2  0:00"
        "\r\x1b[Krunning  benchmark  attempt 1  1:05"
        "\r\x1b[Kaccepted  1:10"
        "\r\x1b[K"
    )


async def test_a_wait_that_takes_too_long_prints_where_it_is_and_exits_3(
    script: Script, console: Console
) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        console.clock.advance(10)
        return await answers(200, submission())(request)

    script.then(late, late, answers(200, submission()))
    ended = await run(console, "status", UUID, "--wait", "--timeout", "5", "--json")
    assert ended.code == 3
    assert ended.json()["status"] == "queued"
    assert ended.err == (
        "error: not done when the time was up: queued  position 2\n"
        f"hint: the submission goes on; wait for it with 'kzoo status {UUID} --wait'\n"
    )


async def test_ctrl_c_while_waiting_says_how_to_go_on(
    script: Script, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kzoo_tui.commands.status.call", interrupted)
    ended = await run(console, "status", UUID, "--wait")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == (
        f"the submission goes on; wait for it with 'kzoo status {UUID} --wait'\ninterrupted\n"
    )


async def test_a_submission_that_nobody_knows_exits_3(script: Script, console: Console) -> None:
    script.then(fails(404, "SUBMISSION_NOT_FOUND"))
    ended = await run(console, "status", UUID)
    assert (ended.code, ended.err) == (3, "error: SUBMISSION_NOT_FOUND said\n")


async def test_cancel_prints_the_submission_and_exits_0(script: Script, console: Console) -> None:
    view = submission(
        status="done",
        outcome="cancelled",
        position=None,
        reason={"code": "cancelled", "message": "by alice", "details": []},
    )
    script.then(answers(200, view))
    ended = await run(console, "cancel", UUID, "--as", "alice")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "reason      cancelled: by alice"
    assert script.calls[0][2]["X-Submitter-Id"] == "alice"


async def test_cancel_of_one_that_runs_is_refused_with_exit_1(
    script: Script, console: Console
) -> None:
    script.then(fails(409, "NOT_CANCELLABLE"))
    ended = await run(console, "cancel", UUID)
    assert (ended.code, ended.err) == (1, "error: NOT_CANCELLABLE said\n")


async def test_runs_lists_one_line_a_submission(script: Script, console: Console) -> None:
    items = [submission(), running(mode="check"), rejected(mode="check"), accepted()]
    script.then(answers(200, {"items": items, "next_cursor": None}))
    ended = await run(
        console, "runs", "--submitter", "alice", "--status", "done", "--kernel-id", KERNEL
    )
    assert ended.code == 0
    cells = [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in ended.out.splitlines()
    ]
    assert cells == [
        ["SUBMISSION", "STATE", "KERNEL", "SUBMITTER", "WHEN", "WHY"],
        [UUID, "queued", KERNEL, "alice", "2 min ago", "position 2"],
        [UUID, "benchmark, attempt 1 (check)", KERNEL, "alice", "2 min ago", "-"],
        [
            UUID,
            "rejected (check)",
            KERNEL,
            "alice",
            "2 min ago",
            "metric_set_mismatch: case small lacks latency_us",
        ],
        [UUID, "accepted", KERNEL, "alice", "2 min ago", "-"],
    ]
    assert ended.err == "4 submissions\n"
    assert script.calls[0][1] == (
        f"/api/submissions?submitter=alice&kernel_id={KERNEL}&state=done&limit=50"
    )


async def test_runs_reads_page_after_page_up_to_the_limit(script: Script, console: Console) -> None:
    script.then(
        answers(200, {"items": [submission()] * 2, "next_cursor": "c1"}),
        answers(200, {"items": [submission()] * 1, "next_cursor": "c2"}),
    )
    ended = await run(console, "runs", "--limit", "3")
    assert len(ended.out.splitlines()) == 4
    assert ended.err == "3 submissions; --limit N shows more\n"
    assert [call[1].partition("?")[2] for call in script.calls] == ["limit=3", "limit=1&cursor=c1"]


async def test_no_runs_print_nothing_on_stdout(script: Script, console: Console) -> None:
    script.then(answers(200, {"items": [], "next_cursor": None}))
    ended = await run(console, "runs")
    assert (ended.code, ended.out, ended.err) == (0, "", "0 submissions\n")


async def test_runs_as_json_is_one_page(script: Script, console: Console) -> None:
    script.then(
        answers(200, {"items": [submission()], "next_cursor": "c1"}),
        answers(200, {"items": [running()], "next_cursor": None}),
    )
    ended = await run(console, "runs", "--json")
    assert ended.json() == {"items": [submission(), running()], "next_cursor": None}
    assert ended.err == ""


# ---------------------------------------------------------------------------------------- logs


def log(data: bytes, start: int, *, complete: bool = False, attempt: int | None = 1) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.query["from"] == str(start)
        return web.Response(
            body=data,
            content_type="text/plain",
            headers={
                "X-Next-Offset": str(start + len(data)),
                "X-Log-Complete": str(complete).lower(),
                **({} if attempt is None else {"X-Attempt": str(attempt)}),
            },
        )

    return handle


async def test_logs_prints_what_there_is_byte_for_byte(script: Script, console: Console) -> None:
    script.then(log(b"\x1b[31mred\xff\n", 0), log(b"half", 10), log(b"", 14))
    ended = await run(console, "logs", UUID)
    assert (ended.code, ended.raw) == (0, b"\x1b[31mred\xff\nhalf")


@pytest.mark.parametrize("more", [[], ["--json"]])
async def test_logs_of_what_no_runner_has_begun_says_so(
    script: Script, console: Console, more: list[str]
) -> None:
    script.then(log(b"", 0, attempt=None))
    ended = await run(console, "logs", UUID, *more)
    assert (ended.code, ended.raw == b"") == (0, more == [])
    assert ended.err == (
        f"no runner has begun with it, so there is no log: 'kzoo status {UUID}' says where it is\n"
    )


async def test_logs_on_a_terminal_shows_safe_lines_wherever_the_parts_are_cut(
    script: Script, console: Console
) -> None:
    whole = "\x1b[31mred\x1b[0m 快\r\nnext\x1b]52;c;aGk=\x07\nlast".encode()
    script.then(
        *[log(whole[n : n + 1], n, complete=n == len(whole) - 1) for n in range(len(whole))]
    )
    console.width = 80
    ended = await run(console, "logs", UUID)
    assert ended.out == "red 快\nnext\nlast\n"


async def test_logs_shows_a_line_without_end_in_pieces(script: Script, console: Console) -> None:
    script.then(log(b"x" * 70000, 0), log(b"y", 70000, complete=True))
    console.width = 80
    assert (await run(console, "logs", UUID)).out == "x" * 70000 + "y\n"


async def test_logs_as_json_is_one_document(script: Script, console: Console) -> None:
    script.then(log(b"one\n", 0, attempt=2), log(b"two", 4, complete=True, attempt=2))
    ended = await run(console, "logs", UUID, "--json", "--attempt", "2")
    assert ended.json() == {
        "uuid": UUID,
        "attempt": 2,
        "complete": True,
        "next_offset": 7,
        "text": "one\ntwo",
    }
    assert script.calls[0][1].endswith("/log?from=0&attempt=2&wait=0")


async def test_following_one_attempt_ends_with_its_log(script: Script, console: Console) -> None:
    script.then(log(b"one\n", 0, attempt=2), log(b"two\n", 4, complete=True, attempt=2))
    ended = await run(console, "logs", UUID, "-f", "--attempt", "2")
    assert (ended.code, ended.out, ended.err) == (0, "one\ntwo\n", "")
    assert script.calls[1][1].endswith("/log?from=4&attempt=2&wait=30")


async def test_following_goes_from_attempt_to_attempt_until_it_is_done(
    script: Script, console: Console
) -> None:
    script.then(
        answers(200, submission()),
        answers(200, running()),
        log(b"first\n", 0, complete=True),
        answers(200, submission(revision=5, attempt=1)),
        answers(200, running(revision=6, attempt=2)),
        log(b"second\n", 0, complete=True, attempt=2),
        answers(200, rejected(attempt=2)),
    )
    ended = await run(console, "logs", UUID, "--follow")
    assert (ended.code, ended.out) == (0, "first\nsecond\n")
    assert ended.err == "attempt 1 ended; attempt 2 follows\ndone: rejected\n"


async def test_following_a_submission_that_never_ran_ends_with_it(
    script: Script, console: Console
) -> None:
    script.then(
        answers(200, submission()), answers(200, submission(status="done", outcome="cancelled"))
    )
    ended = await run(console, "logs", UUID, "--follow", "--json")
    assert ended.json() == {
        "uuid": UUID,
        "attempt": None,
        "complete": False,
        "next_offset": 0,
        "text": "",
    }
    assert ended.err == "done: cancelled\n"
