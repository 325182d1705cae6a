"""Many submissions through several runners: all end, none twice, fairly, and the index is right."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest

from kzoo_core.client import KzooClient, Transport
from kzoo_core.clock import SystemClock
from kzoo_core.ids import SubmissionId
from tests.e2e.calls import git, post
from tests.e2e.processes import Zoo, run_command
from tests.packages import valid_package

if TYPE_CHECKING:
    from kzoo_core.client.views import StatusView, SubmissionView
    from kzoo_core.contract.records import Package

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

KERNELS = 20
RUNNERS = 4
SUBMITTERS = ("alice", "bob", "carol", "dave")


def package(number: int) -> Package:
    """Return the package of one submission; its latency says how good it is."""
    kernel_id = f"gfx928/Norm/RMSNorm/fp32/kernel_{number % KERNELS:02}"
    return valid_package(kernel_id, cases={"n4": 1.0 + 7919 * number % 101})


async def submit_all(client: KzooClient, count: int) -> list[str]:
    """Submit everything; the first submitter floods, the others come after it with a tenth each."""
    others = count // 10
    names = ["alice"] * (count - 3 * others)
    for name in SUBMITTERS[1:]:
        names += [name] * others
    return [await post(client, package(number), name) for number, name in enumerate(names)]


async def follow_all(
    client: KzooClient, submissions: list[str]
) -> list[tuple[StatusView, SubmissionView]]:
    """Wait for every submission and return its status and its record."""
    clock = SystemClock()
    ended = []
    for uuid in submissions:
        submission = SubmissionId(uuid)
        status = await client.wait_done(submission, clock=clock, timeout_s=500)
        ended.append((status, await client.submission(submission)))
    return ended


def test_all_end_once_and_fairly_and_the_index_equals_a_rebuild(
    zoo: Zoo, request: pytest.FixtureRequest
) -> None:
    count = cast("int", request.config.getoption("--load"))
    zoo.start_server()

    async def run() -> list[tuple[StatusView, SubmissionView]]:
        async with KzooClient(Transport(zoo.url, random=random.Random(0))) as client:
            submissions = await submit_all(client, count)
            for number in range(RUNNERS):
                zoo.start_runner(f"node-{number}")
            return await follow_all(client, submissions)

    begun = time.monotonic()
    ended = asyncio.run(run())
    took_s = time.monotonic() - begun

    assert Counter(status["outcome"] for status, _ in ended) == {"accepted": count}
    accepted = Counter(
        line for line in git(zoo, "log", "--format=%(trailers:key=Submission-Id,valueonly)").split()
    )
    assert accepted == {status["uuid"]: 2 for status, _ in ended}
    assert git(zoo, "fsck", "--strict") == ""

    order = sorted(ended, key=lambda pair: pair[1]["attempts"][0]["claimed_at"])
    served = [record["submitter_id"] for _, record in order]
    for name in SUBMITTERS[1:]:
        mine = [place for place, who in enumerate(served) if who == name]
        assert mine[0] < 4 * len(SUBMITTERS) + RUNNERS, f"{name} waited behind the flood: {mine}"

    runners = Counter(record["attempts"][-1]["runner_id"] for _, record in ended)
    assert len(runners) == RUNNERS
    rebuilt = zoo.directory / "rebuilt.json"
    done = run_command(
        "kzoo_core.cli.indexer_now",
        KERNEL_ZOO_KERNEL_REPO_PATH=str(zoo.repository),
        KERNEL_ZOO_INDEX_PATH=str(rebuilt),
    )
    assert done.returncode == 0, done.stderr
    assert rebuilt.read_bytes() == (zoo.state / "index.json").read_bytes()
    print(f"{count} submissions, {RUNNERS} runners, {KERNELS} kernels: {took_s:.1f} s; {runners}")
