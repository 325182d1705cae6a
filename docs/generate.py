"""Fills the generated blocks of the pages under docs/ from schemas, settings and parsers.

``python docs/generate.py`` writes them; ``--check`` writes nothing, names each page that has
drifted and exits 1. A block lies between ``<!-- generated:NAME -->`` and ``<!-- /generated -->``;
``BLOCKS`` says what each name holds. What is between the markers is never edited by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reference_tables.commands import command_block, exit_codes_block
from reference_tables.modules import modules_block
from reference_tables.openapi import calls_block, errors_block, objects_block, routes_block
from reference_tables.schemas import outcomes_block, reasons_block, schema_block
from reference_tables.settings import settings_block

import kzoo_core.cli.validate_package
import kzoo_core.runner.__main__
import kzoo_server.__main__
import kzoo_tui.arguments
from kzoo_core.runner.settings import RunnerSettings
from kzoo_server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(
    r"(?P<open><!-- generated:(?P<name>[a-z0-9_-]+) -->\n).*?(?P<close><!-- /generated -->)",
    re.DOTALL,
)


def pages() -> list[Path]:
    """Return every page that has a generated block."""
    return [page for page in sorted(DOCS.glob("*.md")) if _BLOCK.search(page.read_text("utf-8"))]


def blocks_of(text: str) -> list[str]:
    """Return the names of the blocks of a page, in order."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def render(text: str) -> str:
    """Return a page with every block filled anew; raises ``KeyError`` for an unknown name."""
    return _BLOCK.sub(lambda m: m["open"] + BLOCKS[m["name"]]() + m["close"], text)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` say which have drifted. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="generate.py", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on drift")
    check = parser.parse_args(argv).check
    drifted = 0
    for page in pages():
        before = page.read_text("utf-8")
        after = render(before)
        if after == before:
            continue
        drifted += 1
        if check:
            print(f"docs/{page.name}: generated blocks are out of date; run make docs")
        else:
            page.write_text(after, encoding="utf-8")
            print(f"docs/{page.name}: written")
    return 1 if check and drifted else 0


def _schema(name: str) -> Callable[[], str]:
    return lambda: schema_block(name)


BLOCKS: Mapping[str, Callable[[], str]] = {
    "verdict-reasons": reasons_block,
    "verdict-outcomes": outcomes_block,
    "server-settings": lambda: settings_block(ServerSettings),
    "runner-settings": lambda: settings_block(RunnerSettings),
    "routes": routes_block,
    "calls": calls_block,
    "objects": objects_block,
    "api-errors": errors_block,
    "cli-kzoo": lambda: command_block(kzoo_tui.arguments.build_parser()),
    "cli-kzoo-server": lambda: command_block(kzoo_server.__main__.build_parser()),
    "cli-kzoo-runner": lambda: command_block(kzoo_core.runner.__main__.build_parser()),
    "cli-validate-package": lambda: command_block(kzoo_core.cli.validate_package.build_parser()),
    "exit-codes": exit_codes_block,
    "modules": modules_block,
    **{
        f"schema-{name}": _schema(name)
        for name in (
            "desc",
            "bench_result",
            "test_case_meta",
            "benchmark_output",
            "submission",
            "index",
            "problem",
            "error",
        )
    },
}

if __name__ == "__main__":
    sys.exit(main())
