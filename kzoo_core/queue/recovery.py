"""What a start finds in a spool: the submissions, and everything that had to be put right.

The order of the durable steps, and so what can be found, is told in ``spool``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.queue.codec import UnreadableRecord, read_keys, read_submission
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.spool import KEYS, PACKAGE, RECORD, Spool, disk_errors, tree_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kzoo_core.ids import SubmissionId
    from kzoo_core.queue.keys import KeyUse

_ORDER_OF_TRUTH = (State.PENDING, State.RUNNING, State.REPORTED, State.DONE)
_MONTH = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True, slots=True)
class Recovery:
    """``submissions`` oldest first; ``sizes`` in bytes of those that are done.

    ``keys`` are those of submissions that are no longer held. ``notes`` says in one sentence each
    what was put right; ``corrupt`` counts what could not be read and lies in ``corrupt/`` now.
    """

    submissions: tuple[Submission, ...]
    sizes: Mapping[SubmissionId, int]
    keys: tuple[KeyUse, ...]
    notes: tuple[str, ...]
    corrupt: int


@dataclass(frozen=True, slots=True)
class _Copy:
    directory: Path
    submission: Submission

    def truth(self) -> tuple[int, int, int]:
        state = _ORDER_OF_TRUTH.index(self.submission.state)
        return (state, len(self.submission.attempts), self.submission.revision)


def recover(spool: Spool) -> Recovery:
    """Bring an opened spool to order and return what it holds.

    Raises ``SpoolFailed``. Run twice, the second finds nothing to put right.
    """
    with disk_errors():
        return _Recoverer(spool).run()


class _Recoverer:
    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._root = spool.root
        self._notes: list[str] = []
        self._corrupt = 0

    def run(self) -> Recovery:
        self._empty_tmp()
        copies: defaultdict[SubmissionId, list[_Copy]] = defaultdict(list)
        for directory in list(self._candidates()):
            copy = self._read(directory)
            if copy is not None:
                copies[copy.submission.uuid].append(copy)
        found = [self._settle(group) for group in copies.values()]
        found.sort(key=lambda item: (item.submission.submitted_at, item.submission.uuid))
        return Recovery(
            submissions=tuple(item.submission for item in found),
            sizes={
                item.submission.uuid: tree_bytes(item.directory)
                for item in found
                if item.submission.state is State.DONE
            },
            keys=self._keys(),
            notes=tuple(self._notes),
            corrupt=self._corrupt,
        )

    def _empty_tmp(self) -> None:
        for path in sorted((self._root / "tmp").iterdir()):
            if path.is_dir() and not path.is_symlink():
                durable.remove_tree(path)
            else:
                durable.remove_file(path)
            self._notes.append(f"tmp/{path.name}: never acknowledged, removed")

    def _candidates(self) -> Iterator[Path]:
        for state in (State.PENDING, State.RUNNING, State.REPORTED):
            yield from sorted((self._root / state).iterdir())
        for month in sorted((self._root / State.DONE).iterdir()):
            if _MONTH.fullmatch(month.name) and month.is_dir():
                yield from sorted(month.iterdir())
            else:
                self._set_aside(month, "it is no month")

    def _read(self, directory: Path) -> _Copy | None:
        try:
            submission = read_submission((directory / RECORD).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            self._set_aside(directory, f"it has no {RECORD}")
            return None
        except UnreadableRecord as error:
            self._set_aside(directory, error.message)
            return None
        except OSError as error:
            self._set_aside(directory, f"its {RECORD} cannot be read: {error.strerror}")
            return None
        wrong = self._what_is_wrong(directory, submission)
        if wrong is not None:
            self._set_aside(directory, wrong)
            return None
        return _Copy(directory, submission)

    def _what_is_wrong(self, directory: Path, submission: Submission) -> str | None:
        if submission.uuid != directory.name:
            return f"its record is of submission {submission.uuid}"
        numbers = [attempt.number for attempt in submission.attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            return f"its attempts are numbered {numbers}"
        done = submission.state is State.DONE
        if done != (submission.finished_at is not None) or done != (submission.outcome is not None):
            return f"its state {submission.state} does not go with its outcome {submission.outcome}"
        if submission.state in {State.RUNNING, State.REPORTED} and not numbers:
            return f"its state is {submission.state} without an attempt"
        if not done and not (directory / PACKAGE).is_file():
            return f"it has no {PACKAGE}"
        return None

    def _settle(self, copies: list[_Copy]) -> _Copy:
        *others, kept = sorted(copies, key=_Copy.truth)
        for other in others:
            self._set_aside(
                other.directory, f"a copy that is further on lies in {self._name(kept.directory)}"
            )
        home = self._spool.home(kept.submission)
        if home != kept.directory:
            durable.make_directory(home.parent)
            durable.move(kept.directory, home)
            self._notes.append(
                f"{self._name(kept.directory)}: its record says {kept.submission.state}, "
                f"moved to {self._name(home)}"
            )
        self._sweep(home)
        self._spool.locate(kept.submission.uuid, home)
        return _Copy(home, kept.submission)

    def _keys(self) -> tuple[KeyUse, ...]:
        path = self._root / KEYS
        try:
            return read_keys(path.read_bytes())
        except FileNotFoundError:
            return ()
        except UnreadableRecord as error:
            self._set_aside(path, error.message)
            return ()

    def _sweep(self, directory: Path) -> None:
        for path in directory.glob(".*.tmp"):
            durable.remove_file(path)
            self._notes.append(f"{self._name(path)}: half written, removed")

    def _set_aside(self, path: Path, why: str) -> None:
        target = self._root / "corrupt" / path.name
        count = 1
        while target.exists():
            count += 1
            target = target.with_name(f"{path.name}.{count}")
        name = self._name(path)
        durable.move(path, target)
        self._corrupt += 1
        self._notes.append(f"{name}: {why}; moved to corrupt/{target.name}")

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()
