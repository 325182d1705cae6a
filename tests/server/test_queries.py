from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from multidict import MultiDict

from kzoo_core.errors import BadInput
from kzoo_core.ids import parse_submitter_id
from kzoo_server.queries import Query, cursor_checked, path_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.errors import Problem


def refusal(
    text: str, *names: str, read: Callable[[Query], object] = lambda query: query
) -> BadInput:
    """Return what a query is refused with once ``read`` has read it."""
    pairs = [pair.partition("=") for pair in text.split("&")]
    query = Query(MultiDict((name, value) for name, _, value in pairs), *names)
    with query_refused() as refused, query:
        read(query)
    assert refused.value.code == "BAD_QUERY"
    return refused.value


def query_refused() -> pytest.RaisesExc[BadInput]:
    return pytest.raises(BadInput)


def only(error: BadInput) -> Problem:
    [problem] = error.details
    assert error.message == problem.message
    return problem


@pytest.mark.parametrize("value", ["-1", "abc", "", "61", "nan", "inf", "1_0", "٣"])
def test_a_time_that_is_no_number_of_seconds_is_refused(value: str) -> None:
    problem = only(
        refusal(f"wait={value}", "wait", read=lambda query: query.seconds("wait", 30.0, 60.0))
    )
    assert problem.code == "bad_query"
    assert problem.message == f"wait is {value!r}"
    assert problem.pointer == "/query/wait"
    assert problem.found == value
    assert problem.expected == "a number of seconds from 0 to 60"


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("60", 60), ("2.5", 2.5), ("1e-05", 1e-5)])
def test_a_time_may_be_a_fraction_of_a_second(text: str, seconds: float) -> None:
    with Query(MultiDict({"wait": text}), "wait") as query:
        assert query.seconds("wait", 30.0, 60.0) == seconds


@pytest.mark.parametrize("value", ["0", "-5", "1001", "ten", "1.5", "9" * 30])
def test_a_limit_outside_its_bounds_is_refused(value: str) -> None:
    problem = only(refusal(f"limit={value}", "limit", read=lambda query: query.limit(50, 1000)))
    assert problem.found == value[:80]
    assert problem.expected == "a whole number from 1 to 1000"


def test_a_parameter_that_is_missing_has_its_default() -> None:
    with Query(MultiDict(), "wait", "limit", "since", "valid", "state", "q") as query:
        assert query.seconds("wait", 30.0, 60.0) == 30.0
        assert query.limit(50, 1000) == 50
        assert query.whole("since", None) is None
        assert query.truth("valid") is None
        assert query.choice("state", ("queued",)) is None
        assert query.text("q") is None
        assert query.parsed("submitter", parse_submitter_id) is None


def test_an_unknown_parameter_names_its_nearest_neighbour() -> None:
    problem = only(refusal("op_clas=Norm", "arch", "op_class"))
    assert problem.message == "'op_clas' is no parameter of this call"
    assert problem.expected == "one of: arch op_class"
    assert problem.hint == "did you mean 'op_class'?"


def test_a_call_without_parameters_says_so() -> None:
    problem = only(refusal("pretty=1"))
    assert problem.expected == "no parameter"
    assert problem.hint is None


def test_a_parameter_given_twice_is_refused() -> None:
    problem = only(refusal("limit=1&limit=2", "limit"))
    assert problem.message == "limit is given 2 times"
    assert problem.found == "1, 2"
    assert problem.expected == "one value"


def test_a_word_outside_its_list_names_the_nearest_one() -> None:
    problem = only(
        refusal(
            "state=runing",
            "state",
            read=lambda query: query.choice("state", ("queued", "running", "done")),
        )
    )
    assert problem.expected == "one of: queued running done"
    assert problem.hint == "did you mean 'running'?"


def test_a_truth_value_is_true_or_false() -> None:
    problem = only(refusal("valid=yes", "valid", read=lambda query: query.truth("valid")))
    assert problem.found == "yes"
    assert problem.expected == "true or false"
    with Query(MultiDict({"valid": "false"}), "valid") as query:
        assert query.truth("valid") is False


def test_a_name_is_refused_by_its_own_rule() -> None:
    problem = only(
        refusal(
            "submitter=a%20b",
            "submitter",
            read=lambda query: query.parsed("submitter", parse_submitter_id),
        )
    )
    assert problem.found == "a%20b"
    assert problem.expected == "matches ^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"


def test_a_required_parameter_that_is_missing_is_named() -> None:
    problem = only(
        refusal("other=1", "attempt", "other", read=lambda query: query.required("attempt"))
    )
    assert problem.message == "attempt is missing"
    assert problem.expected == "?attempt=…"


def test_everything_wrong_is_told_at_once() -> None:
    def read(query: Query) -> None:
        query.seconds("wait", 30.0, 60.0)
        query.whole("since", None)

    error = refusal("wait=x&since=y&nope=1", "wait", "since", read=read)
    assert [problem.pointer for problem in error.details] == [
        "/query/nope",
        "/query/wait",
        "/query/since",
    ]


def test_an_error_inside_the_block_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="inner"), Query(MultiDict({"nope": "1"})):
        raise RuntimeError("inner")


def test_a_bad_part_of_a_path_is_no_bad_query() -> None:
    with pytest.raises(BadInput) as refused:
        path_value({"submitter": "a b"}, "submitter", parse_submitter_id)
    assert refused.value.code == "BAD_PATH"
    assert refused.value.details[0].found == "'a b'"


def test_a_cursor_that_a_room_refuses_is_a_bad_parameter() -> None:
    with pytest.raises(BadInput) as refused, cursor_checked("zzz"):
        raise BadInput("BAD_CURSOR", "no such commit")
    assert refused.value.code == "BAD_QUERY"
    assert only(refused.value).pointer == "/query/cursor"
    with pytest.raises(BadInput, match="something else"), cursor_checked(None):
        raise BadInput("VALIDATION_ERROR", "something else")
