from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kzoo_core.runner.backends import warden
from kzoo_core.runner.backends.processes import MARK_VARIABLE, kill_marked, marked_processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLEEP = "import os, time\nos.write(1, b'up\\n')\ntime.sleep(600)"


class Warded:
    """A warden with its script's stdout and the line that it says at its end."""

    def __init__(self, command: list[str], *, parent: int, mark: str) -> None:
        self._status, write_fd = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, warden.__file__, str(parent), str(write_fd), *command],
            pass_fds=[write_fd],
            stdout=subprocess.PIPE,
            env={**os.environ, MARK_VARIABLE: mark},
        )
        os.close(write_fd)

    def wait_until_up(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"up\n"

    def end(self) -> tuple[int, str]:
        """Wait for the warden and return its exit code and its line."""
        code = self.process.wait(20)
        return code, os.read(self._status, 200).decode()

    def close(self) -> None:
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        os.close(self._status)


@contextmanager
def warded(command: list[str], *, parent: int | None = None) -> Iterator[Warded]:
    mark = f"test{uuid.uuid4().hex}"
    mine = Warded(command, parent=os.getpid() if parent is None else parent, mark=mark)
    try:
        yield mine
        assert marked_processes(mark) == []
    finally:
        kill_marked(mark, patience_s=5.0)
        mine.close()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_warden_says_how_its_command_ended() -> None:
    with warded(python("raise SystemExit(5)")) as mine:
        assert mine.end() == (0, "exit 5\n")


def test_a_signal_is_a_negative_code() -> None:
    with warded(python("import os\nos.kill(os.getpid(), 11)")) as mine:
        assert mine.end() == (0, "exit -11\n")


def test_a_command_that_cannot_be_started_is_told_by_its_errno(tmp_path: Path) -> None:
    with warded([str(tmp_path / "none")]) as mine:
        code, line = mine.end()

    assert (code, line.splitlines()[0]) == (0, f"error {errno.ENOENT}")


def test_sigterm_reaches_all_that_runs_and_sigquit_kills_it() -> None:
    forks = "import os\nif os.fork() == 0:\n    os.setsid()\n" + SLEEP
    with warded(python(forks)) as polite:
        polite.wait_until_up()
        polite.wait_until_up()
        polite.process.send_signal(signal.SIGTERM)
        assert polite.end() == (0, "exit -15\n")
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP
    with warded(python(deaf)) as hard:
        hard.wait_until_up()
        hard.process.send_signal(signal.SIGTERM)
        hard.process.send_signal(signal.SIGQUIT)
        assert hard.end() == (0, "exit -9\n")


def test_an_orphan_in_a_session_of_its_own_ends_with_the_command() -> None:
    leaves = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execve(sys.executable, [sys.executable, '-c', 'import time\\ntime.sleep(600)'],"
        " {'MINE': 'x'})\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    began = time.monotonic()
    with warded(python(leaves)) as mine:
        assert mine.end() == (0, "exit 0\n")
        assert warden.descendants(mine.process.pid) == []
    assert time.monotonic() - began < 60


def test_a_warden_whose_runner_is_already_gone_starts_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with warded(python(f"open({str(made)!r}, 'w')"), parent=1) as mine:
        assert mine.end() == (1, "")

    assert not made.exists()


def test_an_attempt_dumps_no_core_and_is_the_first_to_go_when_memory_runs_out(
    tmp_path: Path,
) -> None:
    seen = tmp_path / "seen"
    program = (
        "import resource\n"
        "score = open('/proc/self/oom_score_adj').read().strip()\n"
        "core = resource.getrlimit(resource.RLIMIT_CORE)\n"
        f"open({str(seen)!r}, 'w').write(f'{{score}} {{core}}')"
    )
    with warded(python(program)) as mine:
        mine.end()

    assert seen.read_text() == "500 (0, 0)"


def test_descendants_are_found_through_all_generations() -> None:
    grandparent = subprocess.Popen(
        [sys.executable, "-c", "import os\nos.fork()\nos.fork()\n" + SLEEP],
        stdout=subprocess.PIPE,
    )
    try:
        assert grandparent.stdout is not None
        for _ in range(4):
            grandparent.stdout.readline()

        assert len(warden.descendants(grandparent.pid)) == 3
        assert grandparent.pid in warden.descendants(os.getpid())
    finally:
        for pid in [*warden.descendants(grandparent.pid), grandparent.pid]:
            os.kill(pid, signal.SIGKILL)
        grandparent.wait()
        grandparent.stdout.close()  # type: ignore[union-attr]  # a pipe was asked for


def test_marks_are_matched_from_their_beginning_and_oneself_is_never_found() -> None:
    mark = f"test{uuid.uuid4().hex}"
    sleeper = subprocess.Popen(
        [sys.executable, "-c", SLEEP],
        stdout=subprocess.PIPE,
        env={MARK_VARIABLE: f"{mark}/a-1", "OTHER": f"{MARK_VARIABLE}={mark}x"},
    )
    try:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()

        assert marked_processes(f"{mark}/") == [sleeper.pid]
        assert marked_processes(f"{mark}/a-1") == [sleeper.pid]
        assert marked_processes(f"{mark}x") == []
        assert kill_marked(f"{mark}/", patience_s=5.0) == ([sleeper.pid], [])
    finally:
        sleeper.kill()
        sleeper.wait()
        sleeper.stdout.close()  # type: ignore[union-attr]  # a pipe was asked for


def test_a_process_that_does_not_die_is_named_after_the_patience(tmp_path: Path) -> None:
    """Nothing resists SIGKILL in a test, so a pid that nobody has stands for one that does."""
    stuck = tmp_path / "4194304"  # above the largest pid
    stuck.mkdir()
    (stuck / "environ").write_bytes(f"A=1\0{MARK_VARIABLE}=mine/x\0".encode())
    (tmp_path / "self").mkdir()
    (tmp_path / "1").mkdir()

    assert kill_marked("mine/", patience_s=0.02, proc=tmp_path) == ([], [4194304])
