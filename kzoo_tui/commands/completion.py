"""``kzoo completion``: a completion script made from the command line's own description."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shtab

from kzoo_tui.arguments import build_parser
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.safe_text import safe_text

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the script; ``source <(kzoo completion bash)`` turns it on."""
    script = shtab.complete(build_parser(), shell=arguments.shell)
    if arguments.json:
        context.print_json({"shell": arguments.shell, "script": script})
    else:
        context.print([safe_text(script.rstrip("\n"))])
    return ExitCode.OK
