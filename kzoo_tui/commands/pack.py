"""``kzoo pack``: the canonical ``.tar.gz`` of a package directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.cli.validate_package import ARCHIVE_SUFFIX
from kzoo_core.contract.digest import package_sha256
from kzoo_core.errors import BadInput
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.output_file import output_path
from kzoo_tui.packing import pack_directory, say_what_was_packed
from kzoo_tui.rendering.words import plural
from kzoo_tui.safe_text import safe_line

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Check a directory, write its archive whole or not at all, and print where it is."""
    output = output_path(arguments.output)
    if not output.name.endswith(ARCHIVE_SUFFIX):
        raise BadInput(
            "USAGE",
            f"the archive would be called {output.name}: expected a name that ends in "
            f"{ARCHIVE_SUFFIX}",
            hint=f"write -o {arguments.output.removesuffix('.tgz')}{ARCHIVE_SUFFIX}",
        )
    packed = pack_directory(Path(arguments.path), arguments.kernel_id, check=not arguments.no_check)
    durable.write_file(output, packed.archive)
    files = packed.package.files if packed.package is not None else {}
    digest = package_sha256(packed.package) if packed.package is not None else None
    say_what_was_packed(packed, context)
    if arguments.json:
        context.print_json(
            {
                "path": str(output),
                "kernel_id": packed.kernel_id,
                "files": sorted(files),
                "bytes": len(packed.archive),
                "package_sha256": digest,
                "left_out": list(packed.left_out),
                "problems": [problem.as_json() for problem in packed.warnings],
            }
        )
        return ExitCode.OK
    counted = f"{plural(len(files), 'file')}, {plural(len(packed.archive), 'byte')}"
    context.say(safe_line(f"packed {packed.kernel_id}: {counted}, package sha256 {digest}"))
    context.print([safe_line(str(output))])
    return ExitCode.OK
