from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.documents import dump_yaml, load_yaml, load_yaml_document
from kzoo_core.contract.schema_problems import Place
from kzoo_core.errors import BadInput, Problem

FILE = ".kernel_package/desc.yaml"


def refusal(data: bytes | str) -> BadInput:
    text = textwrap.dedent(data).encode() if isinstance(data, str) else data
    with pytest.raises(BadInput) as caught:
        load_yaml(text, FILE)
    assert caught.value.code == "VALIDATION_ERROR"
    return caught.value


def only_problem(data: bytes | str) -> Problem:
    error = refusal(data)
    (problem,) = error.details
    assert error.message == problem.message
    assert error.hint == problem.hint
    return problem


def test_values_load_as_libyamls_safe_loader_says() -> None:
    text = b"a: 0000000\nb: 1e-3\nc: 1.0e-3\nd: yes\ne: 2026-08-02T00:00:00Z\nf: ~\ng: '0000000'\n"
    assert load_yaml(text, FILE) == {
        "a": 0,
        "b": "1e-3",
        "c": 0.001,
        "d": True,
        "e": datetime(2026, 8, 2, tzinfo=UTC),
        "f": None,
        "g": "0000000",
    }


def test_an_empty_file_is_no_value() -> None:
    assert load_yaml(b"", FILE) is None
    assert load_yaml_document(b"", FILE).locate(("a",)) is None


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    assert only_problem("a: 1\nb: 2\na: 3\n") == Problem(
        code="yaml_duplicate_key",
        message=f"{FILE} gives the key a twice",
        file=FILE,
        line=3,
        column=1,
        found="a again, first in line 1",
        expected="every key once",
        hint="keep one of the two",
    )


def test_every_problem_of_the_graph_is_told_at_once() -> None:
    error = refusal("a: {x: 1, x: 2}\n1: b\na: c\n")
    assert error.message == f"{FILE} has 3 problems"
    assert [(problem.code, problem.line) for problem in error.details] == [
        ("yaml_key", 2),
        ("yaml_duplicate_key", 3),
        ("yaml_duplicate_key", 1),
    ]


@pytest.mark.parametrize(
    ("text", "key", "kind"),
    [("on: 1", "on", "bool"), ("12: 1", "12", "int"), ("2026-08-02: 1", "2026-08-02", "timestamp")],
)
def test_a_key_that_is_no_string_has_to_be_quoted(text: str, key: str, kind: str) -> None:
    assert only_problem(text) == Problem(
        code="yaml_key",
        message=f"{FILE} has the key {key}, which is no string",
        file=FILE,
        line=1,
        column=1,
        found=f"{key}, read as {kind}",
        expected="keys that are strings",
        hint=f'quote it: "{key}"',
    )


def test_a_key_that_is_a_list_is_refused() -> None:
    problem = only_problem("? [a]\n: 1\n")
    assert problem.code == "yaml_key"
    assert problem.found == "a list or mapping, read as seq"
    assert problem.hint is None


def test_a_tab_that_indents_is_named() -> None:
    assert only_problem("a:\n\tb: 1\n") == Problem(
        code="yaml_tab",
        message=(
            f"{FILE} is not YAML that can be read: a tab indents the line "
            "(found character that cannot start any token)"
        ),
        file=FILE,
        line=2,
        column=1,
        found="a tab indents the line (found character that cannot start any token)",
        expected="one YAML document",
        hint="indent with spaces: YAML allows no tabs there",
    )


def test_a_tab_inside_a_block_of_text_is_fine() -> None:
    assert load_yaml(b"a: |\n  x\ty\n", FILE) == {"a": "x\ty\n"}


def test_an_alias_bomb_is_refused_before_it_is_written_out() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)
    ]
    assert only_problem("\n".join(levels)) == Problem(
        code="yaml_alias_growth",
        message=f"{FILE} has aliases that grow out of bounds",
        file=FILE,
        line=1,
        column=1,
        found="1000000000 nodes more when written out",
        expected="at most 10000",
        hint="write the values out where they are used",
    )


def test_an_alias_inside_its_own_value_is_refused() -> None:
    problem = only_problem("a: &x [*x]\n")
    assert problem.code == "yaml_alias_growth"
    assert problem.message == f"{FILE} has an alias inside the value that it names"
    assert (problem.line, problem.column) == (1, 4)


def test_a_few_aliases_and_a_merge_are_fine() -> None:
    text = b"base: &base {x: 1, y: 2}\na: *base\nb: {<<: *base, y: 3}\n"
    assert load_yaml(text, FILE) == {
        "base": {"x": 1, "y": 2},
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
    }


