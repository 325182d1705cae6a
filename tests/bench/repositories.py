"""Kernel repositories of a given size, with packages of a realistic shape."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.package import check_submission
from kzoo_core.contract.records import (
    BenchmarkOutput,
    CaseOutput,
    Correctness,
    MetricValue,
    Package,
    PackageFile,
)
from kzoo_core.ids import KernelId, RunnerId, Sha256, SubmissionId, SubmitterId
from kzoo_core.store.accept import AcceptRequest
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from tests.variants import EXAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.records import TestCaseMeta

EXAMPLE = KernelId("gfx928/Norm/RMSNorm/fp32/rowwise")
BEGIN = datetime(2026, 8, 2, 12, 0, 0, tzinfo=UTC)
OPERATORS, VARIANTS, QUANTS = 25, 8, 5
WORKED_ON = 20


def kernel_ids(count: int) -> list[KernelId]:
    """Return ``count`` five-segment ids: 25 op_classes × 8 sub_classes × 5 quants × the rest."""
    ids = []
    for number in range(count):
        rest, quant = divmod(number, QUANTS)
        rest, variant = divmod(rest, VARIANTS)
        name, operator = divmod(rest, OPERATORS)
        ids.append(
            KernelId(f"gfx928/Op{operator:02}/Sub{variant}/fp{2**quant}/implementation_{name:03}")
        )
    return ids


def example_package() -> Package:
    """Return the RMSNorm example with its seed scoreboard."""
    root = EXAMPLES / EXAMPLE
    files = {
        path.relative_to(root).as_posix(): PackageFile(path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return Package(EXAMPLE, files)


def package_at(kernel_id: KernelId, template: Package) -> Package:
    """Return ``template`` under another kernel_id, its category and scoreboard adapted."""
    arch, op_class, sub_class, quant, _ = kernel_id.split("/")
    files = {}
    for path, file in template.files.items():
        data = file.data
        if path.endswith(".yaml"):
            data = data.replace(EXAMPLE.encode(), kernel_id.encode())
            for old, new in (
                ("arch: gfx928", f"arch: {arch}"),
                ("op_class: Norm", f"op_class: {op_class}"),
                ("sub_class: RMSNorm", f"sub_class: {sub_class}"),
                ("quant: fp32", f"quant: {quant}"),
            ):
                data = data.replace(old.encode(), new.encode())
        if path.startswith("src/"):
            data += f"\n# {kernel_id}\n".encode()
        files[path] = replace(file, data=data)
    return Package(kernel_id, files)


def make_repository(path: Path, count: int) -> KernelRepository:
    """Return a bare repository with ``count`` kernels in one commit."""
    repository = KernelRepository.init(path)
    template = example_package()
    add_packages(
        repository,
        [package_at(kernel_id, template) for kernel_id in kernel_ids(count)],
        message="packages for a measurement\n",
        author="bench",
        when=BEGIN,
    )
    return repository


class Accepts:
    """Accept requests for some of a repository's kernels, in turn, each with new sources.

    ``worked_on`` kernels, spread over all ``count``, take turns: optimizers come back to a kernel
    again and again. ``after`` is how many requests others have made of the same repository.
    """

    def __init__(
        self,
        repository: KernelRepository,
        count: int,
        *,
        after: int = 0,
        worked_on: int = WORKED_ON,
    ) -> None:
        self._repository = repository
        self._template = example_package()
        ids = kernel_ids(count)
        self._ids = [ids[number * 7919 % count] for number in range(worked_on)]
        metas = check_submission(_without_board(self._template)).metas
        if metas is None:
            raise AssertionError("the example's metas cannot be read")
        self._metas = metas
        self._number = after

    def next(self) -> AcceptRequest:
        """Return the next request."""
        self._number += 1
        kernel_id = self._ids[self._number % len(self._ids)]
        package = _without_board(package_at(kernel_id, self._template))
        source = package.files["src/rms_norm.py"]
        text = source.data + f"# attempt {self._number}\n".encode()
        files = {**package.files, "src/rms_norm.py": replace(source, data=text)}
        head = self._repository.head()
        if head is None:
            raise AssertionError("the repository has no commit")
        return AcceptRequest(
            package=Package(kernel_id, files),
            submission_id=SubmissionId(f"00000000-0000-4000-8000-{self._number:012}"),
            attempt=1,
            submitter=SubmitterId("bench"),
            runner_id=RunnerId("bench.00000000"),
            arch="gfx928",
            isolation="none",
            package_sha256=Sha256("0" * 64),
            summary=f"attempt {self._number}",
            desc_summary="a measurement",
            output=_output(kernel_id, self._metas, 1.0 / self._number),
            metas=self._metas,
            recorded_at=BEGIN + timedelta(seconds=self._number),
            base_tree=self._repository.kernel_tree(head, kernel_id),
        )


def _without_board(package: Package) -> Package:
    files = {path: file for path, file in package.files.items() if path != SCOREBOARD_PATH}
    return Package(package.kernel_id, files)


def _output(
    kernel_id: KernelId, metas: tuple[TestCaseMeta, ...], latency_ms: float
) -> BenchmarkOutput:
    return BenchmarkOutput(
        schema_version="1.0.0",
        kernel_id=kernel_id,
        ran_at=BEGIN,
        runner_id="bench.00000000",
        arch="gfx928",
        accept=True,
        accept_reason="measured",
        build_ok=True,
        cases=tuple(
            CaseOutput(
                test_case_id=meta.test_case_id,
                correctness=Correctness.PASSED,
                accept=True,
                accept_reason="measured",
                metrics=tuple(MetricValue(metric.name, latency_ms) for metric in meta.metrics),
            )
            for meta in metas
        ),
    )
