"""Packages, requests and a git command line for the tests of the store."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.records import (
    BenchmarkOutput,
    CaseOutput,
    Correctness,
    Direction,
    MetricMeta,
    MetricValue,
    Package,
    PackageFile,
    TestCaseMeta,
)
from kzoo_core.ids import KernelId, RunnerId, Sha256, SubmissionId, SubmitterId
from kzoo_core.store.accept import AcceptRequest, accept
from kzoo_core.store.packages import add_packages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kzoo_core.ids import CommitId
    from kzoo_core.store.accept import Accepted
    from kzoo_core.store.repository import KernelRepository

KERNEL = KernelId("gfx928/Norm/RMSNorm/fp32/plain")
OTHER = KernelId("gfx928/Norm/RMSNorm/fp32/other")
T0 = datetime(2026, 8, 2, 12, 0, 0, tzinfo=UTC)
LATENCY = MetricMeta("latency_ms", "ms", Direction.LOWER)
THROUGHPUT = MetricMeta("throughput", "GFlops", Direction.HIGHER)
METRICS = (LATENCY, THROUGHPUT)
MAIN_GUARD = 'if __name__ == "__main__":\n    raise SystemExit(0)\n'


def metas(*test_case_ids: str, metrics: Sequence[MetricMeta] = METRICS) -> tuple[TestCaseMeta, ...]:
    return tuple(
        TestCaseMeta(
            name,
            {"n": 8},
            metrics[0].name,
            tuple(metrics),
            {"correctness_atol": 0.001, "correctness_rtol": 0.001},
        )
        for name in test_case_ids or ("small",)
    )


def benchmark(cases: Sequence[TestCaseMeta]) -> bytes:
    entries = [
        {
            "test_case_id": case.test_case_id,
            "params": dict(case.params),
            "primary_metric": case.primary_metric,
            "metrics": [
                {"name": metric.name, "unit": metric.unit, "direction": metric.direction.value}
                for metric in case.metrics
            ],
            "tolerance": dict(case.tolerance),
        }
        for case in cases
    ]
    return f"KERNEL_ZOO_TEST_CASE_METAS = {entries!r}\n{MAIN_GUARD}".encode()


def desc(kernel_id: str, *, status: str = "normal", summary: str = "One row at a time.") -> bytes:
    arch, op_class, sub_class, quant = (kernel_id.split("/") + ["x"] * 4)[:4]
    return f"""schema_version: "1.0.0"
name: RMSNorm
category:
  arch: {arch}
  op_class: {op_class}
  sub_class: {sub_class}
  quant: {quant}
summary: "{summary}"
description: "y = x / rms(x)"
io_signature:
  - name: x
    kind: in
    dtype: fp32
    shape: [n]
quantization:
  scheme: none
reference_sources:
  - src/kernel.py
status: {status}
tags: [norm]
owner: eli
""".encode()


def seed_board(kernel_id: str, cases: Sequence[TestCaseMeta]) -> bytes:
    seed = (
        '{value: 9.0, submitter: seed, commit_sha: "0000000", recorded_at: "2026-08-01T00:00:00Z"}'
    )
    lines = ['schema_version: "1.0.0"', f"kernel_id: {kernel_id}", "cases:"]
    for case in cases:
        lines.append(f"  - test_case_id: {case.test_case_id}")
        for block in ("metrics_best", "metrics_current"):
            lines.append(f"    {block}:")
            lines += [f"      {metric.name}: {seed}" for metric in case.metrics]
        lines.append("    correctness_current: passed")
    return ("\n".join(lines) + "\n").encode()


def package(
    kernel_id: KernelId = KERNEL,
    source: bytes = b"def kernel(x):\n    return x\n",
    *,
    cases: Sequence[TestCaseMeta] | None = None,
    seeded: bool = False,
    status: str = "normal",
    extra: Mapping[str, PackageFile] | None = None,
) -> Package:
    cases = metas() if cases is None else cases
    files = {
        DESC_PATH: PackageFile(desc(kernel_id, status=status)),
        BUILD_PATH: PackageFile(f"def build_env(workdir):\n    pass\n\n\n{MAIN_GUARD}".encode()),
        BENCHMARK_PATH: PackageFile(benchmark(cases)),
        "src/kernel.py": PackageFile(source),
        **(extra or {}),
    }
    if seeded:
        files[SCOREBOARD_PATH] = PackageFile(seed_board(kernel_id, cases))
    return Package(kernel_id, files)


def output(values: Mapping[str, Mapping[str, float]], kernel_id: str = KERNEL) -> BenchmarkOutput:
    return BenchmarkOutput(
        schema_version="1.0.0",
        kernel_id=kernel_id,
        ran_at=T0,
        runner_id="runner-1",
        arch="gfx928",
        accept=True,
        accept_reason="faster",
        build_ok=True,
        cases=tuple(
            CaseOutput(
                case,
                Correctness.PASSED,
                True,
                "faster",
                tuple(MetricValue(name, value) for name, value in metrics.items()),
            )
            for case, metrics in values.items()
        ),
    )


def submission_id(number: int) -> SubmissionId:
    return SubmissionId(f"00000000-0000-4000-8000-{number:012x}")


def request(
    repository: KernelRepository,
    number: int = 1,
    *,
    submitted: Package | None = None,
    latency: float = 1.0,
    values: Mapping[str, Mapping[str, float]] | None = None,
    cases: Sequence[TestCaseMeta] | None = None,
    summary: str | None = None,
    submitter: str = "alice",
    base_tree: str | None = "",
) -> AcceptRequest:
    """Make a request that claims the head as its base unless ``base_tree`` says otherwise."""
    cases = metas() if cases is None else tuple(cases)
    submitted = submitted or package(source=b"# round %d\n" % number, cases=cases)
    if values is None:
        values = {
            case.test_case_id: {"latency_ms": latency, "throughput": 1 / latency} for case in cases
        }
    head = repository.head()
    if base_tree == "":
        base_tree = repository.kernel_tree(head, submitted.kernel_id) if head else None
    return AcceptRequest(
        package=submitted,
        submission_id=submission_id(number),
        attempt=1,
        submitter=SubmitterId(submitter),
        runner_id=RunnerId("runner-1"),
        arch="gfx928",
        isolation="none",
        package_sha256=Sha256("ab" * 32),
        summary=summary,
        desc_summary="One row at a time.",
        output=output(values, submitted.kernel_id),
        metas=tuple(cases),
        recorded_at=T0 + timedelta(minutes=number),
        base_tree=base_tree,
    )


def accepted(repository: KernelRepository, number: int = 1, **changes: Any) -> Accepted:
    return accept(repository, request(repository, number, **changes))


def seed(repository: KernelRepository, *packages: Package) -> CommitId:
    return add_packages(
        repository,
        packages or [package(seeded=True)],
        message="Add packages\n",
        author="maintainer",
        when=T0,
    )


GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "LC_ALL": "C",
    "TZ": "UTC",
}


def git(where: Path, *arguments: str, check: bool = True, given: str | None = None) -> str:
    """Run stock git and return what it printed; it sees no configuration of this machine."""
    done = subprocess.run(
        ["git", "-C", str(where), *arguments],
        env=GIT_ENVIRONMENT,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
    return done.stdout if check else done.stdout + done.stderr


def fsck(where: Path) -> str:
    """Return what a strict check of everything has to say; nothing when all is well."""
    return git(where, "fsck", "--strict", "--full", "--no-dangling", check=False)
