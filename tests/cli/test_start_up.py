"""What the command imports before it works, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kzoo_core.resources import examples_directory
from kzoo_core.version import __version__

PROBE = """
import sys
from kzoo_tui.cli import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(code, *sys.modules, file=sys.stderr)
"""


def modules_after(*argv: str) -> tuple[int, str, set[str]]:
    """Return exit code, stdout and the modules that one command line has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, *modules = done.stderr.splitlines()[-1].split()
    return int(code), done.stdout, set(modules)


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_help_and_version_import_almost_nothing(flag: str) -> None:
    code, out, modules = modules_after(flag)
    assert code == 0
    assert __version__ in out or "commands:" in out
    heavy = {"textual", "aiohttp", "asyncio", "yaml", "jsonschema", "numpy", "dulwich"}
    if "coverage" not in modules:  # which imports these for itself when it measures the process
        heavy |= {"typing", "inspect", "dataclasses", "shutil", "json"}
    assert not heavy & modules
    assert not {"kzoo_core.errors", "kzoo_tui.execution", "kzoo_tui.context"} & modules


def test_validate_imports_neither_a_user_interface_nor_http_nor_git() -> None:
    example = next(examples_directory().rglob(".kernel_package")).parent
    code, _, modules = modules_after("validate", str(example))
    assert code == 0
    assert not {"textual", "aiohttp", "aiohttp.web", "dulwich", "asyncio"} & modules


def test_a_network_command_imports_neither_a_user_interface_nor_a_server() -> None:
    code, _, modules = modules_after("runs", "--server", "http://127.0.0.1:1")
    assert code == 3
    assert "aiohttp" in modules
    assert not {"textual", "aiohttp.web", "dulwich"} & modules


def test_version_names_the_program_and_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kzoo_tui.cli", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"kzoo {__version__}\n", "")


@pytest.mark.parametrize("argv", [["guide"], ["--help"]])
def test_a_reader_that_goes_away_ends_it_quietly(argv: list[str]) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "kzoo_tui.cli", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    with started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read() == ""
        assert started.wait(timeout=60) == 141
