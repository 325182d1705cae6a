"""Claims."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from kzoo_core import durable
from kzoo_core.errors import Gone, NotFound, Retryable
from kzoo_core.ids import ClaimId
from kzoo_core.queue.exchange import Claimed, Frozen, Refused
from kzoo_core.queue.records import AttemptEnd, Outcome, Reason, State, Submission
from kzoo_core.queue.tokens import token_sha256
from tests.core.queue.samples import (
    BOB,
    DIGEST,
    NODE,
    REPORT,
    T0,
    TREE,
    Harness,
    at,
    freeze,
    runner,
    sha256,
    started,
    uuid_of,
    with_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kzoo_core.queue.runners import Runner

OTHER = runner("other")


class SlowFreeze:
    """A freeze that waits until it is told to go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.proceed = asyncio.Event()

    async def __call__(self, submission: Submission, package: bytes) -> Frozen | Refused:
        self.begun.set()
        await self.proceed.wait()
        return await freeze(submission, package)


def claiming(
    harness: Harness,
    frozen: Callable[..., object] = freeze,
    *,
    claim_id: str = "claim",
    by: Runner = NODE,
    wait_s: float = 60,
) -> asyncio.Task[Claimed | None]:
    return asyncio.create_task(
        harness.queue.claim(by, ClaimId(claim_id), wait_s=wait_s, freeze=frozen)  # type: ignore[arg-type]  # fakes
    )


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_claim_gives_an_attempt_its_frozen_package_and_its_token(
    harness: Harness,
) -> None:
    made = await harness.submitted()
    harness.clock.advance(5)
    claim = await harness.claim()
    assert claim is not None
    assert claim.submission == harness.queue.get(made.uuid)
    assert claim.submission.state is State.RUNNING
    attempt = claim.attempt
    frozen = b"package 1 frozen for attempt 1"
    assert attempt == claim.submission.attempts[0]
    assert (attempt.number, attempt.runner_id, attempt.arch) == (1, NODE.runner_id, "gfx928")
    assert attempt.package_sha256 == sha256(frozen)
    assert attempt.base_tree == TREE
    assert attempt.claimed_at == at(5)
    assert attempt.token_sha256 == token_sha256(claim.token)
    assert claim.token not in repr(claim.submission)
    assert await harness.queue.attempt_package(made.uuid, 1, claim.token) == frozen
    assert await harness.queue.package(made.uuid) == b"package 1"


async def test_the_same_claim_gives_the_same_attempt_and_token(harness: Harness) -> None:
    await harness.submitted(1, kernel_id="a/k1")
    await harness.submitted(2, kernel_id="a/k2")
    first = await harness.claim(claim_id="c")
    again = await harness.claim(claim_id="c")
    other = await harness.claim(claim_id="d")
    assert first is not None
    assert other is not None
    assert again == first
    assert other.submission.uuid != first.submission.uuid
    assert other.token != first.token


async def test_the_same_claim_asked_twice_at_once_makes_one_attempt(harness: Harness) -> None:
    slow = SlowFreeze()
    await harness.submitted(1, kernel_id="a/k1")
    await harness.submitted(2, kernel_id="a/k2")
    first, second = claiming(harness, slow), claiming(harness, slow)
    await slow.begun.wait()
    slow.proceed.set()
    assert await first == await second
    assert harness.queue.counts().running == 1
    assert len(harness.queue._gates) == 0


async def test_a_claim_that_cannot_wait_for_its_twin_gets_nothing(harness: Harness) -> None:
    slow = SlowFreeze()
    await harness.submitted()
    first = claiming(harness, slow)
    await slow.begun.wait()
    assert await harness.claim(claim_id="claim", wait_s=0.001) is None
    slow.proceed.set()
    assert await first is not None


async def test_the_same_claim_id_of_another_runner_is_another_claim(harness: Harness) -> None:
    await harness.submitted(1, kernel_id="a/k1")
    await harness.submitted(2, kernel_id="a/k2")
    first = await harness.claim(NODE, claim_id="c")
    second = await harness.claim(OTHER, claim_id="c")
    assert first is not None
    assert second is not None
    assert first.submission.uuid != second.submission.uuid


