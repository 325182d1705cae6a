"""A package is submitted, run, judged, committed in two phases and seen on the board."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.calls import directory_of, ended, git, kzoo, kzoo_json, submit
from tests.e2e.processes import Zoo, environment, run_command
from tests.packages import KERNEL_ID, valid_package

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SCOREBOARD = f"{KERNEL_ID}/.kernel_package/bench_result.yaml"


def test_two_accepts_are_four_commits_and_every_stamp_is_real(zoo: Zoo, tmp_path: Path) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    first = ended(zoo, submit(zoo, valid_package(cases={"n4": 2.0}), summary="first"))
    second = ended(zoo, submit(zoo, valid_package(cases={"n4": 1.0}), "bob", summary="second"))
    assert (first["outcome"], second["outcome"]) == ("accepted", "accepted")
    assert [record["previous"] for record in second["records"]] == [2.0]

    commits = git(zoo, "rev-list", "HEAD").split()
    assert len(commits) == 4
    newest_r, newest_s, oldest_r, oldest_s = commits
    assert (second["commit_sha"], first["commit_sha"]) == (newest_s, oldest_s)
    for commit in (newest_r, oldest_r):
        assert git(zoo, "show", "--format=", "--name-only", commit) == SCOREBOARD
    for commit in (newest_s, oldest_s):
        assert SCOREBOARD not in git(zoo, "show", "--format=", "--name-only", commit)
    assert f'commit_sha: "{newest_s}"' in git(zoo, "show", f"HEAD:{SCOREBOARD}")
    assert git(zoo, "log", "-1", "--format=%an %ae %cn %s", newest_s) == (
        f"bob bob@kernel-zoo.invalid kernel_zoo accept({KERNEL_ID}): second"
    )
    assert git(zoo, "fsck", "--strict") == ""

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(zoo.repository), str(clone)], check=True)
    checked = run_command("kzoo_core.cli.validate_package", str(clone / KERNEL_ID))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_commands_follow_a_submission_to_its_verdict(zoo: Zoo, tmp_path: Path) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    good = directory_of(valid_package(scoreboard=True), tmp_path / "good")
    done = kzoo(zoo, "submit", str(good), "--as", "alice", "--wait", "--summary", "one pass")
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = directory_of(valid_package(scoreboard=True, correct=False), tmp_path / "wrong")
    done = kzoo(zoo, "submit", str(wrong), "--as", "bob", "--wait")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "benchmark_rejected" in done.stdout

    listing = kzoo_json(zoo, "runs")
    assert isinstance(listing, dict)
    rejected, accepted = listing["items"]
    assert (rejected["outcome"], accepted["outcome"]) == ("rejected", "accepted")
    assert accepted["attempts"][0]["isolation"] == "none"
    log = kzoo(zoo, "logs", accepted["uuid"])
    assert "n4: passed=True" in log.stdout
    assert kzoo(zoo, "cancel", accepted["uuid"]).returncode == 1
    shown = kzoo_json(zoo, "show", KERNEL_ID)
    assert isinstance(shown, dict)
    assert shown["cases"][0]["metrics"][0]["best"]["submitter"] == "alice"


def test_a_check_runs_on_a_real_node_and_leaves_no_commit(zoo: Zoo) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    checked = ended(zoo, submit(zoo, valid_package(), mode="check"))
    assert (checked["outcome"], checked["commit_sha"]) == ("accepted", None)
    assert git(zoo, "rev-list", "--all") == ""


def test_a_checkout_follows_the_branch_and_keeps_what_a_person_changed(tmp_path: Path) -> None:
    zoo = Zoo(tmp_path)
    zoo.init("--no-bare", "--examples")
    note = zoo.repository / "NOTES.md"
    note.write_text("mine\n")
    try:
        zoo.start_server()
        zoo.start_runner("node")
        assert ended(zoo, submit(zoo, valid_package()))["outcome"] == "accepted"
    finally:
        zoo.stop()
    assert (zoo.repository / SCOREBOARD).is_file()
    assert note.read_text() == "mine\n"
    assert git(zoo, "status", "--short") == "?? NOTES.md"


def test_the_index_of_the_commands_equals_the_servers(zoo: Zoo, tmp_path: Path) -> None:
    zoo.start_server()
    zoo.start_runner("node")
    ended(zoo, submit(zoo, valid_package()))
    by_module = tmp_path / "module.json"
    done = run_command(
        "kzoo_core.cli.indexer_now",
        KERNEL_ZOO_KERNEL_REPO_PATH=str(zoo.repository),
        KERNEL_ZOO_INDEX_PATH=str(by_module),
    )
    assert done.returncode == 0, done.stderr
    by_server = kzoo(zoo, "index")
    assert by_server.returncode == 0
    assert by_module.read_text() == by_server.stdout
    assert (zoo.state / "index.json").read_text() == by_server.stdout


def command_lines() -> list[str]:
    """Return the command lines of every process that there is."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended while we looked
            lines.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return lines


def test_ctrl_c_in_the_middle_of_the_demo_ends_all_of_it_without_a_traceback(
    tmp_path: Path,
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
        start_new_session=True,
    )
    assert demo.stdout is not None
    assert any(line.startswith("submitted ") for line in demo.stdout)
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does it: to all of them
    out, err = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert out.endswith("\nstopped before its end: server and runner are gone\n")
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []
    assert [line for line in command_lines() if str(tmp_path) in line] == []


def test_the_demo_shows_every_outcome_and_ends_by_itself() -> None:
    done = run_command("tests.e2e.demo", timeout_s=150)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "accepted    gfx928/Norm/RMSNorm/fp32/rowwise",
        "record      r256_c1024",
        "rejected    gfx928/Norm/RMSNorm/fp32/rowwise",
        "correctness failed",
        "the package has 4 errors",
        "bench_result update (source ",
        "the board is at http://127.0.0.1:",
    ):
        assert text in done.stdout
