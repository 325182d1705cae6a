"""``kzoo-runner``: the command of the daemon on a GPU node.

Exit codes: 0 drained, 3 usage, no connection or no authorisation, 7 too old for the server (a
supervisor must not start the same version again).
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import re
import secrets
import shutil
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from kzoo_core import durable
from kzoo_core.client.transport import Transport
from kzoo_core.clock import SystemClock
from kzoo_core.config import resolve
from kzoo_core.errors import BadInput, KzooError, of_system
from kzoo_core.ids import ClaimId, parse_runner_name
from kzoo_core.runner.backends.local import LocalBackend
from kzoo_core.runner.daemon import RunnerDaemon
from kzoo_core.runner.logfmt import logger_to
from kzoo_core.runner.records import EXIT_FAILED, Registration
from kzoo_core.runner.settings import RunnerSettings
from kzoo_core.usage import CommandParser, on_streams
from kzoo_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from logging import Logger

    from kzoo_core.runner.backends.base import Backend

_ARCH = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FLAGS = ("server", "arch", "product", "backend", "name", "state", "python")


def build_parser() -> CommandParser:
    """Return the parser of the command line; no default lives in it (see ``RunnerSettings``)."""
    parser = CommandParser(
        prog="kzoo-runner",
        description="Claim submissions from a kernel_zoo server, run them here, report.",
        epilog="Every setting can also be a line of --config FILE or an environment variable. "
        "Exit codes: 0 drained, 3 usage or connection, 7 too old for the server.",
    )
    about = {item.name: item.metadata["help"] for item in dataclasses.fields(RunnerSettings)}
    parser.add_argument("--server", metavar="URL", help=about["server"])
    parser.add_argument("--arch", metavar="ARCH", help=about["arch"])
    parser.add_argument("--product", metavar="NAME", help=about["product"])
    parser.add_argument(
        "--feature",
        action="append",
        dest="features",
        metavar="F",
        help="A feature that packages may ask for (min_arch_feature); may be repeated.",
    )
    parser.add_argument("--backend", choices=["local"], help=about["backend"])
    parser.add_argument("--name", metavar="NAME", help=about["name"])
    parser.add_argument("--state", metavar="DIR", help=about["state"])
    parser.add_argument("--python", metavar="PATH", help=about["python"])
    parser.add_argument("--once", action="store_true", default=None, help=about["once"])
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file of settings.")
    parser.add_argument("--version", action="version", version=f"kzoo-runner {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    return on_streams(lambda: _main(given))


def _main(argv: Sequence[str]) -> int:
    arguments = build_parser().parse_args(argv)
    flags = {name: getattr(arguments, name) for name in (*_FLAGS, "features", "once")}
    try:
        settings = resolve(
            RunnerSettings, flags=flags, environment=os.environ, file=arguments.config
        ).settings
        return asyncio.run(_serve(_daemon(settings)))
    except KzooError as error:
        _say(*error.lines())
    except OSError as error:
        _say(*of_system(error).lines())
    return EXIT_FAILED


async def _serve(daemon: RunnerDaemon) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.request_stop)
    return await daemon.run()


def _daemon(settings: RunnerSettings) -> RunnerDaemon:
    """Put the runner together; everything that comes from this machine is read here."""
    _check(settings)
    name = parse_runner_name(settings.name or _host_name())
    state = (settings.state or _default_state(name)).absolute()
    log = logger_to(sys.stderr, name=f"kzoo-runner.{name}")
    durable.make_directory(state)
    instance = _instance(state)
    backend = _backend(settings, instance=instance, log=log)
    if backend.notice is not None:
        log.warning(backend.notice)
    return RunnerDaemon(
        settings,
        state=state,
        registration=Registration(
            name=name,
            arch=settings.arch,
            product=settings.product,
            features=settings.features,
            backend=backend.name,
            isolation=backend.isolation,
            version=__version__,
            boot_id=_BOOT_ID.read_text().strip() if _BOOT_ID.is_file() else "unknown",
            instance=instance,
        ),
        backend=backend,
        new_transport=lambda: Transport(settings.server, random=random.SystemRandom()),
        clock=SystemClock(),
        random=random.SystemRandom(),
        new_claim_id=lambda: ClaimId(secrets.token_hex(16)),
        log=log,
    )


def _check(settings: RunnerSettings) -> None:
    if not settings.arch:
        raise BadInput(
            "USAGE",
            "no architecture is given",
            hint="say what this machine has: --arch gfx928, or KERNEL_ZOO_ARCH",
        )
    if not _ARCH.fullmatch(settings.arch):
        raise BadInput(
            "USAGE",
            f"the architecture {settings.arch!r} is not valid: expected ^[A-Za-z0-9._-]+$, "
            "at most 64 characters",
            hint="it is the first segment of the kernel_ids that this machine can run",
        )
    if settings.backend != "local":
        raise BadInput(
            "USAGE", f"the backend {settings.backend!r} is not known", hint="known: local"
        )


def _backend(settings: RunnerSettings, *, instance: str, log: Logger) -> Backend:
    return LocalBackend(
        python=_interpreter(settings.python),
        instance=instance,
        environment=os.environ,
        allow=settings.environment_allow,
        clock=SystemClock(),
        log=log,
    )


def _interpreter(wanted: str | None) -> Path:
    """Return an absolute path: attempts run elsewhere, and a virtual environment's link counts."""
    if wanted is None:
        return Path(sys.executable)
    found = shutil.which(wanted)
    if found is None:
        raise BadInput(
            "NO_INTERPRETER",
            f"{wanted!r} is no executable file, and none of that name is on PATH",
            hint="give a Python interpreter with --python PATH",
        )
    return Path(found).absolute()


def _instance(state: Path) -> str:
    """Return what tells this state directory from every other, made at its first use.

    It stays the same over restarts, so the server knows the runner again and its results count.
    """
    path = state / "instance"
    if path.is_file():
        return parse_runner_name(path.read_text(encoding="ascii").strip())
    instance = uuid.uuid4().hex
    durable.write_file(path, f"{instance}\n".encode(), mode=0o600)
    return instance


def _default_state(name: str) -> Path:
    return Path(platformdirs.user_state_dir("kernel_zoo")) / "runner" / name


def _host_name() -> str:
    """Return the host's name with whatever a runner's name may not have replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64].lstrip("._-") or "runner"


def _say(*lines: str) -> None:
    sys.stderr.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
