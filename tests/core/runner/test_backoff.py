from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kzoo_core.runner.backoff import RETRY_AFTER_MAX_S, Backoff


def new(seed: int = 1) -> Backoff:
    return Backoff(least_s=2.0, most_s=30.0, random=Random(seed))


@given(st.integers())
def test_delays_double_from_the_least_to_the_most_with_half_of_each_as_jitter(seed: int) -> None:
    pace = new(seed)

    for step in (2, 4, 8, 16, 30, 30, 30):
        assert step / 2 <= pace.next() <= step


def test_a_reset_begins_at_the_least_again() -> None:
    pace = new()
    for _ in range(5):
        pace.next()

    pace.reset()

    assert 1 <= pace.next() <= 2


@given(st.integers(), st.floats(0, 10_000))
def test_a_wait_is_never_shorter_than_the_server_asks_up_to_a_bound(
    seed: int, retry_after_s: float
) -> None:
    delay = new(seed).next(retry_after_s)

    assert delay >= min(retry_after_s, RETRY_AFTER_MAX_S)
    assert delay <= max(2.0, 1.1 * RETRY_AFTER_MAX_S)


def test_two_runners_do_not_come_back_in_one_instant() -> None:
    assert new(1).next() != new(2).next()
    assert new(1).next(60.0) != new(2).next(60.0)


def test_a_negative_retry_after_is_none() -> None:
    assert new().next(-5.0) == pytest.approx(new().next())
