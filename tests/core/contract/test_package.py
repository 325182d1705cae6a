"""The checklists of the authoring guides, row by row, and every problem at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.contract.layout import (
    BENCHMARK_PATH,
    BUILD_PATH,
    COMMITTED_PATHS,
    DESC_PATH,
    SCOREBOARD_PATH,
    SUBMITTED_PATHS,
)
from kzoo_core.contract.package import check_committed, check_directory, check_submission
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.errors import Problem, Severity
from kzoo_core.ids import KernelId
from tests.packages import KERNEL_ID, seed_scoreboard, valid_package

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.contract.records import PackageReport

WHY = {
    DESC_PATH: "the operator's datasheet",
    SCOREBOARD_PATH: 'a seed: every entry with commit_sha "0000000", or cases: []',
    BUILD_PATH: "the script that makes inputs and expected outputs",
    BENCHMARK_PATH: "the script that runs, checks and measures",
}


def only_problem(report: PackageReport) -> Problem:
    (problem,) = report.problems
    assert report.valid == (problem.severity is Severity.WARNING)
    return problem


def with_file(path: str, data: bytes | str) -> Package:
    return valid_package(files={path: data})


# Valid.


def test_a_valid_submission_is_parsed() -> None:
    report = check_submission(valid_package())
    assert report.problems == ()
    assert report.valid
    assert report.kernel_id == KERNEL_ID
    assert report.desc is not None
    assert report.desc.name == "RMSNorm demo"
    assert [meta.test_case_id for meta in report.metas or ()] == ["n4", "n8"]
    assert report.scoreboard is None


@pytest.mark.parametrize("check", [check_directory, check_committed])
def test_a_valid_package_with_its_scoreboard_is_parsed(
    check: Callable[[Package], PackageReport],
) -> None:
    report = check(valid_package(scoreboard=True))
    assert report.problems == ()
    assert report.scoreboard is not None
    assert [case.test_case_id for case in report.scoreboard.cases] == ["n4", "n8"]


# Directory and naming.


@pytest.mark.parametrize("path", SUBMITTED_PATHS)
def test_a_submission_without_one_of_its_files_is_refused(path: str) -> None:
    report = check_submission(valid_package(files={path: None}))
    assert [problem for problem in report.problems if problem.code == "missing_file"] == [
        missing(path)
    ]
    assert not report.valid


@pytest.mark.parametrize("path", COMMITTED_PATHS)
def test_a_committed_package_without_one_of_four_files_is_invalid(path: str) -> None:
    report = check_committed(valid_package(scoreboard=True, files={path: None}))
    assert report.problems == (missing(path),)
    assert not report.valid


def missing(path: str) -> Problem:
    return Problem(
        code="missing_file",
        message=f"the package has no {path}",
        file=path,
        found=f"no {path}",
        expected=WHY[path],
    )


def test_a_missing_file_that_is_only_misspelt_is_led_to() -> None:
    desc = valid_package().files[DESC_PATH].data
    package = valid_package(files={DESC_PATH: None, ".kernel_package/desc.yml": desc})
    problem = only_problem(check_submission(package))
    assert problem.hint == "did you mean .kernel_package/desc.yml to be it?"


def test_a_kernel_id_that_is_none_is_told() -> None:
    package = Package(KernelId("a b/c"), valid_package().files)
    assert [problem.code for problem in check_submission(package).problems] == ["bad_kernel_id"]


MISMATCH = Problem(
    code="category_mismatch",
    message="the category is gfx928/Norm/LayerNorm/fp32, the kernel_id begins with "
    "gfx928/Norm/RMSNorm/fp32",
    file=DESC_PATH,
    pointer="/category",
    found="gfx928/Norm/LayerNorm/fp32",
    expected="gfx928/Norm/RMSNorm/fp32",
    hint="make arch, op_class, sub_class and quant the first four segments of the kernel_id",
)
OTHER_CATEGORY = {
    "category": {"arch": "gfx928", "op_class": "Norm", "sub_class": "LayerNorm", "quant": "fp32"}
}


def test_another_category_than_the_path_is_an_error_before_it_is_submitted() -> None:
    assert only_problem(check_submission(valid_package(desc=OTHER_CATEGORY))) == MISMATCH
    package = valid_package(desc=OTHER_CATEGORY, scoreboard=True)
    assert only_problem(check_directory(package)) == MISMATCH


def test_another_category_than_the_path_is_a_warning_in_the_repository() -> None:
    package = valid_package(desc=OTHER_CATEGORY, scoreboard=True)
    problem = only_problem(check_committed(package))
    assert problem.severity is Severity.WARNING
    assert (problem.code, problem.found) == (MISMATCH.code, MISMATCH.found)


def test_a_short_kernel_id_says_nothing_of_the_category() -> None:
    assert check_submission(valid_package("lab/demo")).problems == ()


def test_a_kernel_inside_a_kernel_is_refused() -> None:
    inner = {f"src/inner/.kernel_package/{name}": b"x" for name in ("desc.yaml", "benchmark.py")}
    assert only_problem(check_submission(valid_package(files=inner))) == Problem(
        code="kernel_inside_kernel",
        message="src/inner is a kernel_package inside this one",
        file="src/inner",
        found="src/inner/.kernel_package",
        expected="one kernel_package",
        hint="submit it under its own kernel_id, beside this one",
    )


def test_names_in_a_repository_are_checked_too() -> None:
    files = {"src/a\\b": b"x", "src/A.py": b"", "src/a.py": b""}
    report = check_committed(valid_package(scoreboard=True, files=files))
    assert [problem.code for problem in report.problems] == ["name_backslash", "name_twin"]


# desc.yaml.


def test_a_reference_source_that_is_missing_is_refused() -> None:
    references = ["src/reference.py", "src/refrence.py", "src", "docs/zzz"]
    report = check_submission(valid_package(desc={"reference_sources": references}))
    assert report.problems == tuple(
        Problem(
            code="reference_source_missing",
            message=f"reference_sources names {path}, which is not in the package",
            file=DESC_PATH,
            pointer=f"/reference_sources/{place}",
            found=found,
            expected="a file of the package",
            hint=hint,
        )
        for place, path, found, hint in (
            (1, "src/refrence.py", "no src/refrence.py", "did you mean src/reference.py?"),
            (2, "src", "src is a directory", "name the files inside it"),
            (3, "docs/zzz", "no docs/zzz", "ship the file, or take it off the list"),
        )
    )


def test_a_url_among_the_reference_sources_is_refused() -> None:
    report = check_submission(valid_package(desc={"reference_sources": ["https://x.org/a.py"]}))
    problem = only_problem(report)
    assert problem.code == "reference_source_not_a_path"
    assert problem.line is not None
    assert report.desc is None


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("frozen", "once it lies in the repository, no further submission is taken"),
        ("deprecated", "listings show the kernel as deprecated"),
    ],
)
def test_a_status_other_than_normal_is_a_warning_to_its_author(status: str, told: str) -> None:
    assert only_problem(check_submission(valid_package(desc={"status": status}))) == Problem(
        code=f"status_{status}",
        severity=Severity.WARNING,
        message=f"status is {status}: {told}",
        file=DESC_PATH,
        pointer="/status",
        found=status,
        expected="normal",
    )
    committed = valid_package(desc={"status": status}, scoreboard=True)
    assert check_committed(committed).problems == ()


@pytest.mark.parametrize(
    ("description", "found"),
    [
        ("It normalizes.", "14 characters without a heading"),
        ("## Definition\nIt normalizes.", "28 characters"),
        ("x" * 300, "300 characters without a heading"),
    ],
)
def test_a_thin_description_is_a_warning_to_its_author(description: str, found: str) -> None:
    package = valid_package(desc={"description": description}, scoreboard=True)
    assert only_problem(check_directory(package)) == Problem(
        code="thin_description",
        severity=Severity.WARNING,
        message="the description looks too thin to write an implementation from it alone",
        file=DESC_PATH,
        pointer="/description",
        found=found,
        expected=(
            "sections on mathematical definition, input layout, performance hints, known traps"
        ),
        hint="an agent that has never seen the sources must be able to work from it",
    )
    assert check_committed(package).problems == ()


def test_a_stale_acceptance_field_is_refused() -> None:
    report = check_submission(valid_package(desc={"acceptance": {"regression_tolerance": 0.05}}))
    problem = only_problem(report)
    assert (problem.code, problem.pointer) == ("unknown_field", "/acceptance")
    assert problem.hint == (
        "remove it: the accept policy lives in benchmark.py, which decides for itself"
    )


# build_test_env.py and benchmark.py.


@pytest.mark.parametrize("path", [BUILD_PATH, BENCHMARK_PATH, ".kernel_package/helpers.py"])
def test_python_of_the_contract_that_does_not_parse_is_refused(path: str) -> None:
    report = check_submission(with_file(path, "def main(:\n    pass\n"))
    assert only_problem(report) == Problem(
        code="python_syntax",
        message=f"{path} is not Python: invalid syntax",
        file=path,
        line=1,
        column=10,
        found="def main(:",
        expected="a file that Python can compile",
    )


def test_python_outside_of_the_contract_is_the_authors_own() -> None:
    assert check_submission(with_file("src/python2.py", "print 'x'\n")).problems == ()


def test_a_build_that_defines_nothing_is_told_all_it_lacks() -> None:
    report = check_submission(with_file(BUILD_PATH, "import os\nX = os.urandom(3)\n"))
    assert [(problem.code, problem.severity) for problem in report.problems] == [
        ("build_env_missing", "error"),
        ("no_main_guard", "error"),
        ("unseeded_random", "warning"),
        ("work_directory_layout", "warning"),
    ]


def test_advice_on_a_build_is_not_given_on_what_lies_in_the_repository() -> None:
    build = "import os\ndef build_env(w): os.urandom(3)\nif __name__ == '__main__': build_env(1)\n"
    package = valid_package(scoreboard=True, files={BUILD_PATH: build})
    assert check_committed(package).problems == ()
    assert len(check_directory(package).problems) == 2


def test_a_benchmark_whose_metas_have_to_run_is_refused() -> None:
    source = "KERNEL_ZOO_TEST_CASE_METAS = make()\nif __name__ == '__main__': pass\n"
    report = check_submission(with_file(BENCHMARK_PATH, source))
    assert only_problem(report).code == "metas_not_static"
    assert report.metas is None


# The scoreboard.


@pytest.mark.parametrize("path", [SCOREBOARD_PATH, ".kernel_package/BENCH_RESULT.yaml"])
def test_a_submission_with_a_scoreboard_is_refused(path: str) -> None:
    problem = only_problem(check_submission(with_file(path, seed_scoreboard())))
    assert (problem.code, problem.file) == ("scoreboard_in_archive", path)


def test_the_scoreboard_of_another_kernel_is_refused() -> None:
    board = seed_scoreboard("gfx928/Norm/RMSNorm/fp32/other")
    package = with_file(SCOREBOARD_PATH, board)
    expected = Problem(
        code="scoreboard_kernel_id",
        message=(
            "the scoreboard is that of gfx928/Norm/RMSNorm/fp32/other, "
            f"the directory is {KERNEL_ID}"
        ),
        file=SCOREBOARD_PATH,
        pointer="/kernel_id",
        found="gfx928/Norm/RMSNorm/fp32/other",
        expected=KERNEL_ID,
        hint=f"write kernel_id: {KERNEL_ID}",
    )
    assert only_problem(check_directory(package)) == expected
    assert only_problem(check_committed(package)) == expected


def test_a_scoreboard_with_other_cases_is_a_warning() -> None:
    board = seed_scoreboard(cases={"n4": 1.0, "n16": 1.0})
    assert only_problem(check_directory(with_file(SCOREBOARD_PATH, board))) == Problem(
        code="scoreboard_cases_differ",
        severity=Severity.WARNING,
        message=("the scoreboard's cases are not those of the benchmark: n8 missing; n16 too many"),
        file=SCOREBOARD_PATH,
        pointer="/cases",
        found="n4, n16",
        expected="n4, n8",
        hint="mirror the metas in the seed of a new kernel; later on the server keeps the file",
    )


def test_a_scoreboard_without_cases_is_that_of_a_new_kernel() -> None:
    board = f'schema_version: "1.0.0"\nkernel_id: {KERNEL_ID}\ncases: []\n'
    assert check_directory(with_file(SCOREBOARD_PATH, board)).problems == ()


def test_a_seed_that_names_a_commit_is_a_warning() -> None:
    board = seed_scoreboard(cases={"n4": 1.0, "n8": 1.0}).replace(b"0000000", b"abcdef1", 1)
    assert only_problem(check_directory(with_file(SCOREBOARD_PATH, board))) == Problem(
        code="seed_without_sentinel",
        severity=Severity.WARNING,
        message="the seed of n4, latency_ms, names a commit",
        file=SCOREBOARD_PATH,
        pointer="/cases/0/metrics_best/latency_ms/commit_sha",
        found="abcdef1",
        expected='"0000000"',
        hint='write commit_sha: "0000000", or it counts as a result',
    )


def test_a_broken_scoreboard_makes_a_committed_package_invalid() -> None:
    report = check_committed(with_file(SCOREBOARD_PATH, "cases: 3\n"))
    assert not report.valid
    assert {problem.file for problem in report.problems} == {SCOREBOARD_PATH}
    assert report.scoreboard is None
    assert report.desc is not None


# All at once.


def test_everything_that_is_wrong_is_told_at_once() -> None:
    package = valid_package(
        desc={"acceptance": {}, "owner": None, "status": "cold"},
        files={
            BUILD_PATH: "def build(:\n",
            BENCHMARK_PATH: "KERNEL_ZOO_TEST_CASE_METAS = []\n",
            "data/golden.npy": b"\x93NUMPY",
            "run.log": "x",
            "libk.so": b"\x7fELF",
            "results.csv": "x",
        },
    )
    report = check_submission(package)
    assert [(problem.code, problem.file) for problem in report.problems] == [
        ("generated_evidence", "data/golden.npy"),
        ("generated_evidence", "run.log"),
        ("generated_evidence", "libk.so"),
        ("maybe_evidence", "results.csv"),
        ("unknown_field", DESC_PATH),
        ("not_one_of", DESC_PATH),
        ("python_syntax", BUILD_PATH),
        ("metas_empty", BENCHMARK_PATH),
        ("no_main_guard", BENCHMARK_PATH),
    ]


def test_what_two_checks_say_of_one_file_is_told_once() -> None:
    report = check_submission(with_file(BENCHMARK_PATH, b"# \xff\n"))
    assert [(problem.code, problem.file) for problem in report.problems] == [
        ("not_utf8", BENCHMARK_PATH)
    ]


def test_two_missing_fields_of_one_mapping_are_both_told() -> None:
    report = check_submission(valid_package(desc={"name": None, "summary": None}))
    assert [problem.found for problem in report.problems] == ["no name", "no summary"]


def test_executable_files_are_fine() -> None:
    package = valid_package()
    files = {**package.files, "build.sh": PackageFile(b"#!/bin/sh\n", executable=True)}
    assert check_submission(Package(package.kernel_id, files)).problems == ()
