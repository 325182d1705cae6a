"""What a submitter does over HTTP in the end-to-end tests, by the commands and by the client."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import uuid
from typing import TYPE_CHECKING

from kzoo_core.client import KzooClient, Transport
from kzoo_core.clock import SystemClock
from kzoo_core.contract.archive import write_archive
from kzoo_core.ids import SubmissionId, parse_submitter_id
from tests.e2e.processes import Zoo, run_command
from tests.packages import write_directory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import TypeVar

    from kzoo_core.client.views import StatusView
    from kzoo_core.contract.records import Package

    Result = TypeVar("Result")

WAIT_S = 60.0


def with_client(zoo: Zoo, call: Callable[[KzooClient], Awaitable[Result]]) -> Result:
    """Run one coroutine of calls on a client of its own."""

    async def run() -> Result:
        transport = Transport(zoo.url, random=random.Random(0))
        async with KzooClient(transport) as client:
            return await call(client)

    return asyncio.run(run())


async def post(client: KzooClient, package: Package, submitter: str, **options: str) -> str:
    """Submit a package and return its uuid."""
    view = await client.submit(
        write_archive(package),
        kernel_id=package.kernel_id,
        submitter_id=parse_submitter_id(submitter),
        mode=options.get("mode", "ranked"),
        idempotency_key=str(uuid.uuid4()),
        summary=options.get("summary"),
    )
    return view["uuid"]


def submit(zoo: Zoo, package: Package, submitter: str = "alice", **options: str) -> str:
    """Submit a package and return its uuid."""
    return with_client(zoo, lambda client: post(client, package, submitter, **options))


def ended(zoo: Zoo, submission: str, *, timeout_s: float = WAIT_S) -> StatusView:
    """Wait until a submission is done; raises ``AssertionError`` when it is not in time."""
    status = with_client(
        zoo,
        lambda client: client.wait_done(
            SubmissionId(submission), clock=SystemClock(), timeout_s=timeout_s
        ),
    )
    assert status["status"] == "done", status
    return status


def phase(zoo: Zoo, submission: str) -> str:
    """Return what a submission does now."""
    return with_client(zoo, lambda client: client.status(SubmissionId(submission)))["phase"]


def kzoo(zoo: Zoo, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``kzoo`` against the zoo's server."""
    return run_command("kzoo_tui.cli", *arguments, KERNEL_ZOO_SERVER=zoo.url)


def kzoo_json(zoo: Zoo, *arguments: str) -> object:
    """Run ``kzoo … --json`` and return its document; the command has to succeed."""
    done = kzoo(zoo, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document: object = json.loads(done.stdout)
    return document


def directory_of(package: Package, below: Path) -> Path:
    """Write a package at its kernel_id below a directory and return where it lies."""
    root = below / package.kernel_id
    write_directory(package, root)
    return root


def git(zoo: Zoo, *arguments: str) -> str:
    """Run stock git on the zoo's repository."""
    done = subprocess.run(
        ["git", "-C", str(zoo.repository), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.rstrip("\n")
