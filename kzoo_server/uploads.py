"""A submission's upload: a multipart form read as a stream, the archive straight into a file."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import BodyPartReader, MultipartReader
from aiohttp.http_exceptions import BadHttpMessage

from kzoo_core.config import nearest
from kzoo_core.errors import BadInput, Broken, KzooError, Problem
from kzoo_core.ids import kernel_id_problem, parse_submitter_id
from kzoo_core.lifecycle.admission import SubmissionForm
from kzoo_core.queue.records import Mode
from kzoo_server.bodies import BodyPace, require_type, too_large

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from io import FileIO

    from aiohttp import web

SUBMITTER_HEADER = "X-Submitter-Id"
IDEMPOTENCY_HEADER = "Idempotency-Key"

_FIELDS = ("kernel_id", "submitter_id", "optimization_summary", "mode", "package")
_SHORT_FIELD_BYTES = 1024
_CHUNK_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
_PARTS = 16
"""More parts than this are no submission."""
_ENVELOPE_BYTES = 64 * 1024
"""What a form may add around the archive and the summary: boundaries and part headers."""
_IDEMPOTENCY_KEY_CHARACTERS = 128


PackageProblems = Callable[[str, Path], Awaitable[tuple[Problem, ...]]]
"""Looks for what is wrong with an archive that came with a kernel_id, right or wrong."""


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Bounds of an upload, in bytes."""

    archive_bytes: int
    summary_bytes: int

    @property
    def body_bytes(self) -> int:
        """The whole body: what its parts may have together."""
        return self.archive_bytes + self.summary_bytes + _ENVELOPE_BYTES

    def field_bytes(self, name: str) -> int:
        """One text field."""
        return self.summary_bytes if name == "optimization_summary" else _SHORT_FIELD_BYTES


@asynccontextmanager
async def received(
    request: web.Request,
    *,
    directory: Path,
    limits: UploadLimits,
    pace: BodyPace,
    package_problems: PackageProblems,
) -> AsyncIterator[tuple[SubmissionForm, Path]]:
    """Receive a submission: its form, and the file under ``directory`` with its archive.

    The file is there as long as the block runs. ``package_problems`` looks into an archive whose
    form is refused, so that the answer holds what is wrong with both (D7).

    Raises ``BadInput`` with code ``VALIDATION_ERROR`` and every problem at once,
    ``BAD_MULTIPART``, ``UNSUPPORTED_MEDIA_TYPE``; ``TooLarge`` as soon as a bound is passed;
    ``Broken`` with code ``DISK_LOW`` when the disk is full; ``ConnectionError`` when the client
    left. Whatever happens, nothing stays in ``directory``.
    """
    require_type(request, "multipart/form-data")
    if request.content_length is not None and request.content_length > limits.body_bytes:
        raise too_large("the upload", limits.body_bytes)
    with _full_disk_told():
        descriptor, name = await asyncio.to_thread(
            tempfile.mkstemp, prefix="upload-", suffix=".tar.gz", dir=directory
        )
    archive = Path(name)
    try:
        # No buffer: one that a full disk did not take would be tried again by the close.
        with os.fdopen(descriptor, "wb", buffering=0) as stream:
            receiver = _Receiver(request, stream, limits, pace)
            await pace.whole(receiver.receive)
        problems = receiver.problems()
        if problems:
            found = await package_problems(receiver.kernel_id, archive) if receiver.has_file else ()
            raise BadInput(
                "VALIDATION_ERROR",
                problems[0].message,
                hint=problems[0].hint,
                details=(*problems, *found),
            )
        yield receiver.form(), archive
    finally:
        await asyncio.shield(asyncio.to_thread(_discard, archive))


