from __future__ import annotations

import io

from kzoo_core.contract.layout import BENCHMARK_PATH, DESC_PATH, SCOREBOARD_PATH
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.submission import read_submission
from kzoo_core.ids import KernelId
from tests.packages import KERNEL_ID, package_tarball, seed_scoreboard, tarball, valid_package

LIMITS = PackageLimits()
ID = KernelId(KERNEL_ID)


def test_a_valid_archive_gives_the_package_and_a_clean_report() -> None:
    package, report = read_submission(
        io.BytesIO(package_tarball(valid_package())), LIMITS, kernel_id=ID
    )
    assert package == valid_package()
    assert report.valid
    assert report.problems == ()
    assert report.desc is not None


def test_problems_of_the_archive_and_of_the_package_come_in_one_answer() -> None:
    bad = valid_package(
        desc={"status": "cold"},
        files={BENCHMARK_PATH: "x = (", SCOREBOARD_PATH: seed_scoreboard(), "a.npy": "x"},
    )
    data = package_tarball(bad, top="gfx928/Norm/RMSNorm/fp32/other")
    package, report = read_submission(io.BytesIO(data), LIMITS, kernel_id=ID)
    assert package is not None
    assert report.kernel_id == KERNEL_ID
    assert not report.valid
    assert [(problem.code, problem.file) for problem in report.problems] == [
        ("wrong_top_directory", None),
        ("scoreboard_in_archive", SCOREBOARD_PATH),
        ("generated_evidence", "a.npy"),
        ("not_one_of", DESC_PATH),
        ("python_syntax", BENCHMARK_PATH),
    ]


def test_an_archive_that_breaks_off_tells_only_what_is_certain() -> None:
    data = package_tarball(valid_package())[:-20]
    package, report = read_submission(io.BytesIO(data), LIMITS, kernel_id=ID)
    assert package is None
    assert [problem.code for problem in report.problems] == ["archive_truncated"]


def test_an_archive_without_a_package_has_no_kernel_id() -> None:
    package, report = read_submission(io.BytesIO(tarball({"a": b""})), LIMITS, kernel_id=None)
    assert package is None
    assert report.kernel_id == ""
    assert [problem.code for problem in report.problems] == ["no_kernel_package"]
