"""``kzoo guide``: the authoring contract in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.resources import authoring_contract
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.safe_text import safe_text

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Print the authoring contract, as Markdown."""
    text = authoring_contract()
    if arguments.json:
        context.print_json({"format": "markdown", "text": text})
    else:
        context.print([safe_text(text.rstrip("\n"))])
    return ExitCode.OK
