"""What holds for the machine whatever server, clock and operator do: found by random walks."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kzoo_core.ids import ClaimId, SubmissionId
from kzoo_core.queue.exchange import Order
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
)
from kzoo_core.runner.machine import Rules, RunnerMachine
from kzoo_core.runner.records import Advice, AttemptKey, BeatAnswer

STATUSES = {
    "calm": [None, None, None, 401, 409, 413, 422, 429, 500, 503, 507],
    "rough": [None, 200, 400, 401, 403, 404, 409, 410, 412, 413, 416, 422, 426, 429, 500, 503],
}
MAIN = (Claim, Fetch, Execute, Release, Deliver, Pause)
CALLS = {
    Claim: Call.CLAIM,
    Fetch: Call.PACKAGE,
    Release: Call.RELEASE,
    Deliver: Call.RESULT,
    Register: Call.REGISTER,
}


class Shell:
    """Plays the shell by the protocol: every operation ends in exactly one event."""

    def __init__(self, draw: Random, *, kind: str, once: bool) -> None:
        self.draw = draw
        self.kind = kind
        self.now = 0.0
        counter = itertools.count(1)
        self.machine = RunnerMachine(
            Rules(once=once), random=Random(1), new_claim_id=lambda: ClaimId(f"c{next(counter)}")
        )
        self.numbers = itertools.count(1)
        self.operation: Command | None = None
        self.registering: Register | None = None
        self.results: set[AttemptKey] = set()
        self.claim_id: ClaimId | None = None
        self.stops = 0
        self.exit: Exit | None = None
        self.stopped: set[AttemptKey] = set()

    def tell(self, event: Event) -> None:
        for command in self.machine.handle(event, self.now):
            assert self.exit is None, "a command follows the exit"
            self.take(command)
        if self.exit is None:
            assert self.operation or self.registering, f"stalled after {event}"

    def take(self, command: Command) -> None:
        match command:
            case Register():
                assert self.registering is None
                self.registering = command
            case Stop(key):
                assert isinstance(self.operation, Fetch | Execute)
                assert self.operation.key == key
                self.stopped.add(key)
            case Interrupt():
                assert isinstance(self.operation, Claim | Pause | Deliver)
            case Drop(key):
                assert key in self.results or key in self.stopped
                self.results.discard(key)
            case Exit():
                self.exit = command
            case _:
                assert isinstance(command, MAIN)
                assert self.operation is None, f"{command} beside {self.operation}"
                self.begin(command)

    def begin(self, command: Command) -> None:
        if isinstance(command, Claim):
            assert not self.stops, "a claim after being asked to stop"
            assert self.registering is None
            assert self.claim_id in {None, command.claim_id}, "an unanswered claim's id changed"
            self.claim_id = command.claim_id
        if isinstance(command, Deliver):
            assert command.key in self.results
        if isinstance(command, Pause):
            assert command.seconds > 0
        self.operation = command

    def step(self) -> None:
        self.now += self.draw.choice([0.0, 0.1, 5.0, 40.0, 3600.0])
        choices = [self.end_operation] * 4 + [self.news]
        if self.registering is not None:
            choices += [self.end_registration] * 2
        self.draw.choice(choices)()

    def end_operation(self) -> None:
        operation = self.operation
        if operation is None:
            return
        if isinstance(operation, Pause):
            self.now += operation.seconds
        self.operation = None
        self.tell(self.how_it_ended(operation))

    def how_it_ended(self, operation: Command) -> Event:
        if isinstance(operation, Claim | Fetch | Release | Deliver) and self.unlucky():
            key = None if isinstance(operation, Claim) else operation.key
            status = self.draw.choice(STATUSES[self.kind])
            if isinstance(operation, Claim) and status == 409:
                self.claim_id = None
            return self.refused(CALLS[type(operation)], status, key)
        match operation:
            case Claim() if self.draw.random() < 0.1:
                return Interrupted()
            case Claim():
                self.claim_id = None
                key = AttemptKey(SubmissionId(f"s{next(self.numbers)}"), 1)
                if self.draw.random() < 0.3:
                    return NothingToClaim(self.draw.choice([0.0, 30.0]))
                return HasClaimed(key)
            case Fetch(key):
                return HasFetched(key) if self.draw.random() < 0.8 else HasStopped(key)
            case Execute(key):
                if self.draw.random() < 0.3:
                    return HasStopped(key)
                self.results.add(key)
                return HasEnded(key)
            case Release(key):
                return HasReleased(key)
            case Deliver(key):
                return HasDelivered(key)
        return PauseOver() if self.draw.random() < 0.9 else Interrupted()

    def end_registration(self) -> None:
        self.registering = None
        if self.unlucky():
            self.tell(self.refused(Call.REGISTER, self.draw.choice(STATUSES[self.kind]), None))
        else:
            self.tell(HasRegistered(self.draw.choice([0.0, 30.0])))

    def news(self) -> None:
        key = self.draw.choice([*self.results, AttemptKey(SubmissionId("s1"), 1)])
        if isinstance(self.operation, Fetch | Execute) and self.draw.random() < 0.7:
            key = self.operation.key
        kinds: list[Event] = [
            PhaseBegan(key, Phase.BUILD),
            Heard(BeatAnswer(orders=((key, self.draw.choice(list(Order))),))),
            Heard(BeatAnswer(unknown=(key,))),
            Heard(BeatAnswer(advice=Advice.REREGISTER)),
            self.refused(Call.LOG, self.draw.choice(STATUSES[self.kind]), key),
            self.refused(Call.HEARTBEAT, self.draw.choice(STATUSES[self.kind]), None),
        ]
        if self.draw.random() < 0.03:
            self.stops += 1
            kinds = [StopAsked()]
        if self.draw.random() < 0.02:
            self.stops += 1
            kinds = [Heard(BeatAnswer(advice=Advice.DRAIN))]
        self.tell(self.draw.choice(kinds))

    def unlucky(self) -> bool:
        return self.draw.random() < {"calm": 0.2, "rough": 0.4}[self.kind]

    def refused(self, call: Call, status: int | None, key: AttemptKey | None) -> Refused:
        identity = self.machine.identity - self.draw.choice([0, 0, 0, 1])
        retry_after_s = self.draw.choice([None, None, 7.0])
        return Refused(
            Refusal(
                call=call,
                status=status,
                message="no",
                key=key,
                retry_after_s=retry_after_s,
                identity=identity,
            )
        )


@given(st.integers(), st.sampled_from(["calm", "rough"]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_walk_stalls_or_breaks_the_protocol_of_commands(
    seed: int, kind: str, once: bool
) -> None:
    shell = Shell(Random(seed), kind=kind, once=once)
    shell.tell(Started())

    for _ in range(120):
        if shell.exit is not None:
            break
        shell.step()

    named = {key for key, _ in shell.machine.beat.attempts}
    assert shell.results <= named | shell.stopped, "a result is neither kept in mind nor dropped"


@given(st.integers(), st.sampled_from(["calm", "rough"]))
@settings(max_examples=150, deadline=None)
def test_a_runner_that_is_asked_to_stop_leaves_within_bounded_steps(seed: int, kind: str) -> None:
    draw = Random(seed)
    shell = Shell(draw, kind=kind, once=False)
    shell.tell(Started())
    for _ in range(draw.randrange(40)):
        if shell.exit is None:
            shell.step()

    steps = 0
    while shell.exit is None:
        steps += 1
        assert steps < 200
        if steps == 1:
            shell.stops += 1
            shell.tell(StopAsked())
        elif shell.registering is not None and draw.random() < 0.5:
            shell.end_registration()
        else:
            shell.end_operation()
        shell.now += 5.0

    assert shell.exit.code in {0, 3, 7}
