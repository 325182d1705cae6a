"""``python -m kzoo_core.cli.indexer_now``: build index.json once, without a server.

Takes no arguments: ``KERNEL_ZOO_KERNEL_REPO_PATH`` names a kernel repository or a plain directory
of packages, committed or not; ``KERNEL_ZOO_INDEX_PATH`` names the file to write. Exit code 0: it
was written, also when some packages are invalid (they are listed with their problems); 3: it was
not.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from kzoo_core import durable
from kzoo_core.config import resolve, setting
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.errors import KzooError, of_system
from kzoo_core.store.index import index_of
from kzoo_core.usage import USAGE, CommandParser, on_streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.store.index import Index

WRITTEN = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerSettings:
    """Where the packages lie and where the index goes, as the server takes them too."""

    repo: Path = setting(
        Path("../kernel_data"),
        about="the kernel repository, or a directory of packages",
        env="KERNEL_ZOO_KERNEL_REPO_PATH",
    )
    state: Path | None = setting(
        None,
        about="the server's state directory; by default the user's",
        env="KERNEL_ZOO_STATE_PATH",
    )
    index: Path | None = setting(
        None,
        about="where index.json is written; by default <state>/index.json",
        env="KERNEL_ZOO_INDEX_PATH",
    )


def build_parser() -> CommandParser:
    """Return the parser of the command's arguments."""
    return CommandParser(
        prog="python -m kzoo_core.cli.indexer_now",
        description="Build index.json of KERNEL_ZOO_KERNEL_REPO_PATH and write it to "
        "KERNEL_ZOO_INDEX_PATH.",
        epilog="exit code: 0 written, 3 usage or IO",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = sys.argv[1:] if argv is None else argv
    return on_streams(lambda: _main(given))


def _main(argv: Sequence[str]) -> int:
    build_parser().parse_args(argv)
    try:
        settings = resolve(IndexerSettings, flags={}, environment=os.environ, file=None).settings
        path = settings.index or _state(settings) / "index.json"
        index = index_of(settings.repo, PackageLimits())
        durable.make_directory(path.parent)
        durable.write_file(path, index.to_bytes())
    except KzooError as error:
        return _failed(error.lines())
    except OSError as error:
        return _failed(of_system(error).lines())
    sys.stdout.write(f"{path}: {_counted(index)} of {settings.repo}\n")
    return WRITTEN


def _state(settings: IndexerSettings) -> Path:
    return settings.state or Path(platformdirs.user_state_dir("kernel_zoo"))


def _counted(index: Index) -> str:
    count = len(index.entries)
    invalid = sum(not entry.valid for entry in index.entries)
    kernels = f"{count} kernel" if count == 1 else f"{count} kernels"
    return f"{kernels}, {invalid} of them invalid," if invalid else kernels


def _failed(lines: Sequence[str]) -> int:
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return USAGE


if __name__ == "__main__":
    raise SystemExit(main())
