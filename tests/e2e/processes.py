"""Real server and runner processes for end-to-end tests, the demo and the benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without the product's own variables, plus ``extra``."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("KERNEL_ZOO_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **extra}


@dataclass(slots=True)
class Daemon:
    """One started process whose output goes to a file."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def text(self) -> str:
        """Return what the process has printed so far, on both streams."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def stop(self, *, number: int = signal.SIGTERM, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send ``number`` if the process still runs, wait, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout_s)
            raise AssertionError(
                f"{self.name} did not stop within {timeout_s} s:\n{self.text()[-4000:]}"
            ) from None

    def kill(self) -> None:
        """End the process as a power cut would: SIGKILL, no chance to clean up."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


def start_daemon(name: str, arguments: Sequence[str], directory: Path, **extra: str) -> Daemon:
    """Start ``python -m <arguments>`` in ``directory`` with its output in ``<name>.out``."""
    output = directory / f"{name}.out"
    with output.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment(**extra),
        )
    return Daemon(name, process, output)


@dataclass(slots=True)
class Zoo:
    """A kernel repository, a server on a free port, and as many runners as were started.

    Everything lies below ``directory``: ``kernel_data`` (the repository), ``state``,
    ``runner-<name>``; ``url`` is known once the server runs.
    """

    directory: Path
    url: str = ""
    server: Daemon | None = None
    runners: list[Daemon] = field(default_factory=list)

    @property
    def repository(self) -> Path:
        """The kernel repository."""
        return self.directory / "kernel_data"

    @property
    def state(self) -> Path:
        """The server's state directory."""
        return self.directory / "state"

    def init(self, *options: str) -> None:
        """Make the kernel repository with ``kzoo-server init``."""
        run_command("kzoo_server", "init", "--repo", str(self.repository), *options, check=True)

    def start_server(self, *options: str, port: int = 0) -> str:
        """Start ``kzoo-server``, wait until it is ready and return its URL."""
        ready = self.directory / "server.url"
        ready.unlink(missing_ok=True)
        self.server = start_daemon(
            "server",
            [
                "kzoo_server",
                *("--repo", str(self.repository)),
                *("--state", str(self.state)),
                *("--port", str(port)),
                *("--ready-file", str(ready)),
                *options,
            ],
            self.directory,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if self.server.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.server.text()[-4000:]}")
            time.sleep(0.02)
        self.url = ready.read_text().strip()
        return self.url

    def start_runner(self, name: str, *options: str, arch: str = "gfx928") -> Daemon:
        """Start a ``kzoo-runner`` with the local backend."""
        runner = start_daemon(
            name,
            [
                "kzoo_core.runner",
                *("--server", self.url),
                *("--arch", arch),
                *("--name", name),
                *("--state", str(self.directory / f"runner-{name}")),
                *options,
            ],
            self.directory,
        )
        self.runners.append(runner)
        return runner

    def daemons(self) -> list[Daemon]:
        """Return what runs, in the order in which it should stop."""
        started = [*self.runners, *([self.server] if self.server else [])]
        return [daemon for daemon in started if daemon.process.poll() is None]

    def stop(self) -> None:
        """Stop runners, then the server; raises ``AssertionError`` when one does not stop."""
        for daemon in self.daemons():
            daemon.stop()


@contextmanager
def zoo_in(directory: Path) -> Iterator[Zoo]:
    """Give a ``Zoo`` below ``directory``; nothing that it started outlives the block."""
    zoo = Zoo(directory)
    try:
        yield zoo
        zoo.stop()
    finally:
        for daemon in zoo.daemons():
            daemon.kill()


def run_command(
    module: str,
    *arguments: str,
    check: bool = False,
    timeout_s: float = 120.0,
    directory: Path | None = None,
    **extra: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module arguments`` to its end and return its output as text."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=directory,
        env=environment(**extra),
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{module} {' '.join(arguments)} exited {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done
