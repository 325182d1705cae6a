"""What the runner's machine commands when something is refused, or an attempt is taken away."""

from __future__ import annotations

import pytest

from kzoo_core.ids import ClaimId
from kzoo_core.queue.exchange import Order
from kzoo_core.queue.records import Phase
from kzoo_core.runner.events import (
    Call,
    Claim,
    Deliver,
    Drop,
    Exit,
    Fetch,
    HasDelivered,
    HasEnded,
    HasFetched,
    HasReleased,
    HasStopped,
    Heard,
    NothingToClaim,
    Release,
    Stop,
    Stopping,
)
from kzoo_core.runner.machine import PACKAGE_TRIES, RELEASE_TRIES
from kzoo_core.runner.records import Advice, Beat, BeatAnswer
from tests.core.runner.driver import (
    KEY,
    OLD,
    POLL_S,
    delivering,
    exit_of,
    fetching,
    pause_of,
    running,
)

# --- packages refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404, 409, 410])
def test_a_package_of_an_attempt_that_is_not_ours_ends_the_attempt_without_a_word(
    status: int,
) -> None:
    driver = fetching()

    assert driver.refuse(Call.PACKAGE, status, key=KEY) == [Claim(ClaimId("claim-2"), POLL_S)]
    assert driver.machine.beat == Beat("idle", ())


@pytest.mark.parametrize("status", [None, 400, 416, 500, 503])
def test_a_package_that_does_not_come_is_fetched_again_and_then_released(
    status: int | None,
) -> None:
    driver = fetching()

    for _ in range(PACKAGE_TRIES - 1):
        (again,) = driver.refuse(Call.PACKAGE, status, key=KEY)
        assert isinstance(again, Fetch)
        assert again.after_s > 0
    assert driver.refuse(Call.PACKAGE, status, key=KEY) == [
        Release(KEY, "the package could not be downloaded")
    ]
    assert driver.tell(HasReleased(KEY)) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_a_runner_too_old_to_fetch_releases_and_ends_with_7() -> None:
    driver = fetching()

    assert driver.refuse(Call.PACKAGE, 426, key=KEY) == [Release(KEY, "the runner is too old")]
    assert exit_of(driver.tell(HasReleased(KEY))) == (7, "package said 426")


def test_a_release_that_is_not_answered_is_tried_a_few_times() -> None:
    driver = fetching()
    driver.refuse(Call.PACKAGE, 426, key=KEY)

    for _ in range(RELEASE_TRIES - 1):
        (again,) = driver.refuse(Call.RELEASE, None, key=KEY)
        assert isinstance(again, Release)
        assert again.why == "the runner is too old"
        assert again.after_s > 0
    assert exit_of(driver.refuse(Call.RELEASE, None, key=KEY))[0] == 7


@pytest.mark.parametrize("status", [401, 403, 404, 409, 410, 422])
def test_a_release_refused_for_good_is_left(status: int) -> None:
    driver = fetching()
    for _ in range(PACKAGE_TRIES):
        driver.refuse(Call.PACKAGE, 500, key=KEY)

    assert driver.refuse(Call.RELEASE, status, key=KEY) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_a_late_word_on_another_package_changes_nothing() -> None:
    assert running().refuse(Call.PACKAGE, 404, key=OLD) == []


# --- results refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, 429, 503])
def test_a_server_that_is_away_or_busy_is_neither_reported_to_nor_claimed_from_for_a_while(
    status: int | None,
) -> None:
    driver = delivering()

    commands = driver.refuse(Call.RESULT, status, key=KEY)

    assert 1 <= pause_of(commands) <= 2
    assert driver.pass_pause(commands) == [Deliver(KEY)]


@pytest.mark.parametrize("status", [500, 502, 507])
def test_a_result_that_alone_does_not_go_through_waits_beside_further_claims(status: int) -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, status, key=KEY) == [Claim(ClaimId("claim-2"), POLL_S)]
    assert driver.machine.beat.attempts == ((KEY, Phase.REPORTED),)
    driver.now += 2.0
    assert driver.tell(NothingToClaim(POLL_S)) == [Deliver(KEY)]


def test_a_result_waits_as_long_as_the_server_asks() -> None:
    driver = delivering()

    assert 40 <= pause_of(driver.refuse(Call.RESULT, 503, key=KEY, retry_after_s=40.0)) <= 44


def test_a_claim_refused_holds_a_waiting_result_back_as_well() -> None:
    driver = delivering()
    driver.refuse(Call.RESULT, 500, key=KEY)
    driver.now += 2.0

    assert pause_of(driver.refuse(Call.CLAIM, 503, retry_after_s=50.0)) >= 50


def test_an_undelivered_result_is_let_go_after_24_hours() -> None:
    driver = delivering()
    driver.refuse(Call.RESULT, 500, key=KEY)
    driver.now += 24 * 3600.0

    assert driver.tell(NothingToClaim(POLL_S)) == [
        Drop(KEY, "it is too old"),
        Claim(ClaimId("claim-3"), POLL_S),
    ]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 409, 410])
def test_a_result_that_nobody_wants_is_dropped(status: int) -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, status, key=KEY) == [
        Drop(KEY, f"refused: result said {status}"),
        Claim(ClaimId("claim-2"), POLL_S),
    ]


def test_422_means_that_the_result_is_delivered() -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, 422, key=KEY) == [
        Drop(KEY, "delivered, recorded as malformed: result said 422"),
        Claim(ClaimId("claim-2"), POLL_S),
    ]


def test_a_result_that_is_too_large_loses_its_log_then_its_output_and_then_itself() -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, 413, key=KEY) == [Deliver(KEY, 1)]
    assert driver.refuse(Call.RESULT, 413, key=KEY) == [Deliver(KEY, 2)]
    assert driver.refuse(Call.RESULT, 413, key=KEY)[0] == Drop(KEY, "refused: result said 413")


