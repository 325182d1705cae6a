"""``kzoo validate``: everything that is wrong with a package, as its own command says it too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.cli.validate_package import inspect, report_as_json, report_as_text
from kzoo_core.ids import parse_kernel_id
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.safe_text import safe_text

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Check a directory or an archive and print what was found."""
    path = Path(arguments.path)
    named = arguments.kernel_id
    report = inspect(path, parse_kernel_id(named) if named is not None else None)
    if arguments.json:
        context.print_json(report_as_json(path, report))
    else:
        context.print([safe_text(report_as_text(report).rstrip("\n"))])
    return ExitCode.OK if report.valid else ExitCode.INVALID
