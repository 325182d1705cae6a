"""Processes that end at the worst moment: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.calls import ended, git, phase, submit
from tests.packages import KERNEL_ID, valid_package

if TYPE_CHECKING:
    from kzoo_core.contract.records import Package
    from tests.e2e.processes import Zoo

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

QUICK_LEASES = """\
lease_s: 3
heartbeat_s: 0.5
confirm_s: 3
restart_grace_s: 3
sweep_s: 0.2
"""


def wait_for_phase(zoo: Zoo, submission: str, wanted: str) -> None:
    deadline = time.monotonic() + 30
    while (found := phase(zoo, submission)) != wanted:
        assert time.monotonic() < deadline, f"still {found}, not {wanted}"
        time.sleep(0.05)


def slow_package(seconds: float) -> Package:
    """Return a package whose build takes ``seconds``."""
    package = valid_package()
    build = package.files[".kernel_package/build_test_env.py"].data.decode()
    slow = build.replace(
        "    build_env(Path(argv[1]))\n",
        f"    import time\n\n    time.sleep({seconds})\n    build_env(Path(argv[1]))\n",
    )
    return valid_package(files={".kernel_package/build_test_env.py": slow})


def test_a_server_killed_between_report_and_commit_commits_once_after_its_restart(
    zoo: Zoo,
) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    # Whoever holds the branch's lock keeps the commit waiting after the report is durable.
    lock = zoo.repository / "refs" / "heads" / "main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    submission = submit(zoo, valid_package())
    wait_for_phase(zoo, submission, "reported")
    assert zoo.server is not None
    zoo.server.kill()
    port = int(zoo.url.rpartition(":")[2])
    zoo.start_server(port=port)
    status = ended(zoo, submission)
    assert status["outcome"] == "accepted"
    assert status["attempt"] == 1
    assert git(zoo, "rev-list", "--count", "HEAD") == "2"
    # The pack of the try that was killed is left over: unreachable, and harmless.
    assert git(zoo, "fsck", "--strict", "--no-dangling") == ""


def test_a_server_that_restarts_during_a_run_gets_the_result_of_the_same_attempt(
    zoo: Zoo,
) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    submission = submit(zoo, slow_package(3.0))
    wait_for_phase(zoo, submission, "build")
    assert zoo.server is not None
    zoo.server.kill()
    zoo.start_server(port=int(zoo.url.rpartition(":")[2]))
    status = ended(zoo, submission)
    assert (status["outcome"], status["attempt"]) == ("accepted", 1)
    assert git(zoo, "rev-list", "--count", "HEAD") == "2"


def test_a_runner_killed_in_the_middle_is_replaced_by_a_second_attempt(zoo: Zoo) -> None:
    config = zoo.directory / "server.yaml"
    config.write_text(QUICK_LEASES)
    zoo.start_server("--config", str(config))
    first = zoo.start_runner("node")
    submission = submit(zoo, slow_package(2.0))
    wait_for_phase(zoo, submission, "build")
    first.kill()
    zoo.start_runner("node")
    status = ended(zoo, submission)
    assert (status["outcome"], status["attempt"]) == ("accepted", 2)
    assert git(zoo, "rev-list", "--count", "HEAD") == "2"
    assert git(zoo, "log", "-1", "--format=%(trailers:key=Attempt,valueonly)") == "2"


def test_a_stopped_runner_ends_its_run_first(zoo: Zoo) -> None:
    zoo.start_server()
    runner = zoo.start_runner("node")
    submission = submit(zoo, slow_package(1.5))
    wait_for_phase(zoo, submission, "build")
    assert runner.stop(number=signal.SIGTERM, timeout_s=30) == 0
    assert ended(zoo, submission, timeout_s=5)["outcome"] == "accepted"


def test_a_server_stops_within_five_seconds_while_calls_are_held(zoo: Zoo) -> None:
    zoo.start_server()
    zoo.start_runner("idle")  # holds a claim
    assert zoo.server is not None
    deadline = time.monotonic() + 20
    while "registered" not in zoo.runners[0].text():
        assert time.monotonic() < deadline, zoo.runners[0].text()
        time.sleep(0.05)
    begun = time.monotonic()
    assert zoo.server.stop(timeout_s=10) == 0
    assert time.monotonic() - begun < 5
    assert KERNEL_ID not in zoo.server.text()


def test_one_once_runner_runs_one_submission_and_leaves(zoo: Zoo) -> None:
    zoo.start_server()
    submission = submit(zoo, valid_package())
    runner = zoo.start_runner("once", "--once")
    assert runner.process.wait(60) == 0
    assert ended(zoo, submission, timeout_s=5)["outcome"] == "accepted"
