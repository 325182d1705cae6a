"""A whole system on a real repository and a real state directory, without HTTP."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kzoo_core.clock import SystemClock
from kzoo_core.contract.records import RunFailure, RunReport
from kzoo_core.ids import ClaimId, Sha256
from kzoo_core.lifecycle.admission import SubmissionForm
from kzoo_core.lifecycle.system import System, SystemSettings
from kzoo_core.queue.runners import Runner, RunnerInfo
from kzoo_core.queue.settings import QueueSettings
from kzoo_core.store.repository import KernelRepository
from tests.packages import KERNEL_ID, output_bytes, package_tarball, valid_package

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kzoo_core.contract.records import Package
    from kzoo_core.lifecycle.settlement import ReportAnswer
    from kzoo_core.queue.exchange import Claimed
    from kzoo_core.queue.records import Submission


@dataclass(slots=True)
class Bench:
    """A system and the moves of a submitter and a runner on it."""

    directory: Path
    system: System
    runner: Runner
    claims: int = 0

    async def submit(
        self,
        package: Package | None = None,
        *,
        submitter: str = "alice",
        mode: str = "ranked",
        key: str | None = None,
        summary: str | None = None,
    ) -> Submission:
        package = package or valid_package()
        archive = self.directory / "upload.tar.gz"
        archive.write_bytes(package_tarball(package))
        form = SubmissionForm(
            kernel_id=package.kernel_id,
            submitter_id=submitter,
            mode=mode,
            idempotency_key=key,
            optimization_summary=summary,
        )
        return await self.system.admission.submit(form, archive)

    async def claim(self, *, wait_s: float = 0.0) -> Claimed:
        claimed = await self.claim_if_any(wait_s=wait_s)
        assert claimed is not None
        return claimed

    async def claim_if_any(self, *, wait_s: float = 0.0) -> Claimed | None:
        self.claims += 1
        return await self.system.claims.claim(
            self.runner, ClaimId(f"claim-{self.claims}"), wait_s=wait_s
        )

    async def report(
        self,
        claimed: Claimed,
        stdout: bytes | None = None,
        *,
        failure: RunFailure | None = None,
    ) -> ReportAnswer:
        report = RunReport(
            build_ok=True,
            build_exit_code=0,
            benchmark_exit_code=0,
            failure=failure,
            stdout=output_bytes(claimed.submission.kernel_id) if stdout is None else stdout,
        )
        digest = Sha256(hashlib.sha256(report.stdout or b"").hexdigest())
        return await self.system.settlement.report(
            claimed.submission.uuid, claimed.attempt.number, claimed.token, report, digest
        )

    async def done(self, submission: Submission) -> Submission:
        ended = await self.system.queue.wait(submission.uuid, wait_s=20)
        assert ended.outcome is not None, ended
        return ended

    async def accepted(self, package: Package | None = None, **options: str) -> Submission:
        submission = await self.submit(package, **options)
        await self.report(await self.claim())
        return await self.done(submission)

    def reopened(self) -> System:
        """Return a new system on the same directories, as after a restart."""
        return System(self.system.settings, SystemClock(), token_bytes=secrets.token_bytes)


def settings(directory: Path) -> SystemSettings:
    return SystemSettings(
        repository=directory / "kernel_data",
        state=directory / "state",
        index_path=directory / "state" / "index.json",
        queue=QueueSettings(),
        board_poll_s=0.05,
    )


def register(system: System) -> Runner:
    info = RunnerInfo(name="node", instance="one", arch="gfx928")
    return system.runners.register(info, now=SystemClock().now())[0]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Give a started system on an empty repository, and a registered runner."""
    KernelRepository.init(tmp_path / "kernel_data").close()
    system = System(settings(tmp_path), SystemClock(), token_bytes=secrets.token_bytes)
    moves = Bench(tmp_path, system, register(system))
    try:
        await system.start()
        yield moves
    finally:
        await moves.system.close()


__all__ = ["KERNEL_ID", "Bench"]
