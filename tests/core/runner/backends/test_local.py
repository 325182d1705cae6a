from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import uuid
from pathlib import Path

import pytest

from kzoo_core.errors import BadInput, Broken
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backends import local
from kzoo_core.runner.backends.base import Ending, StopSignal
from kzoo_core.runner.backends.processes import MARK_VARIABLE, marked_processes
from tests.core.runner.backends.scripts import KEY, backend, place_with, step
from tests.core.runner.polling import until

DAEMONIZES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if {clean_environment}:
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {{}})
        time.sleep(600)
    os._exit(0)
os.wait()
print("done")
"""


@pytest.fixture
def instance() -> str:
    return f"test{uuid.uuid4().hex}"


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_a_script_runs_in_the_package_root_with_the_work_directory_as_its_argument(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(
        tmp_path / "a",
        "import json, os, sys\n"
        "print(json.dumps([os.getcwd(), sys.argv[1:], os.listdir(sys.argv[1]),\n"
        "    sys.stdin.read(), sys.flags.dont_write_bytecode, __file__]))",
    )
    logged: list[bytes] = []

    end = await backend(instance).run(step(place), logged.append, StopSignal())

    expected = [
        str(place.package),
        [str(place.workdir)],
        [],
        "",
        1,
        f"{place.package}/.kernel_package/benchmark.py",
    ]
    assert json.loads(end.stdout) == expected
    assert (end.ending, end.exit_code, end.failure, logged) == (Ending.EXITED, 0, None, [])
    assert 0 < end.duration_s < 20


async def test_a_script_sees_the_allowed_environment_and_a_home_of_its_own(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(tmp_path / "a", "import json, os\nprint(json.dumps(dict(os.environ)))")
    mine = backend(
        instance,
        environment={
            "PATH": "/usr/bin",
            "LC_ALL": "C.UTF-8",
            "ROCM_PATH": "/opt/rocm",
            "HOME": "/root",
            "SECRET": "x",
            "KERNEL_ZOO_TOKEN": "x",
        },
    )

    end = await mine.run(
        step(place, environment={"KERNEL_ZOO_ARCH": "gfx928"}), lambda _: None, StopSignal()
    )

    assert json.loads(end.stdout) == {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "ROCM_PATH": "/opt/rocm",
        "HOME": str(place.home),
        "TMPDIR": str(place.tmp),
        "KERNEL_ZOO_ARCH": "gfx928",
        MARK_VARIABLE: f"{instance}/{KEY}",
    }


async def test_a_build_s_output_and_a_benchmark_s_stderr_go_to_the_log(
    tmp_path: Path, instance: str
) -> None:
    talks = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)"
    place = place_with(tmp_path / "a", talks, talks)
    mine = backend(instance)
    build_log: list[bytes] = []
    bench_log: list[bytes] = []

    build = await mine.run(step(place, Phase.BUILD), build_log.append, StopSignal())
    bench = await mine.run(step(place), bench_log.append, StopSignal())

    assert sorted(b"".join(build_log).split()) == [b"err", b"out"]
    assert build.stdout == b""
    assert (b"".join(bench_log), bench.stdout) == (b"err\n", b"out\n")


async def test_output_is_kept_as_bytes_that_need_not_be_text(tmp_path: Path, instance: str) -> None:
    place = place_with(
        tmp_path / "a",
        "import sys\nsys.stdout.buffer.write(b'\\xff\\x00\\xfe')\n"
        "sys.stderr.buffer.write(b'\\x80\\x81')",
    )
    logged: list[bytes] = []

    end = await backend(instance).run(step(place), logged.append, StopSignal())

    assert (end.stdout, b"".join(logged)) == (b"\xff\x00\xfe", b"\x80\x81")


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('x')", 1),
        ("import os\nos.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os\nos.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("import os, signal\nos.killpg(0, signal.SIGKILL)", -signal.SIGKILL),
        ("import os\nos.abort()", -signal.SIGABRT),
    ],
)
async def test_an_exit_code_is_the_script_s_own_and_a_signal_is_negative(
    tmp_path: Path, instance: str, script: str, exit_code: int
) -> None:
    place = place_with(tmp_path / "a", script)

    end = await backend(instance).run(step(place), lambda _: None, StopSignal())

    assert (end.ending, end.exit_code) == (Ending.EXITED, exit_code)


async def test_a_script_that_ignores_sigterm_is_killed_after_its_time_and_the_grace(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(tmp_path / "a", "")
    deaf = tmp_path / "python"  # a shell is deaf sooner than an interpreter
    deaf.write_text("#!/bin/sh\ntrap '' TERM\necho hung\nsleep 600\n")
    deaf.chmod(0o755)

    end = await backend(instance, python=deaf).run(
        step(place, timeout_s=0.5, kill_grace_s=0.2), lambda _: None, StopSignal()
    )

    assert (end.ending, end.exit_code, end.stdout) == (Ending.TIMEOUT, -9, b"hung\n")
    assert 0.7 <= end.duration_s < 15
    assert marked_processes(f"{instance}/") == []


async def test_a_script_may_clean_up_within_the_grace(tmp_path: Path, instance: str) -> None:
    place = place_with(
        tmp_path / "a",
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('cleaned'))\n"
        "os.write(2, b'ready ')\n"
        "time.sleep(600)",
    )
    logged = bytearray()
    stop = StopSignal()
    running = asyncio.create_task(backend(instance).run(step(place), logged.extend, stop))
    await until(lambda: b"ready" in logged)

    stop.ask(600.0)
    end = await running

    assert (end.ending, end.exit_code, bytes(logged)) == (Ending.STOPPED, 1, b"ready cleaned\n")


async def test_stdout_over_its_limit_is_kept_up_to_it_and_the_script_killed(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(tmp_path / "a", "import sys\nwhile True:\n    sys.stdout.write('x' * 65536)")

    end = await backend(instance).run(
        step(place, stdout_limit_bytes=100_000), lambda _: None, StopSignal()
    )

    assert (end.ending, end.stdout) == (Ending.OUTPUT_LIMIT, b"x" * 100_000)


@pytest.mark.parametrize(("size", "ending"), [(1000, Ending.EXITED), (1001, Ending.OUTPUT_LIMIT)])
async def test_a_limit_that_is_passed_with_the_last_bytes_is_passed_all_the_same(
    tmp_path: Path, instance: str, size: int, ending: Ending
) -> None:
    place = place_with(tmp_path / "a", f"print('x' * {size}, end='')")

    end = await backend(instance).run(
        step(place, stdout_limit_bytes=1000), lambda _: None, StopSignal()
    )

    assert (end.ending, len(end.stdout)) == (ending, 1000)


async def test_huge_stderr_passes_through_without_a_limit(tmp_path: Path, instance: str) -> None:
    place = place_with(
        tmp_path / "a", "import sys\nfor _ in range(200):\n    sys.stderr.write('e' * 65536)"
    )
    seen = 0

    def count(data: bytes) -> None:
        nonlocal seen
        assert len(data) <= 65536
        seen += len(data)

    end = await backend(instance).run(step(place), count, StopSignal())

    assert (end.exit_code, seen) == (0, 200 * 65536)


@pytest.mark.parametrize("clean_environment", [False, True])
async def test_a_child_that_daemonizes_does_not_outlive_the_step(
    tmp_path: Path, instance: str, clean_environment: bool
) -> None:
    script = DAEMONIZES.format(clean_environment=clean_environment).replace(
        'print("done")', "import json\nfrom pathlib import Path\n"
    )
    # The grandchild says who it is before it would sleep for ten minutes.
    script = script.replace(
        "        if ",
        f"        open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n        if ",
    )
    script += f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(0.005)\n"
    place = place_with(tmp_path / "a", script)

    end = await backend(instance).run(step(place), lambda _: None, StopSignal())

    assert (end.ending, end.exit_code) == (Ending.EXITED, 0)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert marked_processes(f"{instance}/") == []


async def test_children_that_keep_forking_are_all_ended(tmp_path: Path, instance: str) -> None:
    place = place_with(
        tmp_path / "a",
        "import os, time\n"
        "end = time.monotonic() + 30\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while time.monotonic() < end:\n"
        "        if os.fork():\n"
        "            os._exit(0)\n"  # its child goes on: another pid every time
        "        os.setsid()\n"
        "time.sleep(0.2)\n",
    )

    end = await backend(instance).run(step(place), lambda _: None, StopSignal())

    assert end.ending is Ending.EXITED
    assert marked_processes(f"{instance}/") == []


async def test_a_package_that_kills_its_warden_is_still_cleaned_up(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(
        tmp_path / "a",
        "import os, signal, subprocess, sys, time\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "null = subprocess.DEVNULL\n"
        "subprocess.Popen(child, start_new_session=True, stdout=null, stderr=null)\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(600)",
    )
    mine = backend(instance)

    end = await mine.run(step(place), lambda _: None, StopSignal())
    await mine.clean(KEY)

    assert (end.ending, end.exit_code) == (Ending.EXITED, -signal.SIGKILL)
    assert marked_processes(f"{instance}/") == []


async def test_a_package_that_freezes_its_warden_does_not_hold_the_runner(
    tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "WARDEN_PATIENCE_S", 0.2)
    place = place_with(
        tmp_path / "a",
        "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(600)",
    )
    mine = backend(instance)

    end = await mine.run(step(place, timeout_s=0.3, kill_grace_s=0.0), lambda _: None, StopSignal())
    await mine.clean(KEY)

    assert (end.ending, end.exit_code) == (Ending.TIMEOUT, -signal.SIGKILL)
    assert marked_processes(f"{instance}/") == []


async def test_a_stop_gives_its_grace_and_a_second_one_takes_it_back(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(
        tmp_path / "a",
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.write(2, b'asked'))\n"
        "os.write(2, b'ready')\n"
        "while True: time.sleep(600)",
    )
    logged = bytearray()
    stop = StopSignal()
    running = asyncio.create_task(backend(instance).run(step(place), logged.extend, stop))
    await until(lambda: b"ready" in logged)

    stop.ask(600.0)
    await until(lambda: b"asked" in logged)
    stop.ask(0.0)
    end = await running

    assert (end.ending, end.exit_code) == (Ending.STOPPED, -signal.SIGKILL)
    assert end.duration_s < 20


async def test_a_stop_without_grace_kills_at_once(tmp_path: Path, instance: str) -> None:
    place = place_with(tmp_path / "a", "import time\ntime.sleep(600)")
    stop = StopSignal()
    stop.ask(0.0)

    end = await backend(instance).run(step(place), lambda _: None, stop)

    assert end.ending is Ending.STOPPED
    assert marked_processes(f"{instance}/") == []


async def test_cancelling_the_call_kills_the_script(tmp_path: Path, instance: str) -> None:
    place = place_with(
        tmp_path / "a",
        "import sys, time\nprint('up', file=sys.stderr, flush=True)\ntime.sleep(600)",
    )
    logged = bytearray()
    running = asyncio.create_task(backend(instance).run(step(place), logged.extend, StopSignal()))
    await until(lambda: b"up" in logged)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert marked_processes(f"{instance}/") == []


async def test_a_missing_interpreter_is_told_at_the_start(tmp_path: Path, instance: str) -> None:
    missing = tmp_path / "no-python"

    with pytest.raises(BadInput) as caught:
        await backend(instance, python=missing).start()

    assert caught.value.code == "NO_INTERPRETER"
    assert caught.value.message == f"{missing} cannot run packages: No such file or directory"
    assert caught.value.hint == (
        "give a Python interpreter that packages can use with --python PATH"
    )


async def test_a_program_that_is_no_python_is_told_at_the_start(instance: str) -> None:
    with pytest.raises(BadInput, match="/bin/false cannot run packages: it exits with 1"):
        await backend(instance, python=Path("/bin/false")).start()


async def test_an_interpreter_that_does_not_answer_is_told_at_the_start(
    tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INTERPRETER_PATIENCE_S", 0.1)
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)

    with pytest.raises(BadInput, match="cannot run packages: it does not answer"):
        await backend(instance, python=slow).start()


async def test_processes_that_do_not_die_are_logged(
    instance: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "kill_marked", lambda *_, **__: ([], [7]))

    await backend(instance).clean(KEY)

    assert caplog.messages == ["processes do not die"]


async def test_an_interpreter_that_is_gone_when_a_step_starts_is_the_machine_s_fault(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(tmp_path / "a", "print(1)")
    missing = tmp_path / "no-python"

    with pytest.raises(Broken) as caught:
        await backend(instance, python=missing).run(step(place), lambda _: None, StopSignal())

    assert caught.value.code == "CANNOT_START"
    assert caught.value.message == f"{missing} cannot be started: No such file or directory"


async def test_a_package_root_that_is_gone_is_the_machine_s_fault(
    tmp_path: Path, instance: str
) -> None:
    place = place_with(tmp_path / "a", "print(1)")
    place.package.rename(tmp_path / "elsewhere")

    with pytest.raises(Broken, match="cannot be started: No such file or directory"):
        await backend(instance).run(step(place), lambda _: None, StopSignal())


async def test_a_start_kills_what_a_killed_runner_of_the_same_instance_left(
    instance: str,
) -> None:
    async def sleeper(mark: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "/bin/sleep", "600", env={MARK_VARIABLE: mark}, start_new_session=True
        )

    left = await sleeper(f"{instance}/{KEY}")
    other = await sleeper(f"{instance}other/{KEY}")
    try:
        mine = backend(instance)
        await mine.start()

        assert await left.wait() == -signal.SIGKILL
        assert other.returncode is None
        assert marked_processes(f"{instance}other/") == [other.pid]
        assert dict(mine.facts) == {
            "backend": "local",
            "isolation": "none",
            "python": ".".join(map(str, sys.version_info[:3])),
        }
    finally:
        other.kill()
        await other.wait()


async def test_a_runner_that_is_killed_takes_its_attempt_with_it(
    tmp_path: Path, instance: str
) -> None:
    place_with(tmp_path / "a", "import time\ntime.sleep(600)")
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from kzoo_core.runner.backends.base import Place, StopSignal\n"
        "from tests.core.runner.backends.scripts import KERNEL_ID, backend, step\n"
        f"root = Path({str(tmp_path / 'a')!r})\n"
        "place = Place(root, root / 'package' / KERNEL_ID, root / 'workdir',\n"
        "    root / 'scratch' / 'home', root / 'scratch' / 'tmp')\n"
        f"asyncio.run(backend({instance!r}).run(step(place), lambda _: None, StopSignal()))\n"
    )
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=Path(__file__).parents[4]
    )
    await until(lambda: len(marked_processes(f"{instance}/")) == 2)  # warden and script

    os.kill(runner.pid, signal.SIGKILL)
    await runner.wait()

    await until(lambda: marked_processes(f"{instance}/") == [])


def test_the_notice_says_that_nothing_is_isolated(instance: str) -> None:
    mine = backend(instance)

    assert (mine.name, mine.isolation) == ("local", "none")
    assert mine.notice == (
        "the local backend isolates nothing: packages run as this user, with its files, "
        "network and GPUs; results carry isolation=none"
    )
