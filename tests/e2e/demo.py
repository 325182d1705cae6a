"""``make demo``: the whole product in a minute, with real processes on this machine.

Makes a kernel repository with the example packages, starts a server and a runner, submits four
packages over HTTP and shows the board. On a terminal the server then stays up until Ctrl-C.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.processes import Zoo, environment, zoo_in
from tests.variants import CHECKOUT, EXAMPLES, apply_variant

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNEL_ID = "gfx928/Norm/RMSNorm/fp32/rowwise"
RULE = "─" * 78
COMMAND_TIMEOUT_S = 120.0
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Step:
    """One submission and the exit code that ``kzoo submit --wait`` must give."""

    title: str
    package: Path
    submitter: str
    summary: str
    exit_code: int
    options: tuple[str, ...] = ()


def main() -> int:
    """Run the demo; returns 0 when every submission ended as it should, 130 after Ctrl-C."""
    started = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="kernel_zoo-demo-"))
    try:
        with zoo_in(directory) as zoo:
            wrong = _walk(zoo)
            print(f"\n{RULE}\n{time.monotonic() - started:.0f} s; the board is at {zoo.url}")
            if sys.stdin.isatty() and sys.stdout.isatty():
                _stay(zoo)
    except KeyboardInterrupt:
        print("\nstopped before its end: server and runner are gone", flush=True)
        return INTERRUPTED
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else 0


def _walk(zoo: Zoo) -> list[str]:
    _say("a kernel repository with the example packages, a server, a runner")
    zoo.init("--examples")
    zoo.start_server()
    zoo.start_runner("demo-node")
    print(f"server at {zoo.url}, runner demo-node (local backend: nothing is isolated)")

    unexpected = [step.title for step in _steps(zoo.directory) if not _run(zoo, step)]

    _say("the board")
    _kzoo(zoo, "kernels")
    _say(f"one kernel: {KERNEL_ID}")
    _kzoo(zoo, "show", KERNEL_ID)
    _say("every accept is two commits: the source, then the scoreboard stamped with it")
    _print_command(["git", "log", "--stat=100", "--format=%h %an: %s", "-4"])
    subprocess.run(
        ["git", "-C", str(zoo.repository), "log", "--stat=100", "--format=%h %an: %s", "-4"],
        check=True,
    )
    return unexpected


def _steps(directory: Path) -> list[Step]:
    return [
        Step("1. the example as it is: accepted", EXAMPLES / KERNEL_ID, "alice", "as it came", 0),
        Step(
            "2. a faster one: accepted, it breaks a record",
            apply_variant(KERNEL_ID, "faster", directory / "faster"),
            "bob",
            "one fused pass",
            0,
        ),
        Step(
            "3. a wrong one: rejected, it fails correctness",
            apply_variant(KERNEL_ID, "wrong", directory / "wrong"),
            "carol",
            "skips a reduction",
            1,
        ),
        Step(
            "4. a malformed one: 422 with every problem at once",
            apply_variant(KERNEL_ID, "malformed", directory / "malformed"),
            "dave",
            "never looked at",
            2,
            ("--no-check",),
        ),
    ]


def _run(zoo: Zoo, step: Step) -> bool:
    _say(step.title)
    code = _kzoo(
        zoo,
        *("submit", str(step.package), "--as", step.submitter, "--kernel-id", KERNEL_ID),
        *("--summary", step.summary, "--wait", *step.options),
    )
    if code != step.exit_code:
        print(f"expected exit code {step.exit_code}, got {code}")
    return code == step.exit_code


def _kzoo(zoo: Zoo, *arguments: str) -> int:
    shown = [
        argument.replace(str(zoo.directory), "…").replace(f"{CHECKOUT}/", "")
        for argument in arguments
    ]
    _print_command(["kzoo", *shown])
    done = subprocess.run(  # on our own streams: a terminal gets the progress line
        [sys.executable, "-m", "kzoo_tui.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        env=environment(KERNEL_ZOO_SERVER=zoo.url),
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return done.returncode


def _say(text: str) -> None:
    print(f"\n{RULE}\n{text}\n{RULE}", flush=True)


def _print_command(words: Sequence[str]) -> None:
    print("$ " + " ".join(f"'{word}'" if " " in word else word for word in words), flush=True)


def _stay(zoo: Zoo) -> None:
    print(f"Ctrl-C ends it. In another terminal: export KERNEL_ZOO_SERVER={zoo.url}", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("\nstopping", flush=True)


if __name__ == "__main__":
    sys.exit(main())
