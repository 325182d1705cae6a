from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.directory import kernel_id_of_directory, read_directory
from kzoo_core.contract.layout import DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.package import check_directory, check_submission
from kzoo_core.errors import Broken, NotFound, Problem, Severity
from kzoo_core.ids import KernelId
from tests.packages import KERNEL_ID, seed_scoreboard, valid_package, write_directory

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = PackageLimits()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the directory of a valid package, at its kernel_id."""
    directory = tmp_path / "repo" / KERNEL_ID
    directory.mkdir(parents=True)
    write_directory(valid_package(scoreboard=True), directory)
    return directory


def test_a_directory_is_read_as_its_package(place: Path) -> None:
    (place / "src/kernel.py").chmod(0o755)
    reading = read_directory(place, None, LIMITS)
    package = valid_package(scoreboard=True)
    assert reading.package.kernel_id == KERNEL_ID
    assert {path: file.data for path, file in reading.package.files.items()} == {
        path: file.data for path, file in package.files.items()
    }
    assert [path for path, file in reading.package.files.items() if file.executable] == [
        "src/kernel.py"
    ]
    assert (reading.left_out, reading.problems) == ((), ())
    assert check_directory(reading.package).problems == ()


def test_the_kernel_id_that_is_given_counts(place: Path) -> None:
    assert read_directory(place, KernelId("a/b"), LIMITS).package.kernel_id == "a/b"


def test_what_no_archive_may_hold_is_left_out_and_said_so(place: Path) -> None:
    for path in ("src/__pycache__/kernel.pyc", ".git/config", "src/.DS_Store", "src/old.pyc"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(b"\0")
    reading = read_directory(place, None, LIMITS)
    assert reading.left_out == (".git", "src/.DS_Store", "src/__pycache__", "src/old.pyc")
    assert reading.problems == tuple(
        Problem(
            code="left_out",
            severity=Severity.WARNING,
            message=f"{path} does not belong to the package and is left out of an archive",
            file=path,
            found=path,
            expected="sources only",
            hint="an archive that holds it is refused; `kzoo pack` and `kzoo submit` leave it out",
        )
        for path in reading.left_out
    )
    assert check_directory(reading.package).problems == ()


def test_for_a_submission_the_scoreboard_is_left_out_too(place: Path) -> None:
    reading = read_directory(place, None, LIMITS).for_submission()
    assert SCOREBOARD_PATH not in reading.package.files
    assert reading.left_out == (SCOREBOARD_PATH,)
    assert reading.for_submission() is reading
    assert check_submission(reading.package).problems == ()


def test_links_and_special_files_are_refused_and_never_followed(place: Path) -> None:
    (place / "src/passwd").symlink_to("/etc/passwd")
    (place / "linked").symlink_to("/etc")
    os.mkfifo(place / "pipe")
    reading = read_directory(place, None, LIMITS)
    assert [(problem.code, problem.file, problem.found) for problem in reading.problems] == [
        ("member_not_regular", "linked", "a symbolic link"),
        ("member_not_regular", "pipe", "a named pipe"),
        ("member_not_regular", "src/passwd", "a symbolic link"),
    ]
    assert "src/passwd" not in reading.package.files


def test_names_that_an_archive_may_not_hold_are_refused(place: Path) -> None:
    (place / "src/A.py").touch()
    (place / "src/a.py").touch()
    (place / "src/x\\y").touch()
    os.close(os.open(os.fsencode(place) + b"/src/\xff", os.O_CREAT))
    assert [problem.code for problem in read_directory(place, None, LIMITS).problems] == [
        "name_backslash",
        "name_not_utf8",
        "name_twin",
    ]


def test_the_bounds_of_a_package_hold_for_a_directory(place: Path) -> None:
    (place / "large.txt").write_bytes(b"x" * 5000)
    small = PackageLimits(file_bytes=4999)
    assert [problem.code for problem in read_directory(place, None, small).problems] == [
        "file_too_large"
    ]
    few = PackageLimits(files=3)
    assert [problem.code for problem in read_directory(place, None, few).problems] == [
        "too_many_files"
    ]
    light = PackageLimits(package_bytes=5500)
    assert [problem.code for problem in read_directory(place, None, light).problems] == [
        "package_too_large"
    ]


def test_a_directory_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        read_directory(tmp_path / "none", None, LIMITS)
    assert caught.value.code == "NO_SUCH_DIRECTORY"
    assert caught.value.message == f"there is no directory {tmp_path / 'none'}"
    assert caught.value.hint == "name the directory that holds .kernel_package"


def test_a_file_that_vanishes_while_it_is_read_is_an_io_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path as RealPath

    def vanished(path: RealPath) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(RealPath, "read_bytes", vanished)
    with pytest.raises(Broken) as caught:
        read_directory(place, None, LIMITS)
    assert caught.value.code == "IO_ERROR"
    assert caught.value.message.endswith("Permission denied")


# Where a package lies says what it is.


def put(directory: Path, *, category_of: str | None, board_of: str | None) -> Path:
    directory.mkdir(parents=True)
    files = {}
    if category_of is not None:
        files[DESC_PATH] = valid_package(category_of).files[DESC_PATH].data
    if board_of is not None:
        files[SCOREBOARD_PATH] = seed_scoreboard(board_of)
    for path, data in files.items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_bytes(data)
    return directory


def test_the_category_tells_where_the_kernel_id_begins_in_the_path(tmp_path: Path) -> None:
    for kernel_id in (KERNEL_ID, "gfx928/Norm/RMSNorm/fp32/team/demo"):
        directory = put(tmp_path / "a" / kernel_id, category_of=kernel_id, board_of=None)
        assert kernel_id_of_directory(directory) == (kernel_id, [])


def test_a_path_that_looks_like_a_kernel_id_counts_more_than_a_wrong_category(
    tmp_path: Path,
) -> None:
    directory = put(
        tmp_path / "gfx936/Norm/RMSNorm/fp32/demo", category_of=KERNEL_ID, board_of=KERNEL_ID
    )
    assert kernel_id_of_directory(directory) == ("gfx936/Norm/RMSNorm/fp32/demo", [])
    reading = read_directory(directory, None, LIMITS)
    codes = [problem.code for problem in check_directory(reading.package).problems]
    assert "category_mismatch" in codes
    assert "scoreboard_kernel_id" in codes


def test_a_directory_that_lies_elsewhere_is_what_its_scoreboard_says(tmp_path: Path) -> None:
    directory = put(tmp_path / "work/mine", category_of=KERNEL_ID, board_of=KERNEL_ID)
    kernel_id, problems = kernel_id_of_directory(directory)
    assert kernel_id == KERNEL_ID
    (problem,) = problems
    assert problem.code == "directory_not_at_kernel_id"
    assert problem.severity is Severity.WARNING
    assert problem.message == (
        f"the directory does not lie at its kernel_id, taken to be {KERNEL_ID}"
    )
    assert problem.expected == f"…/{KERNEL_ID}"
    assert problem.hint == "move it there, or say --kernel-id"


def test_without_a_scoreboard_the_directorys_name_is_the_last_segment(tmp_path: Path) -> None:
    directory = put(tmp_path / "work/mine", category_of=KERNEL_ID, board_of=None)
    kernel_id, problems = kernel_id_of_directory(directory)
    assert kernel_id == "gfx928/Norm/RMSNorm/fp32/mine"
    assert [problem.code for problem in problems] == ["directory_not_at_kernel_id"]


def test_a_short_kernel_id_is_known_by_its_scoreboard(tmp_path: Path) -> None:
    directory = put(tmp_path / "lab/demo", category_of=None, board_of="lab/demo")
    assert kernel_id_of_directory(directory) == ("lab/demo", [])


def test_a_directory_that_says_nothing_is_the_end_of_its_path(tmp_path: Path) -> None:
    directory = put(tmp_path / "a/b/c/d/e", category_of=None, board_of=None)
    assert kernel_id_of_directory(directory) == ("a/b/c/d/e", [])
