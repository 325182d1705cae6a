"""Time: written in UTC, read strictly, moved by tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kzoo_core.clock import ManualClock, SystemClock, format_time, parse_time


def test_a_time_is_written_in_utc_with_whole_seconds() -> None:
    east = timezone(timedelta(hours=8))
    moment = datetime(2026, 8, 2, 20, 0, 0, 999999, tzinfo=east)
    assert format_time(moment) == "2026-08-02T12:00:00Z"


def test_a_time_without_a_zone_is_never_written() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        format_time(datetime(2026, 8, 2))  # noqa: DTZ001 - the fault under test


@pytest.mark.parametrize(
    "text", ["2026-08-02T12:00:00Z", "2026-08-02t12:00:00z", "2026-08-02T20:00:00+08:00"]
)
def test_rfc_3339_texts_of_one_moment_read_alike(text: str) -> None:
    assert parse_time(text) == datetime(2026, 8, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-08-02", "20260802T120000Z", "now", "2026-13-01T00:00:00Z"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|month"):
        parse_time(text)


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock()
    before = clock.now(), clock.monotonic()
    clock.advance(1.5)
    assert clock.now() - before[0] == timedelta(seconds=1.5)
    assert clock.monotonic() - before[1] == 1.5


def test_the_system_clock_is_aware_and_its_monotonic_time_rises() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()
