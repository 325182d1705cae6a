"""Attempts as plain processes of this machine: for trusted packages, demos and tests.

It isolates nothing: a package can read and write whatever the runner's user can. What it does do:
each script is in a session of its own, sees a chosen environment, is bounded in time and output,
and leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from kzoo_core.errors import BadInput, Broken
from kzoo_core.runner.backends import warden
from kzoo_core.runner.backends.base import Ending, StepEnd
from kzoo_core.runner.backends.environment import allowed
from kzoo_core.runner.backends.pipes import Capture, ReadPipe
from kzoo_core.runner.backends.processes import MARK_VARIABLE, kill_marked
from kzoo_core.runner.logfmt import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from logging import Logger
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_core.runner.backends.base import Step, StopSignal
    from kzoo_core.runner.records import AttemptKey

WARDEN_PATIENCE_S = warden.KILL_PATIENCE_S + 5.0
DRAIN_PATIENCE_S = 5.0
"""How long the pipes of a dead script may stay open before the runner lets go of them."""
INTERPRETER_PATIENCE_S = 30.0


class LocalBackend:
    """Runs steps with ``python`` (an absolute path) under a warden.

    ``instance`` marks its processes, so that the next start of the same runner finds what a killed
    one left. ``environment`` is the runner's own, of which ``allow`` chooses.
    """

    def __init__(
        self,
        *,
        python: Path,
        instance: str,
        environment: Mapping[str, str],
        allow: Iterable[str],
        clock: Clock,
        log: Logger,
    ) -> None:
        self._python = python
        self._instance = instance
        self._environment = allowed(environment, allow)
        self._clock = clock
        self._log = log
        self._version = "unknown"

    @property
    def name(self) -> str:
        """What the runner registers as its backend."""
        return "local"

    @property
    def isolation(self) -> str:
        """Nothing keeps an attempt from this machine."""
        return "none"

    @property
    def notice(self) -> str | None:
        """The warning that every start prints."""
        return (
            "the local backend isolates nothing: packages run as this user, with its files, "
            "network and GPUs; results carry isolation=none"
        )

    @property
    def facts(self) -> Mapping[str, object]:
        """Backend, isolation and interpreter."""
        return {"backend": self.name, "isolation": self.isolation, "python": self._version}

    async def start(self) -> None:
        """Ask the interpreter for its version; kill what an earlier process left running.

        Raises ``BadInput`` ``NO_INTERPRETER``.
        """
        self._version = await self._ask_version()
        await self._kill_left(f"{self._instance}/")

    async def clean(self, key: AttemptKey) -> None:
        """Kill every process that carries the attempt's mark."""
        await self._kill_left(f"{self._instance}/{key}")

    async def run(self, step: Step, log: Callable[[bytes], None], stop: StopSignal) -> StepEnd:
        """Run one script under a warden; see ``Backend.run``.

        Raises ``Broken`` ``CANNOT_START`` when the interpreter cannot be executed.
        """
        limit = step.stdout_limit_bytes
        capture = Capture(limit or 0)
        status = Capture(64)
        pipes = [
            ReadPipe(log if limit is None else capture.take),
            ReadPipe(log),
            ReadPipe(status.take),
        ]
        began = self._clock.monotonic()
        pumps: list[asyncio.Task[None]] = []
        try:
            process = await self._start(step, pipes)
            pumps = [asyncio.create_task(pipe.pump()) for pipe in pipes]
            try:
                overflown = asyncio.Event() if limit is None else capture.overflown
                ending = await self._watch(process, step, overflown, stop)
            finally:
                await self._put_down(process, step.key)
            duration_s = self._clock.monotonic() - began
            done, _ = await asyncio.wait(pumps, timeout=DRAIN_PATIENCE_S)
            for pump in done:
                pump.result()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for pipe in pipes:
                pipe.close()
        # The last bytes of a script that ends by itself are read after its end.
        too_much = limit is not None and capture.overflown.is_set()
        return StepEnd(
            ending=Ending.OUTPUT_LIMIT if too_much else ending,
            exit_code=self._exit_code(status.data, process.returncode),
            stdout=capture.data,
            duration_s=duration_s,
        )

    async def _start(self, step: Step, pipes: list[ReadPipe]) -> asyncio.subprocess.Process:
        stdout, stderr, status = (pipe.write_fd for pipe in pipes)
        script = str(step.place.package / step.script)
        try:
            return await asyncio.create_subprocess_exec(
                *_isolated_interpreter(),
                warden.__file__,
                str(os.getpid()),
                str(status),
                *(str(self._python), "-B", script, str(step.place.workdir)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(status,),
                cwd=step.place.package,
                env=self._environment_of(step),
                start_new_session=True,
            )
        except OSError as error:
            raise _cannot_start(self._python, error.strerror or str(error)) from error
        finally:
            for pipe in pipes:
                pipe.close_write_end()

    def _environment_of(self, step: Step) -> dict[str, str]:
        return {
            **self._environment,
            "HOME": str(step.place.home),
            "TMPDIR": str(step.place.tmp),
            **step.environment,
            MARK_VARIABLE: f"{self._instance}/{step.key}",
        }

    async def _watch(
        self,
        process: asyncio.subprocess.Process,
        step: Step,
        overflown: asyncio.Event,
        stop: StopSignal,
    ) -> Ending:
        """Wait for whatever ends the step first, and ask or force the rest to end."""
        exited = asyncio.create_task(process.wait())
        too_much = asyncio.create_task(overflown.wait())
        asked = asyncio.create_task(stop.asked.wait())
        waits: list[asyncio.Task[object]] = [exited, too_much, asked]
        try:
            done, _ = await asyncio.wait(
                waits, timeout=step.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if exited in done:
                return Ending.OUTPUT_LIMIT if too_much in done else Ending.EXITED
            if too_much in done:
                return Ending.OUTPUT_LIMIT
            ending = Ending.STOPPED if asked in done else Ending.TIMEOUT
            grace_s = stop.grace_s if asked in done else step.kill_grace_s
            await self._ask_to_end(process, exited, stop, grace_s)
            return ending
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _ask_to_end(
        self,
        process: asyncio.subprocess.Process,
        exited: asyncio.Task[int],
        stop: StopSignal,
        grace_s: float,
    ) -> None:
        """Send SIGTERM to all of it and give it ``grace_s``, or until there is no time at all."""
        if grace_s <= 0:
            return
        _signal(process, signal.SIGTERM)
        hurry = asyncio.create_task(stop.at_once.wait())
        try:
            await asyncio.wait(
                {exited, hurry}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            hurry.cancel()

    async def _put_down(self, process: asyncio.subprocess.Process, key: AttemptKey) -> None:
        """See that the warden and all below it are gone; at once when they still run."""
        if process.returncode is not None:
            return
        _signal(process, signal.SIGQUIT)
        try:
            async with asyncio.timeout(WARDEN_PATIENCE_S):
                await process.wait()
        except TimeoutError:
            self._log.error(
                "a process does not die; its warden is killed", extra=fields(attempt=key)
            )
            _signal(process, signal.SIGKILL)
            await process.wait()

    def _exit_code(self, status: bytes, warden_code: int | None) -> int | None:
        """Read the warden's one line; a warden that was killed left none, so its own end counts."""
        word, _, number = status.partition(b"\n")[0].partition(b" ")
        if word == b"error":
            raise _cannot_start(self._python, os.strerror(int(number)))
        return int(number) if word == b"exit" else warden_code

    async def _ask_version(self) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                str(self._python),
                "-c",
                "import platform; print(platform.python_version())",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environment,
            )
        except OSError as error:
            raise _no_interpreter(self._python, error.strerror or str(error)) from error
        try:
            async with asyncio.timeout(INTERPRETER_PATIENCE_S):
                output, _ = await process.communicate()
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise _no_interpreter(self._python, "it does not answer") from error
        version = output.decode("utf-8", "replace").strip()
        if process.returncode != 0 or not version:
            raise _no_interpreter(self._python, f"it exits with {process.returncode}")
        return version

    async def _kill_left(self, prefix: str) -> None:
        killed, resisting = await asyncio.to_thread(
            kill_marked, prefix, patience_s=warden.KILL_PATIENCE_S
        )
        if killed:
            self._log.warning(
                "processes of an attempt were still running", extra=fields(mark=prefix, pids=killed)
            )
        if resisting:
            self._log.error("processes do not die", extra=fields(mark=prefix, pids=resisting))


def _isolated_interpreter() -> tuple[str, ...]:
    """Return the runner's own interpreter without site packages: it starts in a few ms."""
    return (sys.executable, "-I", "-S", "-B")


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def _cannot_start(python: Path, why: str) -> Broken:
    return Broken(
        "CANNOT_START",
        f"{python} cannot be started: {why}",
        hint="give another interpreter with --python PATH",
    )


def _no_interpreter(python: Path, why: str) -> BadInput:
    return BadInput(
        "NO_INTERPRETER",
        f"{python} cannot run packages: {why}",
        hint="give a Python interpreter that packages can use with --python PATH",
    )
