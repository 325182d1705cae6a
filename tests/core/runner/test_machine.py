"""What the runner's machine commands on its way from registering to the next claim."""

from __future__ import annotations

import pytest

from kzoo_core.ids import ClaimId
from kzoo_core.queue.records import Phase
from kzoo_core.runner.events import (
    Call,
    Claim,
    Deliver,
    Drop,
    Exit,
    Fetch,
    HasClaimed,
    HasDelivered,
    HasEnded,
    HasFetched,
    HasRegistered,
    HasStopped,
    Heard,
    Leftover,
    NothingToClaim,
    PhaseBegan,
    Register,
    Started,
    Stop,
    Stopping,
)
from kzoo_core.runner.records import Advice, Beat, BeatAnswer
from tests.core.runner.driver import (
    KEY,
    OLD,
    POLL_S,
    Driver,
    delivering,
    exit_of,
    fetching,
    idle,
    pause_of,
    running,
)

# --- the usual way ----------------------------------------------------------------------------


def test_an_attempt_goes_from_claim_to_delivery_and_the_next_claim_has_an_id_of_its_own() -> None:
    driver = delivering()

    assert driver.tell(HasDelivered(KEY)) == [
        Drop(KEY, "delivered"),
        Claim(ClaimId("claim-2"), POLL_S),
    ]


def test_a_held_claim_without_an_answer_is_followed_at_once_by_a_fresh_one() -> None:
    driver = idle()

    assert driver.tell(NothingToClaim(29.9)) == [Claim(ClaimId("claim-2"), POLL_S)]


def test_claims_that_are_answered_at_once_with_nothing_are_spaced_from_2_to_30_seconds() -> None:
    driver = idle()
    pauses = []

    for _ in range(7):
        commands = driver.tell(NothingToClaim(0.01))
        pauses.append(pause_of(commands))
        driver.pass_pause(commands)

    for pause, step in zip(pauses, (2, 4, 8, 16, 30, 30, 30), strict=True):
        assert step / 2 <= pause <= step
    assert len(set(pauses)) == 7


def test_a_claimed_attempt_begins_the_spacing_anew() -> None:
    driver = idle()
    for _ in range(4):
        driver.pass_pause(driver.tell(NothingToClaim(0.0)))
    driver.tell(HasClaimed(KEY), HasFetched(KEY), HasEnded(KEY), HasDelivered(KEY))

    assert pause_of(driver.tell(NothingToClaim(0.0))) <= 2


def test_a_machine_that_fails_delivers_at_once_but_claims_at_growing_intervals() -> None:
    driver = running()
    pauses = []
    for _ in range(6):
        assert driver.tell(HasEnded(KEY, machine_failed=True)) == [Deliver(KEY)]
        drop, *rest = driver.tell(HasDelivered(KEY))
        assert drop == Drop(KEY, "delivered")
        pauses.append(pause_of(rest))
        driver.pass_pause(rest)
        driver.tell(HasClaimed(KEY), HasFetched(KEY))

    for pause, step in zip(pauses, (2, 4, 8, 16, 30, 30), strict=True):
        assert step / 2 <= pause <= step


def test_a_machine_that_works_again_claims_without_a_break_and_fails_anew_from_the_least() -> None:
    driver = running()
    for _ in range(3):
        driver.tell(HasEnded(KEY, machine_failed=True))
        driver.pass_pause(driver.tell(HasDelivered(KEY))[1:])
        driver.tell(HasClaimed(KEY), HasFetched(KEY))
    driver.tell(HasEnded(KEY))
    assert isinstance(driver.tell(HasDelivered(KEY))[1], Claim)
    driver.tell(HasClaimed(KEY), HasFetched(KEY), HasEnded(KEY, machine_failed=True))
    assert pause_of(driver.tell(HasDelivered(KEY))[1:]) <= 2


def test_a_server_that_holds_no_claims_open_is_not_asked_without_a_break() -> None:
    driver = Driver()
    driver.tell(Started(), HasRegistered(0.0))

    assert pause_of(driver.tell(NothingToClaim(0.0))) > 0


