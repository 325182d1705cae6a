"""What the runner's machine commands once it is asked to stop, or may run one attempt alone."""

from __future__ import annotations

import pytest

from kzoo_core.runner.events import (
    Call,
    Deliver,
    Drop,
    Execute,
    Exit,
    HasClaimed,
    HasDelivered,
    HasEnded,
    HasFetched,
    HasRegistered,
    HasReleased,
    HasStopped,
    Heard,
    Interrupt,
    Interrupted,
    NothingToClaim,
    Release,
    Started,
    Stop,
    StopAsked,
    Stopping,
)
from kzoo_core.runner.machine import PACKAGE_TRIES
from kzoo_core.runner.records import BeatAnswer
from tests.core.runner.driver import (
    KEY,
    POLL_S,
    Driver,
    delivering,
    exit_of,
    fetching,
    idle,
    pause_of,
    running,
)

# --- being stopped --------------------------------------------------------------------------------


def test_a_runner_that_is_asked_to_stop_while_it_registers_leaves_at_once() -> None:
    driver = Driver()
    driver.tell(Started())

    assert driver.tell(StopAsked()) == [Exit(0, "asked to stop")]


def test_a_runner_that_is_asked_to_stop_while_it_claims_ends_the_claim_and_leaves() -> None:
    driver = idle()

    assert driver.tell(StopAsked()) == [Interrupt()]
    assert driver.tell(Interrupted()) == [Exit(0, "asked to stop")]


def test_a_claim_that_is_answered_while_it_is_interrupted_is_handed_back() -> None:
    driver = idle()
    driver.tell(StopAsked())

    assert driver.tell(HasClaimed(KEY)) == [Release(KEY, "the runner is stopping")]
    assert driver.tell(HasReleased(KEY)) == [Exit(0, "asked to stop")]


def test_a_runner_that_is_asked_to_stop_while_it_pauses_leaves_at_once() -> None:
    driver = idle()
    driver.tell(NothingToClaim(0.0))

    assert driver.tell(StopAsked()) == [Interrupt()]
    assert driver.tell(Interrupted()) == [Exit(0, "asked to stop")]


def test_an_interruption_is_asked_for_once() -> None:
    driver = idle()
    driver.tell(StopAsked())

    assert driver.tell(StopAsked()) == []


@pytest.mark.parametrize("begin", [fetching, running])
def test_a_running_attempt_is_finished_and_delivered_before_the_runner_leaves(
    begin: object,
) -> None:
    driver: Driver = begin()  # type: ignore[operator]  # one of the helpers above

    assert driver.tell(StopAsked()) == []
    assert driver.machine.beat.state == "draining"
    if begin is fetching:
        assert driver.tell(HasFetched(KEY)) == [Execute(KEY)]
    assert driver.tell(HasEnded(KEY)) == [Deliver(KEY)]
    assert driver.tell(HasDelivered(KEY)) == [Drop(KEY, "delivered"), Exit(0, "asked to stop")]


def test_a_stopping_runner_tries_to_deliver_until_its_patience_ends() -> None:
    driver = delivering(drain_patience_s=10.0)
    driver.tell(StopAsked())

    commands = driver.refuse(Call.RESULT, None, key=KEY)
    assert driver.pass_pause(commands) == [Deliver(KEY)]
    driver.now += 10.0
    assert driver.refuse(Call.RESULT, None, key=KEY) == [
        Exit(3, "a result is kept for the next start")
    ]


def test_a_pause_of_a_stopping_runner_does_not_outlast_its_patience() -> None:
    driver = delivering(drain_patience_s=10.0)
    driver.tell(StopAsked())

    commands = driver.refuse(Call.RESULT, 503, key=KEY, retry_after_s=200.0)

    assert pause_of(commands) == 10.0
    assert exit_of(driver.pass_pause(commands))[0] == 3


def test_a_second_stop_while_a_package_is_fetched_hands_the_attempt_back() -> None:
    driver = fetching()
    driver.tell(StopAsked())

    assert driver.tell(StopAsked()) == [Stop(KEY, Stopping.ABORT, "the runner was stopped")]
    assert driver.tell(HasStopped(KEY)) == [
        Release(KEY, "the runner was stopped before the attempt began")
    ]
    assert driver.tell(HasReleased(KEY)) == [Exit(0, "asked to stop")]


