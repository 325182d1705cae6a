"""One command line from its arguments to its exit code, with every error caught at this edge."""

from __future__ import annotations

import importlib
import traceback
from typing import TYPE_CHECKING, Protocol, cast

from kzoo_core.errors import BadInput, Broken, Conflict, KzooError, TooLarge, of_system
from kzoo_tui.arguments import build_parser
from kzoo_tui.exit_codes import ExitCode
from kzoo_tui.parsing import Mistake
from kzoo_tui.rendering.errors import envelope, error_lines
from kzoo_tui.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from kzoo_tui.context import Context


class Command(Protocol):
    """What a module of ``kzoo_tui.commands`` offers."""

    def run(self, arguments: Namespace, context: Context) -> int:
        """Do the command and return its exit code; raises ``KzooError``."""


def execute(parsed: Namespace | Mistake, argv: Sequence[str], context: Context) -> int:
    """Run what ``argv`` was parsed to and return its exit code; ``BrokenPipeError`` passes."""
    try:
        return _execute(parsed, argv, context)
    except KeyboardInterrupt:
        context.say(safe_line("interrupted"))
        return ExitCode.INTERRUPTED


def _execute(parsed: Namespace | Mistake, argv: Sequence[str], context: Context) -> int:
    shown: KzooError
    raised: Exception
    try:
        return _run(parsed, context)
    except KzooError as error:
        code, shown, raised = code_of(error), error, error
    except BrokenPipeError:
        raise
    except OSError as error:
        code, shown, raised = ExitCode.UNUSABLE, of_system(error), error
    except Exception as error:  # noqa: BLE001  (the last edge: a bug is said, not spilled)
        code, shown, raised = ExitCode.FAILED, _of_bug(error), error
    if "--debug" in argv:
        context.say(safe_text("".join(traceback.format_exception(raised))))
    context.say(*error_lines(shown))
    if "--json" in argv:
        context.print_json(envelope(shown))
    return code


def _run(parsed: Namespace | Mistake, context: Context) -> int:
    if isinstance(parsed, Mistake):
        raise BadInput("USAGE", parsed.message, hint=parsed.hint)
    if parsed.command is None and parsed.json:
        raise BadInput("USAGE", "no command is named", hint="see 'kzoo --help'")
    if parsed.command is None:
        context.say(safe_text(build_parser().format_help()))
        return ExitCode.UNUSABLE
    module = importlib.import_module(f"kzoo_tui.commands.{parsed.command}")
    return cast("Command", module).run(parsed, context)


def code_of(error: KzooError) -> ExitCode:
    """Return the code of an error: findings about a package are ``INVALID``, a refusal is a no."""
    if isinstance(error, Conflict) and error.status is not None:
        return ExitCode.REJECTED
    if isinstance(error, TooLarge):
        return ExitCode.INVALID
    if isinstance(error, BadInput) and (error.code == "VALIDATION_ERROR" or error.status == 422):
        return ExitCode.INVALID
    return ExitCode.UNUSABLE


def _of_bug(error: Exception) -> KzooError:
    return Broken(
        "INTERNAL_ERROR",
        f"{type(error).__name__}: {error}",
        hint="this is a fault of kzoo: please report it with the output of the same with --debug",
    )
