"""``kzoo``: the one place that reads argv, environment and clock; everything else is handed them.

Imports stay inside the functions: ``kzoo --help`` and ``kzoo --version`` need almost none.
"""

from __future__ import annotations

import os
import sys

from kzoo_core.usage import on_streams
from kzoo_tui.arguments import build_parser
from kzoo_tui.parsing import Mistake

TYPE_CHECKING = False  # typing's own costs a quarter of start-up; checkers know the name
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from kzoo_tui.context import Context


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``kzoo`` on this process's streams and return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    return on_streams(lambda: _main(given))


def parse(argv: Sequence[str]) -> Namespace | Mistake:
    """Return the arguments, or what is wrong with them; ``SystemExit`` after a help text."""
    try:
        arguments = build_parser().parse(argv)
    except Mistake as mistake:
        return mistake
    if getattr(arguments, "timeout", None) is not None and not arguments.wait:
        return Mistake(
            "--timeout says how long --wait waits, and --wait is not given", "add --wait"
        )
    return arguments


def _main(argv: Sequence[str]) -> int:
    try:
        parsed = parse(argv)
    except SystemExit as end:
        return int(end.code or 0)
    from kzoo_tui.execution import execute  # noqa: PLC0415  (start-up time)

    return execute(parsed, argv, _context())


def _context() -> Context:
    import random  # noqa: PLC0415  (start-up time)
    import shutil  # noqa: PLC0415
    import uuid  # noqa: PLC0415

    from kzoo_core.clock import SystemClock  # noqa: PLC0415
    from kzoo_tui.context import Context  # noqa: PLC0415

    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # text streams
    return Context(
        stdout=sys.stdout,
        stderr=sys.stderr,
        width=shutil.get_terminal_size().columns if sys.stdout.isatty() else None,
        stderr_is_terminal=sys.stderr.isatty(),
        clock=SystemClock(),
        environment=os.environ,
        random=random.SystemRandom,
        new_key=lambda: str(uuid.uuid4()),
    )


if __name__ == "__main__":
    sys.exit(main())
