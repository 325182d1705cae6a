"""A place to run scripts in, made of real files, and a backend that logs to a list."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

from kzoo_core.clock import SystemClock
from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.ids import KernelId, SubmissionId
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backends.base import Place, Step
from kzoo_core.runner.backends.environment import DEFAULT_ALLOWED
from kzoo_core.runner.backends.local import LocalBackend
from kzoo_core.runner.records import AttemptKey
from kzoo_core.runner.work import lay_out

KEY = AttemptKey(SubmissionId("11111111-2222-3333-4444-555555555555"), 1)
KERNEL_ID = KernelId("gfx928/Norm/RMSNorm/fp32/mine")


def place_with(root: Path, benchmark: str, build: str = "") -> Place:
    """Lay out a package of two scripts below ``root``."""
    files = {
        BUILD_PATH: PackageFile(build.encode()),
        BENCHMARK_PATH: PackageFile(benchmark.encode()),
    }
    return lay_out(root, Package(KERNEL_ID, files))


def step(place: Place, phase: Phase = Phase.BENCHMARK, **changes: object) -> Step:
    """Return a step of ``place`` with short times."""
    building = phase is Phase.BUILD
    base = Step(
        key=KEY,
        phase=phase,
        script=BUILD_PATH if building else BENCHMARK_PATH,
        place=place,
        environment={"PYTHONHASHSEED": "0"},
        timeout_s=20.0,
        kill_grace_s=5.0,
        stdout_limit_bytes=None if building else 1024 * 1024,
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # a test names its own fields


def backend(
    instance: str, *, python: Path | None = None, environment: dict[str, str] | None = None
) -> LocalBackend:
    """Return a local backend whose processes carry ``instance`` in their mark."""
    return LocalBackend(
        python=python or Path(sys.executable),
        instance=instance,
        environment={"PATH": "/usr/bin:/bin"} if environment is None else environment,
        allow=DEFAULT_ALLOWED,
        clock=SystemClock(),
        log=logging.getLogger("test-runner"),
    )
