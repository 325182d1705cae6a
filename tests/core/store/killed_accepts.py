"""Accepts that end with the process, one durable step later each time; run by ``test_kill``.

For each step a child process makes an accept and exits at that step as a SIGKILL would make it,
with nothing cleaned up. The parent then sweeps as a server does at start, and tells what it found,
one JSON document a line. A process of its own, because only one without threads may fork.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.store.accept import accept, find_accept
from kzoo_core.store.repository import KernelRepository
from kzoo_core.store.sweep import make_ready
from tests.core.store.samples import T0, request, submission_id

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED = 9
STEPS = ("fsync", "replace")


def die_at(step: int, *, after: bool) -> None:
    """Let the process end at its ``step``-th fsync or rename, before or after the call."""
    made = iter(range(1, 1000))

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            here = next(made) == step
            if here and not after:
                os._exit(KILLED)
            result = real(*arguments)
            if here:
                os._exit(KILLED)
            return result

        return call

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


def killed(path: Path, number: int, step: int, *, after: bool) -> bool:
    """Accept in a child that dies at ``step``; say whether it got that far."""
    child = os.fork()
    if child == 0:
        repository = KernelRepository(path)
        wanted = request(repository, number)
        die_at(step, after=after)
        accept(repository, wanted)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def main(path: Path) -> None:
    """Kill an accept at every step in turn, and say what each left."""
    number = 0
    for step in range(1, 100):
        for after in (False, True):
            number += 1
            with KernelRepository(path) as repository:
                before = repository.head()
            if not killed(path, number, step, after=after):
                return
            with KernelRepository(path) as repository, repository.lock():
                swept = make_ready(repository)
                found = find_accept(repository, submission_id(number), since=T0)
                report = {
                    "step": step,
                    "after": after,
                    "before": before,
                    "head": repository.head(),
                    "accepted": found.bench_commit if found is not None else None,
                    "swept": swept,
                }
            sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
