"""Registered runners."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from kzoo_core.errors import BadInput, NotFound, Retryable, Unauthorized
from kzoo_core.ids import RunnerId
from kzoo_core.queue.runners import RunnerInfo, RunnerRegistry, runner_id_of
from kzoo_core.queue.scheduler import RunnerCapability
from tests.core.queue.samples import at, with_settings

INFO = RunnerInfo(
    name="node", instance="1", arch="gfx928", features=frozenset({"mfma"}), gpus=({"index": 0},)
)


def registry_of(**settings: float) -> RunnerRegistry:
    numbers = count(1)
    return RunnerRegistry(with_settings(**settings), lambda _size: f"token-{next(numbers)}")


@pytest.fixture
def registry() -> RunnerRegistry:
    return registry_of()


def test_a_registration_makes_a_runner_of_what_it_says(registry: RunnerRegistry) -> None:
    runner, token = registry.register(INFO, now=at(1))
    assert token == "token-1"
    assert runner.runner_id == runner_id_of("node", "1")
    assert runner.runner_id.startswith("node.")
    assert len(runner.runner_id) == len("node.") + 8
    assert runner.capability == RunnerCapability("gfx928", frozenset({"mfma"}))
    assert runner.gpus == ({"index": 0},)
    assert (runner.registered_at, runner.last_seen_at, runner.state) == (at(1), at(1), "idle")
    assert registry.all() == (runner,)
    assert "token" not in repr(runner)


def test_the_id_is_the_same_for_the_same_name_and_instance_alone() -> None:
    assert runner_id_of("node", "1") == runner_id_of("node", "1")
    assert len({runner_id_of(*pair) for pair in [("n", "1"), ("n", "2"), ("m", "1")]}) == 3


def test_two_instances_of_one_name_are_two_runners(registry: RunnerRegistry) -> None:
    one, first = registry.register(INFO, now=at(0))
    two, second = registry.register(replace(INFO, instance="2"), now=at(0))
    assert one.runner_id != two.runner_id
    assert registry.authenticate(first) == one
    assert registry.authenticate(second) == two


def test_a_name_that_is_none_is_refused(registry: RunnerRegistry) -> None:
    with pytest.raises(BadInput) as caught:
        registry.register(replace(INFO, name="a b"), now=at(0))
    assert caught.value.code == "VALIDATION_ERROR"
    assert caught.value.message == "runner_name 'a b' is not valid"


def test_only_the_newest_token_is_good(registry: RunnerRegistry) -> None:
    _, old = registry.register(INFO, now=at(0))
    runner, new = registry.register(replace(INFO, version="2"), now=at(5))
    assert registry.authenticate(new) == runner
    assert registry.all() == (runner,)
    with pytest.raises(Unauthorized) as caught:
        registry.authenticate(old)
    assert caught.value.code == "UNKNOWN_RUNNER"
    assert caught.value.message == "no registered runner has this token"
    assert caught.value.hint == "register again; running attempts stay yours"


@pytest.mark.parametrize("token", ["", "token-2", "\ud800"])
def test_a_token_that_was_never_given_is_not_good(registry: RunnerRegistry, token: str) -> None:
    registry.register(INFO, now=at(0))
    with pytest.raises(Unauthorized):
        registry.authenticate(token)


def test_a_runner_is_seen_and_says_how_it_is(registry: RunnerRegistry) -> None:
    runner, token = registry.register(INFO, now=at(0))
    seen = registry.seen(runner.runner_id, now=at(9), state="busy", gpus=({"index": 1},))
    assert (seen.last_seen_at, seen.state, seen.gpus) == (at(9), "busy", ({"index": 1},))
    again = registry.seen(runner.runner_id, now=at(10))
    assert (again.last_seen_at, again.state, again.gpus) == (at(10), "busy", ({"index": 1},))
    assert registry.authenticate(token) == registry.get(runner.runner_id) == again


def test_a_runner_that_is_not_registered_is_not_found(registry: RunnerRegistry) -> None:
    with pytest.raises(NotFound) as caught:
        registry.seen(RunnerId("ghost.00000000"), now=at(0))
    assert caught.value.code == "UNKNOWN_RUNNER"
    assert caught.value.message == "there is no runner ghost.00000000"
    assert caught.value.hint == "register first"


def test_a_runner_is_up_for_less_than_three_heartbeats_of_silence(
    registry: RunnerRegistry,
) -> None:
    runner, _ = registry.register(INFO, now=at(0))
    assert registry.is_up(runner, now=at(44))
    assert not registry.is_up(runner, now=at(45))


def test_a_runner_is_forgotten_after_a_day_of_silence() -> None:
    registry = registry_of(runner_forget_s=100)
    old, token = registry.register(INFO, now=at(0))
    new, _ = registry.register(replace(INFO, instance="2"), now=at(1))
    assert registry.prune(now=at(99)) == ()
    assert registry.prune(now=at(100)) == (old.runner_id,)
    assert registry.all() == (new,)
    with pytest.raises(Unauthorized):
        registry.authenticate(token)


def test_no_more_runners_are_taken_than_the_bound_but_known_ones_may_return() -> None:
    registry = registry_of(max_runners=1)
    registry.register(INFO, now=at(0))
    registry.register(INFO, now=at(1))
    with pytest.raises(Retryable) as caught:
        registry.register(replace(INFO, instance="2"), now=at(1))
    assert caught.value.code == "TOO_MANY_RUNNERS"
    assert caught.value.message == "1 runners are registered, no more are taken"
    assert caught.value.hint == "those not seen for a day are forgotten"
    assert caught.value.retry_after_s == 60
