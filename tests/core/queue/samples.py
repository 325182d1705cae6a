"""Submissions, runners and queues to test with; every random byte comes from a seeded source."""

from __future__ import annotations

import hashlib
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kzoo_core.clock import ManualClock
from kzoo_core.contract.records import RunReport
from kzoo_core.ids import ClaimId, CommitId, KernelId, RunnerId, Sha256, SubmissionId, SubmitterId
from kzoo_core.queue import states
from kzoo_core.queue.exchange import Claimed, Frozen, NewSubmission, Refused
from kzoo_core.queue.records import Mode, Outcome, Submission
from kzoo_core.queue.runners import Runner, RunnerInfo, RunnerRegistry
from kzoo_core.queue.service import SubmissionQueue
from kzoo_core.queue.settings import QueueSettings
from kzoo_core.queue.spool import Spool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

T0 = datetime(2026, 8, 2, 12, 0, 0, tzinfo=UTC)
SETTINGS = QueueSettings()
KERNEL = KernelId("gfx928/Norm/RMSNorm/fp32/mine")
ALICE = SubmitterId("alice")
BOB = SubmitterId("bob")
TREE = "d" * 40
SOURCE = CommitId("a" * 40)
BENCH = CommitId("b" * 40)
REPORT = RunReport(
    build_ok=True,
    build_exit_code=0,
    benchmark_exit_code=0,
    failure=None,
    stdout=b'{"accept": true}\n',
    durations_s={"build": 1.5, "benchmark": 2.0},
    environment={"driver": "6.2", "nested": {"gpus": [1, 2]}},
)
DIGEST = Sha256("1" * 64)
OTHER_DIGEST = Sha256("2" * 64)


def at(seconds: float) -> datetime:
    """Return the time that many seconds after the tests' beginning."""
    return T0 + timedelta(seconds=seconds)


def sha256(data: bytes) -> Sha256:
    return Sha256(hashlib.sha256(data).hexdigest())


def uuid_of(number: int) -> SubmissionId:
    return SubmissionId(f"00000000-0000-4000-8000-{number:012d}")


def pending(
    number: int = 1,
    *,
    kernel_id: str = KERNEL,
    submitter: str = ALICE,
    arch: str = "gfx928",
    feature: str | None = None,
    submitted_at: datetime | None = None,
) -> Submission:
    return Submission(
        uuid=uuid_of(number),
        kernel_id=KernelId(kernel_id),
        submitter_id=SubmitterId(submitter),
        mode=Mode.RANKED,
        arch=arch,
        min_arch_feature=feature,
        package_sha256=Sha256("c" * 64),
        package_bytes=7,
        submitted_at=at(number) if submitted_at is None else submitted_at,
    )


def claimed(submission: Submission | None = None, *, now: datetime = T0) -> Submission:
    """Return the submission (a pending one by default) with one attempt more."""
    submission = pending() if submission is None else submission
    return states.claim(
        submission,
        now=now,
        settings=SETTINGS,
        runner_id=RunnerId("node.12345678"),
        claim_id=ClaimId(f"claim-{len(submission.attempts) + 1}"),
        token_sha256=Sha256("e" * 64),
        arch="gfx928",
        isolation="none",
        package_sha256=Sha256("f" * 64),
        base_tree=TREE,
    )


def confirmed(submission: Submission | None = None, *, now: datetime = T0) -> Submission:
    submission = claimed(submission, now=now)
    return states.heartbeat(submission, number=len(submission.attempts), now=now, settings=SETTINGS)


def reported(submission: Submission | None = None, *, now: datetime = T0) -> Submission:
    submission = confirmed(submission, now=now)
    number = len(submission.attempts)
    digest = Sha256(f"{number:064d}")
    return states.report(submission, number=number, digest=digest, now=now)


def accepted(submission: Submission | None = None, *, now: datetime = T0) -> Submission:
    return states.finish(
        reported(submission, now=now),
        now=now,
        outcome=Outcome.ACCEPTED,
        commit_sha=SOURCE,
        bench_commit_sha=BENCH,
    )