def test_a_second_stop_in_a_fetch_that_just_succeeded_hands_the_attempt_back() -> None:
    driver = fetching()
    driver.tell(StopAsked(), StopAsked())

    assert driver.tell(HasFetched(KEY)) == [
        Release(KEY, "the runner was stopped before the attempt began")
    ]


def test_an_attempt_that_the_server_took_away_is_not_handed_back() -> None:
    driver = fetching()
    driver.tell(Heard(BeatAnswer(unknown=(KEY,))))
    driver.tell(StopAsked(), StopAsked())

    assert driver.tell(HasStopped(KEY)) == [Exit(0, "asked to stop")]


def test_a_release_of_a_stopping_runner_is_tried_once() -> None:
    driver = fetching()
    driver.tell(StopAsked(), StopAsked(), HasStopped(KEY))

    assert exit_of(driver.refuse(Call.RELEASE, None, key=KEY))[0] == 0


def test_a_second_stop_kills_what_runs_and_reports_it_as_the_runner_s_doing() -> None:
    driver = running()
    driver.tell(StopAsked())

    assert driver.tell(StopAsked()) == [Stop(KEY, Stopping.REPORT, "the runner was stopped")]
    assert driver.tell(HasEnded(KEY)) == [Deliver(KEY)]
    assert driver.tell(HasDelivered(KEY)) == [Drop(KEY, "delivered"), Exit(0, "asked to stop")]


def test_after_a_second_stop_a_result_is_sent_once_and_else_kept() -> None:
    driver = running()
    driver.tell(StopAsked(), StopAsked(), HasEnded(KEY))

    assert driver.refuse(Call.RESULT, None, key=KEY) == [
        Exit(3, "a result is kept for the next start")
    ]


def test_a_second_stop_interrupts_a_delivery() -> None:
    driver = delivering()
    driver.tell(StopAsked())

    assert driver.tell(StopAsked()) == [Interrupt()]
    assert driver.tell(Interrupted()) == [Exit(3, "a result is kept for the next start")]


def test_a_second_stop_does_not_wait_for_a_registration() -> None:
    driver = running()
    driver.refuse(Call.HEARTBEAT, 401)
    driver.tell(StopAsked(), StopAsked())

    assert exit_of(driver.tell(HasEnded(KEY))) == (3, "a result is kept for the next start")


def test_a_third_stop_leaves_at_once() -> None:
    driver = running()
    driver.tell(StopAsked(), StopAsked())

    assert driver.tell(StopAsked()) == [Exit(3, "asked to stop a third time")]


def test_nothing_is_commanded_after_the_exit() -> None:
    driver = Driver()
    driver.tell(Started(), StopAsked())

    assert driver.tell(HasRegistered(POLL_S)) == []
    assert driver.tell(StopAsked()) == []


# --- once -------------------------------------------------------------------------------------


def test_a_runner_for_one_attempt_leaves_when_there_is_none() -> None:
    assert idle(once=True).tell(NothingToClaim(POLL_S)) == [Exit(0, "there is nothing to claim")]


def test_a_runner_for_one_attempt_leaves_after_it() -> None:
    driver = delivering(once=True)

    assert driver.machine.beat.state == "idle"
    assert driver.tell(HasDelivered(KEY)) == [
        Drop(KEY, "delivered"),
        Exit(0, "one attempt was asked for"),
    ]


def test_a_runner_for_one_attempt_that_cannot_have_its_package_ends_with_3() -> None:
    driver = fetching(once=True)
    for _ in range(PACKAGE_TRIES):
        driver.refuse(Call.PACKAGE, 500, key=KEY)

    assert exit_of(driver.tell(HasReleased(KEY)))[0] == 3


def test_a_runner_for_one_attempt_does_not_wait_for_a_server_for_ever() -> None:
    driver = idle(once=True, patience_s=60.0)

    driver.pass_pause(driver.refuse(Call.CLAIM, None))
    driver.now += 60.0

    assert exit_of(driver.refuse(Call.CLAIM, None)) == (3, "claim said None")
