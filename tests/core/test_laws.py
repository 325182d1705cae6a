"""Laws of the house that no linter knows (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
CORE = CHECKOUT / "kzoo_core"
SOURCES = sorted(
    path
    for package in ("kzoo_core", "kzoo_server", "kzoo_tui")
    for path in (CHECKOUT / package).rglob("*.py")
)
ENTRY_POINTS = {
    CORE / "cli" / "indexer_now.py",
    CORE / "cli" / "validate_package.py",
    CORE / "clock.py",  # SystemClock, which only entry points make
    CORE / "runner" / "__main__.py",
    CORE / "runner" / "backends" / "warden.py",  # a process of its own
    CHECKOUT / "kzoo_server" / "__main__.py",
    CHECKOUT / "kzoo_tui" / "cli.py",
}
AMBIENT = {
    "os.environ",
    "os.getenv",
    "os.getcwd",
    "sys.argv",
    "Path.cwd",
    "datetime.now",
    "datetime.utcnow",
    "time.time",
    "random.SystemRandom",
    "secrets.token_bytes",
    "secrets.token_hex",
    "secrets.token_urlsafe",
    "uuid.uuid4",
}


def imported_names(tree: ast.Module) -> set[str]:
    """Return every module that a file imports, with ``from a import b`` as ``a.b``."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def uses(tree: ast.Module, names: set[str]) -> list[str]:
    """Return where a file uses one of ``names``, each written as ``module.attribute``."""
    return [
        f"line {node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and f"{node.value.id}.{node.attr}" in names
    ]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_core_serves_no_http() -> None:
    found = {
        str(path): names
        for path in sorted(CORE.rglob("*.py"))
        if (
            names := {
                name for name in imported_names(parsed(path)) if name.startswith("aiohttp.web")
            }
        )
    }
    assert found == {}


def test_only_entry_points_read_what_lies_around() -> None:
    found = {
        str(path): reads
        for path in SOURCES
        if path not in ENTRY_POINTS and (reads := uses(parsed(path), AMBIENT))
    }
    assert found == {}


def test_only_the_durable_seam_syncs() -> None:
    found = {
        str(path): syncs
        for path in SOURCES
        if path != CORE / "durable.py"
        and (syncs := uses(parsed(path), {"os.fsync", "os.fdatasync", "os.sync"}))
    }
    assert found == {}


def test_a_file_holds_one_idea_and_says_which() -> None:
    everything = [*SOURCES, *(CHECKOUT / "tests").rglob("*.py"), *(CHECKOUT / "docs").rglob("*.py")]
    too_long = [str(path) for path in everything if path.read_text("utf-8").count("\n") > 600]
    silent = [str(path) for path in SOURCES if not ast.get_docstring(parsed(path))]
    assert (too_long, silent) == ([], [])


@pytest.mark.parametrize(
    "module",
    ["kzoo_core.lifecycle.system", "kzoo_core.runner.daemon", "kzoo_core.client"],
)
def test_nothing_of_the_core_brings_the_web_server_or_the_terminal_along(module: str) -> None:
    code = f"import sys, {module}; print('aiohttp.web' in sys.modules, 'textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]
