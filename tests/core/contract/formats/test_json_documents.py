from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.documents import NonFiniteNumber, NotOneDocument, load_json
from kzoo_core.errors import BadInput, Problem

LIMIT = 1_000_000
ONE = "exactly one JSON document"


def refusal(data: bytes, kind: type[BadInput]) -> Problem:
    with pytest.raises(kind) as caught:
        load_json(data, max_bytes=LIMIT)
    assert type(caught.value) is kind
    (problem,) = caught.value.details
    assert caught.value.message == problem.message
    return problem


def test_one_document_with_space_around_it_is_read() -> None:
    assert load_json(b' \r\n\t{"a": [1, 2.5, "x", null, true]}\n', max_bytes=LIMIT) == {
        "a": [1, 2.5, "x", None, True]
    }


@pytest.mark.parametrize("data", [b"", b" \n\t\r "])
def test_nothing_is_no_document(data: bytes) -> None:
    assert refusal(data, NotOneDocument) == Problem(
        code="json_empty", message="there is no document", found="nothing", expected=ONE
    )


def test_a_second_document_is_refused_where_it_begins() -> None:
    assert refusal(b'{"a": 1}\n{"b": 2}\n', NotOneDocument) == Problem(
        code="json_two_documents",
        message="a second document follows the first in line 2, column 1",
        line=2,
        column=1,
        found='{"a": 1} {"b": 2} ',
        expected=ONE,
    )


@pytest.mark.parametrize(
    ("data", "message", "line", "column", "found"),
    [
        (
            b'warming up\n{"a": 1}',
            "the document begins with text that is no JSON in line 1, column 1",
            1,
            1,
            'warming up {"a": 1}',
        ),
        (b'{"a": 1}\ndone', "text follows the document in line 2, column 1", 2, 1, '{"a": 1} done'),
        (
            b"\xef\xbb\xbf{}",
            "the document begins with a byte order mark in line 1, column 1",
            1,
            1,
            "{}",
        ),
    ],
)
def test_text_around_the_document_is_refused(
    data: bytes, message: str, line: int, column: int, found: str
) -> None:
    assert refusal(data, NotOneDocument) == Problem(
        code="json_stray_text",
        message=message,
        line=line,
        column=column,
        found=found,
        expected=ONE,
    )


def test_bad_syntax_is_quoted_without_its_control_characters() -> None:
    problem = refusal(b'{"a": 1,\n "\x1b[31mb": }', NotOneDocument)
    assert problem.code == "json_syntax"
    assert problem.line == 2
    assert problem.found is not None
    assert "\x1b" not in problem.found


def test_the_quotation_is_never_longer_than_80_characters() -> None:
    problem = refusal(b"[" + b"1," * 500 + b"}" + b"2," * 500, NotOneDocument)
    assert problem.message.startswith("the JSON breaks: Expecting value in line 1, column 1002")
    assert problem.found is not None
    assert len(problem.found) == 80
    assert "}" in problem.found


def test_a_key_given_twice_is_refused_where_it_is_given_again() -> None:
    data = b'{"a": {"x": 1},\n "b": {"x": "x", "y": ["x"], "x" : 2}}'
    assert refusal(data, NotOneDocument) == Problem(
        code="json_duplicate_key",
        message="the key x is given twice in line 2, column 30",
        line=2,
        column=30,
        found='": "x", "y": ["x"], "x" : 2}}',
        expected="every key once",
    )


def test_keys_that_differ_only_in_their_escapes_are_the_same_key() -> None:
    assert refusal(b'{"a": 1, "\\u0061": 2}', NotOneDocument).code == "json_duplicate_key"


