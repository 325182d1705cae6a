from __future__ import annotations

import io
import logging
import re

import pytest

from kzoo_core.runner.logfmt import LogfmtFormatter, fields, logger_to


def line_of(message: str, **values: object) -> str:
    stream = io.StringIO()
    logger_to(stream, name="test-logfmt").info(message, extra=fields(**values))
    return stream.getvalue()


def test_an_event_is_one_line_of_pairs() -> None:
    assert re.fullmatch(
        r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=info event=claimed attempt=a-1 n=3\n",
        line_of("claimed", attempt="a-1", n=3, nothing=None),
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain/word:1", "plain/word:1"),
        ("two words", '"two words"'),
        ("", '""'),
        ('a"b', '"a\\"b"'),
        ("a=b", '"a=b"'),
        ("a\nb\x1b[31m", '"a\\nb\\u001b[31m"'),
        ("中文", "中文"),
    ],
)
def test_a_value_that_is_no_plain_word_is_quoted_and_stays_on_its_line(
    value: str, written: str
) -> None:
    assert line_of("m", value=value).endswith(f" event=m value={written}\n")


def test_an_exception_follows_its_line() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            "x", logging.ERROR, "f", 1, "failed", (), __import__("sys").exc_info()
        )

    first, *rest = LogfmtFormatter().format(record).splitlines()

    assert first.endswith("level=error event=failed")
    assert rest[-1] == "ValueError: why"


def test_a_logger_writes_to_its_stream_alone_however_often_it_is_made() -> None:
    first, second = io.StringIO(), io.StringIO()
    logger_to(first, name="test-twice")

    logger_to(second, name="test-twice").warning("x")

    assert (first.getvalue(), second.getvalue().count("event=x")) == ("", 1)
