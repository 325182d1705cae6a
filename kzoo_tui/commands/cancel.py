"""``kzoo cancel``: take back a submission that still waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.ids import SubmissionId
from kzoo_tui.connection import call
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.waiting import report

if TYPE_CHECKING:
    from argparse import Namespace

    from kzoo_tui.context import Context


def run(arguments: Namespace, context: Context) -> int:
    """Cancel and print the submission; one that runs or is done is refused (exit 1)."""
    uuid = SubmissionId(arguments.uuid)
    view = call(arguments, context, lambda client: client.cancel(uuid))
    report(view, context, as_json=arguments.json, waited=False)
    return ExitCode.OK
