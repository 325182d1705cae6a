"""The commands against the real server on a real repository; a stub runner does the running."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.console import Console, Ended
from tests.packages import (
    KERNEL_ID,
    output_bytes,
    valid_package,
    write_directory,
)
from tests.server.conftest import SEEDED, api, repository, serve, server
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.api_client import ApiClient
    from tests.server.conftest import Served

__all__ = ["api", "repository", "serve", "server"]

NOBODY = "0b9ad2f2-6c2c-4a8e-9a51-0d1f5f0b6c11"


@pytest.fixture
def console(server: Served) -> Console:
    """Return a console whose environment names the real server, and alice."""
    return Console({"KERNEL_ZOO_SERVER": server.url, "KERNEL_ZOO_SUBMITTER": "alice"})


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package directory at its kernel_id."""
    root = tmp_path / "work" / KERNEL_ID
    write_directory(valid_package(scoreboard=True), root)
    return root


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a file of 40 MiB, far over what the server takes."""
    path = tmp_path / "large.tar.gz"
    path.touch()
    os.truncate(path, 40 << 20)
    return path


async def run(console: Console, *argv: str) -> Ended:
    return await asyncio.to_thread(console.run, *argv)


async def submitted(console: Console, package: Path, *flags: str) -> str:
    ended = await run(console, "submit", str(package), *flags)
    assert ended.code == 0, ended.err
    return ended.out.strip()


async def submit_and_run(
    console: Console, package: Path, runner: StubRunner, stdout: bytes, *flags: str
) -> Ended:
    """Wait for a verdict on one side while a runner reaches it on the other."""
    waiting = asyncio.create_task(run(console, "submit", str(package), "--wait", *flags))
    answer = await runner.run_one(stdout)
    assert answer.status in {202, 422}, answer.body
    return await waiting


async def test_an_accepted_submission_is_seen_on_the_board_and_in_the_history(
    console: Console, package: Path, api: ApiClient
) -> None:
    runner = await StubRunner.register(api)
    ended = await submit_and_run(
        console, package, runner, output_bytes(), "--summary", "one pass less"
    )
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == f"accepted    {KERNEL_ID}"
    assert lines[-2:] == [
        "record      n4: latency_ms 1.5 ms (first)",
        "record      n8: latency_ms 3.25 ms (first)",
    ]
    board = (await run(console, "kernels", "--arch", "gfx928", "--json")).json()
    assert [item["kernel_id"] for item in board["items"]] == [KERNEL_ID, SEEDED]
    assert board["items"][0]["cases"][0]["best"]["submitter"] == "alice"
    listing = (await run(console, "kernels", "--valid", "true")).out.splitlines()
    assert [line.split()[0] for line in listing] == ["KERNEL", *[KERNEL_ID] * 2, *[SEEDED] * 2]
    page = (await run(console, "show", KERNEL_ID, "--history", "5", "--json")).json()
    [entry] = page["history"]
    assert (entry["summary"], entry["submitter"]) == ("one pass less", "alice")
    text = (await run(console, "show", KERNEL_ID, "--history", "5")).out
    assert entry["commit_sha"][:12] in text
    assert "latency_ms *" in text


async def test_a_rejected_submission_says_why(
    console: Console, package: Path, api: ApiClient
) -> None:
    runner = await StubRunner.register(api)
    ended = await submit_and_run(
        console, package, runner, output_bytes(kernel_id="a/b/c/d/e"), "--json"
    )
    assert ended.code == 1
    view = ended.json()
    assert (view["outcome"], view["reason"]["code"]) == ("rejected", "kernel_id_mismatch")
    again = await run(console, "status", view["uuid"])
    assert again.code == 1
    assert "reason      kernel_id_mismatch: " in again.out


async def test_a_check_commits_nothing(console: Console, package: Path, api: ApiClient) -> None:
    runner = await StubRunner.register(api)
    ended = await submit_and_run(console, package, runner, output_bytes(), "--mode", "check")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "commit      none: mode check commits nothing"
    ended = await run(console, "show", KERNEL_ID)
    assert ended.code == 3


async def test_a_package_that_the_server_refuses_has_every_problem_printed(
    console: Console, package: Path
) -> None:
    (package / "src" / "w.npy").write_bytes(b"\x93NUMPY\xff")
    (package / ".kernel_package" / "benchmark.py").write_text("def broken(:\n")
    ended = await run(console, "submit", str(package), "--no-check", "--json")
    assert ended.code == 2
    error = ended.json()["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert error["request_id"]
    files = {problem["file"] for problem in error["details"]}
    assert {"src/w.npy", ".kernel_package/benchmark.py"} <= files


async def test_an_archive_that_is_too_large_is_refused_while_it_is_sent(
    console: Console, large: Path
) -> None:
    ended = await run(
        console, "submit", str(large), "--no-check", "--kernel-id", KERNEL_ID, "--json"
    )
    assert ended.code == 2
    assert ended.json()["error"]["message"].startswith("the upload has more than")


async def test_the_same_key_gives_the_same_submission(console: Console, package: Path) -> None:
    console.keys[:] = ["same", "same", "other"]
    first = await submitted(console, package)
    assert await submitted(console, package) == first
    assert await submitted(console, package) != first


async def test_a_waiting_submission_can_be_cancelled_once(console: Console, package: Path) -> None:
    uuid = await submitted(console, package)
    ended = await run(console, "cancel", uuid)
    assert ended.code == 0
    assert ended.out.startswith(f"cancelled   {KERNEL_ID}\n")
    assert (await run(console, "status", uuid)).code == 4
    ended = await run(console, "cancel", uuid, "--json")
    assert ended.code == 1
    assert ended.json()["error"]["code"] == "NOT_CANCELLABLE"


async def test_runs_lists_what_the_filters_leave(console: Console, package: Path) -> None:
    uuid = await submitted(console, package)
    for flags in [["--submitter", "alice"], ["--status", "queued"], ["--kernel-id", KERNEL_ID]]:
        page = (await run(console, "runs", "--json", *flags)).json()
        assert [item["uuid"] for item in page["items"]] == [uuid]
    assert (await run(console, "runs", "--submitter", "bob")).out == ""
    assert (await run(console, "runs")).out.splitlines()[1].startswith(uuid)


async def test_a_log_is_followed_while_it_grows_until_the_verdict(
    console: Console, package: Path, api: ApiClient
) -> None:
    runner = await StubRunner.register(api)
    uuid = await submitted(console, package)
    following = asyncio.create_task(run(console, "logs", uuid, "--follow"))
    attempt = await runner.claim()
    await attempt.log(b"building\n", phase="build")
    await attempt.log("bench 快\n".encode(), offset=9, phase="benchmark")
    whole = "building\nbench 快\n".encode()
    await attempt.close_log(whole)
    await attempt.report(output_bytes())
    ended = await following
    assert (ended.code, ended.raw) == (0, whole)
    assert ended.err == "done: accepted\n"
    ended = await run(console, "logs", uuid, "--json")
    assert ended.json() == {
        "uuid": uuid,
        "attempt": 1,
        "complete": True,
        "next_offset": len(whole),
        "text": whole.decode(),
    }


async def test_a_log_is_followed_from_attempt_to_attempt(
    console: Console, package: Path, api: ApiClient
) -> None:
    runner = await StubRunner.register(api)
    uuid = await submitted(console, package)
    following = asyncio.create_task(run(console, "logs", uuid, "-f"))
    first = await runner.claim()
    await first.log(b"first\n", phase="build")
    failure = {"kind": "engine_error", "detail": "no engine"}
    await first.report(failure=failure, stdout_base64=None, build_ok=False)
    second = await runner.claim()
    await second.log(b"second\n", phase="build")
    await second.report(output_bytes())
    ended = await following
    assert (ended.code, ended.out) == (0, "first\nsecond\n")
    assert ended.err == "attempt 1 ended; attempt 2 follows\ndone: accepted\n"


async def test_the_index_of_the_server_is_the_index_of_its_repository(
    console: Console, server: Served
) -> None:
    local = await run(console, "index", "--repo", str(server.settings.repo))
    remote = await run(console, "index", "--server", server.url)
    assert (local.code, remote.code) == (0, 0)
    assert local.raw == remote.raw


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (["status", NOBODY], 3, f"error: there is no submission {NOBODY}"),
        (["logs", NOBODY], 3, f"error: there is no submission {NOBODY}"),
        (["logs", NOBODY, "--follow"], 3, f"error: there is no submission {NOBODY}"),
        (["show", "a/b/c/d/e"], 3, "error: there is no kernel a/b/c/d/e"),
        (["kernels", "--sort", "colour"], 3, "error: sort is 'colour'"),
    ],
)
async def test_what_is_not_there_exits_3(
    console: Console, argv: list[str], code: int, error: str
) -> None:
    ended = await run(console, *argv)
    assert ended.code == code
    assert ended.err.startswith(error)
