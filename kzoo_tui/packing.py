"""From what a person points at to a checked package and the archive that is sent of it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import write_archive
from kzoo_core.contract.directory import read_directory
from kzoo_core.contract.limits import MIB, PackageLimits
from kzoo_core.contract.package import check_submission
from kzoo_core.contract.submission import read_submission
from kzoo_core.errors import BadInput, NotFound, Problem, Severity, TooLarge
from kzoo_core.ids import KernelId, parse_kernel_id
from kzoo_tui.rendering.problems import problem_lines
from kzoo_tui.rendering.words import plural
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.records import Package
    from kzoo_tui.context import Context

READ_LIMIT_BYTES = 64 * MIB
"""No archive beyond this is read at all; the contract's own bound is far below."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A package as it will be sent.

    ``left_out`` are the paths of a directory that no archive may hold (D11); ``package`` is
    ``None`` for an archive that could not be read and is sent unchecked.
    """

    kernel_id: KernelId
    archive: bytes
    package: Package | None
    left_out: tuple[str, ...]
    warnings: tuple[Problem, ...]


def pack_directory(path: Path, kernel_id: str | None, *, check: bool) -> Packed:
    """Return the canonical archive of a directory.

    Raises ``BadInput`` (``VALIDATION_ERROR``) with every problem when ``check`` is on, ``NotFound``
    and ``Broken`` for what cannot be read.
    """
    reading = read_directory(path, _parsed(kernel_id), PackageLimits()).for_submission()
    package = reading.package
    found = (*reading.problems, *check_submission(package).problems) if check else reading.problems
    problems = tuple(problem for problem in found if problem.file not in reading.left_out)
    if check:
        _refuse_errors(problems)
    return Packed(
        kernel_id=package.kernel_id,
        archive=write_archive(package),
        package=package,
        left_out=reading.left_out,
        warnings=problems,
    )


def take_archive(path: Path, kernel_id: str | None, *, check: bool) -> Packed:
    """Return an archive as it lies in the file ``path``; raises as ``pack_directory`` does."""
    data = _read(path)
    package, report = read_submission(
        io.BytesIO(data), PackageLimits(), kernel_id=_parsed(kernel_id)
    )
    if check:
        _refuse_errors(report.problems)
    named = kernel_id or report.kernel_id
    if not named:
        raise BadInput(
            "USAGE",
            f"the kernel_id of {path} cannot be told from its members",
            hint="give --kernel-id ID",
        )
    warnings = report.problems if check else ()
    return Packed(KernelId(named), data, package, left_out=(), warnings=warnings)


def say_what_was_packed(packed: Packed, context: Context) -> None:
    """Tell what was left out and what the author should look at."""
    if packed.left_out:
        context.say(safe_line(f"left out: {', '.join(packed.left_out)}"))
    context.say(*problem_lines(packed.warnings))


def _parsed(kernel_id: str | None) -> KernelId | None:
    return None if kernel_id is None else parse_kernel_id(kernel_id)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(READ_LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(
            "NO_SUCH_FILE",
            f"there is no {path}",
            hint="name a package directory, or a .tar.gz that 'kzoo pack' made",
        ) from error
    if len(data) > READ_LIMIT_BYTES:
        raise TooLarge(
            "ARCHIVE_TOO_LARGE", f"{path} has more than {READ_LIMIT_BYTES} bytes: no package has"
        )
    return data


def _refuse_errors(problems: tuple[Problem, ...]) -> None:
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    if errors:
        raise BadInput(
            "VALIDATION_ERROR",
            f"the package has {plural(errors, 'error')}; nothing was sent or written",
            hint="'kzoo guide' prints the contract; --no-check leaves the checks to the server",
            details=problems,
        )
