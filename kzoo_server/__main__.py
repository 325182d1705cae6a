"""The command ``kzoo-server``: serve, make a repository, show the configuration."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import platformdirs

from kzoo_core.clock import SystemClock
from kzoo_core.errors import KzooError, of_system
from kzoo_core.queue.spool import SpoolFailed
from kzoo_core.usage import USAGE, CommandParser, on_streams
from kzoo_core.version import __version__
from kzoo_server import configuration, log_lines
from kzoo_server.initialise import initialise
from kzoo_server.serving import serve
from kzoo_server.settings import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.config import Resolved
    from kzoo_server.settings import ServerSettings

OK, BROKEN = 0, 1

_SETTING_FLAGS = ("repo", "state", "host", "port", "ready_file", "expose_unauthenticated")


def build_parser() -> CommandParser:
    """Return the parser of the command; its help is the reference."""
    parser = CommandParser(
        prog="kzoo-server",
        description="Serve a kernel repository: its board, its queue and the runners' protocol.",
        epilog="Without a command it serves. Settings: flags over KERNEL_ZOO_* over the YAML file "
        "of --config over defaults; 'kzoo-server config show --origin' tells which one holds. "
        "Exit codes: 0 stopped as asked, 1 stopped by a fault, 3 usage, configuration or IO.",
    )
    parser.add_argument("--version", action="version", version=f"kzoo-server {__version__}")
    _add_settings(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_settings(
        commands.add_parser("serve", help="serve until SIGTERM or Ctrl-C (the default)"),
        again=True,
    )
    init = commands.add_parser("init", help="make a kernel repository")
    init.add_argument("--repo", type=Path, required=True, metavar="DIR", help="where to make it")
    init.add_argument(
        "--no-bare", action="store_true", help="make a checkout that people can look into"
    )
    init.add_argument("--examples", action="store_true", help="commit the example packages into it")
    config = commands.add_parser("config", help="show the configuration")
    shows = config.add_subparsers(dest="config_command", metavar="COMMAND", required=True)
    show = shows.add_parser("show", help="print every setting and its value")
    _add_settings(show, again=True)
    show.add_argument("--origin", action="store_true", help="also where each value comes from")
    show.add_argument("--json", action="store_true", help="as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    return on_streams(lambda: _main(given))


def _main(argv: Sequence[str]) -> int:
    arguments = build_parser().parse_args(argv)
    try:
        if arguments.command == "init":
            made = initialise(
                arguments.repo,
                bare=not arguments.no_bare,
                examples=arguments.examples,
                clock=SystemClock(),
            )
            _say(sys.stdout, made)
            return OK
        resolved = _settings(arguments)
        if arguments.command == "config":
            shown = configuration.show(resolved, origin=arguments.origin, as_json=arguments.json)
            _say(sys.stdout, shown)
            return OK
        return _serve(resolved.settings)
    except KzooError as error:
        _say(sys.stderr, "\n".join(error.lines()))
    except BrokenPipeError:
        raise
    except OSError as error:
        _say(sys.stderr, "\n".join(of_system(error).lines()))
    return USAGE


def _serve(settings: ServerSettings) -> int:
    log_lines.configure(form=settings.log_format, level=settings.log_level, stream=sys.stderr)
    try:
        asyncio.run(
            serve(
                settings,
                SystemClock(),
                new_request_id=lambda: secrets.token_hex(8),
                token_bytes=secrets.token_bytes,
                leave_at_once=lambda number: os._exit(128 + number),
                on_ready=_spare_what_stays,
            )
        )
    except SpoolFailed as error:
        _say(sys.stderr, "\n".join(error.lines()))
        return BROKEN
    return OK


def _spare_what_stays() -> None:
    """Take all that a started server holds out of the garbage collector's later rounds.

    Modules, schemas and the recovered queue stay until the end; looking through them again and
    again stops every call (measured: 57 ms a round for the modules alone, 0 afterwards).
    """
    gc.collect()
    gc.freeze()


def _say(stream: TextIO, text: str) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def _settings(arguments: argparse.Namespace) -> Resolved[ServerSettings]:
    return load(
        flags={name: getattr(arguments, name) for name in _SETTING_FLAGS},
        environment=os.environ,
        file=arguments.config,
        default_state=Path(platformdirs.user_state_dir("kernel_zoo")),
    )


def _add_settings(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """Add the settings' flags; ``again`` keeps what was given before the command's name."""
    default = argparse.SUPPRESS if again else None
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--repo",
        metavar="DIR",
        default=default,
        help="the kernel repository (../kernel_data; KERNEL_ZOO_KERNEL_REPO_PATH)",
    )
    settings.add_argument(
        "--state",
        metavar="DIR",
        default=default,
        help="queue, caches and index (the user's state directory; KERNEL_ZOO_STATE_PATH)",
    )
    settings.add_argument(
        "--host", default=default, help="address to listen on (127.0.0.1; KERNEL_ZOO_HOST)"
    )
    settings.add_argument(
        "--port", default=default, help="port, 0 for a free one (8000; KERNEL_ZOO_PORT)"
    )
    settings.add_argument(
        "--config", metavar="FILE", type=Path, default=default, help="a YAML file with settings"
    )
    settings.add_argument(
        "--ready-file",
        metavar="FILE",
        default=default,
        help="gets the URL once the server listens and the board is built",
    )
    settings.add_argument(
        "--expose-unauthenticated",
        action="store_const",
        const=True,
        default=default,
        help="allow a --host that others reach, although nobody is asked who he is",
    )


if __name__ == "__main__":
    sys.exit(main())
