"""The built wheel, installed in an empty virtual environment, is a whole product."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` directory of an environment that holds the wheel and what it needs."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *("--outdir", str(directory), str(CHECKOUT)),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = directory.glob("*.whl")
    venv.create(directory / "venv", with_pip=True)
    binaries = directory / "venv" / "bin"
    done = subprocess.run(
        [str(binaries / "python"), "-m", "pip", "install", "--quiet", str(wheel)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=directory,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return binaries


def run(command: Path, *arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(command), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=directory,
        env=environment(),
    )


def test_the_commands_say_their_version(installed: Path, tmp_path: Path) -> None:
    for name in ("kzoo", "kzoo-server", "kzoo-runner"):
        done = run(installed / name, "--version", directory=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split()[-1] == "0.1.0"


def test_an_example_that_travels_in_the_wheel_validates_by_its_schemas(
    installed: Path, tmp_path: Path
) -> None:
    code = "from kzoo_core.resources import *; print(examples_directory(), schemas_directory())"
    done = run(installed / "python", "-c", code, directory=tmp_path)
    examples, schemas = map(Path, done.stdout.split())
    assert not examples.is_relative_to(CHECKOUT)
    assert (schemas / "openapi.yaml").is_file()
    package = examples / "gfx928" / "Attention" / "MHA" / "fp16" / "reference_impl"
    done = run(installed / "kernel_zoo-validate-package", str(package), directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def served(installed: Path, tmp_path: Path) -> Iterator[str]:
    repository = tmp_path / "kernel_data"
    done = run(
        installed / "kzoo-server",
        "init",
        "--repo",
        str(repository),
        "--examples",
        directory=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ready = tmp_path / "url"
    server = subprocess.Popen(
        [
            str(installed / "kzoo-server"),
            *("--repo", str(repository), "--state", str(tmp_path / "state")),
            *("--port", "0", "--ready-file", str(ready)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(),
    )
    try:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield ready.read_text().strip()
        server.terminate()
        assert server.wait(10) == 0
    finally:
        server.kill()
        server.wait(10)


def test_a_server_from_the_wheel_serves_the_examples(
    installed: Path, served: str, tmp_path: Path
) -> None:
    with urllib.request.urlopen(f"{served}/healthz", timeout=10) as answer:
        assert answer.status == 200
    done = run(installed / "kzoo", "--server", served, "kernels", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "gfx928/Attention/MHA/fp16/reference_impl" in done.stdout
