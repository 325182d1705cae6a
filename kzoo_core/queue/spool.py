"""Submissions on disk: one directory each, moved from state to state.

::

    format  lock  secret
    keys.json                               idempotency keys that outlive their submissions
    tmp/        what nobody was told of; emptied at every start
    pending/<uuid>/   running/<uuid>/   reported/<uuid>/   done/YYYY-MM/<uuid>/
        submission.json                     the record
        package.tar.gz                      the canonical package as submitted
        attempt-<n>.tar.gz                  what attempt n runs, frozen (D13)
        log-<n>  log-<n>.json               its log, and what is known of it (see ``logs``)
        report-<n>.json  stdout-<n>         its result
    late/<uuid>/                            results of attempts that were no longer the newest
    corrupt/                                whatever could not be read; never deleted

Order of the durable steps, and what a crash after each leaves
--------------------------------------------------------------
*Add* (nobody has been told before the last step):

1. ``tmp/<uuid>/`` with its package, then its record; each file fsynced under a temporary name,
   renamed, its directory fsynced. A crash leaves something in ``tmp/``, which recovery empties.
2. ``tmp/<uuid>`` is renamed to ``pending/<uuid>``; both directories are fsynced. A crash between
   the rename and the fsyncs leaves the submission either in ``tmp/`` or, whole, in ``pending/``.

*Change* (claim, report, finish, …):

1. Files that the new record speaks of are written beside the old record. A crash leaves files that
   no record names; the same step done again replaces them.
2. The new record replaces the old one by a rename: **this is the moment of the change**. The record
   itself names its state, so from here on the change has happened, wherever the directory lies.
3. If the state is another one, the directory is renamed into that state's directory. A crash
   before it leaves a record that names a state other than the directory it lies in; recovery
   finishes the move.

There is one directory throughout, so one copy. Should two be found all the same (restored by hand,
a file system that lost a rename), recovery keeps the one whose state is further on: done, reported,
running with the highest attempt, pending. The other goes to ``corrupt/``.

Everything here is synchronous, and belongs to one thread.
"""

from __future__ import annotations

import errno
import shutil
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.errors import Broken, NotFound, Retryable
from kzoo_core.queue.codec import write_keys, write_report, write_submission
from kzoo_core.queue.records import State, Submission
from kzoo_core.queue.tokens import SECRET_BYTES, QueueSecret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kzoo_core.contract.records import RunReport
    from kzoo_core.ids import Sha256, SubmissionId
    from kzoo_core.queue.keys import KeyUse

FORMAT = 1
RECORD = "submission.json"
PACKAGE = "package.tar.gz"
KEYS = "keys.json"

_DIRECTORIES = ("tmp", "pending", "running", "reported", "done", "late", "corrupt")
_DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpoolFailed(Broken):
    """The disk did not do what the spool asked: what it holds is not known; stop the process."""


def attempt_package_name(number: int) -> str:
    """Return the name of the file that attempt ``number`` runs."""
    return f"attempt-{number}.tar.gz"


def report_name(number: int) -> str:
    """Return the name of the report of attempt ``number``."""
    return f"report-{number}.json"


def stdout_name(number: int) -> str:
    """Return the name of the raw standard output of attempt ``number``."""
    return f"stdout-{number}"


def report_files(number: int, report: RunReport, digest: Sha256) -> dict[str, bytes]:
    """Return the files in which a result is kept, by name."""
    files = {report_name(number): write_report(report, digest)}
    if report.stdout is not None:
        files[stdout_name(number)] = report.stdout
    return files


