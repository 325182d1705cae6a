"""Errors and problems as people and programs read them."""

from __future__ import annotations

import pytest

from kzoo_core.errors import BadInput, Conflict, Problem, Retryable, Severity, of_system

DTYPE = Problem(
    code="bad_dtype",
    message="io_signature[0].dtype is float16",
    file="desc.yaml",
    line=4,
    column=5,
    found="float16",
    expected="fp16",
    hint="write fp16",
)


def test_a_problem_tells_place_message_code_and_what_to_do() -> None:
    assert DTYPE.lines() == [
        "error: desc.yaml:4:5: io_signature[0].dtype is float16 [bad_dtype]",
        "  expected: fp16",
        "  hint: write fp16",
    ]


def test_a_problem_without_a_line_tells_its_pointer_and_leaves_out_what_it_said() -> None:
    problem = Problem(
        code="bad_form",
        severity=Severity.WARNING,
        message="mode is fast, not ranked",
        pointer="/mode",
        expected="ranked",
    )
    assert problem.lines() == ["warning: /mode: mode is fast, not ranked [bad_form]"]
    assert problem.as_json() == {
        "code": "bad_form",
        "severity": "warning",
        "message": "mode is fast, not ranked",
        "pointer": "/mode",
        "expected": "ranked",
    }


def test_an_error_says_nothing_twice() -> None:
    error = BadInput("VALIDATION_ERROR", DTYPE.message, hint="write fp16", details=(DTYPE,))
    assert error.lines() == [
        "error: io_signature[0].dtype is float16",
        "  expected: fp16",
        "  hint: write fp16",
    ]


def test_an_error_with_several_problems_tells_each_and_its_own_hint() -> None:
    error = BadInput(
        "VALIDATION_ERROR", "the package has 2 errors", hint="mend them", details=(DTYPE,)
    )
    assert error.lines() == [
        "error: the package has 2 errors",
        *(f"  {line}" for line in DTYPE.lines()),
        "hint: mend them",
    ]


def test_an_error_as_json_says_whether_the_same_call_may_go_through_later() -> None:
    assert Conflict("FROZEN", "no").as_json("r1") == {
        "code": "FROZEN",
        "message": "no",
        "details": [],
        "request_id": "r1",
        "retry": False,
    }
    busy = Retryable("BUSY", "later", hint="wait")
    busy.request_id = "r2"
    assert (busy.as_json()["retry"], busy.as_json()["request_id"]) == (True, "r2")
    assert busy.as_json()["hint"] == "wait"


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (OSError(5, "Input/output error"), ["error: Input/output error"]),
        (FileNotFoundError(2, "No such file", "a/b"), ["error: a/b: No such file"]),
        (
            PermissionError(13, "Permission denied", "a"),
            [
                "error: a: Permission denied",
                "hint: this user may not use it: name another path, or change who may",
            ],
        ),
        (
            NotADirectoryError(20, "Not a directory", "a"),
            [
                "error: a: Not a directory",
                "hint: a part of the path is no directory: name another path",
            ],
        ),
    ],
)
def test_what_the_system_refuses_is_said_with_the_file_and_a_way_out(
    error: OSError, lines: list[str]
) -> None:
    assert of_system(error).lines() == lines
