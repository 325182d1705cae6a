from __future__ import annotations

import errno
import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.contract.archive import write_archive
from kzoo_core.contract.records import Package, PackageFile, RunFailure, RunReport
from kzoo_core.errors import Broken
from kzoo_core.ids import KernelId, RunnerId, Sha256
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backends.base import Ending, StepEnd, StopSignal
from kzoo_core.runner.execution import DETAIL_MAX, Execution
from kzoo_core.runner.records import ClaimedAttempt, RunnerLimits
from tests.core.runner.backends.scripts import KEY, backend
from tests.core.runner.packages import KERNEL_ID, archive, printed_by_benchmark

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.runner.backends.base import Backend, Step


def claimed(package_sha256: Sha256, **changes: Any) -> ClaimedAttempt:
    values: dict[str, Any] = {
        "key": KEY,
        "token": "secret",
        "kernel_id": KERNEL_ID,
        "mode": "ranked",
        "arch": "gfx928",
        "package_path": "/api/runner/package/x",
        "package_sha256": package_sha256,
        "build_s": 20.0,
        "bench_s": 20.0,
        "limits": RunnerLimits(),
        "cancel_grace_s": 1.0,
    }
    return ClaimedAttempt(**{**values, **changes})


class Run:
    """One execution in real processes, with its log and phases kept."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.root = root / "work" / "x-1"
        self.changes = changes
        self.logged = bytearray()
        self.phases: list[Phase] = []
        self.stop = StopSignal()
        self.backend: Backend = backend(f"test{uuid.uuid4().hex}")

    async def of(self, data: bytes, digest: Sha256 | None = None) -> RunReport:
        sha256 = digest or Sha256(hashlib.sha256(data).hexdigest())
        execution = Execution(
            claimed(sha256, **self.changes),
            runner_id=RunnerId("node1"),
            root=self.root,
            backend=self.backend,
            stop=self.stop,
            kill_grace_s=0.2,
            log=self.logged.extend,
            on_phase=self.phases.append,
        )
        return await execution.run(data)

    async def scripts(self, **scripts: str) -> RunReport:
        return await self.of(archive(**scripts)[0])


async def test_a_package_is_built_and_measured_with_its_scoreboard_beside_it(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path)

    report = await run.scripts()

    assert report.stdout == printed_by_benchmark("node1")
    assert (report.build_ok, report.build_exit_code, report.benchmark_exit_code) == (True, 0, 0)
    assert report.failure is None
    assert sorted(report.durations_s) == ["benchmark", "build"]
    assert all(0 < seconds < 20 for seconds in report.durations_s.values())
    assert report.environment["isolation"] == "none"
    assert bytes(run.logged) == b"building\nmeasuring\n"
    assert run.phases == [Phase.BUILD, Phase.BENCHMARK]


async def test_a_build_that_fails_is_not_measured(tmp_path: Path) -> None:
    run = Run(tmp_path)

    report = await run.scripts(build="raise ValueError('no \\x1b[31mcompiler')")

    assert (report.build_ok, report.build_exit_code, report.benchmark_exit_code) == (False, 1, None)
    assert report.failure == RunFailure(
        "build_failed",
        ".kernel_package/build_test_env.py exited with code 1: ValueError: no  [31mcompiler",
    )
    assert report.stdout is None
    assert list(report.durations_s) == ["build"]
    assert run.phases == [Phase.BUILD]


@pytest.mark.parametrize(
    ("taken", "missing"),
    [
        ("shutil.rmtree(workdir.parent)", ".kernel_package/benchmark.py"),
        ("shutil.rmtree(Path(__file__).parent)", ".kernel_package/benchmark.py"),
        ("shutil.rmtree(workdir)", "work directory"),
    ],
)
async def test_a_build_that_takes_the_benchmark_away_is_the_package_s_own_fault(
    tmp_path: Path, taken: str, missing: str
) -> None:
    build = f"""import shutil, sys
