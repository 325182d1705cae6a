from __future__ import annotations

import itertools
from random import Random

import pytest

from kzoo_core.ids import ClaimId, SubmissionId
from kzoo_core.queue.records import Phase
from kzoo_core.runner.events import (
    Call,
    Claim,
    Command,
    Deliver,
    Drop,
    Event,
    Execute,
    Exit,
    Fetch,
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
    Leftover,
    NothingToClaim,
    Pause,
    PauseOver,
    PhaseBegan,
    Refusal,
    Refused,
    Register,
    Release,
    Started,
    Stop,
    StopAsked,
    Stopping,
)
from kzoo_core.runner.machine import PACKAGE_TRIES, RELEASE_TRIES, Rules, RunnerMachine
from kzoo_core.runner.records import Advice, AttemptKey, Beat, BeatAnswer, Order

KEY = AttemptKey(SubmissionId("11111111-2222-3333-4444-555555555555"), 1)
OLD = AttemptKey(SubmissionId("99999999-2222-3333-4444-555555555555"), 2)
POLL_S = 30.0


class Driver:
    """A machine with a clock that a test moves and claim ids that count."""

    def __init__(self, **rules: object) -> None:
        counter = itertools.count(1)
        self.machine = RunnerMachine(
            Rules(**rules),  # type: ignore[arg-type]  # a test names its own fields
            random=Random(1),
            new_claim_id=lambda: ClaimId(f"claim-{next(counter)}"),
        )
        self.now = 100.0

    def tell(self, *events: Event) -> list[Command]:
        """Tell events and return the commands to the last one."""
        commands: list[Command] = []
        for event in events:
            commands = list(self.machine.handle(event, self.now))
        return commands

    def refuse(
        self,
        call: Call,
        status: int | None,
        *,
        key: AttemptKey | None = None,
        retry_after_s: float | None = None,
        identity: int | None = None,
    ) -> list[Command]:
        number = self.machine.identity if identity is None else identity
        return self.tell(
            Refused(
                Refusal(
                    call=call,
                    status=status,
                    message=f"{call} said {status}",
                    key=key,
                    retry_after_s=retry_after_s,
                    identity=number,
                )
            )
        )

    def pass_pause(self, commands: list[Command]) -> list[Command]:
        """Let the one pause in ``commands`` pass and return what comes then."""
        (pause,) = commands
        assert isinstance(pause, Pause)
        self.now += pause.seconds
        return self.tell(PauseOver())


def idle(**rules: object) -> Driver:
    """Return a driver whose machine has registered and is claiming."""
    driver = Driver(**rules)
    assert driver.tell(Started()) == [Register()]
    assert driver.tell(HasRegistered(POLL_S)) == [Claim(ClaimId("claim-1"), POLL_S)]
    return driver


def fetching(**rules: object) -> Driver:
    driver = idle(**rules)
    assert driver.tell(HasClaimed(KEY)) == [Fetch(KEY)]
    return driver


def running(**rules: object) -> Driver:
    driver = fetching(**rules)
    assert driver.tell(HasFetched(KEY)) == [Execute(KEY)]
    return driver


def delivering(**rules: object) -> Driver:
    driver = running(**rules)
    assert driver.tell(HasEnded(KEY)) == [Deliver(KEY)]
    return driver


def pause_of(commands: list[Command]) -> float:
    (pause,) = commands
    assert isinstance(pause, Pause)
    return pause.seconds


def exit_of(commands: list[Command]) -> tuple[int, str]:
    leaving = commands[-1]
    assert isinstance(leaving, Exit)
    return leaving.code, leaving.why


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
