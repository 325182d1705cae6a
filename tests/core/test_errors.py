"""Errors and problems as people and programs read them."""

from __future__ import annotations

import pytest

from kzoo_core.errors import BadInput, Conflict, Problem, Retryable, Severity
from kzoo_core.usage import USAGE, CommandParser

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


def test_wrong_usage_of_any_command_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    parser = CommandParser(prog="kzoo-some")
    parser.add_argument("--count", type=int)
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["--coun", "1"])
    assert left.value.code == USAGE
    assert "error: unrecognized arguments: --coun 1" in capsys.readouterr().err
