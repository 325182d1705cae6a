"""Wrong usage, and streams that are closed, of any command: in this process and in real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kzoo_core.resources import examples_directory
from kzoo_core.usage import PIPE_CLOSED, USAGE, CommandParser

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = str(next(examples_directory().rglob(".kernel_package")).parent)
COMMANDS = [
    ["kzoo_tui.cli", "validate", EXAMPLE],
    ["kzoo_core.cli.indexer_now"],
    ["kzoo_core.cli.validate_package", EXAMPLE],
    ["kzoo_server", "config", "show"],
]


def parser() -> CommandParser:
    made = CommandParser(prog="kzoo-some")
    made.add_argument("--count", type=int)
    commands = made.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list").add_argument("--long", action="store_true")
    return made


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--coun", "1"], "unrecognized arguments: --coun\nhint: did you mean --count?\n"),
        (["list", "--logn"], "unrecognized arguments: --logn\nhint: did you mean --long?\n"),
        (["list", "--xyz"], "unrecognized arguments: --xyz\nhint: see 'kzoo-some --help'\n"),
        (["lits"], "invalid choice: 'lits' (choose from 'list')\nhint: did you mean list?\n"),
        (["--count", "x"], "invalid int value: 'x'\nhint: see 'kzoo-some --help'\n"),
    ],
)
def test_wrong_usage_of_any_command_exits_3_and_says_what_was_meant(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parser().parse_args(argv)
    assert left.value.code == USAGE
    err = capsys.readouterr().err
    assert err.startswith("usage: kzoo-some ")
    assert err.endswith(said)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return this process's environment with what the indexer takes from it."""
    return {
        **os.environ,
        "KERNEL_ZOO_KERNEL_REPO_PATH": EXAMPLE,
        "KERNEL_ZOO_INDEX_PATH": str(tmp_path / "index.json"),
    }


def under_shell(
    line: str, command: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` where ``"$@"`` stands in a line of shell."""
    return subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-m", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_closed_stdout_takes_nothing_and_is_no_fault(
    command: list[str], environment: dict[str, str]
) -> None:
    done = under_shell('"$@" >&-', command, environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_reader_that_went_away_ends_a_command_in_silence(
    command: list[str], environment: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (PIPE_CLOSED, "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_full_disk_behind_stdout_exits_3_with_one_line(
    command: list[str], environment: dict[str, str]
) -> None:
    done = under_shell('"$@" >/dev/full', command, environment)
    assert (done.returncode, done.stderr) == (3, "error: No space left on device\n")
