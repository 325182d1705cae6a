"""Sections from argument parsers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kzoo_tui.exit_codes import MEANINGS
from reference_tables.markdown import sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterator


def command_block(parser: argparse.ArgumentParser) -> str:
    """Return what a program takes, and one section for each of its commands."""
    shared = frozenset(_identity(action) for action in _actions(parser))
    commands = [
        f"### `{name}`\n\n{_usage(command, skip=shared, about=about)}"
        for name, command, about in _commands(parser, parser.prog)
    ]
    own = _usage(parser, skip=frozenset())
    return "\n" + own + _epilog(parser.epilog or "") + "".join(commands)


def _identity(action: argparse.Action) -> tuple[str, str]:
    """Tell a flag that a command takes over from its program from one of the same name."""
    return " ".join(action.option_strings), action.help or ""


def _epilog(text: str) -> str:
    if not text:
        return ""
    return f"```text\n{text.strip()}\n```\n\n" if "\n" in text else f"{sentence(text)}\n\n"


def _commands(
    parser: argparse.ArgumentParser, prog: str
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """Yield name, parser and help of every command that does something, nested ones by path."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, command in action.choices.items():
            nested = list(_commands(command, f"{prog} {name}"))
            yield from nested or [(f"{prog} {name}", command, helps.get(name, ""))]


def _usage(
    parser: argparse.ArgumentParser, *, skip: frozenset[tuple[str, str]], about: str = ""
) -> str:
    rows = [
        (_invocation(action), _plain(action, parser))
        for action in _actions(parser)
        if _identity(action) not in skip
    ]
    text = parser.description or about[:1].upper() + about[1:]
    intro = f"{sentence(text)}\n\n" if text else ""
    return intro + (table(("argument", "what it does"), rows) + "\n" if rows else "")


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return [
        action
        for action in parser._actions
        if not isinstance(action, hidden) and action.help is not argparse.SUPPRESS
    ]


def _invocation(action: argparse.Action) -> str:
    value = str(action.metavar or action.dest.upper())
    if action.choices is not None and action.metavar is None:
        value = "|".join(str(choice) for choice in action.choices)
    if not action.option_strings:
        return f"`{value}`"
    flags = ", ".join(action.option_strings)
    return f"`{flags}`" if action.nargs == 0 else f"`{flags} {value}`"


def _plain(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    if action.choices is not None and action.metavar is not None:
        text += f" ({', '.join(str(choice) for choice in action.choices)})"
    if getattr(action, "required", False) and action.option_strings:
        text += " (required)"
    return text.strip()


def exit_codes_block() -> str:
    """Return what each exit code of ``kzoo`` means."""
    rows = [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]
    return "\n" + table(("code", "meaning"), rows) + "\n"