def test_a_runner_that_is_too_old_to_report_leaves_the_result_on_disk_and_ends_with_7() -> None:
    assert delivering().refuse(Call.RESULT, 426, key=KEY) == [Exit(7, "result said 426")]


def test_a_word_on_a_result_that_is_gone_only_ends_the_operation() -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, 500, key=OLD) == [Deliver(KEY)]


# --- what the server says beside the main way -----------------------------------------------------


@pytest.mark.parametrize(
    ("order", "how"), [(Order.CANCEL, Stopping.CANCEL), (Order.ABORT, Stopping.ABORT)]
)
def test_an_order_stops_the_attempt_and_nothing_of_it_is_reported(
    order: Order, how: Stopping
) -> None:
    driver = running()

    assert driver.tell(Heard(BeatAnswer(orders=((KEY, order),)))) == [
        Stop(KEY, how, f"the server says {order}")
    ]
    assert driver.tell(HasStopped(KEY)) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_an_attempt_that_the_server_does_not_know_is_aborted() -> None:
    driver = running()

    assert driver.tell(Heard(BeatAnswer(unknown=(KEY,)))) == [
        Stop(KEY, Stopping.ABORT, "the server says abort")
    ]


def test_an_order_reaches_an_attempt_that_is_being_fetched() -> None:
    driver = fetching()

    assert driver.tell(Heard(BeatAnswer(orders=((KEY, Order.ABORT),)))) == [
        Stop(KEY, Stopping.ABORT, "the server says abort")
    ]
    assert driver.tell(HasFetched(KEY)) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_a_fetch_that_fails_while_it_is_stopped_is_over() -> None:
    driver = fetching()
    driver.tell(Heard(BeatAnswer(unknown=(KEY,))))

    assert driver.refuse(Call.PACKAGE, 500, key=KEY) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_an_attempt_that_ended_while_it_was_stopped_is_dropped() -> None:
    driver = running()
    driver.tell(Heard(BeatAnswer(orders=((KEY, Order.CANCEL),))))

    assert driver.tell(HasEnded(KEY)) == [
        Drop(KEY, "the attempt was stopped"),
        Claim(ClaimId("claim-2"), POLL_S),
    ]


def test_an_order_is_given_once_and_only_grows() -> None:
    driver = running()
    cancel = Heard(BeatAnswer(orders=((KEY, Order.CANCEL),)))
    abort = Heard(BeatAnswer(orders=((KEY, Order.ABORT),)))

    assert len(driver.tell(cancel)) == 1
    assert driver.tell(cancel) == []
    assert driver.tell(abort) == [Stop(KEY, Stopping.ABORT, "the server says abort")]
    assert driver.tell(abort) == []
    assert driver.tell(cancel) == []


@pytest.mark.parametrize(
    "answer",
    [
        BeatAnswer(orders=((KEY, Order.CONTINUE),)),
        BeatAnswer(orders=((OLD, Order.ABORT),)),
        BeatAnswer(unknown=(OLD,)),
    ],
)
def test_what_is_not_meant_for_the_running_attempt_leaves_it_alone(answer: BeatAnswer) -> None:
    assert running().tell(Heard(answer)) == []


def test_a_result_on_its_way_is_settled_by_its_delivery_alone() -> None:
    driver = delivering()

    assert driver.tell(Heard(BeatAnswer(orders=((KEY, Order.ABORT),), unknown=(KEY,)))) == []


@pytest.mark.parametrize("status", [403, 404, 409, 410])
def test_a_log_that_is_refused_stops_its_attempt(status: int) -> None:
    driver = running()

    assert driver.refuse(Call.LOG, status, key=KEY) == [
        Stop(KEY, Stopping.ABORT, f"log said {status}")
    ]


@pytest.mark.parametrize("status", [None, 400, 413, 500, 503])
def test_a_log_in_trouble_does_not_touch_its_attempt(status: int | None) -> None:
    assert running().refuse(Call.LOG, status, key=KEY) == []


def test_a_late_word_on_another_log_changes_nothing() -> None:
    assert running().refuse(Call.LOG, 409, key=OLD) == []


@pytest.mark.parametrize("status", [None, 403, 404, 409, 410, 500, 503])
def test_a_heartbeat_in_trouble_touches_nothing(status: int | None) -> None:
    assert running().refuse(Call.HEARTBEAT, status) == []


@pytest.mark.parametrize("call", [Call.HEARTBEAT, Call.LOG])
def test_a_runner_that_is_found_too_old_finishes_and_ends_with_7(call: Call) -> None:
    driver = running()

    assert driver.refuse(call, 426, key=KEY) == []
    assert driver.tell(HasEnded(KEY)) == [Deliver(KEY)]
    assert driver.tell(HasDelivered(KEY)) == [
        Drop(KEY, "delivered"),
        Exit(7, f"{call} said 426"),
    ]


def test_a_runner_that_is_too_old_to_register_again_finishes_and_keeps_its_result() -> None:
    driver = running()
    driver.refuse(Call.HEARTBEAT, 401)

    assert driver.refuse(Call.REGISTER, 426) == []
    assert driver.tell(HasEnded(KEY)) == [Exit(7, "a result is kept for the next start")]


def test_the_server_may_ask_to_drain() -> None:
    driver = running()

    assert driver.tell(Heard(BeatAnswer(advice=Advice.DRAIN))) == []
    assert driver.machine.beat.state == "draining"
    driver.tell(HasEnded(KEY))
    assert exit_of(driver.tell(HasDelivered(KEY))) == (
        0,
        "the server asks this runner to drain",
    )
