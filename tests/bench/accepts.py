"""What an accept costs: against the disk's floor, against git, against the repository's size."""

from __future__ import annotations

import os
import stat
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest.mock import patch

from kzoo_core.store.accept import accept
from tests.bench.figures import Figure
from tests.bench.repositories import WORKED_ON, Accepts, make_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kzoo_core.store.repository import KernelRepository

ROUNDS = 120
WARM_UP = WORKED_ON


def figures(directory: Path, git_size: int) -> list[Figure]:
    """Measure all of it below ``directory``; ``git_size`` is how many packages git works with."""
    small = make_repository(directory / "small", 100)
    large = make_repository(directory / "large", 10_000)
    try:
        return [
            _against_the_floor(large, directory / "floor", WORKED_ON),
            _against_the_floor(large, directory / "floor-untouched", 10_000),
            _cpu_by_size(small, large),
            _disk(large),
            _against_git(directory, git_size),
        ]
    finally:
        small.close()
        large.close()


@dataclass(slots=True)
class Syncs:
    """The files (by size in bytes) and directories that were fsynced."""

    files: list[int] = field(default_factory=list)
    directories: int = 0


@contextmanager
def counted_syncs() -> Iterator[Syncs]:
    """Count what is fsynced while the block runs; the real fsync still happens."""
    counted = Syncs()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            counted.directories += 1
        else:
            counted.files.append(status.st_size)
        real(descriptor)

    with patch.object(os, "fsync", fsync):
        yield counted


@contextmanager
def without_fsync() -> Iterator[None]:
    """Make fsync do nothing while the block runs."""
    with patch.object(os, "fsync", lambda _descriptor: None):
        yield


def _against_the_floor(
    repository: KernelRepository, floor_directory: Path, worked_on: int
) -> Figure:
    warm = worked_on == WORKED_ON
    requests = Accepts(repository, 10_000, after=0 if warm else 5_000, worked_on=worked_on)
    for _ in range(WARM_UP):
        accept(repository, requests.next())
    with counted_syncs() as syncs:
        accept(repository, requests.next())
    floor_directory.mkdir()
    ours, floor = [], []
    for number in range(ROUNDS):
        request = requests.next()
        begun = time.perf_counter()
        accept(repository, request)
        between = time.perf_counter()
        _write_floor(floor_directory, syncs, number)
        ours.append(between - begun)
        floor.append(time.perf_counter() - between)
    ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
    return Figure(
        f"durable accept against the fsync floor{'' if warm else ', kernels never touched before'}",
        ratio,
        "×",
        f"medians {_ms(ours)} against {_ms(floor)} for {len(syncs.files)} files of the same sizes "
        f"and {syncs.directories} directories, in turn, {ROUNDS} times, 10,000 packages",
        at_most=1.5 if warm else None,
    )


def _write_floor(directory: Path, syncs: Syncs, number: int) -> None:
    """Make as many files and directories durable as one accept does, and nothing else.

    A file gets its name by a rename once its bytes are synced, as everything must that a reader may
    find at any moment: packs, their indexes and refs.
    """
    for index, size in enumerate(syncs.files):
        temporary = directory / f"{number}-{index}.tmp"
        with temporary.open("wb") as stream:
            stream.write(os.urandom(size))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(directory / f"{number}-{index}")
    for _ in range(syncs.directories):
        descriptor = os.open(directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        (directory / f"{number}-name").touch()  # the next directory fsync has something to do


def _cpu_by_size(small: KernelRepository, large: KernelRepository) -> Figure:
    sizes = [(small, Accepts(small, 100)), (large, Accepts(large, 10_000, after=1_000))]
    spent: list[list[float]] = [[], []]
    with without_fsync():
        for number in range(WARM_UP + ROUNDS):
            for index, (repository, requests) in enumerate(sizes):
                request = requests.next()
                begun = time.process_time()
                accept(repository, request)
                if number >= WARM_UP:
                    spent[index].append(time.process_time() - begun)
    return Figure(
        "accept's CPU at 10,000 against 100 packages",
        statistics.median(spent[1]) / statistics.median(spent[0]),
        "×",
        f"medians {_ms(spent[1])} against {_ms(spent[0])}, in turn, {ROUNDS} times, warm",
        at_most=1.5,
    )


def _disk(repository: KernelRepository) -> Figure:
    requests = Accepts(repository, 10_000, after=2_000)
    before = _bytes_below(repository.git_directory / "objects")
    with without_fsync():
        for _ in range(ROUNDS):
            accept(repository, requests.next())
    growth = _bytes_below(repository.git_directory / "objects") - before
    return Figure(
        "disk growth per accept",
        growth / ROUNDS / 1024,
        "KiB",
        f"allocated blocks of objects/, {ROUNDS} accepts, 10,000 packages, no repack in between",
        at_most=20,
    )


def _against_git(directory: Path, size: int) -> Figure:
    repository = make_repository(directory / "bare", size)
    worktree = directory / "worktree"
    _git(directory, "clone", "-q", str(repository.git_directory), str(worktree))
    for key, value in (("user.name", "bench"), ("user.email", "bench@kernel-zoo.invalid")):
        _git(worktree, "config", key, value)
    for key, value in (("core.fsync", "none"), ("gc.auto", "0"), ("commit.gpgsign", "false")):
        _git(worktree, "config", key, value)
    requests = Accepts(repository, size)
    ours, gits = [], []
    rounds = 20
    with without_fsync():
        for number in range(WARM_UP + rounds):
            request = requests.next()
            begun = time.perf_counter()
            accept(repository, request)
            between = time.perf_counter()
            kernel = worktree / request.package.kernel_id
            for path, file in request.package.files.items():
                (kernel / path).write_bytes(file.data)
            begun_git = time.perf_counter()
            _git(worktree, "add", "-A", request.package.kernel_id)
            _git(worktree, "commit", "-q", "-m", f"attempt {number}")
            if number >= WARM_UP:
                ours.append(between - begun)
                gits.append(time.perf_counter() - begun_git)
    repository.close()
    return Figure(
        "accept against git add + git commit",
        statistics.median(gits) / statistics.median(ours),
        "×",
        f"medians {_ms(gits)} against {_ms(ours)}, {size:,} packages in a worktree, "
        f"both without fsync, {rounds} times",
        at_least=40 if size >= 10_000 else None,  # the goal is one of that size
    )


def _git(directory: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True)


def _bytes_below(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.2f} ms"
