"""What waits and what is busy, as submissions come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kzoo_core.queue import lineup as module
from kzoo_core.queue.lineup import Lineup
from kzoo_core.queue.scheduler import RunnerCapability
from tests.core.queue.samples import (
    ALICE,
    BOB,
    KERNEL,
    accepted,
    confirmed,
    pending,
    reported,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kzoo_core.queue.records import Submission

NODE = RunnerCapability("gfx928")


def lineup_of(*numbers: int, per_kernel: int = 1) -> Lineup:
    lineup = Lineup(per_kernel=per_kernel)
    for number in numbers:
        lineup.put(pending(number, kernel_id=f"a/k{number}"))
    return lineup


def test_a_reserved_submission_is_not_given_out_twice() -> None:
    lineup = lineup_of(1, 2)
    assert lineup.reserve(NODE) == uuid_of(1)
    assert lineup.reserve(NODE) == uuid_of(2)
    assert lineup.reserve(NODE) is None


def test_what_is_given_back_waits_in_its_old_place() -> None:
    lineup = lineup_of(1, 2)
    lineup.reserve(NODE)
    assert lineup.give_back(uuid_of(1))
    assert lineup.position(uuid_of(1)) == 1
    assert lineup.reserve(NODE) == uuid_of(1)


def test_only_a_reservation_can_be_given_back() -> None:
    lineup = lineup_of(1)
    assert not lineup.give_back(uuid_of(1))
    assert not lineup.give_back(uuid_of(9))
    lineup.reserve(NODE)
    lineup.put(confirmed(pending(1)))
    assert not lineup.give_back(uuid_of(1))


@pytest.mark.parametrize("make", [confirmed, reported])
def test_a_kernel_is_busy_while_one_of_its_attempts_runs_or_has_no_verdict(
    make: Callable[[Submission], Submission],
) -> None:
    lineup = Lineup(per_kernel=1)
    lineup.put(make(pending(1, kernel_id=KERNEL)))
    lineup.put(pending(2, kernel_id=KERNEL))
    assert lineup.reserve(NODE) is None
    assert lineup.reserve(NODE, uuid_of(2)) is None
    lineup.put(accepted(pending(1, kernel_id=KERNEL)))
    assert lineup.reserve(NODE) == uuid_of(2)


def test_a_reservation_makes_its_kernel_busy() -> None:
    lineup = Lineup(per_kernel=1)
    lineup.put(pending(1, kernel_id=KERNEL))
    lineup.put(pending(2, kernel_id=KERNEL))
    assert lineup.reserve(NODE) == uuid_of(1)
    assert lineup.reserve(NODE) is None


def test_a_setting_lets_more_attempts_of_a_kernel_run() -> None:
    lineup = Lineup(per_kernel=2)
    for number in (1, 2, 3):
        lineup.put(pending(number, kernel_id=KERNEL))
    assert lineup.reserve(NODE) == uuid_of(1)
    assert lineup.reserve(NODE) == uuid_of(2)
    assert lineup.reserve(NODE) is None


def test_a_runner_may_ask_for_one_submission_out_of_turn() -> None:
    lineup = lineup_of(1, 2)
    assert lineup.reserve(NODE, uuid_of(2)) == uuid_of(2)
    assert lineup.reserve(NODE, uuid_of(2)) is None
    assert lineup.reserve(NODE, uuid_of(9)) is None
    assert lineup.reserve(RunnerCapability("gfx936"), uuid_of(1)) is None


def test_a_running_attempt_counts_for_its_submitter_until_it_has_reported() -> None:
    lineup = Lineup(per_kernel=1)
    lineup.put(confirmed(pending(1, kernel_id="a/k1", submitter=ALICE)))
    lineup.put(pending(2, kernel_id="a/k2", submitter=ALICE))
    lineup.put(pending(3, kernel_id="a/k3", submitter=BOB))
    assert lineup.position(uuid_of(3)) == 1
    lineup.put(reported(pending(1, kernel_id="a/k1", submitter=ALICE)))
    assert lineup.position(uuid_of(2)) == 1


def test_a_position_is_among_those_of_the_same_arch() -> None:
    lineup = lineup_of(1, 2)
    lineup.put(pending(3, arch="gfx936"))
    assert lineup.position(uuid_of(2)) == 2
    assert lineup.position(uuid_of(3)) == 1


def test_what_does_not_wait_has_no_position_and_what_is_reserved_is_next() -> None:
    lineup = lineup_of(1, 2)
    lineup.reserve(NODE)
    assert lineup.position(uuid_of(1)) == 1
    lineup.put(confirmed(pending(1)))
    assert lineup.position(uuid_of(1)) is None
    assert lineup.position(uuid_of(9)) is None


def test_a_submission_put_twice_in_one_state_waits_once() -> None:
    lineup = lineup_of(1, 1)
    assert lineup.reserve(NODE) == uuid_of(1)
    assert lineup.reserve(NODE) is None


def test_only_so_many_turns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SERVED_KEPT", 1)
    lineup = Lineup(per_kernel=1)
    lineup.put(pending(1, kernel_id="a/k1", submitter=ALICE))
    lineup.put(pending(2, kernel_id="a/k2", submitter=BOB))
    lineup.served([ALICE, BOB])
    assert lineup.reserve(NODE) == uuid_of(1)
