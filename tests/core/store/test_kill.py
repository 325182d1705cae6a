"""A process that ends at any step of an accept leaves both commits or neither."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.core.store.samples import KERNEL, accepted, fsck, git, seed

if TYPE_CHECKING:
    from kzoo_core.store.repository import KernelRepository


def test_a_kill_at_any_durable_step_leaves_both_commits_or_none(
    repository: KernelRepository,
) -> None:
    seed(repository)

    done = subprocess.run(
        [sys.executable, "-m", "tests.core.store.killed_accepts", str(repository.path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    # Pack and index and ref are fsynced and renamed, two directories fsynced.
    assert [report["step"] for report in reports] == [step for step in range(1, 9) for _ in "ab"]
    for report in reports:
        assert report["head"] == (report["accepted"] or report["before"])
    through = [(report["step"], report["after"]) for report in reports if report["accepted"]]
    assert through == [(7, True), (8, False), (8, True)]
    assert fsck(repository.path) == ""
    last = accepted(repository, 50)
    commits = git(repository.path, "log", "--format=%H %s", "--", KERNEL).splitlines()
    # Those, the one that ran out of steps to die at, and the last one; and the seed.
    assert len(commits) == 2 * (len(through) + 2) + 1
    assert commits[0].split()[0] == last.bench_commit