class _Receiver:
    """Reads the parts in whatever order they come and keeps what is wrong with them."""

    def __init__(
        self, request: web.Request, archive: FileIO, limits: UploadLimits, pace: BodyPace
    ) -> None:
        self._request = request
        self._archive = archive
        self._limits = limits
        self._pace = pace
        self._values: dict[str, str] = {}
        self._file_name: str | None = None
        self._seen: list[str] = []
        self._problems: list[Problem] = []

    async def receive(self) -> None:
        """Read every part."""
        try:
            reader = await self._request.multipart()
            while (part := await self._pace.chunk(reader.next)) is not None:
                await self._take(part)
        # The reader says what is wrong with a form in all of these ways.
        except (ValueError, AssertionError, LookupError, RuntimeError, BadHttpMessage) as error:
            raise BadInput(
                "BAD_MULTIPART",
                f"the body is no complete multipart form: {error}",
                hint="curl -F kernel_id=… -F submitter_id=… -F package=@package.tar.gz",
            ) from error

    @property
    def kernel_id(self) -> str:
        """The field ``kernel_id`` as it came, empty where none came."""
        return self._values.get("kernel_id", "")

    @property
    def has_file(self) -> bool:
        """Whether a package came."""
        return self._file_name is not None

    def problems(self) -> list[Problem]:
        """Return all that is wrong with the form and the headers that belong to it."""
        problems = [*self._problems, *form_problems(self._values, self._file_name, self._seen)]
        problems += header_problems(
            self._request.headers.get(SUBMITTER_HEADER), self._values.get("submitter_id")
        )
        return problems + idempotency_key_problems(self._request.headers.get(IDEMPOTENCY_HEADER))

    def form(self) -> SubmissionForm:
        """Return a form that has no problems."""
        return SubmissionForm(
            kernel_id=self._values["kernel_id"],
            submitter_id=self._values["submitter_id"],
            optimization_summary=self._values.get("optimization_summary") or None,
            mode=self._values.get("mode") or Mode.RANKED.value,
            idempotency_key=self._request.headers.get(IDEMPOTENCY_HEADER),
        )

    async def _take(self, part: MultipartReader | BodyPartReader) -> None:
        name = part.name if isinstance(part, BodyPartReader) else None
        if len(self._seen) >= _PARTS:
            raise ValueError(f"more than {_PARTS} parts")
        if not isinstance(part, BodyPartReader) or name is None:
            raise ValueError("a part without a name")
        twice = name in self._seen
        self._seen.append(name)
        if twice:
            self._refuse(name, "twice", f"the field {name!r} is given twice", expected="once")
        if name not in _FIELDS:
            neighbour = nearest(name, set(_FIELDS))
            self._refuse(
                name[:80],
                name[:80],
                f"the form has no field {name[:80]!r}",
                expected="one of: " + " ".join(_FIELDS),
                hint=f"did you mean {neighbour!r}?" if neighbour else None,
            )
        if name == "package":
            self._file_name = part.filename or ""
            await self._save(part, keep=not twice)
        else:
            await self._read_text(part, name)

    async def _save(self, part: BodyPartReader, *, keep: bool) -> None:
        held = bytearray()
        size = 0
        while chunk := await self._pace.chunk(lambda: part.read_chunk(_CHUNK_BYTES)):
            size += len(chunk)
            if size > self._limits.archive_bytes:
                raise too_large("the archive in the field package", self._limits.archive_bytes)
            held += chunk if keep else b""
            if len(held) >= _WRITE_BYTES:
                await self._write(bytes(held))
                held.clear()
        await self._write(bytes(held))

    async def _write(self, data: bytes) -> None:
        with _full_disk_told():
            await asyncio.to_thread(_append, self._archive, data)

    async def _read_text(self, part: BodyPartReader, name: str) -> None:
        limit = self._limits.field_bytes(name)
        data = bytearray()
        while chunk := await self._pace.chunk(lambda: part.read_chunk(_CHUNK_BYTES)):
            data += chunk
            if len(data) > limit:
                raise too_large(f"the field {name[:80]}", limit)
        try:
            self._values.setdefault(name, data.decode("utf-8"))
        except UnicodeDecodeError as error:
            self._refuse(
                name,
                f"byte {data[error.start]:#04x} at offset {error.start}",
                f"the field {name!r} is not UTF-8",
                expected="UTF-8 text",
            )

    def _refuse(
        self, field: str, found: str, message: str, *, expected: str, hint: str | None = None
    ) -> None:
        self._problems.append(_problem(field, message, found=found, expected=expected, hint=hint))


