"""An argument parser that says what was probably meant, and imports next to nothing.

Start-up counts: what ``--help`` and ``--version`` need is all that is imported here.
"""

from __future__ import annotations

import argparse
import math

TYPE_CHECKING = False  # typing's own costs a quarter of start-up; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn


class Mistake(Exception):
    """A command line that says nothing sensible: what is wrong, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as any terminal, so that it is the same everywhere.

    A formatter is made for every argument that is added; asking for the terminal's width each time
    costs more than all the rest of ``kzoo --version``.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)


class Parser(argparse.ArgumentParser):
    """``argparse`` whose errors are a ``Mistake``; flags are never abbreviated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print; it knows the command whose help answers it."""
        if message.endswith("expected one argument"):
            hint = f"a value that begins with '-' is tied on with '=', see '{self.prog} --help'"
            raise Mistake(message, hint)
        raise Mistake(message, f"see '{self.prog} --help'")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the arguments; raises ``Mistake``, and ``SystemExit`` after a help text."""
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            command = getattr(arguments, "command", None)
            near = _nearest(unknown[0], self._flags_of(command))
            prog = f"{self.prog} {command}" if command else self.prog
            raise Mistake(
                f"{prog} does not take {' '.join(unknown)!r}",
                f"did you mean {near}?" if near else f"see '{prog} --help'",
            )
        return arguments

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        what = action.metavar or (action.option_strings or [action.dest])[0]
        near = _nearest(str(value), choices)
        raise Mistake(
            f"unknown {what} {str(value)!r}",
            f"did you mean {near!r}?" if near else f"one of: {', '.join(choices)}",
        )

    def _flags_of(self, command: str | None) -> list[str]:
        flags = [flag for action in self._actions for flag in action.option_strings]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and command:
                flags += action.choices[command]._flags_of(None)
        return flags


def _nearest(word: str, words: Iterable[str]) -> str | None:
    import difflib  # noqa: PLC0415  (start-up time)

    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return close[0] if close else None


def submission_id(text: str) -> str:
    """Return a submission's uuid."""
    from kzoo_core.ids import parse_submission_id  # noqa: PLC0415  (start-up time)

    return _typed(parse_submission_id, text)


def kernel_id(text: str) -> str:
    """Return the name of a kernel that is asked for."""
    from kzoo_core.ids import parse_kernel_id  # noqa: PLC0415  (start-up time)

    return _typed(parse_kernel_id, text)


def submitter_id(text: str) -> str:
    """Return a submitter's identity."""
    from kzoo_core.ids import parse_submitter_id  # noqa: PLC0415  (start-up time)

    return _typed(parse_submitter_id, text)


def _typed(parse: Callable[[str], str], text: str) -> str:
    from kzoo_core.errors import KzooError  # noqa: PLC0415  (start-up time)

    try:
        return parse(text)
    except KzooError as error:
        rules = [error.hint, *(f"expected {problem.expected}" for problem in error.details)]
        rule = next((f" ({rule})" for rule in rules if rule), "")
        raise argparse.ArgumentTypeError(error.message + rule) from error


def text(text: str) -> str:
    """Return words that can be sent: bytes that are no UTF-8 reach us as lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no UTF-8 text") from error
    return text


def positive_seconds(text: str) -> float:
    """Return a number of seconds over zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds over zero")
    return value


def positive_count(text: str) -> int:
    """Return a whole number over zero."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number over zero")
    return int(text)