async def test_a_claim_whose_attempt_is_over_is_a_new_claim(harness: Harness) -> None:
    await harness.submitted()
    first = await harness.claim(claim_id="c")
    assert first is not None
    harness.clock.advance(31)
    await harness.queue.sweep()
    assert harness.queue.get(first.submission.uuid).uncharged == {"unconfirmed": 1}
    second = await harness.claim(claim_id="c")
    assert second is not None
    assert second.attempt.number == 2
    assert second.token != first.token


async def test_who_was_just_served_lets_the_others_go_first(harness: Harness) -> None:
    for number in (1, 2):
        await harness.submitted(number, kernel_id=f"a/k{number}")
    await harness.submitted(3, kernel_id="a/k3", submitter=BOB)
    served = []
    for _ in range(3):
        claim = await harness.claim()
        assert claim is not None
        served.append(claim.submission.submitter_id)
        await harness.report(claim)
    assert served == ["alice", "bob", "alice"]


async def test_nothing_to_do_is_said_at_once_when_nobody_waits(harness: Harness) -> None:
    assert await harness.claim(wait_s=0) is None


async def test_a_waiting_claim_gets_what_is_submitted(harness: Harness) -> None:
    waiting = claiming(harness)
    await settle()
    made = await harness.submitted()
    claim = await waiting
    assert claim is not None
    assert claim.submission.uuid == made.uuid


async def test_a_waiting_claim_gets_what_comes_back_to_the_queue(harness: Harness) -> None:
    first = await harness.claimed()
    waiting = claiming(harness, by=OTHER)
    await settle()
    harness.clock.advance(31)
    await harness.queue.sweep()
    second = await waiting
    assert second is not None
    assert second.submission.uuid == first.submission.uuid
    assert second.attempt.number == 2


async def test_a_waiting_claim_gets_the_kernel_that_became_idle(harness: Harness) -> None:
    running = await harness.running(1)
    made = await harness.submitted(2)
    waiting = claiming(harness, by=OTHER)
    await settle()
    await harness.report(running)
    await settle()
    assert not waiting.done()
    await harness.queue.finish(
        running.submission.uuid, Outcome.REJECTED, reason=Reason(code="schema", message="no")
    )
    claim = await waiting
    assert claim is not None
    assert claim.submission.uuid == made.uuid


async def test_a_thousand_waiting_claims_share_what_comes(harness: Harness) -> None:
    waiting = [claiming(harness, claim_id=f"c{n}") for n in range(1000)]
    await settle()
    for number in range(20):
        await harness.submitted(number, kernel_id=f"a/k{number}")
    async with asyncio.timeout(30):
        for first in itertools.islice(asyncio.as_completed(waiting), 20):
            assert await first is not None
    harness.queue.stop_waiting()
    claims = [claim for claim in await asyncio.gather(*waiting) if claim is not None]
    assert len({claim.submission.uuid for claim in claims}) == len(claims) == 20


async def test_a_caller_that_goes_away_while_it_waits_takes_nothing_along(
    harness: Harness,
) -> None:
    gone = claiming(harness, claim_id="gone")
    await settle()
    await harness.submitted()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await harness.claim(OTHER) is not None


async def test_a_runner_that_is_not_there_when_its_turn_comes_leaves_it_to_the_next(
    harness: Harness,
) -> None:
    gone = asyncio.create_task(
        harness.queue.claim(NODE, ClaimId("gone"), wait_s=60, freeze=freeze, present=lambda: False)
    )
    await settle()
    waiting = claiming(harness, claim_id="waiting", by=OTHER)
    await settle()
    made = await harness.submitted()
    assert await gone is None
    claim = await waiting
    assert claim is not None
    assert (claim.submission.uuid, claim.attempt.number) == (made.uuid, 1)


async def test_a_caller_that_goes_away_during_the_freeze_takes_nothing_along(
    harness: Harness,
) -> None:
    slow = SlowFreeze()
    await harness.submitted()
    gone = claiming(harness, slow, claim_id="gone")
    await slow.begun.wait()
    next_one = claiming(harness, claim_id="next", by=OTHER)
    await settle()
    assert not next_one.done()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    claim = await next_one
    assert claim is not None
    assert claim.attempt.number == 1


