"""``kzoo index``: index.json of a directory on this machine, or the server's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core import durable
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.store.index import index_of
from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.output_file import output_path
from kzoo_tui.rendering.words import plural
from kzoo_tui.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the index byte for byte, or write it to ``--output`` and print where it is.

    The directory is ``--repo``, else KERNEL_ZOO_KERNEL_REPO_PATH unless ``--server`` is given; with
    neither it is the server that is asked.
    """
    output = output_path(arguments.output) if arguments.output is not None else None
    directory = arguments.repo
    if directory is None and arguments.server is None:
        directory = context.environment.get("KERNEL_ZOO_KERNEL_REPO_PATH") or None
    if directory is not None:
        data = index_of(Path(directory), PackageLimits()).to_bytes()
    else:
        data = call(arguments, context, lambda client: client.index())
    if output is None:
        _print(data, context)
        return ExitCode.OK
    durable.write_file(output, data)
    index = json.loads(data)
    count = len(index["kernels"])
    if arguments.json:
        context.print_json({"path": str(output), "revision": index["revision"], "kernels": count})
        return ExitCode.OK
    context.say(safe_line(f"wrote {plural(count, 'kernel')}"))
    context.print([safe_line(str(output))])
    return ExitCode.OK


def _print(data: bytes, context: Context) -> None:
    if context.stdout_is_terminal:
        context.print([safe_text(data.decode("utf-8", "replace").rstrip("\n"))])
    else:
        context.write_bytes(data)
