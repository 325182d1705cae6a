"""No text can steer a terminal once it has passed the sanitiser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_tui.safe_text import safe_line, safe_text

FORBIDDEN = (
    {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F)]}
    | {chr(code) for code in [*range(0x2066, 0x206A), 0x61C, 0x200E, 0x200F]}
) - {"\n", "\t"}

HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x90\x07\x9c[]P;?0m\\\r\n\t\u202e"), st.characters()
    )
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain äöü 快", "plain äöü 快"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]52;c;aGk=\x07after", "after"),
        ("\x1b]0;title\x1b\\after", "after"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1bP1$tx\x1b\\after", "after"),
        ("\x1b]52;c;never ended", "52;c;never ended"),
        ("\x1b]0;one\ntwo\x07three", "0;one\ntwothree"),
        ("\x1b(Bcharset", "charset"),
        ("\x1bcreset", "reset"),
        ("end\x1b", "end"),
        ("end\x1b[", "end"),
        ("a\rb\r\nc", "a\nb\nc"),
        ("tab\tstays\x00\x08", "tab\tstays"),
        ("\u202eevil\u2066", "evil"),
        ("half \ud83d surrogate", "half \ufffd surrogate"),
    ],
)
def test_what_steers_goes_and_what_reads_stays(raw: str, shown: str) -> None:
    assert safe_text(raw) == shown


@given(HOSTILE)
def test_nothing_that_steers_is_left_in_any_text(raw: str) -> None:
    assert not FORBIDDEN & set(safe_text(raw))
    safe_text(raw).encode("utf-8")


@given(HOSTILE)
def test_safe_text_is_safe_already(raw: str) -> None:
    assert safe_text(safe_text(raw)) == safe_text(raw)


@given(HOSTILE)
def test_a_line_is_one_line(raw: str) -> None:
    assert not {"\n", "\t", "\u2028", "\u2029"} & set(safe_line(raw))