async def test_a_caller_that_goes_away_while_the_claim_is_written_leaves_one_to_expire(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await harness.submitted()
    loop = asyncio.get_running_loop()
    writing, proceed = asyncio.Event(), threading.Event()
    real = harness.queue._spool.change

    def change(*arguments: object) -> None:
        loop.call_soon_threadsafe(writing.set)
        assert proceed.wait(30)
        real(*arguments)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(harness.queue._spool, "change", change)
    gone = claiming(harness)
    await writing.wait()
    gone.cancel()
    await settle()
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert harness.queue.get(made.uuid).state is State.RUNNING
    again = await harness.claim(claim_id="claim")
    assert again is not None
    assert again.attempt.number == 1
    harness.clock.advance(31)
    await harness.queue.sweep()
    after = harness.queue.get(made.uuid)
    assert (after.state, after.charged) == (State.PENDING, 0)
    assert after.attempts[0].end is AttemptEnd.UNCONFIRMED


async def test_two_claims_never_freeze_the_same_submission(harness: Harness) -> None:
    slow = SlowFreeze()
    first_made = await harness.submitted(1, kernel_id="a/k1")
    second_made = await harness.submitted(2, kernel_id="a/k2")
    first = claiming(harness, slow, claim_id="one")
    await slow.begun.wait()
    second = await harness.claim(OTHER)
    slow.proceed.set()
    first_claim = await first
    assert first_claim is not None
    assert second is not None
    assert first_claim.submission.uuid == first_made.uuid
    assert second.submission.uuid == second_made.uuid


async def test_what_the_freeze_raises_is_handed_on_and_the_submission_waits_again(
    harness: Harness,
) -> None:
    made = await harness.submitted()

    async def broken(submission: Submission, package: bytes) -> Frozen:
        raise RuntimeError(f"cannot freeze {submission.uuid} of {len(package)} bytes")

    with pytest.raises(RuntimeError, match=f"cannot freeze {made.uuid} of 9 bytes"):
        await claiming(harness, broken)
    assert harness.queue.get(made.uuid) == made
    assert harness.queue.position(made.uuid) == 1
    assert await harness.claim() is not None


async def test_a_submission_that_cannot_be_frozen_does_not_hold_up_other_submitters(
    harness: Harness,
) -> None:
    await harness.submitted(1, kernel_id="a/k1")
    other = await harness.submitted(2, kernel_id="a/k2", submitter=BOB)

    async def broken(_submission: Submission, _package: bytes) -> Frozen:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await claiming(harness, broken)
    claim = await harness.claim()
    assert claim is not None
    assert claim.submission.uuid == other.uuid


async def test_a_freeze_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(freeze_timeout_s=0.01)) as harness:
        made = await harness.submitted()
        with pytest.raises(Retryable) as caught:
            await claiming(harness, SlowFreeze())
        assert caught.value.code == "FREEZE_TIMEOUT"
        assert caught.value.message == (
            f"submission {made.uuid} was not made ready to run within 0.01 s"
        )
        assert harness.queue.position(made.uuid) == 1


async def test_what_is_refused_at_the_freeze_is_rejected_and_the_next_is_taken(
    harness: Harness,
) -> None:
    frozen_kernel = await harness.submitted(1, kernel_id="a/k1")
    other = await harness.submitted(2, kernel_id="a/k2")
    reason = Reason(code="frozen", message="frozen meanwhile")

    async def refusing(submission: Submission, package: bytes) -> Frozen | Refused:
        if submission.uuid == frozen_kernel.uuid:
            return Refused(reason)
        return await freeze(submission, package)

    claim = await claiming(harness, refusing)
    assert claim is not None
    assert claim.submission.uuid == other.uuid
    refused = harness.queue.get(frozen_kernel.uuid)
    assert (refused.outcome, refused.reason) == (Outcome.REJECTED, reason)
    assert refused.attempts == ()


