"""validate, pack and submit: what is checked before anything leaves the machine."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from kzoo_core.resources import examples_directory
from tests.cli.console import Console, Ended
from tests.cli.views import UUID, accepted, rejected, running, submission
from tests.core.scripted_server import Script, answers, drops, fails

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from tests.core.scripted_server import Handler

KERNEL = "gfx928/Norm/RMSNorm/fp32/rowwise"
SUBMITTED = {
    "uuid": UUID,
    "status": "queued",
    "position": 3,
    "status_url": f"/api/submissions/{UUID}/status",
    "log_url": f"/api/submissions/{UUID}/log",
    "warnings": [],
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of an example package, at its kernel_id."""
    target = tmp_path / KERNEL
    shutil.copytree(
        examples_directory() / KERNEL, target, ignore=shutil.ignore_patterns("__pycache__")
    )
    return target


@pytest.fixture
def archive(package: Path, tmp_path: Path) -> Path:
    """Return the example's archive as ``kzoo pack`` makes it."""
    output = tmp_path / "package.tar.gz"
    assert Console().run("pack", str(package), "-o", str(output)).code == 0
    return output


def spoil(package: Path) -> None:
    desc = package / ".kernel_package" / "desc.yaml"
    desc.write_text(desc.read_text().replace("dtype: fp32", "dtype: float32", 1))


async def run(console: Console, *argv: str) -> Ended:
    return await asyncio.to_thread(console.run, *argv)


def members(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getnames()


def test_validate_says_that_a_package_is_valid(package: Path, archive: Path) -> None:
    for path in [package, archive]:
        ended = Console().run("validate", str(path))
        assert (ended.code, ended.out, ended.err) == (0, f"{KERNEL}: valid\n", "")


def test_validate_prints_every_problem_and_exits_2(package: Path) -> None:
    spoil(package)
    (package / "weights.npy").write_bytes(b"\x93NUMPY\xff")
    ended = Console().run("validate", str(package))
    assert (ended.code, ended.err) == (2, "")
    assert ended.out.startswith(f"{KERNEL}: not valid, ")
    assert "fp32" in ended.out
    assert "weights.npy" in ended.out
    document = Console().run("validate", str(package), "--json").json()
    assert (document["kernel_id"], document["valid"]) == (KERNEL, False)
    assert {problem["file"] for problem in document["problems"]} >= {
        ".kernel_package/desc.yaml",
        "weights.npy",
    }


def test_validate_takes_the_kernel_id_that_it_is_given(package: Path) -> None:
    ended = Console().run("validate", str(package), "--kernel-id", "gfx900/Norm/RMSNorm/fp32/x")
    assert ended.code == 2
    assert "gfx900" in ended.out


def test_validate_of_a_bad_kernel_id_is_a_validation_error(package: Path) -> None:
    ended = Console().run("validate", str(package), "--kernel-id", "a//b", "--json")
    assert ended.code == 2
    assert ended.json()["error"]["details"][0]["code"] == "bad_kernel_id"


def test_validate_of_nothing_exits_3(tmp_path: Path) -> None:
    ended = Console().run("validate", str(tmp_path / "none.tar.gz"))
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(f"error: there is no {tmp_path}/none.tar.gz")


@pytest.mark.parametrize("name", ["a.zip", "a.tgz", "a"])
def test_pack_refuses_a_name_that_no_server_and_no_validation_would_take(
    package: Path, tmp_path: Path, name: str
) -> None:
    output = tmp_path / name
    ended = Console().run("pack", str(package), "-o", str(output))
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        f"error: the archive would be called {name}: expected a name that ends in .tar.gz\n"
        f"hint: write -o {tmp_path / name.removesuffix('.tgz')}.tar.gz\n"
    )
    assert not output.exists()


def test_pack_writes_an_archive_that_validates_and_says_what_it_left_out(
    package: Path, tmp_path: Path
) -> None:
    cache = package / "src" / "__pycache__"
    cache.mkdir()
    (cache / "x.pyc").write_bytes(b"\x00")
    output = tmp_path / "out.tar.gz"
    ended = Console().run("pack", str(package), "-o", str(output))
    assert (ended.code, ended.out) == (0, f"{output}\n")
    first, second = ended.err.splitlines()
    assert first == "left out: src/__pycache__, .kernel_package/bench_result.yaml"
    assert re.fullmatch(
        rf"packed {KERNEL}: 5 files, \d+ bytes, package sha256 [0-9a-f]{{64}}", second
    )
    assert Console().run("validate", str(output)).code == 0
    assert f"{KERNEL}/.kernel_package/bench_result.yaml" not in members(output.read_bytes())


