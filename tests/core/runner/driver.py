"""A runner machine that a test drives, with a clock of its own and claim ids that count."""

from __future__ import annotations

import itertools
from random import Random

from kzoo_core.ids import ClaimId, SubmissionId
from kzoo_core.runner.events import (
    Call,
    Claim,
    Command,
    Deliver,
    Event,
    Execute,
    Exit,
    Fetch,
    HasClaimed,
    HasEnded,
    HasFetched,
    HasRegistered,
    Pause,
    PauseOver,
    Refusal,
    Refused,
    Register,
    Started,
)
from kzoo_core.runner.machine import Rules, RunnerMachine
from kzoo_core.runner.records import AttemptKey

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
