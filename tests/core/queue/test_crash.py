"""A crash at every durable step of every transition, and the start that follows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kzoo_core import durable
from kzoo_core.queue import states
from kzoo_core.queue.codec import write_submission
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.recovery import recover
from kzoo_core.queue.spool import Spool, report_files
from tests.core.queue.samples import (
    DIGEST,
    REPORT,
    SETTINGS,
    accepted,
    at,
    claimed,
    confirmed,
    opened,
    pending,
    reported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_STEPS = (
    "fsync_directory",
    "fsync_file",
    "make_directory",
    "write_file",
    "move",
    "remove_file",
    "remove_tree",
)
UUID = pending().uuid


class Crash(BaseException):
    """The process ends here; no handler of the code under test may take it for an error."""


class Crasher:
    """Counts what happens to the disk and crashes at the step that it is told.

    Steps are the beginning and the end of each call into ``durable``, and each ``fsync`` inside.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *, at_step: int | None) -> None:
        self.steps = 0
        self._at_step = at_step
        for name in _STEPS:
            patch.setattr(durable, name, self._watched(getattr(durable, name)))
        patch.setattr(os, "fsync", lambda _descriptor: self._step())

    def _watched(self, real: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: object, **named: object) -> None:
            self._step()
            real(*arguments, **named)
            self._step()

        return watched

    def _step(self) -> None:
        if self.steps == self._at_step:
            raise Crash
        self.steps += 1


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the fsyncs themselves: a process that ends loses nothing that it has written."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@dataclass(frozen=True)
class Change:
    """One transition of the spool: what was durable before, and what is to be."""

    name: str
    before: tuple[Submission, ...]
    after: Submission
    files: Mapping[str, bytes]

    def prepare(self, spool: Spool) -> None:
        for submission in self.before:
            if submission.state is State.PENDING and not submission.attempts:
                spool.add(submission, b"package")
            else:
                spool.change(submission, {})

    def apply(self, spool: Spool) -> None:
        if not self.before:
            spool.add(self.after, b"package")
        else:
            spool.change(self.after, self.files)


LOST = states.expire(confirmed(), now=at(900), settings=SETTINGS)
CHANGES = [
    Change("submit", (), pending(), {}),
    Change("claim", (pending(),), claimed(), {"attempt-1.tar.gz": b"frozen"}),
    Change("confirm", (pending(), claimed()), confirmed(), {}),
    Change("report", (pending(), confirmed()), reported(), report_files(1, REPORT, DIGEST)),
    Change("expire", (pending(), confirmed()), LOST, {}),
    Change(
        "late report",
        (pending(), confirmed(), LOST),
        states.report(LOST, number=1, digest=DIGEST, now=at(901)),
        report_files(1, REPORT, DIGEST),
    ),
    Change("claim again", (pending(), confirmed(), LOST), claimed(LOST), {}),
    Change(
        "requeue",
        (pending(), reported()),
        states.requeue_moved(reported(), now=at(9), settings=SETTINGS, detail="moved"),
        {},
    ),
    Change("finish", (pending(), reported()), accepted(), {}),
    Change("cancel", (pending(),), states.cancel(pending(), now=at(9), by="alice"), {}),
]


def places_of(root: Path) -> list[str]:
    """Return every place where the submission lies."""
    return sorted(
        path.parent.relative_to(root).as_posix()
        for path in root.rglob(str(UUID))
        if path.parent.name not in {"tmp", "late"}
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_crash_at_any_step_leaves_one_copy_in_one_state(tmp_path: Path, change: Change) -> None:
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step)
        spool = opened(root)
        change.prepare(spool)
        with pytest.MonkeyPatch.context() as patch:
            Crasher(patch, at_step=step)
            try:
                change.apply(spool)
                finished = True
            except Crash:
                pass
        spool.close()

        again = opened(root)
        found = recover(again)
        if finished:
            assert found.submissions == (change.after,)
        elif not change.before:  # nobody was told of it: there, whole, or not at all
            assert found.submissions in [(), (change.after,)]
        else:
            assert found.submissions in [(change.before[-1],), (change.after,)]
        for submission in found.submissions:
            assert places_of(root) == [again.home(submission).parent.relative_to(root).as_posix()]
            assert again.read(UUID, "package.tar.gz") == b"package"
            named = change.files if submission == change.after else {}
            assert all(again.read(UUID, name) == data for name, data in named.items())
        assert found.corrupt == 0
        assert list((root / "tmp").iterdir()) == []
        again.close()
        step += 1
    assert step > 6


def test_a_crash_at_any_step_of_an_eviction_leaves_all_or_nothing(tmp_path: Path) -> None:
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step)
        spool = opened(root)
        Change("done", (pending(), reported()), accepted(), {}).prepare(spool)
        spool.change(accepted(), {})
        with pytest.MonkeyPatch.context() as patch:
            Crasher(patch, at_step=step)
            try:
                spool.evict(UUID)
                finished = True
            except Crash:
                pass
        spool.close()
        again = opened(root)
        assert recover(again).submissions in [(), (accepted(),)]
        assert list((root / "tmp").iterdir()) == []
        again.close()
        step += 1
    assert step > 5


def test_a_crash_at_any_step_of_recovery_is_recovered_from(tmp_path: Path) -> None:
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step)
        spool = opened(root)
        spool.add(pending(1), b"package")
        spool.add(pending(2), b"package")
        home = spool.directory(pending(1).uuid)
        (home / "submission.json").write_bytes(write_submission(accepted(pending(1))))
        (root / "running" / "stranger").mkdir()
        (root / "tmp" / "left").mkdir()
        with pytest.MonkeyPatch.context() as patch:
            Crasher(patch, at_step=step)
            try:
                recover(spool)
                finished = True
            except Crash:
                pass
        spool.close()
        again = opened(root)
        found = recover(again)
        assert found.submissions == (accepted(pending(1)), pending(2))
        assert [path.name for path in (root / "corrupt").iterdir()] == ["stranger"]
        again.close()
        step += 1
    assert step > 8


def test_a_crash_at_any_step_of_the_first_start_does_not_spoil_the_next(tmp_path: Path) -> None:
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step) / "state"
        with pytest.MonkeyPatch.context() as patch:
            Crasher(patch, at_step=step)
            try:
                opened(root, seed=1).close()
                finished = True
            except Crash:
                pass
        again = opened(root, seed=2)
        assert recover(again).submissions == ()
        assert len((root / "secret").read_bytes()) == 32
        again.close()
        step += 1
    assert step > 20