def _append(archive: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:  # a disk that is nearly full takes a part
        left = left[archive.write(left) :]


def _discard(archive: Path) -> None:
    # What was answered holds whether or not this file goes: the directory is emptied at each start.
    with suppress(OSError):
        archive.unlink(missing_ok=True)


@contextmanager
def _full_disk_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise disk_low("the disk filled up while the archive was received") from error


def form_problems(
    values: Mapping[str, str], file_name: str | None, seen: list[str]
) -> list[Problem]:
    """Return what is wrong with a form's own fields; the package itself is not looked at."""
    problems = [
        _problem(
            name, f"the field {name!r} is missing", found="nothing", expected=f"a field {name!r}"
        )
        for name in ("kernel_id", "submitter_id", "package")
        if name not in seen
    ]
    if "kernel_id" in values:
        found = kernel_id_problem(values["kernel_id"])
        problems += [replace(found, pointer="/kernel_id")] if found is not None else []
    if "submitter_id" in values:
        try:
            parse_submitter_id(values["submitter_id"])
        except KzooError as error:
            problems += [
                replace(problem, pointer="/submitter_id", hint=error.hint)
                for problem in error.details
            ]
    mode = values.get("mode") or Mode.RANKED.value
    if mode not in {item.value for item in Mode}:
        neighbour = nearest(mode, {item.value for item in Mode})
        problems.append(
            _problem(
                "mode",
                f"mode is {mode[:80]!r}",
                found=mode[:80],
                expected="ranked or check",
                hint=f"did you mean {neighbour!r}?" if neighbour else None,
            )
        )
    if file_name is not None and not file_name.endswith(".tar.gz"):
        problems.append(
            _problem(
                "package",
                f"the package's file name is {file_name[:80]!r}",
                found=file_name[:80] or "no file name",
                expected="a file name that ends in .tar.gz",
                hint="curl -F package=@package.tar.gz",
            )
        )
    return problems


def header_problems(header: str | None, field: str | None) -> list[Problem]:
    """Return what keeps the header from naming the same submitter as the field does."""
    if header is None:
        return [
            _problem(
                "submitter_id",
                f"the header {SUBMITTER_HEADER} is missing",
                found="no header",
                expected=f"{SUBMITTER_HEADER}: {field or 'alice'}",
                hint="the header and the field submitter_id name the same submitter",
            )
        ]
    if field is not None and header != field:
        return [
            _problem(
                "submitter_id",
                f"the header {SUBMITTER_HEADER} says {header[:80]!r}, "
                f"the field submitter_id says {field[:80]!r}",
                found=field[:80],
                expected=header[:80],
                hint="send the same submitter in both",
            )
        ]
    return []


def idempotency_key_problems(key: str | None) -> list[Problem]:
    """Return what keeps ``key`` from being an ``Idempotency-Key``: printable ASCII, at most 128."""
    if key is None:
        return []
    fits = 0 < len(key) <= _IDEMPOTENCY_KEY_CHARACTERS
    if fits and key.isprintable() and key.isascii():
        return []
    return [
        _problem(
            IDEMPOTENCY_HEADER,
            f"the header {IDEMPOTENCY_HEADER} cannot be kept",
            found=f"{len(key)} characters",
            expected=f"1 to {_IDEMPOTENCY_KEY_CHARACTERS} printable ASCII characters",
        )
    ]


def disk_low(message: str) -> Broken:
    """Say that nothing more can be stored (507)."""
    return Broken(
        "DISK_LOW", message, hint="nothing was kept; try again when an operator has made room"
    )


def _problem(
    field: str, message: str, *, found: str, expected: str, hint: str | None = None
) -> Problem:
    return Problem(
        code="bad_form",
        message=message,
        pointer=f"/{field}",
        found=found,
        expected=expected,
        hint=hint,
    )
