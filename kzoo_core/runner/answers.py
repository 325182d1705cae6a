"""The server's JSON answers to a runner, read at the edge: members checked, strangers ignored.

Every function raises ``Unreadable`` that names the member and what was expected of it. Unknown
members are left unread, so that a newer server may say more than this runner understands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from urllib.parse import urlsplit

from kzoo_core.errors import KzooError
from kzoo_core.ids import RunnerId, Sha256, SubmissionId, parse_kernel_id, parse_submission_id
from kzoo_core.queue.exchange import Order
from kzoo_core.runner.records import (
    Advice,
    AttemptKey,
    BeatAnswer,
    ClaimedAttempt,
    Delivery,
    Registered,
    RunnerLimits,
)


class Unreadable(ValueError):
    """An answer is not what the protocol says; the message names the member."""


def read_registered(document: object) -> Registered:
    """Read the answer to a registration."""
    answer = _mapping(document, "the answer")
    protocol = answer.get("protocol")
    return Registered(
        runner_id=RunnerId(_text(answer, "runner_id")),
        runner_token=_text(answer, "runner_token"),
        heartbeat_s=_seconds(answer, "heartbeat_s"),
        lease_s=_seconds(answer, "lease_s"),
        poll_s=_seconds(answer, "poll_s"),
        limits=_limits(answer, RunnerLimits()),
        protocol=None if protocol is None else _range(_mapping(protocol, "protocol")),
    )


def read_claimed(document: object, defaults: RunnerLimits) -> ClaimedAttempt:
    """Read the answer to a claim that gives an attempt; ``defaults`` are the registration's."""
    answer = _mapping(document, "the answer")
    key = _key(answer)
    timeouts = _mapping(answer.get("timeouts"), "timeouts")
    try:
        kernel_id = parse_kernel_id(_text(answer, "kernel_id"))
    except KzooError as error:
        raise Unreadable(error.message) from error
    return ClaimedAttempt(
        key=key,
        token=_text(answer, "attempt_token"),
        kernel_id=kernel_id,
        mode=_text(answer, "mode"),
        arch=_text(answer, "arch"),
        package_path=_package_path(answer, key),
        package_sha256=Sha256(_text(answer, "package_sha256")),
        build_s=_seconds(timeouts, "build_s"),
        bench_s=_seconds(timeouts, "bench_s"),
        limits=_limits(answer, defaults),
        cancel_grace_s=_seconds(answer, "cancel_grace_s"),
    )


def read_beat_answer(document: object) -> BeatAnswer:
    """Read the answer to a heartbeat; an order that this runner does not know is no order."""
    answer = _mapping(document, "the answer")
    orders = [
        (_key(item), Order(str(item.get("do"))))
        for item in _items(answer, "directives")
        if item.get("do") in set(Order)
    ]
    unknown = tuple(_key(item) for item in _items(answer, "unknown"))
    action = answer.get("action", "none")
    advice = Advice(str(action)) if action in set(Advice) else Advice.NONE
    return BeatAnswer(tuple(orders), unknown, advice)


def read_delivery(document: object) -> Delivery:
    """Read the answer to a result; only what a log line needs, so nothing is demanded."""
    answer = document if isinstance(document, Mapping) else {}
    accepted, outcome, reason = (answer.get(name) for name in ("accepted", "outcome", "reason"))
    if isinstance(reason, Mapping):
        reason = reason.get("code")
    return Delivery(
        accepted=accepted if isinstance(accepted, bool) else None,
        outcome=outcome if isinstance(outcome, str) else None,
        reason=reason if isinstance(reason, str) else None,
    )


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Unreadable(f"{name} is {type(value).__name__}, expected an object")
    return value


def _items(answer: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = answer.get(name, [])
    if not isinstance(value, list):
        raise Unreadable(f"{name} is {type(value).__name__}, expected an array")
    return [_mapping(item, f"an item of {name}") for item in value]


def _text(answer: Mapping[str, object], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str) or not value:
        raise Unreadable(f"{name} is {value!r}, expected a text")
    return value


def _seconds(answer: Mapping[str, object], name: str) -> float:
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{name} is {value!r}, expected seconds")
    if not math.isfinite(value) or value < 0:
        raise Unreadable(f"{name} is {value!r}, expected seconds of at least 0")
    return float(value)


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Unreadable(f"{name} is {value!r}, expected a whole number of at least 1")
    return value


def _key(answer: Mapping[str, object]) -> AttemptKey:
    try:
        uuid: SubmissionId = parse_submission_id(_text(answer, "uuid"))
    except KzooError as error:
        raise Unreadable(error.message) from error
    return AttemptKey(uuid, _whole(answer.get("attempt"), "attempt"))


def _range(protocol: Mapping[str, object]) -> tuple[int, int]:
    return _whole(protocol.get("min"), "protocol.min"), _whole(protocol.get("max"), "protocol.max")


def _limits(answer: Mapping[str, object], defaults: RunnerLimits) -> RunnerLimits:
    """Read the limits; one that the server leaves out keeps its default."""
    given = _mapping(answer.get("limits", {}), "limits")
    names = [item.name for item in fields(RunnerLimits) if given.get(item.name) is not None]
    return replace(defaults, **{name: _whole(given[name], f"limits.{name}") for name in names})


def _package_path(answer: Mapping[str, object], key: AttemptKey) -> str:
    """Return where the package lies below the server's address; the token goes nowhere else."""
    path = urlsplit(_text(answer, "package_url")).path
    return path if path.startswith("/api/") else f"/api/runner/package/{key.uuid}"