class Spool:
    """The owner of one state directory, from ``open`` to ``close``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held = ExitStack()
        self._where: dict[SubmissionId, Path] = {}
        self._made: set[Path] = set()

    def open(self, token_bytes: Callable[[int], bytes]) -> QueueSecret:
        """Take the directory, made when it is missing, and return its secret.

        Raises ``Conflict`` ``LOCKED`` when another process has it, ``Broken``
        ``STATE_TOO_NEW`` or ``STATE_UNREADABLE`` when it is not this server's to use, and
        ``SpoolFailed``.
        """
        with disk_errors(), ExitStack() as stack:
            durable.make_directory(self.root)
            lock = durable.exclusive_lock(self.root / "lock", owner="kzoo-server")
            stack.enter_context(lock)
            self._check_format()
            for name in _DIRECTORIES:
                durable.make_directory(self.root / name)
            (self.root / "tmp").chmod(0o700)
            secret = self._secret(token_bytes)
            self._held = stack.pop_all()
        return secret

    def close(self) -> None:
        """Give the directory free; nothing is written."""
        self._held.close()

    def locate(self, uuid: SubmissionId, directory: Path) -> None:
        """Take note of where recovery found a submission."""
        self._where[uuid] = directory

    def directory(self, uuid: SubmissionId) -> Path:
        """Return where a submission lies at this moment; raises ``NotFound``."""
        try:
            return self._where[uuid]
        except KeyError:
            raise NotFound(
                "SUBMISSION_NOT_FOUND", f"the spool has no submission {uuid}", hint="check the uuid"
            ) from None

    def home(self, submission: Submission) -> Path:
        """Return where a submission in this state belongs."""
        if submission.finished_at is not None:
            month = submission.finished_at.strftime("%Y-%m")
            return self.root / State.DONE / month / submission.uuid
        return self.root / submission.state / submission.uuid

    def add(self, submission: Submission, package: bytes) -> None:
        """Keep a new submission.

        Raises ``Retryable`` ``DISK_FULL``, and then nothing is left behind, or ``SpoolFailed``.
        """
        stage = self.root / "tmp" / submission.uuid
        target = self.home(submission)
        try:
            with disk_errors():
                stage.mkdir()
                durable.write_file(stage / PACKAGE, package)
                durable.write_file(stage / RECORD, write_submission(submission))
                with _harmless_unless(target.exists):
                    durable.move(stage, target)
        except Retryable:
            shutil.rmtree(stage, ignore_errors=True)
            raise
        self._where[submission.uuid] = target

    def change(self, submission: Submission, files: Mapping[str, bytes]) -> None:
        """Keep the next record of a submission, and ``files`` beside it.

        Raises ``Retryable`` ``DISK_FULL``, and then the earlier record stands, or ``SpoolFailed``.
        """
        here = self.directory(submission.uuid)
        target = self.home(submission)
        record = write_submission(submission)
        with disk_errors():
            if target.parent not in self._made:
                durable.make_directory(target.parent)
                self._made.add(target.parent)
            for name, data in files.items():
                durable.write_file(here / name, data)
            with _harmless_unless(lambda: (here / RECORD).read_bytes() == record):
                durable.write_file(here / RECORD, record)
        if target == here:
            return
        # The change has happened: a full disk is now no reason to say that it has not.
        with disk_errors(), _harmless_unless(lambda: True):
            durable.move(here, target)
        self._where[submission.uuid] = target

    def size(self, uuid: SubmissionId) -> int:
        """Return the bytes of all files of a submission; its directory is flat."""
        return tree_bytes(self.directory(uuid))

    def keep_late(self, uuid: SubmissionId, number: int, report: RunReport, digest: Sha256) -> bool:
        """Keep the result of an attempt that is over in ``late/``; the first of each attempt.

        Returns ``False`` when another result of that attempt lies there. Raises ``Retryable``
        ``DISK_FULL`` or ``SpoolFailed``.
        """
        directory = self.root / "late" / uuid
        files = report_files(number, report, digest)
        name = report_name(number)
        with disk_errors():
            if (directory / name).exists():
                return (directory / name).read_bytes() == files[name]
            durable.make_directory(directory)
            for other in sorted(files, key=lambda item: item == name):
                durable.write_file(directory / other, files[other])
        return True

    def evict(self, uuid: SubmissionId) -> None:
        """Remove a finished submission with all its files, and its late results."""
        tomb = self.root / "tmp" / f"{uuid}.evicted"
        with disk_errors():
            durable.move(self.directory(uuid), tomb)
            durable.remove_tree(tomb)
            late = self.root / "late" / uuid
            if late.exists():
                durable.remove_tree(late)
        del self._where[uuid]

    def keep_keys(self, uses: Sequence[KeyUse]) -> None:
        """Keep the idempotency keys of evicted submissions, in place of those kept before.

        Raises ``Retryable`` ``DISK_FULL`` or ``SpoolFailed``.
        """
        with disk_errors():
            durable.write_file(self.root / KEYS, write_keys(uses), mode=0o600)

    def read(self, uuid: SubmissionId, name: str) -> bytes:
        """Return one file of a submission; raises ``NotFound`` ``NO_SUCH_FILE`` or ``Broken``."""
        try:
            return (self.directory(uuid) / name).read_bytes()
        except FileNotFoundError:
            raise NotFound(
                "NO_SUCH_FILE", f"submission {uuid} has no {name}", hint="it was never written"
            ) from None
        except OSError as error:
            raise Broken(
                "SPOOL_UNREADABLE", f"{name} of submission {uuid} cannot be read: {error}"
            ) from error

    def _check_format(self) -> None:
        path = self.root / "format"
        if not path.exists():
            durable.write_file(path, f"{FORMAT}\n".encode())
            return
        text = path.read_bytes()[:80].decode("utf-8", "replace").strip()
        if not text.isascii() or not text.isdigit():
            raise Broken(
                "STATE_UNREADABLE",
                f"{path} holds {text!r}, expected a format number",
                hint="is this the state directory of a kzoo-server?",
            )
        if int(text) > FORMAT:
            raise Broken(
                "STATE_TOO_NEW",
                f"{self.root} has format {text}, this server knows formats up to {FORMAT}",
                hint="use the kernel_zoo that wrote it, or a later one",
            )

    def _secret(self, token_bytes: Callable[[int], bytes]) -> QueueSecret:
        path = self.root / "secret"
        if not path.exists():
            # By way of tmp/, which nobody else may enter: until it is whole a file is not private.
            stage = self.root / "tmp" / "secret"
            durable.write_file(stage, token_bytes(SECRET_BYTES), mode=0o600)
            durable.move(stage, path)
        key = path.read_bytes()
        if len(key) != SECRET_BYTES:
            raise Broken(
                "STATE_UNREADABLE",
                f"{path} holds {len(key)} bytes, expected {SECRET_BYTES}",
                hint="restore it; without it running attempts cannot be recognised",
            )
        return QueueSecret(key)


def tree_bytes(directory: Path) -> int:
    """Return the bytes of the files in a submission's directory, which is flat."""
    return sum(path.stat().st_size for path in directory.iterdir())


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn a full disk into ``Retryable`` ``DISK_FULL``, other failures into ``SpoolFailed``."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_IS_FULL:
            raise Retryable(
                "DISK_FULL",
                "the server's disk is full: nothing was changed",
                hint="an operator has to make room; then send it again",
                retry_after_s=60,
            ) from error
        raise SpoolFailed(
            "SPOOL_FAILED",
            f"the spool cannot be relied on any more: {error}",
            hint="look at the disk, then start the server again; it recovers what was acknowledged",
        ) from error


@contextmanager
def _harmless_unless(happened: Callable[[], bool]) -> Iterator[None]:
    """Refuse to call a full disk harmless once the step it interrupted has taken effect."""
    try:
        yield
    except OSError as error:
        if happened():
            raise SpoolFailed(
                "SPOOL_FAILED",
                f"a change was made but may not be durable: {error}",
                hint="look at the disk, then start the server again; it recovers what was "
                "acknowledged",
            ) from error
        raise