def test_the_heartbeat_names_an_attempt_from_its_claim_until_its_delivery() -> None:
    driver = idle()
    seen = [driver.machine.beat]
    for event in (
        HasClaimed(KEY),
        HasFetched(KEY),
        PhaseBegan(KEY, Phase.BUILD),
        PhaseBegan(KEY, Phase.BENCHMARK),
        HasEnded(KEY),
        HasDelivered(KEY),
    ):
        driver.tell(event)
        seen.append(driver.machine.beat)

    assert seen == [
        Beat("idle", ()),
        Beat("busy", ((KEY, Phase.CLAIMED),)),
        Beat("busy", ((KEY, Phase.CLAIMED),)),
        Beat("busy", ((KEY, Phase.BUILD),)),
        Beat("busy", ((KEY, Phase.BENCHMARK),)),
        Beat("idle", ((KEY, Phase.REPORTED),)),
        Beat("idle", ()),
    ]


def test_a_phase_of_another_attempt_changes_nothing() -> None:
    driver = running()

    driver.tell(PhaseBegan(OLD, Phase.BENCHMARK))

    assert driver.machine.beat.attempts == ((KEY, Phase.CLAIMED),)


def test_results_that_an_earlier_process_left_are_delivered_before_the_first_claim() -> None:
    driver = Driver()

    assert driver.tell(Started((Leftover(OLD, 60.0), Leftover(KEY, 90.0)))) == [Register()]
    assert driver.machine.beat.attempts == ((OLD, Phase.REPORTED), (KEY, Phase.REPORTED))
    assert driver.tell(HasRegistered(POLL_S)) == [Deliver(OLD)]
    assert driver.tell(HasDelivered(OLD)) == [Drop(OLD, "delivered"), Deliver(KEY)]


def test_a_result_that_has_become_too_old_is_let_go() -> None:
    driver = Driver()
    driver.tell(Started((Leftover(OLD, 60.0),)))
    driver.now += 60.0

    assert driver.tell(HasRegistered(POLL_S)) == [
        Drop(OLD, "it is too old"),
        Claim(ClaimId("claim-1"), POLL_S),
    ]


# --- registering ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, 429, 500, 503])
def test_a_first_registration_is_tried_until_patience_ends(status: int | None) -> None:
    driver = Driver(patience_s=60.0)
    driver.tell(Started())

    (again,) = driver.refuse(Call.REGISTER, status)
    assert isinstance(again, Register)
    assert 1 <= again.after_s <= 2
    driver.now += 60.0

    assert exit_of(driver.refuse(Call.REGISTER, status)) == (
        3,
        f"cannot register: register said {status}",
    )


def test_a_registration_waits_as_long_as_the_server_asks() -> None:
    driver = Driver()
    driver.tell(Started())

    (again,) = driver.refuse(Call.REGISTER, 503, retry_after_s=20.0)

    assert isinstance(again, Register)
    assert 20 <= again.after_s <= 22


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 413, 422])
def test_a_registration_refused_for_good_ends_with_3(status: int) -> None:
    driver = Driver()
    driver.tell(Started())

    assert exit_of(driver.refuse(Call.REGISTER, status)) == (3, f"register said {status}")


def test_a_runner_that_is_too_old_to_register_ends_with_7() -> None:
    driver = Driver()
    driver.tell(Started())

    assert exit_of(driver.refuse(Call.REGISTER, 426)) == (7, "register said 426")


def test_registering_again_has_no_end_of_patience() -> None:
    driver = running(patience_s=60.0)
    driver.refuse(Call.HEARTBEAT, 401)
    driver.now += 10_000

    (again,) = driver.refuse(Call.REGISTER, None)

    assert isinstance(again, Register)


# --- 401 ----------------------------------------------------------------------------------------


def test_401_to_a_claim_registers_once_more_and_asks_with_the_same_claim_id() -> None:
    driver = idle()

    assert driver.refuse(Call.CLAIM, 401) == [Register()]
    assert driver.tell(HasRegistered(POLL_S)) == [Claim(ClaimId("claim-1"), POLL_S)]


def test_a_second_401_right_after_registering_again_ends_with_3() -> None:
    driver = idle()
    driver.refuse(Call.CLAIM, 401)
    driver.tell(HasRegistered(POLL_S))

    assert exit_of(driver.refuse(Call.CLAIM, 401)) == (
        3,
        "refused again after registering once more: claim said 401",
    )


