from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kzoo_core.durable import exclusive_lock
from kzoo_core.runner import __main__ as command
from kzoo_core.runner.backends.processes import marked_processes
from kzoo_core.version import __version__
from tests.core.runner.packages import printed_by_benchmark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.core.runner.scripted_server import ScriptedServer

HANGS = "import time\ntime.sleep(600)"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KERNEL_ZOO_")]:
        monkeypatch.delenv(name)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command in this process, see that it ends with 3, and return what it says."""
    assert command.main(list(arguments)) == 3
    out, err = capsys.readouterr()
    assert out == ""
    return err


@asynccontextmanager
async def started(
    *arguments: str, environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command as a process of its own and see it ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kzoo_core.runner",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    async with asyncio.timeout(30):
        _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


def instance_in(state: Path) -> str:
    return (state / "instance").read_text().strip()


async def test_the_command_runs_one_attempt_and_warns_that_nothing_is_isolated(
    server: ScriptedServer, tmp_path: Path
) -> None:
    planned = server.plan()
    flags = ["--server", server.url, "--arch", "gfx928", "--name", "node1", "--once"]
    flags += ["--state", str(tmp_path / "s"), "--product", "K100", "--feature", "a"]
    flags += ["--feature", "b"]

    async with started(*flags) as process:
        code, err = await ended(process)

    assert code == 0, err
    assert server.stdout_of(planned) == printed_by_benchmark(server.runner_id)
    (registration,) = (seen.json for seen in server.calls("register"))
    assert (registration["name"], registration["arch"]) == ("node1", "gfx928")
    assert (registration["product"], registration["features"]) == ("K100", ["a", "b"])
    assert (registration["backend"], registration["isolation"]) == ("local", "none")
    assert registration["version"] == __version__
    assert registration["instance"] == instance_in(tmp_path / "s")
    assert registration["boot_id"]
    assert 'event="the local backend isolates nothing: packages run as this user' in err


async def test_a_restarted_runner_is_the_same_instance(
    server: ScriptedServer, tmp_path: Path
) -> None:
    flags = ["--arch", "gfx928", "--once", "--state", str(tmp_path)]
    for _ in range(2):
        async with started(*flags, environment={"KERNEL_ZOO_SERVER": server.url}) as process:
            assert (await ended(process))[0] == 0

    first, second = (seen.json["instance"] for seen in server.calls("register"))
    assert first == second == instance_in(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_two_end_what_runs(
    server: ScriptedServer, tmp_path: Path, number: signal.Signals
) -> None:
    planned = server.plan(HANGS)
    flags = ["--server", server.url, "--arch", "gfx928", "--state", str(tmp_path)]

    async with started(*flags) as process:
        await server.until(
            lambda: any('"phase": "benchmark"' in str(beat.body) for beat in server.seen)
        )
        process.send_signal(number)
        await server.until(lambda: any('"draining"' in str(beat.body) for beat in server.seen))
        process.send_signal(number)
        code, err = await ended(process)

    assert code == 0, err
    assert server.results[planned.key]["failure"]["detail"] == "runner stopped"


async def test_a_runner_killed_in_a_run_leaves_no_process_and_its_next_start_no_files(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.plan(HANGS)
    flags = ["--server", server.url, "--arch", "gfx928", "--state", str(tmp_path)]
    async with started(*flags) as process:
        await server.until(
            lambda: any('"phase": "benchmark"' in str(beat.body) for beat in server.seen)
        )
        process.kill()
        await process.wait()
    assert len(list((tmp_path / "work").iterdir())) == 1

    async with started(*flags, "--once") as process:
        assert (await ended(process))[0] == 0

    assert list((tmp_path / "work").iterdir()) == []
    assert marked_processes(f"{instance_in(tmp_path)}/") == []
    assert server.results == {}


async def test_settings_come_from_a_file_too(server: ScriptedServer, tmp_path: Path) -> None:
    config = tmp_path / "runner.yaml"
    config.write_text(
        f"server: {server.url}\narch: gfx928\nfeatures: [x, y]\nstate: {tmp_path / 's'}\n"
    )

    async with started("--once", "--config", str(config)) as process:
        assert (await ended(process))[0] == 0

    assert server.calls("register")[0].json["features"] == ["x", "y"]


async def test_a_server_that_is_not_there_ends_the_command_with_3(tmp_path: Path) -> None:
    flags = ["--server", "http://127.0.0.1:1", "--arch", "gfx928", "--state", str(tmp_path)]
    quick = {
        "KERNEL_ZOO_RUNNER_REGISTER_PATIENCE_S": "0",
        "KERNEL_ZOO_RUNNER_RETRY_LEAST_S": "0.01",
    }

    async with started(*flags, environment=quick) as process:
        code, err = await ended(process)

    assert code == 3
    assert 'why="cannot register: no answer from http://127.0.0.1:1/api/runner/register' in err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])

    assert caught.value.code == 0
    assert capsys.readouterr().out == f"kzoo-runner {__version__}\n"


def test_a_flag_that_is_not_known_is_a_usage_error_of_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--colour"])

    assert caught.value.code == 3
    assert "error: unrecognized arguments: --colour" in capsys.readouterr().err


def test_a_runner_has_to_say_its_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys) == (
        "error: no architecture is given\n"
        "hint: say what this machine has: --arch gfx928, or KERNEL_ZOO_ARCH\n"
    )


def test_an_architecture_is_one_segment_of_a_kernel_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--arch", "gfx/928").startswith(
        "error: the architecture 'gfx/928' is not valid: expected ^[A-Za-z0-9._-]+$"
    )


def test_a_name_that_is_not_valid_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--arch", "gfx928", "--name", "no spaces") == (
        "error: runner_name 'no spaces' is not valid\n"
        "  expected: matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$\n"
        "hint: runner_name matches ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$\n"
    )


def test_a_backend_that_is_not_known_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_ZOO_RUNNER_BACKEND", "cloud")

    assert refused(capsys, "--arch", "gfx928") == (
        "error: the backend 'cloud' is not known\nhint: known: local\n"
    )


def test_an_address_that_is_none_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    err = refused(capsys, "--arch", "gfx928", "--server", "ftp://x", "--state", str(tmp_path))

    assert "error: the server address 'ftp://x' is not usable" in err


def test_an_interpreter_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--arch", "gfx928", "--state", str(tmp_path), "--python", "no-such-python"]

    assert refused(capsys, *flags) == (
        "error: 'no-such-python' is no executable file, and none of that name is on PATH\n"
        "hint: give a Python interpreter with --python PATH\n"
    )


def test_an_interpreter_is_found_by_name_or_path_and_links_are_kept(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)

    assert command._interpreter(str(link)) == link
    assert command._interpreter("sh").is_absolute()
    assert command._interpreter(None) == Path(sys.executable)


def test_a_state_directory_in_use_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with exclusive_lock(tmp_path / "lock", owner="kzoo-runner"):
        err = refused(capsys, "--arch", "gfx928", "--state", str(tmp_path))

    assert err.endswith(
        f"error: {tmp_path} is in use by another kzoo-runner\n"
        "hint: stop the other process, or give this one a directory of its own\n"
    )


def test_a_state_directory_that_cannot_be_made_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")

    err = refused(capsys, "--arch", "gfx928", "--state", str(tmp_path / "file" / "state"))

    assert err == (
        f"error: {tmp_path / 'file'}: Not a directory\n"
        "hint: a part of the path is no directory: name another path\n"
    )


def test_an_unknown_setting_in_the_file_names_its_neighbour(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "runner.yaml"
    config.write_text("archh: gfx928\n")

    assert refused(capsys, "--config", str(config)) == (
        f"error: {config}: unknown setting 'archh'\nhint: did you mean 'arch'?\n"
    )


@pytest.mark.parametrize(
    ("host", "name"),
    [("node-1.example", "node-1.example"), ("gpu_ß!", "gpu_--"), ("---", "runner"), ("", "runner")],
)
def test_a_runner_is_called_by_its_host_s_name(
    monkeypatch: pytest.MonkeyPatch, host: str, name: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)

    assert command._host_name() == name


def test_a_state_directory_is_the_runner_s_own_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")

    assert command._default_state("node1") == Path("/somewhere/kernel_zoo/runner/node1")
