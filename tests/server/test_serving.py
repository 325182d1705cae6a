"""The process: ready file, signals, exit codes, what it prints."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from kzoo_core import durable
from kzoo_core.clock import SystemClock
from kzoo_core.errors import BadInput, Conflict
from kzoo_core.queue.spool import SpoolFailed
from kzoo_server import __main__ as command
from kzoo_server import log_lines
from kzoo_server.serving import serve as serve_process
from kzoo_server.settings import ServerSettings
from tests.e2e.processes import Zoo, run_command, zoo_in
from tests.packages import package_tarball, valid_package
from tests.server.api_client import ApiClient
from tests.server.eventually import eventually
from tests.server.stub_runner import StubRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.server.conftest import Served

ARCHIVE = package_tarball(valid_package())


@pytest.fixture
def zoo(tmp_path: Path) -> Iterator[Zoo]:
    """Give a repository that a server process can serve."""
    with zoo_in(tmp_path) as made:
        made.init()
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


def settings_of(tmp_path: Path, repository: Path, **changes: Any) -> ServerSettings:
    values: dict[str, Any] = {
        "repo": repository,
        "state": tmp_path / "state",
        "port": 0,
        "ready_file": tmp_path / "ready",
        "min_free_bytes": 0,
        **changes,
    }
    return ServerSettings(**values)


async def serving(settings: ServerSettings) -> None:
    def leave(number: int) -> None:
        raise AssertionError(f"a second signal {number}")

    await serve_process(
        settings,
        SystemClock(),
        new_request_id=lambda: "r",
        token_bytes=secrets.token_bytes,
        leave_at_once=leave,
    )


async def started(settings: ServerSettings) -> tuple[asyncio.Task[None], str]:
    """Serve in this process; return the task and the URL out of the ready file."""
    task = asyncio.create_task(serving(settings))
    assert settings.ready_file is not None
    await eventually(lambda: task.done() or ready(settings))
    if task.done():
        await task
    return task, settings.ready_file.read_text().strip()


def ready(settings: ServerSettings) -> bool:
    return settings.ready_file is not None and settings.ready_file.exists()


async def test_the_ready_file_has_the_url_of_a_server_that_serves(
    tmp_path: Path, repository: Path, session: aiohttp.ClientSession
) -> None:
    settings = settings_of(tmp_path, repository)
    task, url = await started(settings)
    assert (await ApiClient(session, url).get("/readyz")).status == 200
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await task
    assert not ready(settings)


async def test_whoever_starts_it_hears_of_readiness_before_the_ready_file_tells_others(
    tmp_path: Path, repository: Path
) -> None:
    settings = settings_of(tmp_path, repository)
    heard: list[bool] = []
    task = asyncio.create_task(
        serve_process(
            settings,
            SystemClock(),
            new_request_id=lambda: "r",
            token_bytes=secrets.token_bytes,
            leave_at_once=lambda _: None,
            on_ready=lambda: heard.append(ready(settings)),
        )
    )
    await eventually(lambda: task.done() or ready(settings))
    assert heard == [False]
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await task
    assert heard == [False]


async def test_a_port_in_use_is_refused_with_a_way_out(tmp_path: Path, repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput) as refused:
            await serving(settings_of(tmp_path, repository, port=port))
    assert refused.value.code == "CANNOT_LISTEN"
    assert f"cannot listen on 127.0.0.1 port {port}: " in refused.value.message
    assert (
        refused.value.hint == "another server may be running there; choose another one with --port"
    )


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (socket.gaierror(-2, "Name or service not known"), "name an address of this machine"),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "name an address of this machine"),
        (PermissionError(errno.EACCES, "Permission denied"), "this user may not listen there"),
    ],
)
async def test_an_address_that_cannot_be_had_is_refused_with_the_way_out_of_it(
    error: OSError,
    hint: str,
    tmp_path: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(_site: web.TCPSite) -> None:
        raise error

    monkeypatch.setattr(web.TCPSite, "start", fails)
    with pytest.raises(BadInput) as refused:
        await serving(settings_of(tmp_path, repository))
    assert refused.value.code == "CANNOT_LISTEN"
    assert str(error.strerror) in refused.value.message
    assert (refused.value.hint or "").startswith(hint)


async def test_a_repository_in_use_is_refused(
    tmp_path: Path, repository: Path, server: Served
) -> None:
    with pytest.raises(Conflict) as refused:
        await serving(settings_of(tmp_path, repository, state=tmp_path / "other"))
    assert refused.value.code == "LOCKED"
    assert (await server.api.get("/readyz")).status == 200


async def test_a_repository_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        await serving(settings_of(tmp_path, tmp_path / "none"))
    assert refused.value.code == "NOT_A_REPOSITORY"
    assert refused.value.hint == f"make one: kzoo-server init --repo {tmp_path / 'none'}"


async def test_a_ready_file_that_cannot_be_written_ends_the_server(
    tmp_path: Path, repository: Path
) -> None:
    with pytest.raises(BadInput) as refused:
        await serving(settings_of(tmp_path, repository, ready_file=tmp_path / "no" / "ready"))
    assert refused.value.code == "CANNOT_WRITE"


async def test_a_disk_that_fails_ends_the_server(
    tmp_path: Path,
    repository: Path,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, url = await started(settings_of(tmp_path, repository))

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", fails)
        answer = await ApiClient(session, url).submit(ARCHIVE)
        with pytest.raises(SpoolFailed):
            await task
    assert answer.status == 500
    assert answer.error["code"] == "SPOOL_FAILED"
    assert "Input/output error" in answer.error["message"]


async def test_a_disk_that_fails_behind_the_scenes_ends_the_server(
    tmp_path: Path,
    repository: Path,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_of(tmp_path, repository, sweep_s=0.05, confirm_s=0.2)
    task, url = await started(settings)
    api = ApiClient(session, url)
    await api.submitted(ARCHIVE)
    await (await StubRunner.register(api)).claim()

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", fails)
        with pytest.raises(SpoolFailed):
            async with asyncio.timeout(10):
                await task


async def test_a_full_disk_refuses_a_submission_and_serves_on(
    tmp_path: Path,
    repository: Path,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, url = await started(settings_of(tmp_path, repository))
    api = ApiClient(session, url)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", full)
        answer = await api.submit(ARCHIVE)
    assert answer.status == 507
    assert answer.error == {
        "code": "DISK_LOW",
        "message": "the server's disk is full: nothing was changed",
        "details": [],
        "retry": False,
        "hint": "nothing was kept; try again when an operator has made room",
    }
    assert (await api.submit(ARCHIVE)).status == 202
    os.kill(os.getpid(), signal.SIGTERM)
    await task


class SlowDisk:
    """Holds the next durable write until it is let go: a disk that takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self._write = durable.write_file
        monkeypatch.setattr(durable, "write_file", self.write_file)

    def write_file(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        self.entered.set()
        assert self.go.wait(10)
        self._write(path, data, mode=mode)


async def test_a_client_that_leaves_does_not_lose_its_result(
    tmp_path: Path,
    repository: Path,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, url = await started(settings_of(tmp_path, repository))
    api = ApiClient(session, url)
    uuid = await api.submitted(ARCHIVE)
    attempt = await (await StubRunner.register(api)).claim()
    disk = SlowDisk(monkeypatch)
    reporting = asyncio.create_task(attempt.report())
    await eventually(disk.entered.is_set)
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    disk.go.set()
    assert (await api.done(uuid))["outcome"] == "accepted"
    os.kill(os.getpid(), signal.SIGTERM)
    await task


async def test_a_result_under_way_is_taken_before_the_server_ends(
    tmp_path: Path,
    repository: Path,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = settings_of(tmp_path, repository)
    task, url = await started(settings)
    api = ApiClient(session, url)
    uuid = await api.submitted(ARCHIVE)
    attempt = await (await StubRunner.register(api)).claim()
    disk = SlowDisk(monkeypatch)
    reporting = asyncio.create_task(attempt.report())
    await eventually(disk.entered.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    disk.go.set()
    answer = await reporting
    await task
    assert (answer.status, answer.json()["accepted"]) == (202, True)
    again, url = await started(settings)
    assert (await ApiClient(session, url).done(uuid))["outcome"] == "accepted"
    os.kill(os.getpid(), signal.SIGTERM)
    await again


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_held_requests_and_the_process(
    zoo: Zoo, session: aiohttp.ClientSession, number: signal.Signals
) -> None:
    api = ApiClient(session, await asyncio.to_thread(zoo.start_server))
    uuid = await api.submitted(ARCHIVE)
    runner = await StubRunner.register(api, arch="gfx936")
    polls = [
        asyncio.create_task(api.get(f"/api/submissions/{uuid}/status?wait=60")) for _ in range(20)
    ]
    claiming = asyncio.create_task(runner.ask(wait=60))

    async def all_held() -> bool:
        return b"kzoo_held_requests 21.0" in (await api.get("/metrics")).body

    await eventually(all_held)
    server = zoo.server
    assert server is not None
    began = time.monotonic()
    code = await asyncio.to_thread(server.stop, number=number)
    assert time.monotonic() - began < 5
    assert code == 0
    assert {(await poll).json()["status"] for poll in polls} == {"queued"}
    assert (await claiming).status == 204
    lines = server.text().splitlines()
    assert any("event=server.stopped" in line for line in lines)
    assert any("request_id=" in line and "duration_ms=" in line for line in lines)
    assert not (zoo.directory / "server.url").exists()


@pytest.mark.e2e
async def test_a_second_signal_ends_the_process_at_once(zoo: Zoo) -> None:
    url = urlsplit(await asyncio.to_thread(zoo.start_server))
    server = zoo.server
    assert server is not None
    # A request whose body does not come keeps an orderly stop waiting.
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(
        b"POST /api/submissions HTTP/1.1\r\nHost: zoo\r\nX-Submitter-Id: a\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\n"
    )
    await writer.drain()
    await eventually(lambda: any((zoo.state / "tmp").iterdir()))
    server.process.send_signal(signal.SIGTERM)
    await eventually(lambda: "event=server.stopping" in server.text())
    server.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(server.process.wait, 2) == 128 + signal.SIGTERM
    writer.close()


@pytest.mark.e2e
def test_lines_can_be_json(zoo: Zoo) -> None:
    config = zoo.directory / "server.yaml"
    config.write_text("log_format: json\n")
    zoo.start_server("--config", str(config))
    server = zoo.server
    assert server is not None
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.text().splitlines()]
    assert {"server.listening", "system.open", "server.ready", "server.stopped"} <= {
        line["event"] for line in lines
    }
    assert all(line["level"] == "info" and line["time"].endswith("Z") for line in lines)


@pytest.mark.e2e
def test_init_makes_a_repository_with_the_examples(tmp_path: Path) -> None:
    repo = tmp_path / "kernel_data"
    done = run_command("kzoo_server", "init", "--repo", str(repo), "--examples")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"made a bare repository at {repo}"
    assert "  with gfx928/Attention/MHA/fp16/reference_impl" in done.stdout.splitlines()
    assert f"  kzoo-server --repo {repo}" in done.stdout.splitlines()
    listed = subprocess.run(
        ["git", "-C", str(repo), "ls-tree", "-r", "--name-only", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    path = "gfx928/Attention/MHA/fp16/reference_impl/.kernel_package"
    for name in ("desc.yaml", "bench_result.yaml", "build_test_env.py", "benchmark.py"):
        assert f"{path}/{name}" in listed.stdout.splitlines()
    fsck = subprocess.run(
        ["git", "-C", str(repo), "fsck", "--strict"], capture_output=True, text=True, check=True
    )
    assert fsck.stdout == ""
    again = run_command("kzoo_server", "init", "--repo", str(repo))
    assert again.returncode == 3
    assert again.stderr == (
        f"error: {repo} exists and is not an empty directory\n"
        "hint: name a new one; a repository that exists is served with kzoo-server --repo\n"
    )


@pytest.mark.e2e
def test_init_makes_a_checkout_with_its_files_in_place(tmp_path: Path) -> None:
    repo = tmp_path / "kernel_data"
    done = run_command("kzoo_server", "init", "--repo", str(repo), "--no-bare", "--examples")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"made a checkout at {repo}"
    assert (repo / "gfx928/Norm/RMSNorm/fp32/rowwise/.kernel_package/desc.yaml").is_file()
    status = subprocess.run(
        ["git", "-C", str(repo), "status", "--porcelain"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout == ""


def test_config_show_says_where_each_value_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("lease_s: 45\n")
    monkeypatch.setenv("KERNEL_ZOO_HOST", "127.0.0.2")
    arguments = ["config", "show", "--origin", "--port", "1234", "--config", str(file)]
    assert command.main(arguments) == 0
    lines = [line.split("  # ") for line in capsys.readouterr().out.splitlines()]
    shown = {line[0].strip(): line[-1].strip() for line in lines}
    assert shown["port: 1234"] == "flag --port"
    assert shown['host: "127.0.0.2"'] == "environment KERNEL_ZOO_HOST"
    assert shown["lease_s: 45.0"] == f"file {file}"
    assert shown["confirm_s: 30.0"] == "default"


def test_flags_may_stand_before_or_behind_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--port", "7", "config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["port"] == 7


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--xyzzy"], "error: unrecognized arguments: --xyzzy\nhint: see 'kzoo-server --help'\n"),
        (["--prot", "5"], "error: unrecognized arguments: --prot\nhint: did you mean --port?\n"),
        (["init", "--repo", "x", "--example"], "--example\nhint: did you mean --examples?\n"),
        (["sevre"], "'sevre' (choose from 'serve', 'init', 'config')\nhint: did you mean serve?\n"),
        (["init"], "error: the following arguments are required: --repo\n"),
    ],
)
def test_wrong_usage_ends_with_3_and_says_what_was_meant(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 3
    assert line in capsys.readouterr().err


def test_a_repository_that_cannot_be_made_ends_with_3_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert command.main(["init", "--repo", str(tmp_path / "file" / "repo")]) == 3
    assert capsys.readouterr().err == (
        f"error: {tmp_path / 'file'}: Not a directory\n"
        "hint: a part of the path is no directory: name another path\n"
    )


def test_a_bad_setting_ends_with_3_and_names_its_neighbour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("leas_s: 45\n")
    assert command.main(["--config", str(file)]) == 3
    assert capsys.readouterr().err == (
        f"error: {file}: unknown setting 'leas_s'\nhint: did you mean 'lease_s'?\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            SpoolFailed("SPOOL_FAILED", "the disk is gone", hint="look"),
            1,
            "error: the disk is gone\nhint: look\n",
        ),
        (
            PermissionError(13, "Permission denied", "/var/zoo"),
            3,
            (
                "error: /var/zoo: Permission denied\n"
                "hint: this user may not use it: name another path, or change who may\n"
            ),
        ),
        (Conflict("LOCKED", "in use"), 3, "error: in use\n"),
    ],
)
def test_what_ended_the_server_decides_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    said: str,
) -> None:
    async def ends(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(command, "serve", ends)
    monkeypatch.setattr(log_lines, "configure", lambda **_: None)
    assert command.main(["--port", "0"]) == code
    assert capsys.readouterr().err == said
