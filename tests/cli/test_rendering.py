"""Tables, words and problem blocks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.errors import Problem, Severity
from kzoo_tui.rendering.problems import problem_lines
from kzoo_tui.rendering.table import cut, display_width, table
from kzoo_tui.rendering.words import age, elapsed, number, plural
from kzoo_tui.safe_text import safe_line

NOW = datetime(2026, 8, 2, 12, 0, 0, tzinfo=UTC)


def test_a_table_aligns_its_columns_by_what_they_take_on_a_terminal() -> None:
    assert table(["ID", "WHO"], [["a", "快"], ["快快", "b"]], width=None) == [
        "ID    WHO",
        "a     快",
        "快快  b",
    ]


def test_the_last_column_is_cut_at_the_edge_of_the_terminal_and_says_so() -> None:
    rows = [["a", "much too long"], ["b", "fits"]]
    assert table(["ID", "TEXT"], rows, width=13) == ["ID  TEXT", "a   much too…", "b   fits"]


def test_rows_that_do_not_fit_are_folded_between_columns_and_lose_nothing_but_the_end() -> None:
    rows = [["kernel/one", "normal", "alice", "first try of many"], ["k", "frozen", "bob", "-"]]
    assert table(["KERNEL", "STATUS", "WHO", "WHY"], rows, width=20) == [
        "KERNEL      STATUS",
        "  WHO    WHY",
        "kernel/one  normal",
        "  alice  first try …",
        "k           frozen",
        "  bob    -",
    ]


def test_a_column_that_is_wider_than_the_terminal_has_its_own_line_and_stays_whole() -> None:
    rows = [["a-very-long-identity", "b", "c"]]
    assert table(["ID", "X", "Y"], rows, width=10) == [
        "ID",
        "  X  Y",
        "a-very-long-identity",
        "  b  c",
    ]


def test_a_cell_cannot_make_a_line_or_a_column() -> None:
    assert table(["A", "B"], [["x\ny", "\x1b[2Kz"]], width=None)[1] == "x y  z"


@given(st.text(), st.integers(min_value=0, max_value=20))
def test_a_cut_text_never_takes_more_columns_than_it_may(text: str, width: int) -> None:
    assert display_width(cut(safe_line(text), width)) <= width


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (None, "-"),
        ("2026-08-02T12:00:00Z", "now"),
        ("2026-08-02T12:00:30Z", "now"),
        ("2026-08-02T11:59:18Z", "42 s ago"),
        ("2026-08-02T11:58:00Z", "2 min ago"),
        ("2026-08-02T09:00:00Z", "3 h ago"),
        ("2026-07-30T09:00:00Z", "3 d ago"),
        ("some day", "some day"),
    ],
)
def test_an_age_is_one_number_and_one_unit(moment: str | None, words: str) -> None:
    assert age(moment, NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1.0, "0:00"), (5.9, "0:05"), (61.0, "1:01"), (3661.0, "1:01:01")]
)
def test_an_elapsed_time_counts_minutes_and_seconds(seconds: float, words: str) -> None:
    assert elapsed(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"), [(12.0, "12"), (0.00012345678, "0.000123457"), (123456.789, "123457")]
)
def test_a_number_has_six_digits_that_say_something(value: float, words: str) -> None:
    assert number(value) == words


def test_a_plural_is_one() -> None:
    assert (plural(1, "kernel"), plural(0, "kernel")) == ("1 kernel", "0 kernels")


def test_a_problem_says_where_it_is_as_far_as_it_knows() -> None:
    assert problem_lines(
        [
            Problem(code="a", message="m", file="f", line=3),
            Problem(code="b", message="m, not p", expected="p", severity=Severity.WARNING),
            Problem(code="c", message="m\nerror: not ours", expected="x y", hint="h"),
        ]
    ) == [
        "error: f:3: m [a]",
        "warning: m, not p [b]",
        "error: m error: not ours [c]",
        "  expected: x y",
        "  hint: h",
    ]
