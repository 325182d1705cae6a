"""One attempt on this machine: verify the package, unpack it, build, benchmark, say how it went.

Only this side names the kind of a failure. What the package prints is evidence, never a verdict.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import signal
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import read_archive
from kzoo_core.contract.digest import sha256_hex
from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH
from kzoo_core.contract.limits import MIB, PackageLimits
from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.contract.verdict import FailureKind
from kzoo_core.errors import BadInput, KzooError
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backends.base import Ending, Step
from kzoo_core.runner.work import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kzoo_core.contract.records import Package
    from kzoo_core.ids import RunnerId
    from kzoo_core.runner.backends.base import Backend, Place, StepEnd, StopSignal
    from kzoo_core.runner.records import ClaimedAttempt

LIMITS = PackageLimits(
    file_bytes=64 * MIB, package_bytes=256 * MIB, archive_bytes=256 * MIB, files=20_000
)
"""The server has held the package against its own, tighter bounds; these only bound a fault."""

DETAIL_MAX = 300
_LAST_BYTES = 2048


class Execution:
    """Runs one claimed attempt in ``root``; ``log`` takes what the scripts print for people."""

    def __init__(
        self,
        claimed: ClaimedAttempt,
        *,
        runner_id: RunnerId,
        root: Path,
        backend: Backend,
        stop: StopSignal,
        kill_grace_s: float,
        log: Callable[[bytes], None],
        on_phase: Callable[[Phase], None],
    ) -> None:
        self._claimed = claimed
        self._runner_id = runner_id
        self._root = root
        self._backend = backend
        self._stop = stop
        self._kill_grace_s = kill_grace_s
        self._log = log
        self._on_phase = on_phase
        self._last = b""
        self._durations_s: dict[str, float] = {}

    async def run(self, archive: bytes) -> RunReport:
        """Return the report; every fault of package or machine is in it, none is raised."""
        try:
            place = await asyncio.to_thread(self._unpack, archive)
            return await self._run_steps(place)
        except KzooError as error:
            return self._report(failure=_failure(FailureKind.RUNNER_ERROR, error.message))
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            kind = FailureKind.DISK_FULL if full else FailureKind.RUNNER_ERROR
            return self._report(failure=_failure(kind, f"the runner's machine: {error}"))

    def _unpack(self, archive: bytes) -> Place:
        found = sha256_hex(archive)
        if found != self._claimed.package_sha256:
            raise BadInput(
                "DIGEST_MISMATCH",
                f"the package that came has sha256 {found}, "
                f"the claim says {self._claimed.package_sha256}",
            )
        package: Package = read_archive(
            io.BytesIO(archive), LIMITS, kernel_id=self._claimed.kernel_id, allow_scoreboard=True
        )
        return lay_out(self._root, package)

    async def _run_steps(self, place: Place) -> RunReport:
        build = await self._step(Phase.BUILD, place)
        failure = self._what_failed(Phase.BUILD, build)
        if failure is not None:
            return self._report(build=build, failure=failure)
        gone = await asyncio.to_thread(_what_is_gone, place)
        if gone is not None:
            return self._report(
                build=build,
                failure=_failure(FailureKind.BENCHMARK_FAILED, f"the build left no {gone}"),
            )
        benchmark = await self._step(Phase.BENCHMARK, place)
        failure = self._what_failed(Phase.BENCHMARK, benchmark)
        return self._report(build=build, benchmark=benchmark, failure=failure)

    async def _step(self, phase: Phase, place: Place) -> StepEnd:
        building = phase is Phase.BUILD
        self._on_phase(phase)
        self._last = b""
        end = await self._backend.run(
            Step(
                key=self._claimed.key,
                phase=phase,
                script=BUILD_PATH if building else BENCHMARK_PATH,
                place=place,
                environment=self._environment(),
                timeout_s=self._timeout_s(phase),
                kill_grace_s=self._kill_grace_s,
                stdout_limit_bytes=None if building else self._claimed.limits.stdout_bytes,
            ),
            self._write,
            self._stop,
        )
        self._durations_s[phase.value] = end.duration_s
        return end

    def _environment(self) -> Mapping[str, str]:
        """Return what D14 promises a package, the same on every backend."""
        return {
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",  # what a build prints is in the live log at once
            "KERNEL_ZOO_KERNEL_ID": self._claimed.kernel_id,
            "KERNEL_ZOO_RUNNER_ID": self._runner_id,
            "KERNEL_ZOO_ARCH": self._claimed.arch,
        }

    def _timeout_s(self, phase: Phase) -> float:
        return self._claimed.build_s if phase is Phase.BUILD else self._claimed.bench_s

    def _write(self, data: bytes) -> None:
        self._last = (self._last + data)[-_LAST_BYTES:]
        self._log(data)

    def _what_failed(self, phase: Phase, end: StepEnd) -> RunFailure | None:
        script = BUILD_PATH if phase is Phase.BUILD else BENCHMARK_PATH
        if end.failure is not None:
            return end.failure
        if end.ending is Ending.STOPPED:
            return _failure(FailureKind.RUNNER_ERROR, "runner stopped")
        if end.ending is Ending.TIMEOUT:
            return _failure(
                FailureKind.TIMEOUT, f"{script} ran longer than {self._timeout_s(phase):g} s"
            )
        if end.ending is Ending.OUTPUT_LIMIT:
            limit = self._claimed.limits.stdout_bytes
            return _failure(
                FailureKind.OUTPUT_LIMIT, f"{script} printed more than {limit} bytes on stdout"
            )
        if end.exit_code == 0:
            return None
        building = phase is Phase.BUILD
        kind = FailureKind.BUILD_FAILED if building else FailureKind.BENCHMARK_FAILED
        return _failure(kind, f"{script} {_ended(end.exit_code)}{self._last_line()}")

    def _last_line(self) -> str:
        """Return the last thing that was printed for people: most often the exception's line."""
        lines = [
            line for line in self._last.decode("utf-8", "replace").splitlines() if line.strip()
        ]
        return f": {lines[-1].strip()}" if lines else ""

    def _report(
        self,
        *,
        build: StepEnd | None = None,
        benchmark: StepEnd | None = None,
        failure: RunFailure | None,
    ) -> RunReport:
        return RunReport(
            build_ok=build is not None and build.ending is Ending.EXITED and build.exit_code == 0,
            build_exit_code=_own_code(build),
            benchmark_exit_code=_own_code(benchmark),
            failure=failure,
            stdout=None if benchmark is None else benchmark.stdout,
            durations_s=dict(self._durations_s),
            environment=self._backend.facts,
        )


def _what_is_gone(place: Place) -> str | None:
    """Say what a build has taken away that its benchmark cannot start without.

    It would look like a fault of this machine, and the attempt would be run again for nothing.
    """
    if not os.path.isfile(place.package / BENCHMARK_PATH):  # noqa: PTH113 - False, whatever is wrong
        return BENCHMARK_PATH
    return None if os.path.isdir(place.workdir) else "work directory"  # noqa: PTH112 - likewise


def _failure(kind: FailureKind, detail: str) -> RunFailure:
    printable = "".join(char if char.isprintable() else " " for char in detail)
    return RunFailure(kind.value, printable[:DETAIL_MAX])


def _own_code(end: StepEnd | None) -> int | None:
    """Return an exit code that is the script's own doing; one that we killed has none."""
    return end.exit_code if end is not None and end.ending is Ending.EXITED else None


def _ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended in a way that cannot be told"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = "no known signal"
    return f"was killed by signal {-exit_code} ({name})"
