"""``kernel_zoo-validate-package``: say all that is wrong with a package before anyone runs it.

Takes a directory or a ``.tar.gz``. Exit code 0: valid, 2: it is not, 3: usage or IO (D7). What is
found goes to standard output, as text or with ``--json`` as data; talk goes to standard error.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kzoo_core.contract.directory import read_directory
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.package import check_directory
from kzoo_core.contract.quoting import printable
from kzoo_core.contract.submission import read_submission
from kzoo_core.errors import BadInput, Broken, KzooError, NotFound, Problem, of_system
from kzoo_core.ids import KernelId, parse_kernel_id
from kzoo_core.usage import USAGE, CommandParser, on_streams
from kzoo_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.contract.records import PackageReport

VALID, INVALID = 0, 2
ARCHIVE_SUFFIX = ".tar.gz"


def build_parser() -> CommandParser:
    """Return the parser of the command's arguments."""
    parser = CommandParser(
        prog="kernel_zoo-validate-package",
        description="Check a kernel_package: its files, schemas, metas and what must not be in it.",
        epilog="exit code: 0 valid, 2 not valid, 3 usage or IO",
    )
    parser.add_argument("path", type=Path, help="directory of the package, or a .tar.gz of it")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print data")
    parser.add_argument("--kernel-id", help="the kernel_id, where the path does not tell it")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = sys.argv[1:] if argv is None else argv
    return on_streams(lambda: _main(given))


def _main(argv: Sequence[str]) -> int:
    arguments = build_parser().parse_args(argv)
    try:
        code = run(
            arguments.path,
            as_json=arguments.as_json,
            kernel_id=arguments.kernel_id,
            stdout=sys.stdout,
            stderr=sys.stderr,
        )
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.writelines(f"{line}\n" for line in of_system(error).lines())
        return USAGE
    return code


def run(path: Path, *, as_json: bool, kernel_id: str | None, stdout: TextIO, stderr: TextIO) -> int:
    """Validate ``path`` and print what was found; returns the exit code."""
    try:
        report = inspect(path, parse_kernel_id(kernel_id) if kernel_id is not None else None)
    except KzooError as error:
        stderr.writelines(f"{line}\n" for line in error.lines())
        return INVALID if isinstance(error, BadInput) else USAGE
    if as_json:
        json.dump(report_as_json(path, report), stdout, ensure_ascii=False, indent=2)
        stdout.write("\n")
    else:
        stdout.write(report_as_text(report))
    return VALID if report.valid else INVALID


def inspect(path: Path, kernel_id: KernelId | None) -> PackageReport:
    """Return the report on a directory or an archive.

    Raises ``NotFound`` where there is nothing, ``Broken`` where it cannot be read.
    """
    limits = PackageLimits()
    if path.is_dir():
        reading = read_directory(path, kernel_id, limits)
        report = check_directory(reading.package)
        return replace(report, problems=(*reading.problems, *report.problems))
    try:
        with path.open("rb") as stream:
            _, report = read_submission(stream, limits, kernel_id=kernel_id)
    except FileNotFoundError as error:
        raise NotFound("NO_SUCH_FILE", f"there is no {printable(str(path), 240)}") from error
    except OSError as error:
        what = f"cannot read {printable(str(path), 240)}: {error.strerror}"
        raise Broken("IO_ERROR", what) from error
    if not path.name.endswith(ARCHIVE_SUFFIX):
        report = replace(report, problems=(_name_problem(path), *report.problems))
    return report


def report_as_json(path: Path, report: PackageReport) -> dict[str, object]:
    """Return a report as data: what was looked at, whether it is valid, every problem."""
    return {
        "path": str(path),
        "kernel_id": report.kernel_id or None,
        "valid": report.valid,
        "problems": [problem.as_json() for problem in report.problems],
    }


def report_as_text(report: PackageReport) -> str:
    """Return a report for people: one line of summary, then every problem with its hint."""
    errors = sum(problem.severity == "error" for problem in report.problems)
    warnings = len(report.problems) - errors
    counted = [_count(errors, "error")] if errors else []
    counted += [_count(warnings, "warning")] if warnings else []
    summary = "valid" if report.valid else "not valid"
    lines = [f"{report.kernel_id or 'package'}: {', '.join([summary, *counted])}"]
    for problem in report.problems:
        lines += problem.lines()
    return "\n".join(lines) + "\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _name_problem(path: Path) -> Problem:
    return Problem(
        code="archive_name",
        message=f"the archive is called {printable(path.name)}",
        found=printable(path.name),
        expected=f"a name that ends in {ARCHIVE_SUFFIX}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