def test_a_call_that_goes_through_makes_the_next_401_a_first_one() -> None:
    driver = idle()
    driver.refuse(Call.CLAIM, 401)
    driver.tell(HasRegistered(POLL_S), NothingToClaim(POLL_S))

    assert driver.refuse(Call.CLAIM, 401) == [Register()]


def test_401_to_an_older_identity_is_no_second_one() -> None:
    driver = running()
    driver.refuse(Call.HEARTBEAT, 401)
    driver.tell(HasRegistered(POLL_S))

    assert driver.refuse(Call.LOG, 401, key=KEY, identity=1) == []


def test_401s_of_one_moment_lead_to_one_registration() -> None:
    driver = running()

    assert driver.refuse(Call.HEARTBEAT, 401) == [Register()]
    assert driver.refuse(Call.LOG, 401, key=KEY) == []


def test_a_run_goes_on_while_the_runner_registers_again_and_delivers_then() -> None:
    driver = running()
    driver.refuse(Call.HEARTBEAT, 401)

    assert driver.tell(HasEnded(KEY)) == []
    assert driver.tell(HasRegistered(POLL_S)) == [Deliver(KEY)]


def test_a_run_is_stopped_when_the_second_401_comes_and_then_the_runner_ends_with_3() -> None:
    driver = running()
    driver.refuse(Call.HEARTBEAT, 401)
    driver.tell(HasRegistered(POLL_S))

    why = "refused again after registering once more: heartbeat said 401"
    assert driver.refuse(Call.HEARTBEAT, 401) == [Stop(KEY, Stopping.ABORT, why)]
    assert driver.tell(HasStopped(KEY)) == [Exit(3, why)]


def test_401_to_a_package_registers_and_fetches_again() -> None:
    driver = fetching()

    register, fetch = driver.refuse(Call.PACKAGE, 401, key=KEY)

    assert register == Register()
    assert isinstance(fetch, Fetch)
    assert fetch.after_s > 0


def test_a_second_401_to_a_package_ends_with_3_and_nothing_else() -> None:
    driver = fetching()
    driver.refuse(Call.PACKAGE, 401, key=KEY)
    driver.tell(HasRegistered(POLL_S))

    (leaving,) = driver.refuse(Call.PACKAGE, 401, key=KEY)

    assert isinstance(leaving, Exit)
    assert leaving.code == 3


def test_401_to_a_result_registers_and_delivers_again() -> None:
    driver = delivering()

    assert driver.refuse(Call.RESULT, 401, key=KEY) == [Register()]
    assert driver.tell(HasRegistered(POLL_S)) == [Deliver(KEY)]


def test_the_server_may_ask_to_register_again() -> None:
    driver = running()

    assert driver.tell(Heard(BeatAnswer(advice=Advice.REREGISTER))) == [Register()]
    assert driver.tell(Heard(BeatAnswer(advice=Advice.REREGISTER))) == []
    assert driver.tell(HasRegistered(POLL_S)) == []


# --- claims refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [None, 429, 500, 503])
def test_a_claim_that_was_not_answered_is_asked_again_with_its_id(status: int | None) -> None:
    driver = idle()

    commands = driver.refuse(Call.CLAIM, status)

    assert 1 <= pause_of(commands) <= 2
    assert driver.pass_pause(commands) == [Claim(ClaimId("claim-1"), POLL_S)]


def test_a_claim_waits_as_long_as_the_server_asks() -> None:
    driver = idle()

    assert 17 <= pause_of(driver.refuse(Call.CLAIM, 429, retry_after_s=17.0)) <= 18.7


def test_a_claim_id_that_is_spent_is_replaced() -> None:
    driver = idle()

    commands = driver.refuse(Call.CLAIM, 409)

    assert driver.pass_pause(commands) == [Claim(ClaimId("claim-2"), POLL_S)]


@pytest.mark.parametrize("status", [200, 400, 403, 404, 410, 413, 422])
def test_a_claim_refused_for_good_ends_with_3(status: int) -> None:
    assert exit_of(idle().refuse(Call.CLAIM, status)) == (3, f"claim said {status}")


def test_a_runner_that_is_too_old_to_claim_ends_with_7() -> None:
    assert exit_of(idle().refuse(Call.CLAIM, 426)) == (7, "claim said 426")
