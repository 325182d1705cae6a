"""``kernel_zoo-validate-package``: what it says, and how it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kzoo_core.cli.validate_package import main, run
from kzoo_core.contract.archive import write_archive
from kzoo_core.version import __version__
from tests.packages import KERNEL_ID, package_tarball, valid_package, write_directory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a valid package, at its kernel_id."""
    place = tmp_path / KERNEL_ID
    place.mkdir(parents=True)
    write_directory(valid_package(scoreboard=True), place)
    return place


def validate(
    path: Path, *, as_json: bool = False, kernel_id: str | None = None
) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run(path, as_json=as_json, kernel_id=kernel_id, stdout=out, stderr=err)
    return code, out.getvalue(), err.getvalue()


def test_a_valid_directory_is_said_to_be_valid(directory: Path) -> None:
    assert validate(directory) == (0, f"{KERNEL_ID}: valid\n", "")


def test_a_valid_archive_is_said_to_be_valid(tmp_path: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    archive.write_bytes(write_archive(valid_package()))
    assert validate(archive) == (0, f"{KERNEL_ID}: valid\n", "")
    assert validate(archive, kernel_id=KERNEL_ID)[0] == 0


EVERY_PROBLEM = f"""\
{KERNEL_ID}: not valid, 2 errors, 1 warning
warning: src/kernel.pyc: src/kernel.pyc does not belong to the package and is left out of \
an archive [left_out]
  expected: sources only
  hint: an archive that holds it is refused; `kzoo pack` and `kzoo submit` leave it out
error: golden.npy: golden.npy belongs to arrays and golden data, which a package may not hold \
[generated_evidence]
  expected: sources only
  hint: make it in build_test_env.py under the work directory
error: .kernel_package/desc.yaml:32:3: io_signature[0].dtype is "float32" [bad_dtype]
  expected: one of: fp64, fp32, tf32, fp16, bf16, fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, \
fp4_e2m1, int64, int32, int16, int8, int4, uint64, uint32, uint16, uint8, uint4, bool, \
complex64, complex128
  hint: write fp32
"""


def test_every_problem_is_told_with_its_place_and_what_to_do(directory: Path) -> None:
    desc = directory / ".kernel_package/desc.yaml"
    desc.write_text(desc.read_text().replace("dtype: fp32", "dtype: float32", 1))
    (directory / "golden.npy").write_bytes(b"\x93NUMPY")
    (directory / "src/kernel.pyc").touch()
    assert validate(directory) == (2, EVERY_PROBLEM, "")


def test_a_warning_alone_leaves_a_package_valid(directory: Path) -> None:
    (directory / "notes.csv").write_text("a,b\n")
    code, out, _ = validate(directory)
    assert code == 0
    assert out.startswith(f"{KERNEL_ID}: valid, 1 warning\nwarning: notes.csv: ")


def test_the_same_is_printed_as_data(directory: Path) -> None:
    (directory / "run.log").write_text("x")
    code, out, err = validate(directory, as_json=True)
    assert (code, err) == (2, "")
    assert json.loads(out) == {
        "path": str(directory),
        "kernel_id": KERNEL_ID,
        "valid": False,
        "problems": [
            {
                "code": "generated_evidence",
                "message": (
                    "run.log belongs to logs and captured output, which a package may not hold"
                ),
                "severity": "error",
                "file": "run.log",
                "found": "the suffix .log (logs and captured output)",
                "expected": "sources only",
                "hint": "leave it out: the server keeps the output and the log of every run",
            }
        ],
    }


def test_an_archive_with_a_scoreboard_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    archive.write_bytes(package_tarball(valid_package(scoreboard=True)))
    code, out, _ = validate(archive)
    assert code == 2
    assert out.startswith(
        f"{KERNEL_ID}: not valid, 1 error\n"
        "error: .kernel_package/bench_result.yaml: the archive holds "
        ".kernel_package/bench_result.yaml; the scoreboard is written by the server alone "
        "[scoreboard_in_archive]\n"
    )


def test_an_archive_by_another_name_is_told_so(tmp_path: Path) -> None:
    archive = tmp_path / "demo.tgz"
    archive.write_bytes(write_archive(valid_package()))
    code, out, _ = validate(archive)
    assert code == 2
    assert out == (
        f"{KERNEL_ID}: not valid, 1 error\n"
        "error: the archive is called demo.tgz [archive_name]\n"
        "  expected: a name that ends in .tar.gz\n"
    )


def test_a_file_that_is_no_archive_is_not_valid(tmp_path: Path) -> None:
    archive = tmp_path / "demo.tar.gz"
    archive.write_bytes(b"PK\x03\x04")
    code, out, _ = validate(archive, as_json=True)
    assert code == 2
    assert json.loads(out)["kernel_id"] is None
    assert [problem["code"] for problem in json.loads(out)["problems"]] == ["archive_not_gzip"]


def test_what_is_not_there_is_no_validation(tmp_path: Path) -> None:
    assert validate(tmp_path / "none") == (3, "", f"error: there is no {tmp_path / 'none'}\n")


def test_what_cannot_be_read_is_no_validation(tmp_path: Path) -> None:
    link = tmp_path / "loop.tar.gz"
    link.symlink_to(link)
    code, out, err = validate(link)
    assert (code, out) == (3, "")
    assert err.startswith(f"error: cannot read {link}: ")


def test_a_kernel_id_that_is_none_is_not_valid(directory: Path) -> None:
    told = (
        "error: kernel_id 'a b' is not valid: segment 'a b'\n"
        "  expected: segments that match ^[A-Za-z0-9._-]+$\n"
        "  hint: name it <arch>/<op_class>/<sub_class>/<quant>/<your_name>\n"
    )
    assert validate(directory, kernel_id="a b") == (2, "", told)


def test_hostile_names_do_not_reach_the_terminal(directory: Path) -> None:
    (directory / "src/\x1b[2J\x1b]0;owned.py").touch()
    code, out, _ = validate(directory)
    assert code == 2
    assert "\x1b" not in out
    assert "name_control_character" in out


def test_the_command_takes_its_arguments(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(directory), "--json", "--kernel-id", KERNEL_ID]) == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--unknown"]])
def test_wrong_usage_is_exit_code_3(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("usage: kernel_zoo-validate-package ")
    assert "\nerror: " in told.err


def test_the_module_runs_as_a_script(directory: Path) -> None:
    command = [sys.executable, "-m", "kzoo_core.cli.validate_package"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"kernel_zoo-validate-package {__version__}\n"
    (directory / ".kernel_package/desc.yaml").unlink()
    invalid = subprocess.run([*command, directory], capture_output=True, text=True, check=False)
    assert invalid.returncode == 2
    assert "[missing_file]" in invalid.stdout


def test_validating_needs_neither_the_terminal_nor_a_server(directory: Path) -> None:
    code = (
        "import sys; from kzoo_core.cli.validate_package import main; "
        f"code = main([{str(directory)!r}]); "
        "sys.exit(code or sum(name in sys.modules for name in "
        "('textual', 'aiohttp', 'dulwich', 'asyncio', 'kzoo_server', 'kzoo_tui')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
