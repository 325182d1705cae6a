"""What every command of the product does alike: wrong usage, and streams that are closed."""

from __future__ import annotations

import argparse
import os
import sys

TYPE_CHECKING = False  # typing's own costs a quarter of the start-up of ``kzoo``
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

USAGE = 3
"""Usage, IO, connection or authorisation: nothing was decided (D7). argparse's own 2 would say that
a package breaks rules of the contract."""
PIPE_CLOSED = 141
"""The reader of stdout went away, as shells count it (128 + SIGPIPE)."""


def on_streams(command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit code; a stream that is closed is no traceback.

    One that was closed from the start (``>&-``) takes what is written and keeps none of it. Where
    the reader of stdout goes away in the middle the code is ``PIPE_CLOSED``; where nothing can be
    written any more, as on a full disk, one line says so and it is ``USAGE``.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  (for life)
            setattr(sys, name, nowhere)
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        return PIPE_CLOSED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {where}{error.strerror or error}\n")
        _give_up_stdout()
        return USAGE
    return code


def _give_up_stdout() -> None:
    # What is still buffered goes nowhere: else the interpreter complains about it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class CommandParser(argparse.ArgumentParser):
    """``argparse`` that leaves with 3 on wrong usage; flags are never abbreviated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._given: Sequence[str] = ()
        self._meant: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep what was given for the sake of the error."""
        self._given = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print usage, the error and what was probably meant, and leave.

        A flag that is none is named first: argparse takes its value for a command or a path.
        """
        known = set(_flags(self))
        words = [word.partition("=")[0] for word in self._given if word.startswith("--")]
        unknown = next((word for word in words if word not in known), None)
        if unknown is not None:
            self._meant = _nearest(unknown, known)
            if not message.startswith("unrecognized"):
                message = f"unrecognized arguments: {unknown}"
        hint = f"did you mean {self._meant}?" if self._meant else f"see '{self.prog} --help'"
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"error: {message}\nhint: {hint}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            self._meant = _nearest(str(value), [str(choice) for choice in action.choices or ()])
            raise


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Return the flags of a parser and of the commands below it."""
    flags = ["--"]
    for action in parser._actions:
        flags += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            flags += [flag for below in action.choices.values() for flag in _flags(below)]
    return flags


def _nearest(word: str, words: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415  (start-up time)

    near = difflib.get_close_matches(word, sorted(words), n=1)
    return near[0] if near else None