def test_pack_makes_the_same_bytes_again(package: Path, archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar.gz"
    ended = Console().run("pack", str(package), "-o", str(again), "--json")
    assert again.read_bytes() == archive.read_bytes()
    document = ended.json()
    assert document["path"] == str(again)
    assert document["kernel_id"] == KERNEL
    assert document["bytes"] == len(again.read_bytes())
    assert document["left_out"] == [".kernel_package/bench_result.yaml"]
    assert document["problems"] == []
    assert ".kernel_package/desc.yaml" in document["files"]
    assert len(document["package_sha256"]) == 64


def test_pack_writes_nothing_of_a_package_with_errors(package: Path, tmp_path: Path) -> None:
    spoil(package)
    output = tmp_path / "out.tar.gz"
    ended = Console().run("pack", str(package), "-o", str(output))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: the package has 1 error; nothing was sent or written\n")
    assert "  error: .kernel_package/desc.yaml" in ended.err
    assert not output.exists()


def test_pack_without_checks_writes_it_all_the_same(package: Path, tmp_path: Path) -> None:
    spoil(package)
    output = tmp_path / "out.tar.gz"
    assert Console().run("pack", str(package), "-o", str(output), "--no-check").code == 0
    assert Console().run("validate", str(output)).code == 2


def test_pack_into_a_directory_that_is_not_there_exits_3(package: Path, tmp_path: Path) -> None:
    ended = Console().run("pack", str(package), "-o", str(tmp_path / "no" / "out.tar.gz"))
    assert (ended.code, ended.err) == (
        3,
        f"error: there is no directory {tmp_path}/no to write into\n",
    )


def test_pack_of_a_file_exits_3(archive: Path, tmp_path: Path) -> None:
    ended = Console().run("pack", str(archive), "-o", str(tmp_path / "x.tar.gz"))
    assert ended.code == 3
    assert ended.err.startswith(f"error: there is no directory {archive}\n")


async def test_submit_prints_the_uuid_and_talks_on_stderr(
    script: Script, console: Console, package: Path
) -> None:
    script.then(answers(202, SUBMITTED))
    ended = await run(
        console, "submit", str(package), "--as", "alice", "--summary", "faster", "--mode", "check"
    )
    assert (ended.code, ended.out) == (0, f"{UUID}\n")
    assert ended.err == (
        f"left out: .kernel_package/bench_result.yaml\nsubmitted {KERNEL} as {UUID}, position 3\n"
    )
    _, path, headers, body = script.calls[0]
    assert path == "/api/submissions"
    assert headers["X-Submitter-Id"] == "alice"
    assert headers["Idempotency-Key"] == "key-1"
    for value in [KERNEL, "alice", "faster", "check"]:
        assert f"\r\n\r\n{value}\r\n".encode() in body


async def test_submit_takes_the_identity_of_the_environment(
    script: Script, console: Console, archive: Path
) -> None:
    script.then(answers(202, SUBMITTED))
    console.environment["KERNEL_ZOO_SUBMITTER"] = "carol"
    ended = await run(console, "submit", str(archive), "--json")
    assert ended.code == 0
    assert ended.json() == SUBMITTED
    assert script.calls[0][2]["X-Submitter-Id"] == "carol"
    assert await asyncio.to_thread(archive.read_bytes) in script.calls[0][3]


async def test_submit_by_nobody_exits_3(script: Script, console: Console, package: Path) -> None:
    ended = await run(console, "submit", str(package))
    assert ended.code == 3
    assert ended.err == (
        "error: nobody is named as the submitter\nhint: give --as ID, or set KERNEL_ZOO_SUBMITTER\n"
    )
    assert script.calls == []


async def test_submit_sends_nothing_of_a_package_with_errors(
    script: Script, console: Console, package: Path
) -> None:
    spoil(package)
    ended = await run(console, "submit", str(package), "--as", "alice", "--json")
    assert ended.code == 2
    error = ended.json()["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"][0]["file"] == ".kernel_package/desc.yaml"
    assert script.calls == []


async def test_submit_without_checks_lets_the_server_judge(
    script: Script, console: Console, package: Path
) -> None:
    spoil(package)
    script.then(fails(422, "VALIDATION_ERROR"))
    ended = await run(console, "submit", str(package), "--as", "alice", "--no-check")
    assert (ended.code, ended.err.splitlines()[-1]) == (2, "error: VALIDATION_ERROR said")
    assert len(script.calls) == 1


async def test_an_unreadable_archive_is_sent_only_under_a_kernel_id(
    script: Script, console: Console, tmp_path: Path
) -> None:
    path = tmp_path / "junk.tar.gz"
    path.write_bytes(b"junk")
    ended = await run(console, "submit", str(path), "--as", "alice", "--no-check")
    assert ended.code == 3
    assert ended.err == (
        f"error: the kernel_id of {path} cannot be told from its members\n"
        "hint: give --kernel-id ID\n"
    )
    script.then(fails(422, "VALIDATION_ERROR"))
    ended = await run(
        console, "submit", str(path), "--as", "alice", "--no-check", "--kernel-id", KERNEL
    )
    assert ended.code == 2
    assert b"junk" in script.calls[0][3]


async def test_submit_of_nothing_asks_nobody(
    script: Script, console: Console, tmp_path: Path
) -> None:
    ended = await run(console, "submit", str(tmp_path / "none.tar.gz"), "--as", "alice")
    assert ended.code == 3
    assert ended.err.startswith(f"error: there is no {tmp_path}/none.tar.gz\nhint: name a package")
    assert script.calls == []


def test_a_file_that_is_no_archive_by_its_size_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.tar.gz"
    huge.touch()
    os.truncate(huge, (64 << 20) + 1)
    ended = Console().run("submit", str(huge), "--as", "alice")
    assert ended.code == 2
    assert ended.err == f"error: {huge} has more than 67108864 bytes: no package has\n"


async def test_a_lost_answer_is_tried_again_under_the_same_key(
    script: Script, console: Console, archive: Path
) -> None:
    script.then(drops, answers(202, SUBMITTED))
    ended = await run(console, "submit", str(archive), "--as", "alice")
    assert (ended.code, ended.out) == (0, f"{UUID}\n")
    assert [call[2]["Idempotency-Key"] for call in script.calls] == ["key-1", "key-1"]


async def test_warnings_of_the_server_are_printed_once(
    script: Script, console: Console, archive: Path
) -> None:
    warning = {"code": "kernel_deprecated", "message": "is deprecated", "severity": "warning"}
    script.then(answers(202, {**SUBMITTED, "position": None, "warnings": [warning]}))
    ended = await run(console, "submit", str(archive), "--as", "alice")
    assert ended.err == (
        f"warning: is deprecated [kernel_deprecated]\nsubmitted {KERNEL} as {UUID}\n"
    )


async def test_a_frozen_kernel_is_refused_with_exit_1(
    script: Script, console: Console, archive: Path
) -> None:
    script.then(fails(409, "KERNEL_FROZEN"))
    ended = await run(console, "submit", str(archive), "--as", "alice")
    assert (ended.code, ended.err) == (1, "error: KERNEL_FROZEN said\n")


@pytest.mark.parametrize(("view", "code"), [(accepted(), 0), (rejected(), 1)])
async def test_submit_and_wait_ends_with_the_verdict(
    script: Script, console: Console, archive: Path, view: dict[str, object], code: int
) -> None:
    script.then(
        answers(202, SUBMITTED),
        answers(200, submission()),
        answers(200, running()),
        answers(200, view),
        answers(200, view),
    )
    ended = await run(console, "submit", str(archive), "--as", "alice", "--wait", "--json")
    assert ended.code == code
    assert ended.json() == view
    assert ended.err == f"submitted {KERNEL} as {UUID}, position 3\n"


async def test_ctrl_c_after_the_upload_says_how_to_go_on(
    script: Script, console: Console, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kzoo_tui.commands.submit.await_verdict", interrupted)
    script.then(answers(202, SUBMITTED))
    ended = await run(console, "submit", str(archive), "--as", "alice", "--wait")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith(
        f"the submission goes on; wait for it with 'kzoo status {UUID} --wait'\ninterrupted\n"
    )


async def test_ctrl_c_before_the_upload_promises_nothing(
    console: Console, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kzoo_tui.commands.submit.call", interrupted)
    ended = await run(console, "submit", str(archive), "--as", "alice", "--wait")
    assert (ended.code, ended.err) == (130, "interrupted\n")


async def test_a_server_that_goes_away_while_waiting_is_waited_for(
    script: Script, console: Console, archive: Path
) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        console.clock.advance(200)
        return await fails(503, "STOPPING")(request)

    handlers: list[Handler] = [answers(202, SUBMITTED), answers(200, submission())]
    script.then(*handlers, *[late] * 20)
    console.stderr_is_terminal = True
    ended = await run(console, "submit", str(archive), "--as", "alice", "--wait")
    assert ended.code == 3
    assert "error: STOPPING said" in ended.err
