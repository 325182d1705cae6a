"""kzoo index: of a directory, and of a server."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.limits import PackageLimits
from kzoo_core.store.index import index_of
from tests.cli.console import Console
from tests.core.scripted_server import Script, answers
from tests.packages import KERNEL_ID, valid_package, write_directory

if TYPE_CHECKING:
    from pathlib import Path

SERVED = '{"schema_version":"1.0.0","revision":"r","kernels":[\n{"summary":"a\x1b快"}\n]}\n'


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a plain directory with one package that nobody committed."""
    write_directory(valid_package(scoreboard=True), tmp_path / "data" / KERNEL_ID)
    return tmp_path / "data"


def test_the_index_of_a_directory_is_printed_byte_for_byte(directory: Path) -> None:
    ended = Console().run("index", "--repo", str(directory))
    assert (ended.code, ended.err) == (0, "")
    assert ended.raw == index_of(directory, PackageLimits()).to_bytes()
    assert [kernel["kernel_id"] for kernel in ended.json()["kernels"]] == [KERNEL_ID]


def test_the_environment_names_the_directory_too(directory: Path) -> None:
    console = Console(environment={"KERNEL_ZOO_KERNEL_REPO_PATH": str(directory)})
    assert console.run("index").json()["kernels"][0]["kernel_id"] == KERNEL_ID


def test_an_index_is_written_whole_to_a_file(directory: Path, tmp_path: Path) -> None:
    output = tmp_path / "index.json"
    ended = Console().run("index", "--repo", str(directory), "-o", str(output))
    assert (ended.code, ended.out, ended.err) == (0, f"{output}\n", "wrote 1 kernel\n")
    index = json.loads(output.read_bytes())
    ended = Console().run("index", "--repo", str(directory), "-o", str(output), "--json")
    assert ended.json() == {"path": str(output), "revision": index["revision"], "kernels": 1}


def test_a_directory_or_a_target_that_is_not_there_exits_3(directory: Path, tmp_path: Path) -> None:
    ended = Console().run("index", "--repo", str(tmp_path / "none"))
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(f"error: there is no directory {tmp_path}/none\n")
    ended = Console().run("index", "--repo", str(directory), "-o", str(tmp_path / "no" / "i"))
    assert ended.err == f"error: there is no directory {tmp_path}/no to write into\n"


async def test_the_index_of_a_server_is_printed_byte_for_byte(
    script: Script, console: Console, directory: Path
) -> None:
    console.environment["KERNEL_ZOO_KERNEL_REPO_PATH"] = str(directory)
    script.then(*[answers(200, text=SERVED)] * 2)
    ended = await asyncio.to_thread(console.run, "index", "--server", script.url)
    assert (ended.code, ended.out) == (0, SERVED)
    del console.environment["KERNEL_ZOO_KERNEL_REPO_PATH"]
    console.width = 80
    ended = await asyncio.to_thread(console.run, "index")
    assert ended.out == SERVED.replace("\x1b", "")