@pytest.mark.parametrize(
    ("data", "number", "column"),
    [
        (b'{"a": NaN}', "NaN", 7),
        (b'{"NaN": "NaN", "b": Infinity}', "Infinity", 21),
        (b"[-Infinity]", "-Infinity", 2),
        (b"[1, -1e999]", "-1e999", 5),
        (b"[1" + b"0" * 309 + b"]", "100000000000000000000000000000000000000…", 2),
        (b"[1" + b"0" * 9000 + b"]", "100000000000000000000000000000000000000…", 2),
    ],
)
def test_a_number_that_is_not_finite_is_refused(data: bytes, number: str, column: int) -> None:
    problem = refusal(data, NonFiniteNumber)
    assert problem.code == "non_finite_number"
    assert problem.message == f"the document holds {number} in line 1, column {column}"
    assert (problem.line, problem.column) == (1, column)
    assert problem.expected == "finite numbers"


def test_what_is_no_json_is_said_before_what_is_not_finite() -> None:
    assert refusal(b'{"a": NaN} done', NotOneDocument).code == "json_stray_text"
    assert refusal(b'{"a": NaN, "a": 1}', NotOneDocument).code == "json_duplicate_key"


def test_the_largest_numbers_of_a_double_are_fine() -> None:
    data = json.dumps([1.7976931348623157e308, 10**300, -5e-324]).encode()
    assert load_json(data, max_bytes=LIMIT) == [1.7976931348623157e308, 10**300, -5e-324]


def test_what_is_too_large_is_refused_unread() -> None:
    with pytest.raises(NotOneDocument) as caught:
        load_json(b"[1, 2]", max_bytes=5)
    assert caught.value.code == "NOT_ONE_JSON_DOCUMENT"
    assert caught.value.details == (
        Problem(
            code="json_too_large",
            message="the document has 6 bytes",
            found="6 bytes",
            expected="at most 5 bytes",
        ),
    )


def test_what_is_not_utf8_is_refused() -> None:
    assert refusal(b'{"a": "\xff"}', NotOneDocument) == Problem(
        code="not_utf8",
        message="the document is not UTF-8 at byte 7",
        found="byte 0xff",
        expected="UTF-8 text",
    )


@pytest.mark.parametrize("data", [b'["\\ud800"]', b'{"\\udfff": 1}', b'[["a", "\\ud83d x"]]'])
def test_half_of_a_surrogate_pair_is_refused(data: bytes) -> None:
    problem = refusal(data, NotOneDocument)
    assert problem.code == "json_syntax"
    assert problem.message == "a string holds half of a surrogate pair"


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert load_json(b'["\\ud83d\\ude00"]', max_bytes=LIMIT) == ["\U0001f600"]


@pytest.mark.parametrize("depth", [66, 500, 100_000])
def test_nesting_without_end_is_refused(depth: int) -> None:
    problem = refusal(b"[" * depth + b"]" * depth, NotOneDocument)
    assert problem.code == "json_depth"
    assert problem.found == "more than 64 levels"


def test_nesting_up_to_the_bound_is_fine() -> None:
    assert load_json(b"[" * 64 + b"]" * 64, max_bytes=LIMIT)


def test_many_keys_given_twice_take_no_time() -> None:
    data = b"{" + b",".join(b'"k%d":1' % number for number in range(60_000)) + b',"k59999":2}'
    problem = refusal(data, NotOneDocument)
    assert problem.code == "json_duplicate_key"
    assert problem.column == data.rindex(b'"k59999"') + 1


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**300), max_value=10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(documents, st.booleans())
def test_every_json_document_is_read_as_pythons_json_reads_it(value: object, ascii_: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_).encode()
    assert load_json(data, max_bytes=LIMIT) == value


PIECES = st.text(alphabet='{}[]",:0123456789eE-+. \nNaItfnu').map(str.encode)


@given(st.binary(max_size=200) | PIECES)
def test_any_bytes_give_a_document_or_one_problem(data: bytes) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        value = load_json(data, max_bytes=LIMIT)
    except (NotOneDocument, NonFiniteNumber) as error:
        problems = error.details
    else:
        assert not (isinstance(value, float) and not math.isfinite(value))
    assert all(len(problem.found or "") <= 80 for problem in problems)
    assert len(problems) <= 1