@pytest.mark.parametrize("text", ["[" * 40 + "]" * 40, "- " * 40 + "x"])
def test_deep_nesting_is_refused(text: str) -> None:
    problem = only_problem(text)
    assert problem.code == "yaml_depth"
    assert problem.message == f"{FILE} is nested too deeply"
    assert problem.found == "more than 32 levels"
    assert problem.expected == "at most 32 levels"


def test_nesting_that_only_aliases_make_deep_is_refused() -> None:
    levels = ["a0: &a0 [x]"]
    levels += [f"a{level}: &a{level} [[[[*a{level - 1}]]]]" for level in range(1, 12)]
    assert "yaml_depth" in [problem.code for problem in refusal("\n".join(levels)).details]


@pytest.mark.parametrize("text", ["[" * 200_000, "{a: " * 200_000, "- " * 200_000])
def test_nesting_without_end_does_not_bring_the_parser_down(text: str) -> None:
    assert only_problem(text).code == "yaml_syntax"


def test_a_tag_of_python_is_refused() -> None:
    problem = only_problem("a: !!python/object/apply:os.system [true]\n")
    assert problem.code == "yaml_tag"
    assert problem.line == 1
    assert problem.hint == "write plain mappings, lists, strings and numbers, without tags"


def test_a_time_that_does_not_exist_is_refused_where_it_stands() -> None:
    assert only_problem("a: 1\nb: [x, 2026-13-45]\n") == Problem(
        code="yaml_value",
        message=f"{FILE} holds the value 2026-13-45: month must be in 1..12",
        file=FILE,
        line=2,
        column=8,
        found="2026-13-45",
        expected="times and numbers that exist",
        hint="quote it if it is meant as text",
    )


def test_a_second_document_is_refused() -> None:
    assert only_problem("a: 1\n---\nb: 2\n") == Problem(
        code="yaml_documents",
        message=f"{FILE} is not YAML that can be read: a second document begins",
        file=FILE,
        line=2,
        column=1,
        found="a second document begins",
        expected="one YAML document",
        hint="keep one document in the file: remove the second '---'",
    )


def test_what_is_not_utf8_is_refused_with_its_line() -> None:
    assert only_problem(b"a: 1\nb: \xff\n") == Problem(
        code="not_utf8",
        message=f"{FILE} is not UTF-8 at byte 8",
        file=FILE,
        line=2,
        found="byte 0xff",
        expected="UTF-8 text",
    )


def test_bad_syntax_is_refused_with_line_and_column() -> None:
    problem = only_problem("a: [1, 2\nb: 3\n")
    assert problem.code == "yaml_syntax"
    assert (problem.line, problem.column) == (2, 2)


def test_a_control_character_is_refused() -> None:
    problem = only_problem(b"a: \x01\n")
    assert problem.code == "yaml_syntax"
    assert "control characters are not allowed" in problem.message


def test_a_value_is_found_at_its_line_with_its_own_spelling() -> None:
    document = load_yaml_document(b"a:\n  - x: 0000000\n  - y\n", FILE)
    assert document.locate(("a", 0, "x")) == Place(2, 5, "0000000")
    assert document.locate(("a", 1)) == Place(3, 5, "y")
    assert document.locate(("a",)) == Place(1, 1, None)
    assert document.locate(()) == Place(1, 1, None)


def test_a_value_that_is_not_there_is_placed_at_what_holds_it() -> None:
    document = load_yaml_document(b"a:\n  b: 1\n", FILE)
    assert document.locate(("a", "z")) == Place(1, 1, None)
    assert document.locate(("a", 3)) == Place(1, 1, None)
    assert document.locate(("a", "b", "c")) == Place(2, 3, None)


def test_times_names_of_commits_and_versions_are_written_in_quotes() -> None:
    moment = datetime(2026, 8, 2, 2, tzinfo=timezone(timedelta(hours=2)))
    value = {
        "version": "1.0.0",
        "sha": "0000000",
        "full": "1e5" + "0" * 37,
        "at": moment,
        "text": "2026-08-02T00:00:00Z",
        "plain": "kernel",
        "value": 1e-05,
        "big": 1e22,
    }
    assert dump_yaml(value).decode() == (
        'version: "1.0.0"\n'
        'sha: "0000000"\n'
        'full: "1e50000000000000000000000000000000000000"\n'
        'at: "2026-08-02T00:00:00Z"\n'
        'text: "2026-08-02T00:00:00Z"\n'
        "plain: kernel\n"
        "value: 1.0e-05\n"
        "big: 1.0e+22\n"
    )


def test_values_that_are_shared_are_written_out() -> None:
    shared = {"x": 1}
    assert dump_yaml({"a": shared, "b": shared}) == b"a:\n  x: 1\nb:\n  x: 1\n"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp"))),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(values)
def test_what_is_written_loads_as_the_same_value(value: object) -> None:
    assert load_yaml(dump_yaml(value), FILE) == value