def seeded_bytes(seed: int = 7) -> random.Random:
    """Return a source whose ``randbytes`` stands in for ``secrets.token_bytes``."""
    return random.Random(seed)


def opened(root: Path, seed: int = 7) -> Spool:
    spool = Spool(root)
    spool.open(seeded_bytes(seed).randbytes)
    return spool


def new_submission(
    number: int = 1,
    *,
    kernel_id: str = KERNEL,
    submitter: str = ALICE,
    arch: str = "gfx928",
    feature: str | None = None,
    summary: str | None = None,
    mode: Mode = Mode.RANKED,
) -> NewSubmission:
    package = f"package {number}".encode()
    return NewSubmission(
        kernel_id=KernelId(kernel_id),
        submitter_id=SubmitterId(submitter),
        mode=mode,
        optimization_summary=summary,
        arch=arch,
        min_arch_feature=feature,
        package=package,
        package_sha256=sha256(package),
    )


def runner(
    name: str = "node", *, arch: str = "gfx928", features: frozenset[str] = frozenset()
) -> Runner:
    tokens = random.Random(name)
    registry = RunnerRegistry(SETTINGS, lambda size: tokens.randbytes(size).hex())
    info = RunnerInfo(name=name, instance="1", arch=arch, features=features)
    return registry.register(info, now=T0)[0]


NODE = runner()


async def freeze(submission: Submission, package: bytes) -> Frozen | Refused:
    """Freeze a package by writing the number of its attempt behind it."""
    number = len(submission.attempts) + 1
    return Frozen(package + f" frozen for attempt {number}".encode(), TREE)


class Harness:
    """A started queue, its clock, and the short ways to a given state."""

    def __init__(self, queue: SubmissionQueue, clock: ManualClock) -> None:
        self.queue = queue
        self.clock = clock
        self._claims = 0

    async def submitted(self, number: int = 1, **fields: Any) -> Submission:
        return await self.queue.submit(new_submission(number, **fields))

    async def claim(
        self,
        by: Runner = NODE,
        *,
        claim_id: str | None = None,
        wait_s: float = 0,
        only: SubmissionId | None = None,
    ) -> Claimed | None:
        self._claims += 1
        name = ClaimId(claim_id or f"claim-{self._claims}")
        return await self.queue.claim(by, name, wait_s=wait_s, freeze=freeze, only=only)

    async def claimed(self, number: int = 1, **fields: Any) -> Claimed:
        """Submit, and claim that very submission."""
        submission = await self.submitted(number, **fields)
        made = await self.claim(only=submission.uuid)
        assert made is not None
        return made

    async def running(self, number: int = 1, **fields: Any) -> Claimed:
        """Submit, claim and confirm."""
        made = await self.claimed(number, **fields)
        await self.queue.attempt_package(made.submission.uuid, made.attempt.number, made.token)
        return made

    async def reported(self, number: int = 1, **fields: Any) -> Claimed:
        """Submit, claim, confirm and report."""
        made = await self.running(number, **fields)
        await self.report(made)
        return made

    async def report(self, made: Claimed, digest: Sha256 = DIGEST) -> Submission:
        receipt = await self.queue.report(
            made.submission.uuid, made.attempt.number, made.token, REPORT, digest
        )
        return receipt.submission

    async def done(self, number: int = 1, **fields: Any) -> Submission:
        """Submit and go all the way to accepted."""
        made = await self.reported(number, **fields)
        return await self.queue.finish(
            made.submission.uuid, Outcome.ACCEPTED, commit_sha=SOURCE, bench_commit_sha=BENCH
        )


@asynccontextmanager
async def started(
    root: Path,
    *,
    clock: ManualClock | None = None,
    settings: QueueSettings = SETTINGS,
    seed: int = 7,
) -> AsyncIterator[Harness]:
    clock = ManualClock(T0) if clock is None else clock
    queue = SubmissionQueue(root, settings, clock, token_bytes=seeded_bytes(seed).randbytes)
    await queue.start()
    try:
        yield Harness(queue, clock)
    finally:
        await queue.close()


def with_settings(**changes: float) -> QueueSettings:
    return replace(SETTINGS, **changes)  # type: ignore[arg-type]  # ints and floats by name
