"""The command line of ``kzoo``: every command, its flags and its help, and nothing that runs."""

from __future__ import annotations

import argparse

from kzoo_core.version import __version__
from kzoo_tui.exit_codes import MEANINGS
from kzoo_tui.parsing import (
    Parser,
    kernel_id,
    positive_count,
    positive_seconds,
    submission_id,
    submitter_id,
    text,
)

TYPE_CHECKING = False  # typing's own costs a quarter of start-up; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_SERVER = "http://127.0.0.1:8000"

EPILOG = f"""\
environment:
  KERNEL_ZOO_SERVER     the server, where --server is not given
                        (else {DEFAULT_SERVER})
  KERNEL_ZOO_SUBMITTER  who submits, where --as is not given

output:
  Data goes to stdout, talk to stderr. With --json stdout carries exactly one
  JSON document: the answer or, for an error, beside the text on stderr,
  {{"error": {{"code", "message", "details", "request_id", "retry", "hint"}}}}.

exit codes:
{chr(10).join(f"  {int(code)}  {meaning}" for code, meaning in MEANINGS.items())}
"""


def build_parser() -> Parser:
    """Return the parser of the whole command line; the command's name is in ``command``."""
    parser = Parser(
        prog="kzoo",
        description="Check, submit and follow GPU kernels on a kernel_zoo server.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"kzoo {__version__}")
    _add_global_flags(parser, top=True)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", parser_class=Parser, title="commands"
    )
    for name, (about, add) in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=_sentence(about))
        _add_global_flags(command, top=False)
        add(command)
    return parser


def _sentence(about: str) -> str:
    return about[0].upper() + about[1:] + "."


def _add_global_flags(parser: argparse.ArgumentParser, *, top: bool) -> None:
    """Add the flags that stand before or after the command; the later one wins."""

    def default(value: object) -> object:
        return value if top else argparse.SUPPRESS

    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--server", metavar="URL", default=default(None), help="the server to talk to"
    )
    group.add_argument(
        "--as",
        dest="submitter",
        metavar="ID",
        type=submitter_id,
        default=default(None),
        help="who you are to the server",
    )
    group.add_argument(
        "--json", action="store_true", default=default(False), help="one JSON document on stdout"
    )
    group.add_argument(
        "--debug", action="store_true", default=default(False), help="tracebacks of errors"
    )


def _validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a package directory or a .tar.gz")
    _add_kernel_id(parser)


def _pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", help="a package directory")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the .tar.gz to write"
    )
    _add_kernel_id(parser)
    _add_no_check(parser)


def _submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a package directory or a .tar.gz")
    _add_kernel_id(parser)
    parser.add_argument(
        "--summary", metavar="TEXT", type=text, help="what is better now, for the history"
    )
    parser.add_argument(
        "--mode",
        choices=["ranked", "check"],
        default="ranked",
        help="check runs the same and commits nothing (default: ranked)",
    )
    _add_no_check(parser)
    _add_wait(parser)


def _status(parser: argparse.ArgumentParser) -> None:
    _add_uuid(parser)
    _add_wait(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    _add_uuid(parser)
    parser.add_argument(
        "--follow", "-f", action="store_true", help="go on until the submission is done"
    )
    parser.add_argument(
        "--attempt",
        metavar="N",
        type=positive_count,
        help="the log of one attempt (default: the newest)",
    )


def _cancel(parser: argparse.ArgumentParser) -> None:
    _add_uuid(parser)


def _kernels(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group("filters")
    for name, about in {
        "arch": "architecture, such as gfx928",
        "op-class": "operator class, such as Attention",
        "sub-class": "operator sub-class, such as MHA",
        "quant": "quantization, such as fp16",
        "tag": "a tag of desc.yaml",
        "owner": "the owner of desc.yaml",
        "q": "words in the id, name or summary",
    }.items():
        filters.add_argument(f"--{name}", metavar="TEXT", type=text, help=about)
    filters.add_argument(
        "--status", choices=["normal", "frozen", "deprecated"], help="status of desc.yaml"
    )
    filters.add_argument(
        "--valid", choices=["true", "false"], help="only valid packages, or only broken ones"
    )
    parser.add_argument(
        "--sort",
        metavar="KEY",
        type=text,
        help="kernel_id (default), name or updated_at; -KEY turns it round: --sort=-updated_at",
    )
    _add_limit(parser, "kernels")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel_id", metavar="KERNEL_ID", type=kernel_id, help="the kernel")
    parser.add_argument(
        "--history", metavar="N", type=positive_count, help="also the last N accepted attempts"
    )


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", choices=["queued", "running", "done"], help="only those in this state"
    )
    parser.add_argument(
        "--submitter",
        dest="of_submitter",
        metavar="ID",
        type=submitter_id,
        help="only those of this submitter",
    )
    parser.add_argument(
        "--kernel-id", metavar="ID", type=kernel_id, help="only those for this kernel"
    )
    _add_limit(parser, "submissions")


def _index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repo",
        metavar="DIR",
        help="a kernel repository, or a plain directory of packages (default: ask the server)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write here in place of stdout, whole or not at all"
    )


def _guide(parser: argparse.ArgumentParser) -> None:
    del parser


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=["bash", "zsh"])


def _add_kernel_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel-id", metavar="ID", help="its kernel_id (default: as its files and path say)"
    )


def _add_no_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-check", action="store_true", help="leave the checks of the contract to the server"
    )


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="wait for the verdict")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=positive_seconds,
        help="with --wait: give up waiting after S seconds; the submission goes on",
    )


def _add_uuid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("uuid", metavar="UUID", type=submission_id, help="the submission")


def _add_limit(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--limit",
        metavar="N",
        type=positive_count,
        default=50,
        help=f"at most N {what} (default: 50)",
    )


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "validate": ("check a package against the contract", _validate),
    "pack": ("make the .tar.gz of a package directory", _pack),
    "submit": ("send a package to be run, judged and ranked", _submit),
    "status": ("say where a submission is, or how it ended", _status),
    "logs": ("print what building and running a submission printed", _logs),
    "cancel": ("take back a submission that still waits", _cancel),
    "kernels": ("list kernels with their best results", _kernels),
    "show": ("show one kernel: its cases, results and problems", _show),
    "runs": ("list submissions, newest first", _runs),
    "index": ("build the index of a directory, or fetch the server's", _index),
    "guide": ("print all that is needed to write a package", _guide),
    "completion": ("print a completion script for a shell", _completion),
}
