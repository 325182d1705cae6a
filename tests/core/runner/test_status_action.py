from __future__ import annotations

import pytest

from kzoo_core.runner.events import Call
from kzoo_core.runner.status_action import Action, action_for

OF_AN_ATTEMPT = (Call.PACKAGE, Call.LOG, Call.RESULT, Call.RELEASE)
AUTHORISED = tuple(call for call in Call if call is not Call.REGISTER)


@pytest.mark.parametrize("call", AUTHORISED)
def test_401_registers_once_more(call: Call) -> None:
    assert action_for(call, 401) is Action.REGISTER_AGAIN


def test_401_to_a_registration_is_the_end() -> None:
    assert action_for(Call.REGISTER, 401) is Action.GIVE_UP


@pytest.mark.parametrize("call", OF_AN_ATTEMPT)
@pytest.mark.parametrize("status", [403, 404, 409, 410])
def test_403_404_409_and_410_stop_the_attempt(call: Call, status: int) -> None:
    assert action_for(call, status) is Action.STOP_ATTEMPT


@pytest.mark.parametrize("status", [403, 404, 410])
@pytest.mark.parametrize("call", [Call.REGISTER, Call.CLAIM])
def test_without_an_attempt_403_404_and_410_leave_nothing_to_try(call: Call, status: int) -> None:
    assert action_for(call, status) is Action.GIVE_UP


def test_409_to_a_claim_asks_with_another_claim_id() -> None:
    assert action_for(Call.CLAIM, 409) is Action.NEW_CLAIM


def test_409_to_a_registration_is_the_end() -> None:
    assert action_for(Call.REGISTER, 409) is Action.GIVE_UP


def test_412_to_a_log_sends_it_again_and_416_goes_back() -> None:
    assert action_for(Call.LOG, 412) is Action.RESEND
    assert action_for(Call.LOG, 416) is Action.REWIND


@pytest.mark.parametrize("call", [Call.LOG, Call.RESULT])
def test_413_cuts(call: Call) -> None:
    assert action_for(call, 413) is Action.CUT


def test_422_to_a_result_means_delivered() -> None:
    assert action_for(Call.RESULT, 422) is Action.DELIVERED


@pytest.mark.parametrize("call", list(Call))
def test_426_finishes_and_leaves(call: Call) -> None:
    assert action_for(call, 426) is Action.OUTDATED


@pytest.mark.parametrize("call", list(Call))
@pytest.mark.parametrize("status", [None, 408, 425, 429, 500, 502, 503, 504, 507, 599])
def test_no_answer_and_a_server_in_trouble_are_asked_again(call: Call, status: int | None) -> None:
    assert action_for(call, status) is Action.BACK_OFF


@pytest.mark.parametrize(
    ("call", "action"),
    [
        (Call.REGISTER, Action.GIVE_UP),
        (Call.CLAIM, Action.GIVE_UP),
        (Call.PACKAGE, Action.BACK_OFF),
        (Call.HEARTBEAT, Action.BACK_OFF),
        (Call.LOG, Action.GIVE_UP),
        (Call.RESULT, Action.GIVE_UP),
        (Call.RELEASE, Action.GIVE_UP),
    ],
)
@pytest.mark.parametrize("status", [200, 301, 400, 405, 418])
def test_what_the_protocol_does_not_know_has_an_action_too(
    call: Call, action: Action, status: int
) -> None:
    assert action_for(call, status) is action
