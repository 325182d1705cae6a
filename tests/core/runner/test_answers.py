from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kzoo_core.ids import SubmissionId
from kzoo_core.queue.exchange import Order
from kzoo_core.runner.answers import (
    Unreadable,
    read_beat_answer,
    read_claimed,
    read_delivery,
    read_registered,
)
from kzoo_core.runner.records import (
    Advice,
    AttemptKey,
    BeatAnswer,
    ClaimedAttempt,
    Delivery,
    Registered,
    RunnerLimits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

UUID = SubmissionId("11111111-2222-3333-4444-555555555555")
KEY = AttemptKey(UUID, 3)

REGISTERED: dict[str, Any] = {
    "runner_id": "node1-abc",
    "runner_token": "t",
    "heartbeat_s": 15,
    "lease_s": 90.5,
    "poll_s": 30,
    "limits": {"stdout_bytes": 10, "unknown_bytes": 1},
    "protocol": {"min": 1, "max": 4},
    "later": {},
}
CLAIMED: dict[str, Any] = {
    "uuid": UUID,
    "attempt": 3,
    "attempt_token": "a",
    "kernel_id": "gfx928/Norm/x",
    "mode": "ranked",
    "arch": "gfx928",
    "package_url": f"/api/runner/package/{UUID}?attempt=3",
    "package_sha256": "0" * 64,
    "timeouts": {"build_s": 600, "bench_s": 900},
    "limits": {},
    "cancel_grace_s": 10,
    "incumbent_url": "/later",
}


def claimed(document: object) -> ClaimedAttempt:
    return read_claimed(document, RunnerLimits())


def test_a_registration_is_read_and_what_is_not_known_is_ignored() -> None:
    assert read_registered(REGISTERED) == Registered(
        runner_id="node1-abc",  # type: ignore[arg-type]  # a NewType of str
        runner_token="t",
        heartbeat_s=15.0,
        lease_s=90.5,
        poll_s=30.0,
        limits=RunnerLimits(stdout_bytes=10),
        protocol=(1, 4),
    )


def test_a_claim_is_read_and_limits_that_are_left_out_are_the_registration_s() -> None:
    assert read_claimed(CLAIMED, RunnerLimits(stdout_bytes=7)) == ClaimedAttempt(
        key=KEY,
        token="a",
        kernel_id="gfx928/Norm/x",  # type: ignore[arg-type]  # a NewType of str
        mode="ranked",
        arch="gfx928",
        package_path=f"/api/runner/package/{UUID}",
        package_sha256="0" * 64,  # type: ignore[arg-type]  # a NewType of str
        build_s=600.0,
        bench_s=900.0,
        limits=RunnerLimits(7, 3145728, 1048576, 262144, 8388608),
        cancel_grace_s=10.0,
    )


@pytest.mark.parametrize(
    "url", ["https://elsewhere.invalid/api/runner/package/x", "https://elsewhere.invalid/x", "x"]
)
def test_a_package_is_only_ever_asked_of_the_server_itself(url: str) -> None:
    assert claimed({**CLAIMED, "package_url": url}).package_path.startswith("/api/runner/package/")


def test_orders_and_advice_are_read_and_unknown_ones_are_none() -> None:
    item = {"uuid": UUID, "attempt": 3}
    document = {
        "directives": [{**item, "do": "cancel"}, {**item, "do": "dance"}, item],
        "unknown": [item],
        "action": "drain",
    }

    assert read_beat_answer(document) == BeatAnswer(((KEY, Order.CANCEL),), (KEY,), Advice.DRAIN)
    assert read_beat_answer({"action": "sing"}) == BeatAnswer()


@pytest.mark.parametrize(
    ("document", "delivery"),
    [
        ({"accepted": True, "outcome": None, "reason": None}, Delivery(True, None, None)),
        (
            {"accepted": False, "outcome": "rejected", "reason": {"code": "schema"}},
            Delivery(False, "rejected", "schema"),
        ),
        (
            {"accepted": False, "outcome": "rejected", "reason": "x"},
            Delivery(False, "rejected", "x"),
        ),
        ({"accepted": "yes", "outcome": 3, "reason": []}, Delivery(None, None, None)),
        ([], Delivery(None, None, None)),
    ],
)
def test_of_the_answer_to_a_result_nothing_is_demanded(
    document: object, delivery: Delivery
) -> None:
    assert read_delivery(document) == delivery


@pytest.mark.parametrize(
    ("reader", "document", "complaint"),
    [
        (read_registered, [], "the answer is list, expected an object"),
        (read_registered, {**REGISTERED, "runner_id": ""}, "runner_id is '', expected a text"),
        (read_registered, {**REGISTERED, "poll_s": True}, "poll_s is True, expected seconds"),
        (
            read_registered,
            {**REGISTERED, "lease_s": -1},
            "lease_s is -1, expected seconds of at least 0",
        ),
        (
            read_registered,
            {**REGISTERED, "lease_s": float("inf")},
            "lease_s is inf, expected seconds of at least 0",
        ),
        (
            read_registered,
            {**REGISTERED, "limits": {"stdout_bytes": 0}},
            "limits.stdout_bytes is 0, expected a whole number of at least 1",
        ),
        (
            read_registered,
            {**REGISTERED, "protocol": {"min": 1}},
            "protocol.max is None, expected a whole number of at least 1",
        ),
        (claimed, {**CLAIMED, "timeouts": None}, "timeouts is NoneType, expected an object"),
        (claimed, {**CLAIMED, "attempt": 0}, "attempt is 0, expected a whole number"),
        (claimed, {**CLAIMED, "uuid": "../x"}, "uuid '../x' is not valid"),
        (claimed, {**CLAIMED, "kernel_id": "a/../b"}, "kernel_id 'a/../b' is not valid"),
        (read_beat_answer, {"directives": {}}, "directives is dict, expected an array"),
        (read_beat_answer, {"unknown": [1]}, "an item of unknown is int, expected an object"),
    ],
)
def test_an_answer_that_is_not_the_protocol_s_names_the_member(
    reader: Callable[[object], object], document: object, complaint: str
) -> None:
    with pytest.raises(Unreadable) as caught:
        reader(document)

    assert str(caught.value).startswith(complaint)
