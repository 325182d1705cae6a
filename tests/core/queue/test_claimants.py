"""Waiting claims."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kzoo_core.queue.claimants import Claimants, Wanted
from kzoo_core.queue.lineup import Lineup
from kzoo_core.queue.scheduler import RunnerCapability
from tests.core.queue.samples import pending, uuid_of

if TYPE_CHECKING:
    from kzoo_core.ids import SubmissionId

ANY = Wanted(RunnerCapability("gfx928"))
OTHER_ARCH = Wanted(RunnerCapability("gfx936"))


class CountingLineup(Lineup):
    """A lineup that counts how often it was asked."""

    looks = 0

    def reserve(
        self, runner: RunnerCapability, only: SubmissionId | None = None
    ) -> SubmissionId | None:
        self.looks += 1
        return super().reserve(runner, only)


@pytest.fixture
def lineup() -> CountingLineup:
    return CountingLineup(per_kernel=1)


@pytest.fixture
def claimants(lineup: CountingLineup) -> Claimants:
    return Claimants(lineup)


def arrive(lineup: Lineup, claimants: Claimants, number: int, arch: str = "gfx928") -> None:
    lineup.put(pending(number, kernel_id=f"a/k{number}", arch=arch))
    claimants.offer()


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_waits_is_given_at_once(lineup: Lineup, claimants: Claimants) -> None:
    arrive(lineup, claimants, 1)
    assert await claimants.next(ANY, 0) == uuid_of(1)
    assert await claimants.next(ANY, 0) is None


async def test_a_claim_that_waits_in_vain_gets_nothing(claimants: Claimants) -> None:
    assert await claimants.next(ANY, 0.001) is None
    assert claimants._rows == {}


async def test_a_thousand_waiting_claims_cost_one_look_for_each_submission(
    lineup: CountingLineup, claimants: Claimants
) -> None:
    waiting = [asyncio.create_task(claimants.next(ANY, 60)) for _ in range(1000)]
    await settle()
    lineup.looks = 0
    arrive(lineup, claimants, 1)
    await settle()
    assert lineup.looks == 2
    assert [task.done() for task in waiting] == [True] + [False] * 999
    arrive(lineup, claimants, 2, arch="gfx936")
    await settle()
    assert lineup.looks == 3
    for number in range(3, 1002):
        arrive(lineup, claimants, number)
    found = await asyncio.gather(*waiting)
    assert set(found) == {uuid_of(n) for n in (1, *range(3, 1002))}


async def test_the_first_to_wait_is_the_first_to_get(lineup: Lineup, claimants: Claimants) -> None:
    first = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    second = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    arrive(lineup, claimants, 1)
    assert await first == uuid_of(1)
    arrive(lineup, claimants, 2)
    assert await second == uuid_of(2)


async def test_each_gets_what_it_can_take(lineup: Lineup, claimants: Claimants) -> None:
    other = asyncio.create_task(claimants.next(OTHER_ARCH, 60))
    mine = asyncio.create_task(claimants.next(ANY, 60))
    one = asyncio.create_task(claimants.next(Wanted(ANY.runner, uuid_of(2)), 60))
    await settle()
    arrive(lineup, claimants, 1)
    arrive(lineup, claimants, 2)
    arrive(lineup, claimants, 3, arch="gfx936")
    found = await asyncio.gather(mine, one, other)
    assert tuple(found) == (uuid_of(1), uuid_of(2), uuid_of(3))


async def test_what_a_cancelled_claim_was_given_goes_to_the_next(
    lineup: Lineup, claimants: Claimants
) -> None:
    gone = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    patient = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    arrive(lineup, claimants, 1)
    gone.cancel()
    assert await patient == uuid_of(1)
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_a_claim_cancelled_while_it_waits_leaves_nothing_behind(
    lineup: Lineup, claimants: Claimants
) -> None:
    gone = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert claimants._rows == {}
    arrive(lineup, claimants, 1)
    assert await claimants.next(ANY, 0) == uuid_of(1)


async def test_what_is_given_back_goes_to_the_next(lineup: Lineup, claimants: Claimants) -> None:
    arrive(lineup, claimants, 1)
    assert await claimants.next(ANY, 0) == uuid_of(1)
    patient = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    claimants.give_back(uuid_of(1))
    assert await patient == uuid_of(1)


async def test_those_who_wait_for_what_is_over_are_sent_away(claimants: Claimants) -> None:
    one = asyncio.create_task(claimants.next(Wanted(ANY.runner, uuid_of(2)), 60))
    other = asyncio.create_task(claimants.next(Wanted(ANY.runner, uuid_of(3)), 60))
    await settle()
    claimants.dismiss(uuid_of(2))
    assert await one is None
    assert not other.done()
    claimants.close()
    assert await other is None


async def test_after_the_end_nobody_waits_and_nothing_is_given(
    lineup: Lineup, claimants: Claimants
) -> None:
    waiting = asyncio.create_task(claimants.next(ANY, 60))
    await settle()
    claimants.close()
    assert await waiting is None
    arrive(lineup, claimants, 1)
    assert await claimants.next(ANY, 60) is None