@pytest.mark.parametrize("refuse", [False, True])
async def test_what_is_cancelled_during_the_freeze_is_not_claimed(
    harness: Harness, refuse: bool
) -> None:
    slow = SlowFreeze()
    made = await harness.submitted()

    async def frozen(submission: Submission, package: bytes) -> Frozen | Refused:
        done = await slow(submission, package)
        return Refused(Reason(code="frozen", message="no")) if refuse else done

    claim = claiming(harness, frozen, wait_s=0.05)
    await slow.begun.wait()
    await harness.queue.cancel(made.uuid, by="alice")
    slow.proceed.set()
    assert await claim is None
    assert harness.queue.get(made.uuid).outcome is Outcome.CANCELLED


async def test_a_late_result_during_the_freeze_makes_another_run_needless(
    harness: Harness,
) -> None:
    first = await harness.running()
    harness.clock.advance(91)
    await harness.queue.sweep()
    slow = SlowFreeze()
    claim = claiming(harness, slow, by=OTHER, wait_s=0.05)
    await slow.begun.wait()
    await harness.queue.report(first.submission.uuid, 1, first.token, REPORT, DIGEST)
    slow.proceed.set()
    assert await claim is None
    after = harness.queue.get(first.submission.uuid)
    assert after.state is State.REPORTED
    assert len(after.attempts) == 1


async def test_a_runner_may_claim_one_submission_and_no_other(harness: Harness) -> None:
    await harness.submitted(1, kernel_id="a/k1")
    made = await harness.submitted(2, kernel_id="a/k2")
    claim = await harness.claim(only=made.uuid)
    assert claim is not None
    assert claim.submission.uuid == made.uuid
    assert await harness.claim(only=made.uuid) is None


async def test_one_submission_that_is_over_is_not_waited_for(harness: Harness) -> None:
    made = await harness.submitted()
    waiting = asyncio.create_task(harness.claim(only=made.uuid, by=OTHER, wait_s=60))
    runs = await harness.claim(only=made.uuid)
    assert runs is not None
    await settle()
    await harness.report(runs)
    await harness.queue.finish(
        made.uuid, Outcome.REJECTED, reason=Reason(code="schema", message="no")
    )
    assert await waiting is None
    assert await harness.claim(only=made.uuid, wait_s=60) is None


async def test_one_submission_that_never_was_or_was_evicted_is_refused(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(keep_done=0)) as harness:
        with pytest.raises(NotFound) as unknown:
            await harness.claim(only=uuid_of(1), wait_s=60)
        assert unknown.value.code == "SUBMISSION_NOT_FOUND"
        made = await harness.done()
        await harness.queue.sweep()
        with pytest.raises(Gone):
            await harness.claim(only=made.uuid, wait_s=60)


async def test_another_arch_or_a_missing_feature_is_not_claimed(harness: Harness) -> None:
    await harness.submitted(1, kernel_id="a/k1", arch="gfx936")
    await harness.submitted(2, kernel_id="a/k2", feature="mfma")
    assert await harness.claim() is None
    able = runner("able", features=frozenset({"mfma", "wmma"}))
    assert await harness.claim(able) is not None


async def test_a_full_disk_leaves_the_submission_waiting(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await harness.submitted()

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_file", fail)
        with pytest.raises(Retryable) as caught:
            await harness.claim()
    assert caught.value.code == "DISK_FULL"
    assert harness.queue.get(made.uuid) == made
    claim = await harness.claim()
    assert claim is not None
    assert claim.attempt.number == 1


async def test_the_end_of_all_waiting_answers_held_claims(harness: Harness) -> None:
    waiting = claiming(harness)
    await settle()
    harness.queue.stop_waiting()
    assert await waiting is None
    await harness.submitted()
    assert await harness.claim(wait_s=60) is None


async def test_a_claim_waits_no_longer_than_the_bound(tmp_path: Path) -> None:
    async with started(tmp_path, settings=with_settings(max_wait_s=0.01)) as harness:
        assert await harness.claim(wait_s=1e9) is None
        assert await harness.claim(wait_s=-5) is None
    assert harness.clock.now() == T0
