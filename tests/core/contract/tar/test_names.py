from __future__ import annotations

import pytest

from kzoo_core.contract.tar.names import name_problem, twin_problems
from kzoo_core.errors import Problem

BELOW = "paths below the kernel_id"
PLAIN = "plain relative paths"


@pytest.mark.parametrize(
    "name",
    ["a", "a/b.py", "src/ünï/核.py", "a b/c d", "..a/b..", "src/...", ".kernel_package/x", "a:b"],
)
def test_a_plain_relative_path_is_fine(name: str) -> None:
    assert name_problem(name, path_bytes=512) is None


@pytest.mark.parametrize(
    ("name", "code", "message", "expected", "hint"),
    [
        ("a/\udcff", "name_not_utf8", "a/ is a name that is not UTF-8", "UTF-8 names", None),
        (
            "a\x1b[31m",
            "name_control_character",
            "a[31m holds a control or invisible character",
            "names that can be seen as they are",
            None,
        ),
        (
            "a\u202eb",
            "name_control_character",
            "ab holds a control or invisible character",
            "names that can be seen as they are",
            None,
        ),
        (
            "a\\b",
            "name_backslash",
            "a\\b holds a backslash",
            "POSIX paths, separated by '/'",
            None,
        ),
        (
            "/etc/passwd",
            "name_absolute",
            "/etc/passwd is an absolute path",
            "paths below the kernel_id",
            "give tf.add an arcname that begins with the kernel_id",
        ),
        ("a/../b", "name_parent", "a/../b climbs out with '..'", "paths below the kernel_id", None),
        ("..", "name_parent", ".. climbs out with '..'", "paths below the kernel_id", None),
        (
            "a//b",
            "name_not_plain",
            "a//b has an empty or '.' segment",
            "plain relative paths",
            None,
        ),
        (
            "a/./b",
            "name_not_plain",
            "a/./b has an empty or '.' segment",
            "plain relative paths",
            None,
        ),
        ("a/", "name_not_plain", "a/ has an empty or '.' segment", "plain relative paths", None),
        (
            "src/._kernel.py",
            "apple_double",
            "src/._kernel.py is an AppleDouble file",
            "sources only",
            "macOS puts it there: set COPYFILE_DISABLE=1 when making the archive",
        ),
        (
            "src/.GIT/config",
            "git_directory",
            "src/.GIT/config is named like git's own directory",
            "sources without their repository",
            "leave .git out of the archive",
        ),
        (
            "GIT~1/config",
            "git_directory",
            "GIT~1/config is named like git's own directory",
            "sources without their repository",
            "leave .git out of the archive",
        ),
    ],
)
def test_any_other_name_is_refused_by_its_rule(
    name: str, code: str, message: str, expected: str, hint: str | None
) -> None:
    problem = name_problem(name, path_bytes=512)
    assert problem is not None
    assert (problem.code, problem.message) == (code, message)
    assert (problem.expected, problem.hint) == (expected, hint)
    assert problem.found == ascii(name)


def test_a_path_is_bounded_in_bytes() -> None:
    assert name_problem("ü" * 10, path_bytes=20) is None
    assert name_problem("ü" * 11, path_bytes=20) == Problem(
        code="path_too_long",
        message="üüüüüüüüüüü is a path of 22 bytes",
        file="ü" * 11,
        found="22 bytes",
        expected="at most 20 bytes",
    )


def test_names_that_differ_are_fine() -> None:
    assert twin_problems(["src/a.py", "src/b.py", "src2/a.py", "a"]) == []


@pytest.mark.parametrize(
    ("first", "second", "one", "other"),
    [
        ("src/A.py", "src/a.py", "src/A.py", "src/a.py"),
        ("Src/a.py", "src/b.py", "Src", "src"),
        ("stra\u00dfe", "STRASSE", "stra\u00dfe", "STRASSE"),
        ("caf\u00e9", "cafe\u0301", "caf\u00e9", "cafe\u0301"),
        ("\ufb01le", "file", "\ufb01le", "file"),
        ("x\u2460", "x1", "x\u2460", "x1"),
    ],
)
def test_names_that_some_machine_takes_for_one_are_twins(
    first: str, second: str, one: str, other: str
) -> None:
    assert twin_problems([first, second]) == [
        Problem(
            code="name_twin",
            message=f"{one} and {other} are the same name on some machines",
            file=other,
            found=f"{one} and {other}",
            expected="names that no file system takes for the same",
            hint="rename one of them",
        )
    ]


def test_a_path_cannot_be_a_file_and_a_directory() -> None:
    assert twin_problems(["src", "src/a.py"]) == [
        Problem(
            code="file_and_directory",
            message="src is a file and, in src/a.py, a directory",
            file="src/a.py",
            found="src and src/a.py",
            expected="names that no file system takes for the same",
            hint="rename one of them",
        )
    ]
