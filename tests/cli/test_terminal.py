"""The command on a real pseudo-terminal: what is drawn there, and what must never reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import pytest
from aiohttp import web

from tests.cli.views import UUID, accepted, entry, kernel, rejected, running, submission
from tests.core.scripted_server import Script, answers, fails

if TYPE_CHECKING:
    from tests.core.scripted_server import Handler

HOSTILE = "\x1b]52;c;c3RvbGVu\x07\x1b[2J\x9b31m\x1bPdcs\x1b\\\u202eoverwritten\rerror: forged"
OURS = ("\r\x1b[K",)
"""The one sequence that the command itself sends: it takes the progress line off."""


@dataclass
class Drawn:
    """What a terminal was sent, and how the command ended."""

    code: int
    sent: str
    stdout: str = ""

    @property
    def steering(self) -> str:
        """What of it is neither our own line erasing, nor a newline, nor readable."""
        left = self.sent
        for sequence in OURS:
            left = left.replace(sequence, "")
        left = left.replace("\r\n", "").replace("\t", "")
        return "".join(
            char for char in left if ord(char) < 32 or 127 <= ord(char) < 160 or char == "\u202e"
        )


def _spawn(
    server: str, argv: tuple[str, ...], *, stdout: int | None
) -> tuple[int, subprocess.Popen[bytes]]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kzoo_tui.cli", *argv],
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
        env={**os.environ, "KERNEL_ZOO_SERVER": server, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(slave)
    return master, process


def _read_all(master: int) -> bytes:
    sent = b""
    with contextlib.suppress(OSError):  # EIO is how a terminal says that nobody holds it any more
        while chunk := os.read(master, 65536):
            sent += chunk
    os.close(master)
    return sent


async def on_terminal(script: Script, *argv: str) -> Drawn:
    """Run a command whose stdin, stdout and stderr are one terminal."""
    master, process = _spawn(script.url, argv, stdout=None)
    sent = await asyncio.to_thread(_read_all, master)
    code = await asyncio.to_thread(process.wait, 30)
    return Drawn(code, sent.decode("utf-8"))


async def with_piped_stdout(script: Script, *argv: str) -> Drawn:
    """Run a command whose talk goes to a terminal and whose data goes to a pipe."""
    master, process = _spawn(script.url, argv, stdout=subprocess.PIPE)
    stream: IO[bytes] | None = process.stdout
    assert stream is not None
    sent, out = await asyncio.gather(
        asyncio.to_thread(_read_all, master), asyncio.to_thread(stream.read)
    )
    stream.close()
    code = await asyncio.to_thread(process.wait, 30)
    return Drawn(code, sent.decode("utf-8"), out.decode("utf-8"))


async def test_the_progress_line_is_drawn_on_a_terminal_and_taken_off(script: Script) -> None:
    script.then(
        answers(200, submission()),
        answers(200, running()),
        answers(200, accepted()),
        answers(200, accepted()),
    )
    drawn = await on_terminal(script, "status", UUID, "--wait")
    assert drawn.code == 0
    lines = drawn.sent.split("\r\x1b[K")
    assert lines[1].startswith("queued  position 2  0:0")
    assert lines[2].startswith("running  benchmark  attempt 1  0:0")
    assert lines[-1].startswith("accepted ")
    assert drawn.steering == ""


async def test_the_progress_line_stays_off_stdout(script: Script) -> None:
    script.then(answers(200, submission()), answers(200, rejected()), answers(200, rejected()))
    drawn = await with_piped_stdout(script, "status", UUID, "--wait")
    assert drawn.code == 1
    assert "position 2" in drawn.sent
    assert drawn.stdout.startswith("rejected ")
    assert "\x1b" not in drawn.stdout
    assert "position" not in drawn.stdout


async def test_the_line_goes_on_counting_while_nothing_changes(script: Script) -> None:
    seen = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await seen.wait()
        return await answers(200, accepted())(request)

    script.then(answers(200, submission()), slow, answers(200, accepted()))
    master, process = _spawn(script.url, ("status", UUID, "--wait"), stdout=None)
    sent = b""
    while sent.count(b"queued") < 2:
        sent += await asyncio.to_thread(os.read, master, 65536)
    seen.set()
    sent += await asyncio.to_thread(_read_all, master)
    assert await asyncio.to_thread(process.wait, 30) == 0
    assert b"queued  position 2  0:01" in sent


async def test_ctrl_c_takes_the_line_off_and_says_how_to_go_on(script: Script) -> None:
    hold = asyncio.Event()

    async def held(_request: web.Request) -> web.StreamResponse:
        with contextlib.suppress(asyncio.CancelledError):
            await hold.wait()
        return web.Response()

    script.then(answers(200, submission()), held)
    master, process = _spawn(script.url, ("status", UUID, "--wait"), stdout=None)
    sent = b""
    while b"queued" not in sent:
        sent += await asyncio.to_thread(os.read, master, 65536)
    process.send_signal(signal.SIGINT)
    sent += await asyncio.to_thread(_read_all, master)
    hold.set()
    assert await asyncio.to_thread(process.wait, 30) == 130
    last = sent.decode().rpartition("\r\x1b[K")[2]
    assert last == (
        f"the submission goes on; wait for it with 'kzoo status {UUID} --wait'\r\ninterrupted\r\n"
    )


def hostile_log() -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=(HOSTILE + "\nlast").encode(),
            headers={"X-Next-Offset": "99", "X-Log-Complete": "true", "X-Attempt": "1"},
        )

    return handle


def hostile_error() -> Handler:
    problem = {"code": "x", "message": HOSTILE, "severity": "error", "file": HOSTILE}
    return answers(
        422,
        {
            "error": {
                "code": "VALIDATION_ERROR",
                "message": HOSTILE,
                "details": [{**problem, "found": HOSTILE, "hint": HOSTILE}],
                "request_id": HOSTILE,
                "retry": False,
                "hint": HOSTILE,
            }
        },
    )


REASON = {"code": "benchmark_rejected", "message": HOSTILE, "details": []}
HOSTILE_PAGE = {
    "revision": None,
    "total": 1,
    "items": [entry(summary=HOSTILE, cases=[{**entry()["cases"][0], "unit": HOSTILE}])],
    "next_cursor": None,
}


@pytest.mark.parametrize(
    ("argv", "handler", "code"),
    [
        (["status", UUID], answers(200, rejected(reason=REASON)), 1),
        (["status", UUID, "--json"], answers(200, rejected(optimization_summary=HOSTILE)), 1),
        (
            ["runs"],
            answers(200, {"items": [rejected(reason=REASON)], "next_cursor": None}),
            0,
        ),
        (["kernels"], answers(200, HOSTILE_PAGE), 0),
        (["kernels", "--json"], answers(200, HOSTILE_PAGE), 0),
        (["logs", UUID], hostile_log(), 0),
        (["logs", UUID, "--json"], hostile_log(), 0),
        (["status", UUID], hostile_error(), 2),
        (["status", UUID, "--json"], hostile_error(), 2),
        (["status", UUID], answers(502, text=HOSTILE, content_type="text/html"), 3),
    ],
)
async def test_no_text_of_a_server_steers_the_terminal(
    script: Script, argv: list[str], handler: Handler, code: int
) -> None:
    script.then(*[handler] * 4)
    drawn = await on_terminal(script, *argv)
    assert drawn.code == code
    assert "overwritten" in drawn.sent or argv == ["kernels"]
    assert drawn.steering == ""
    assert "c3RvbGVu" not in drawn.sent or "--json" in argv or code == 3


async def test_no_summary_steers_the_terminal(script: Script) -> None:
    page = kernel(desc={"name": HOSTILE, "summary": HOSTILE})
    item = {
        "commit_sha": "a" * 40,
        "bench_commit_sha": "b" * 40,
        "recorded_at": "2026-08-01T12:00:00Z",
        "submitter": "alice",
        "summary": HOSTILE,
        "records": [],
    }
    history = {"kernel_id": page["kernel_id"], "items": [item], "next_cursor": None}
    summary = submission(optimization_summary=HOSTILE)
    script.then(answers(200, page), answers(200, history), answers(200, summary))
    for argv in [("show", page["kernel_id"], "--history", "1"), ("status", UUID)]:
        drawn = await on_terminal(script, *argv)
        assert (drawn.code, drawn.steering) == (0, "")
        assert "overwritten error: forged" in drawn.sent


async def test_a_value_cannot_forge_a_line_of_ours(script: Script) -> None:
    script.then(answers(200, rejected(reason=REASON)))
    drawn = await on_terminal(script, "status", UUID)
    assert not any(line.startswith("error: forged") for line in drawn.sent.splitlines())


async def test_a_file_gets_the_json_as_the_server_gave_it(script: Script) -> None:
    script.then(answers(200, submission(optimization_summary=HOSTILE)))
    drawn = await with_piped_stdout(script, "status", UUID, "--json")
    assert "\u202eoverwritten" in drawn.stdout
    assert drawn.sent == ""


async def test_an_error_of_a_server_that_is_busy_is_readable(script: Script) -> None:
    script.then(fails(429, "QUEUE_FULL", headers={"Retry-After": "90"}))
    drawn = await on_terminal(script, "runs")
    assert (drawn.code, drawn.steering) == (3, "")
    assert drawn.sent == "error: QUEUE_FULL said\r\nhint: try again in 90 s\r\n"
