from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.contract.quoting import describe, listed, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("right\u202eleft", "rightleft"),
        ("half \ud800 pair", "half  pair"),
        ("x" * 81, "x" * 79 + "…"),
    ],
)
def test_foreign_text_is_shown_on_one_line_without_control_characters(
    text: str, shown: str
) -> None:
    assert printable(text) == shown


@given(st.text(), st.integers(min_value=2, max_value=100))
def test_what_is_shown_fits_its_limit_and_is_utf8(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert "\x1b" not in shown
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.5, "0.5"),
        (10**60, "a whole number of 200 bits"),
        ("text", '"text"'),
        (date(2026, 8, 2), "the time 2026-08-02"),
        (datetime(2026, 8, 2, tzinfo=UTC), "the time 2026-08-02T00:00:00+00:00"),
        ({"a": 1}, "a mapping of 1"),
        ([1, 2], "a list of 2"),
        ((1,), "a list of 1"),
        ({1}, "a set"),
    ],
)
def test_a_value_is_described_in_a_few_words(value: object, words: str) -> None:
    assert describe(value) == words


def test_a_long_list_of_names_is_counted_beyond_its_limit() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(number) for number in range(10)], limit=3) == "0, 1, 2 and 7 more"