from pathlib import Path
workdir = Path(sys.argv[1])
{taken}
"""
    report = await Run(tmp_path).scripts(build=build)

    assert report.failure == RunFailure("benchmark_failed", f"the build left no {missing}")
    assert (report.build_ok, report.build_exit_code, report.benchmark_exit_code) == (True, 0, None)


async def test_a_benchmark_that_fails_keeps_what_it_printed(tmp_path: Path) -> None:
    report = await Run(tmp_path).scripts(
        benchmark="print('{\"accept\": true}', flush=True)\nraise SystemExit(4)"
    )

    assert report.failure == RunFailure(
        "benchmark_failed", ".kernel_package/benchmark.py exited with code 4"
    )
    assert (report.build_ok, report.benchmark_exit_code) == (True, 4)
    assert report.stdout == b'{"accept": true}\n'


async def test_a_benchmark_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    report = await Run(tmp_path).scripts(benchmark="import os\nos.kill(os.getpid(), 9)")

    assert report.failure == RunFailure(
        "benchmark_failed", ".kernel_package/benchmark.py was killed by signal 9 (SIGKILL)"
    )
    assert report.benchmark_exit_code == -9


async def test_a_detail_is_bounded(tmp_path: Path) -> None:
    report = await Run(tmp_path).scripts(benchmark="raise ValueError('x' * 5000)")

    assert report.failure is not None
    assert len(report.failure.detail) == DETAIL_MAX


@pytest.mark.parametrize(
    ("script", "scripts", "times", "build_ok"),
    [
        ("build_test_env", {"build": "while True: pass"}, {"build_s": 0.5}, False),
        ("benchmark", {"benchmark": "while True: pass"}, {"bench_s": 0.5}, True),
    ],
)
async def test_a_script_that_takes_too_long_times_out(
    tmp_path: Path, script: str, scripts: dict[str, str], times: dict[str, float], build_ok: bool
) -> None:
    run = Run(tmp_path, **times)

    report = await run.scripts(**scripts)

    assert report.failure == RunFailure(
        "timeout", f".kernel_package/{script}.py ran longer than 0.5 s"
    )
    assert report.build_ok is build_ok
    assert (report.build_exit_code, report.benchmark_exit_code) == (0 if build_ok else None, None)


async def test_too_much_output_is_a_failure_of_its_own_and_keeps_the_beginning(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, limits=RunnerLimits(stdout_bytes=1000))

    report = await run.scripts(benchmark="print('x' * 5000)")

    assert report.failure == RunFailure(
        "output_limit", ".kernel_package/benchmark.py printed more than 1000 bytes on stdout"
    )
    assert report.stdout == b"x" * 1000


async def test_a_run_that_is_stopped_is_the_runner_s_doing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.stop.ask(0.0)

    report = await run.scripts(build="import time\ntime.sleep(600)")

    assert report.failure == RunFailure("runner_error", "runner stopped")
    assert not report.build_ok


async def test_another_package_than_the_claim_s_is_not_run(tmp_path: Path) -> None:
    run = Run(tmp_path)
    data, digest = archive()

    report = await run.of(data + b"x", digest)

    found = hashlib.sha256(data + b"x").hexdigest()
    assert report.failure == RunFailure(
        "runner_error",
        f"the package that came has sha256 {found}, the claim says {digest}",
    )
    assert (report.build_ok, report.stdout, run.phases) == (False, None, [])
    assert not run.root.exists()


async def test_a_package_that_cannot_be_unpacked_is_not_run(tmp_path: Path) -> None:
    run = Run(tmp_path)

    report = await run.of(b"this is no gzip")

    assert report.failure is not None
    assert report.failure.kind == "runner_error"
    assert not run.root.exists()


async def test_a_package_of_another_kernel_is_not_run(tmp_path: Path) -> None:
    other = Package(KernelId("gfx928/other"), {"a.py": PackageFile(b"")})

    report = await Run(tmp_path).of(write_archive(other))

    assert report.failure is not None
    assert report.failure.kind == "runner_error"


class Scripted:
    """A backend whose steps end as a test says: what a real machine does too seldom."""

    name = "scripted"
    isolation = "container"
    notice = None
    facts: dict[str, object] = {"isolation": "container"}  # noqa: RUF012 - never changed

    def __init__(self, outcome: StepEnd | Exception) -> None:
        self.outcome = outcome

    async def start(self) -> None:
        """Nothing to do."""

    async def clean(self, key: object) -> None:
        """Nothing to do."""

    async def run(self, step: Step, log: object, stop: object) -> StepEnd:  # noqa: ARG002 - as called
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (Broken("CANNOT_START", "no interpreter"), RunFailure("runner_error", "no interpreter")),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            RunFailure("disk_full", "the runner's machine: [Errno 28] No space left on device"),
        ),
        (
            OSError(errno.EMFILE, "Too many open files"),
            RunFailure("runner_error", "the runner's machine: [Errno 24] Too many open files"),
        ),
    ],
)
async def test_a_fault_of_the_machine_is_never_the_package_s(
    tmp_path: Path, error: Exception, failure: RunFailure
) -> None:
    run = Run(tmp_path)
    run.backend = Scripted(error)

    report = await run.scripts()

    assert (report.failure, report.build_ok) == (failure, False)


async def test_a_backend_that_knows_better_than_an_exit_code_is_believed(tmp_path: Path) -> None:
    oom = RunFailure("oom", "over 32 GiB")
    run = Run(tmp_path)
    run.backend = Scripted(
        StepEnd(ending=Ending.EXITED, exit_code=137, stdout=b"", duration_s=1.0, failure=oom)
    )

    report = await run.scripts()

    assert (report.failure, report.build_exit_code) == (oom, 137)
    assert report.environment == {"isolation": "container"}


async def test_an_end_that_cannot_be_told_is_said_to_be_one(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.backend = Scripted(
        StepEnd(ending=Ending.EXITED, exit_code=None, stdout=b"", duration_s=1.0)
    )

    report = await run.scripts()

    assert report.failure == RunFailure(
        "build_failed", ".kernel_package/build_test_env.py ended in a way that cannot be told"
    )


async def test_a_signal_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.backend = Scripted(StepEnd(ending=Ending.EXITED, exit_code=-99, stdout=b"", duration_s=1.0))

    report = await run.scripts()

    assert report.failure is not None
    assert report.failure.detail.endswith("was killed by signal 99 (no known signal)")


async def test_packages_see_no_token(tmp_path: Path) -> None:
    report = await Run(tmp_path).scripts(
        benchmark="import json, os\nprint(json.dumps(sorted(os.environ.items())))"
    )

    assert report.stdout is not None
    assert "secret" not in report.stdout.decode()
    names = {name for name, _ in json.loads(report.stdout)}
    assert {name for name in names if name.startswith("KERNEL_ZOO_")} == {
        "KERNEL_ZOO_KERNEL_ID",
        "KERNEL_ZOO_RUNNER_ID",
        "KERNEL_ZOO_ARCH",
        "KERNEL_ZOO_ATTEMPT",
    }
