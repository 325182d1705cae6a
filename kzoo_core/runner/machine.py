"""What a runner does next: the protocol as a pure machine, without clock, network or processes.

The shell hands in events with the monotonic second at which they came and carries out the commands
it gets back. One attempt runs at a time; results that could not be delivered wait beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.queue.exchange import Order
from kzoo_core.queue.records import Phase
from kzoo_core.runner.backoff import Backoff
from kzoo_core.runner.events import (
    Call,
    Claim,
    Deliver,
    Drop,
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
    Refused,
    Register,
    Release,
    Started,
    Stop,
    StopAsked,
    Stopping,
)
from kzoo_core.runner.outbox import Outbox
from kzoo_core.runner.records import (
    EXIT_DRAINED,
    EXIT_FAILED,
    EXIT_OUTDATED,
    Advice,
    Beat,
)
from kzoo_core.runner.status_action import Action, action_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kzoo_core.ids import ClaimId
    from kzoo_core.runner.events import Command, Event, Refusal
    from kzoo_core.runner.records import AttemptKey, BeatAnswer

PACKAGE_TRIES = 5
RELEASE_TRIES = 3
DELIVERED = "delivered"
"""Why a result leaves the disk when all went well."""
RESULT_CUTS = 2
"""A result that is too large is sent without its log, then without its output."""
HELD_SHARE = 0.5
"""A claim that was held for this share of its wait paced itself: the next one follows at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The machine's numbers, in seconds.

    ``patience_s`` bounds what must work before there is anything to lose: the first registration,
    and the only claim of a ``once`` runner. ``drain_patience_s`` bounds how long a stopping runner
    tries to deliver a last result before it leaves it on disk.
    """

    once: bool = False
    idle_least_s: float = 2.0
    idle_most_s: float = 30.0
    patience_s: float = 60.0
    drain_patience_s: float = 120.0
    keep_result_s: float = 24 * 3600.0


class Doing(StrEnum):
    """The one main operation; registering again may go on beside it."""

    IDLE = "idle"
    PAUSING = "pausing"
    CLAIMING = "claiming"
    FETCHING = "fetching"
    RUNNING = "running"
    RELEASING = "releasing"
    DELIVERING = "delivering"


class RunnerMachine:
    """Decides; see ``handle``. ``random`` draws the jitter, ``new_claim_id`` makes claim ids."""

    def __init__(
        self, rules: Rules, *, random: Random, new_claim_id: Callable[[], ClaimId]
    ) -> None:
        self._rules = rules
        self._random = random
        self._new_claim_id = new_claim_id
        self._pace = self._new_pace()
        self._register_pace = self._new_pace()
        self._now = 0.0
        self._out: list[Command] = []
        self._doing = Doing.IDLE
        self._interrupting = False
        # identity
        self._identity = 0
        self._registered = False
        self._registering = False
        self._distrusted = False
        self._poll_s = 0.0
        self._give_up_at = 0.0
        # the claim and the attempt
        self._claim_id: ClaimId | None = None
        self._claim_refused_at: float | None = None
        self._current: AttemptKey | None = None
        self._phase = Phase.CLAIMED
        self._tries = 0
        self._stopping: Stopping | None = None
        self._release_when_stopped = False
        self._release_why = ""
        # results
        self._outbox = Outbox(self._new_pace)
        self._not_before = 0.0
        self._claim_not_before = 0.0
        self._repair_pace = self._new_pace()
        # the end
        self._stops_asked = 0
        self._finishing: str | None = None
        self._finish_code = EXIT_DRAINED
        self._drained_by: float | None = None
        self._exit: Exit | None = None
        self._over = False

    def handle(self, event: Event, now: float) -> tuple[Command, ...]:
        """Take one event that came at monotonic second ``now`` and return what to do, in order.

        After an ``Exit`` nothing more is commanded.
        """
        if self._over:
            return ()
        self._now = now
        self._out = []
        self._take_news(event)
        self._take_end_of_operation(event)
        self._next()
        return tuple(self._out)

    @property
    def beat(self) -> Beat:
        """What the next heartbeat says: an attempt is named until its result is delivered."""
        running = () if self._current is None else ((self._current, self._phase),)
        waiting = tuple((key, Phase.REPORTED) for key in self._outbox.keys)
        if self._finishing is not None and not self._rules.once:
            return Beat("draining", running + waiting)
        return Beat("busy" if running else "idle", running + waiting)

    @property
    def identity(self) -> int:
        """How many registrations have succeeded."""
        return self._identity

    # --- events ---------------------------------------------------------------------------------

    def _take_news(self, event: Event) -> None:
        """Take what comes from outside at any time."""
        match event:
            case Started(leftovers):
                self._give_up_at = self._now + self._rules.patience_s
                for leftover in leftovers:
                    self._outbox.keep(leftover.key, now=self._now, keep_s=leftover.keep_s)
            case PhaseBegan(key, phase):
                self._phase = phase if key == self._current else self._phase
            case Heard(answer):
                self._on_heard(answer)
            case StopAsked():
                self._on_stop_asked()

    def _take_end_of_operation(self, event: Event) -> None:
        """Take how an operation that was commanded has ended."""
        match event:
            case HasRegistered(poll_s):
                self._on_registered(poll_s)
            case HasClaimed(key):
                self._on_claimed(key)
            case NothingToClaim(waited_s):
                self._on_nothing(waited_s)
            case HasFetched(key):
                self._on_fetched(key)
            case HasEnded(key, machine_failed):
                self._on_ended(key, machine_failed)
            case HasStopped(key):
                self._on_stopped(key)
            case HasDelivered(key):
                self._trusted()
                self._end_operation()
                self._forget(key, DELIVERED)
            case HasReleased():
                self._trusted()
                self._end_attempt()
            case PauseOver() | Interrupted():
                self._end_operation()
            case Refused(refusal):
                self._on_refused(refusal)

    def _on_registered(self, poll_s: float) -> None:
        self._registering = False
        self._registered = True
        self._identity += 1
        self._poll_s = poll_s
        self._register_pace.reset()

    def _on_claimed(self, key: AttemptKey) -> None:
        self._trusted()
        self._end_operation()
        self._claim_id = None
        self._claim_refused_at = None
        self._pace.reset()
        self._current = key
        self._phase = Phase.CLAIMED
        self._tries = 0
        if self._finishing is not None:
            self._release("the runner is stopping")
            return
        if self._rules.once:
            self._finish(EXIT_DRAINED, "one attempt was asked for")
        self._doing = Doing.FETCHING
        self._out.append(Fetch(key))

    def _on_nothing(self, waited_s: float) -> None:
        self._trusted()
        self._end_operation()
        self._claim_id = None
        self._claim_refused_at = None
        if self._rules.once:
            self._finish(EXIT_DRAINED, "there is nothing to claim")
        elif waited_s >= self._poll_s * HELD_SHARE > 0:
            self._pace.reset()
        else:
            self._not_before = self._now + self._pace.next()

    def _on_fetched(self, key: AttemptKey) -> None:
        self._trusted()
        if self._stopping is not None:
            self._on_stopped(key)
            return
        self._doing = Doing.RUNNING
        self._out.append(Execute(key))

    def _on_ended(self, key: AttemptKey, machine_failed: bool) -> None:
        # A machine that fails at once, say for want of disk, would go through the whole queue.
        if machine_failed:
            self._claim_not_before = self._now + self._repair_pace.next()
        else:
            self._repair_pace.reset()
        discard = self._stopping in {Stopping.CANCEL, Stopping.ABORT}
        self._end_attempt()
        if discard:
            self._out.append(Drop(key, "the attempt was stopped"))
        else:
            self._outbox.keep(key, now=self._now, keep_s=self._rules.keep_result_s)

    def _on_stopped(self, key: AttemptKey) -> None:
        if self._release_when_stopped and key == self._current:
            self._stopping = None
            self._release("the runner was stopped before the attempt began")
        else:
            self._end_attempt()

    def _on_stop_asked(self) -> None:
        self._stops_asked += 1
        if self._stops_asked > 2:
            self._leave(EXIT_FAILED, "asked to stop a third time")
            return
        self._finish(EXIT_DRAINED, "asked to stop")
        if self._stops_asked < 2:
            return
        if self._doing is Doing.RUNNING:
            self._stop(Stopping.REPORT, "the runner was stopped")
        elif self._doing is Doing.FETCHING:
            self._release_when_stopped = self._stopping is None
            self._stop(Stopping.ABORT, "the runner was stopped")
        elif self._doing is Doing.DELIVERING:
            self._outbox.count_try()
            self._interrupt()

    def _on_heard(self, answer: BeatAnswer) -> None:
        self._trusted()
        for key, order in answer.orders:
            self._obey(key, order)
        for key in answer.unknown:
            self._obey(key, Order.ABORT)
        self._heed(answer.advice)

    def _obey(self, key: AttemptKey, order: Order) -> None:
        # A result on its way is settled by its delivery, whatever a heartbeat says meanwhile.
        if key != self._current or order is Order.CONTINUE:
            return
        how = Stopping.CANCEL if order is Order.CANCEL else Stopping.ABORT
        self._release_when_stopped = False
        self._stop(how, f"the server says {order}")

    def _heed(self, advice: Advice) -> None:
        if advice is Advice.DRAIN:
            self._finish(EXIT_DRAINED, "the server asks this runner to drain")
        elif advice is Advice.REREGISTER and not self._registering:
            self._register()

    # --- refusals -------------------------------------------------------------------------------

    def _on_refused(self, refusal: Refusal) -> None:
        action = action_for(refusal.call, refusal.status)
        match refusal.call:
            case Call.REGISTER:
                self._on_register_refused(action, refusal)
            case Call.CLAIM:
                self._on_claim_refused(action, refusal)
            case Call.PACKAGE:
                self._on_package_refused(action, refusal)
            case Call.RESULT:
                self._on_result_refused(action, refusal)
            case Call.RELEASE:
                self._on_release_refused(action, refusal)
            case Call.HEARTBEAT | Call.LOG:
                self._on_side_call_refused(action, refusal)

    def _on_register_refused(self, action: Action, refusal: Refusal) -> None:
        self._registering = False
        if action is Action.OUTDATED:
            self._finish(EXIT_OUTDATED, refusal.message)
            if self._current is None:
                self._leave(EXIT_OUTDATED, refusal.message)
        elif action is not Action.BACK_OFF:
            self._give_up(refusal.message)
        elif self._identity == 0 and self._now >= self._give_up_at:
            self._give_up(f"cannot register: {refusal.message}")
        else:
            self._register(self._register_pace.next(refusal.retry_after_s))

    def _on_claim_refused(self, action: Action, refusal: Refusal) -> None:
        self._end_operation()
        if self._claim_refused_at is None:
            self._claim_refused_at = self._now
        if action is Action.REGISTER_AGAIN:
            self._distrust(refusal)
        elif action is Action.OUTDATED:
            self._finish(EXIT_OUTDATED, refusal.message)
        elif action is Action.GIVE_UP or self._lost_patience():
            self._give_up(refusal.message)
        else:
            if action is Action.NEW_CLAIM:
                self._claim_id = None
            self._not_before = self._now + self._pace.next(refusal.retry_after_s)

    def _lost_patience(self) -> bool:
        since = self._claim_refused_at
        waited_s = 0.0 if since is None else self._now - since
        return self._rules.once and waited_s >= self._rules.patience_s

    def _on_package_refused(self, action: Action, refusal: Refusal) -> None:
        key = refusal.key
        if key is None or key != self._current:
            return
        if self._stopping is not None:
            self._on_stopped(key)
            return
        self._tries += 1
        if action is Action.STOP_ATTEMPT:
            self._end_attempt()
        elif action is Action.OUTDATED:
            self._finish(EXIT_OUTDATED, refusal.message)
            self._release("the runner is too old")
        elif self._tries >= PACKAGE_TRIES:
            if self._rules.once:
                self._finish(EXIT_FAILED, refusal.message)
            self._release("the package could not be downloaded")
        else:
            self._fetch_again(key, action, refusal)

    def _fetch_again(self, key: AttemptKey, action: Action, refusal: Refusal) -> None:
        self._doing = Doing.IDLE  # nothing is going on that a giving up would have to stop
        if action is Action.REGISTER_AGAIN:
            self._distrust(refusal)
        if not self._over:
            self._doing = Doing.FETCHING
            self._out.append(Fetch(key, self._pace.next(refusal.retry_after_s)))

    def _on_result_refused(self, action: Action, refusal: Refusal) -> None:
        self._end_operation()
        entry = self._outbox.find(refusal.key)
        if entry is None:
            return
        entry.tries += 1
        uncuttable = action is Action.CUT and entry.cuts == RESULT_CUTS
        if uncuttable or action in {Action.STOP_ATTEMPT, Action.GIVE_UP}:
            self._forget(entry.key, f"refused: {refusal.message}")
        elif action is Action.DELIVERED:
            self._trusted()
            self._forget(entry.key, f"delivered, recorded as malformed: {refusal.message}")
        elif action is Action.CUT:
            entry.cuts += 1
        elif action is Action.REGISTER_AGAIN:
            self._distrust(refusal)
        elif action is Action.OUTDATED:
            self._leave(EXIT_OUTDATED, refusal.message)
        else:
            self._outbox.postpone(entry, now=self._now, retry_after_s=refusal.retry_after_s)
            if refusal.status in {None, 429, 503}:
                self._not_before = entry.due_at

    def _on_release_refused(self, action: Action, refusal: Refusal) -> None:
        self._tries += 1
        again = action is Action.BACK_OFF and self._tries < RELEASE_TRIES
        if again and self._current is not None and self._stops_asked < 2:
            wait_s = self._pace.next(refusal.retry_after_s)
            self._out.append(Release(self._current, self._release_why, wait_s))
        else:
            self._end_attempt()

    def _on_side_call_refused(self, action: Action, refusal: Refusal) -> None:
        if action is Action.REGISTER_AGAIN:
            self._distrust(refusal)
        elif action is Action.OUTDATED:
            self._finish(EXIT_OUTDATED, refusal.message)
        elif action is Action.STOP_ATTEMPT and refusal.key == self._current:
            self._release_when_stopped = False
            self._stop(Stopping.ABORT, refusal.message)

    # --- steps ----------------------------------------------------------------------------------

    def _next(self) -> None:
        """Begin the next operation, unless one is going on or the machine is over."""
        if self._over or self._doing is not Doing.IDLE:
            return
        for key in self._outbox.expired(self._now):
            self._forget(key, "it is too old")
        if self._exit is not None:
            self._leave(self._exit.code, self._exit.why)
            return
        if self._finishing is not None and self._leave_if_finished():
            return
        if self._registering:
            return
        if not self._registered:
            self._register()
            return
        entry = self._outbox.first()
        deliver_at = None if entry is None else max(entry.due_at, self._not_before)
        next_claim_at = max(self._not_before, self._claim_not_before)
        claim_at = next_claim_at if self._finishing is None else self._drained_by
        wake_at = min(at for at in (deliver_at, claim_at) if at is not None)
        if wake_at > self._now:
            self._doing = Doing.PAUSING
            self._out.append(Pause(wake_at - self._now))
        elif entry is not None and deliver_at is not None and deliver_at <= self._now:
            self._doing = Doing.DELIVERING
            self._out.append(Deliver(entry.key, entry.cuts))
        else:
            self._claim()

    def _leave_if_finished(self) -> bool:
        if not self._outbox:
            self._leave(self._finish_code, self._finishing or "")
            return True
        if self._drained_by is None:
            self._drained_by = self._now + self._rules.drain_patience_s
        hopeless = (
            self._now >= self._drained_by
            or (self._stops_asked >= 2 and self._outbox.all_tried)
            or (self._stops_asked >= 2 and not self._registered)
            or (self._finish_code == EXIT_OUTDATED and not self._registered)
        )
        if hopeless:
            self._leave(self._finish_code or EXIT_FAILED, "a result is kept for the next start")
        return hopeless

    def _claim(self) -> None:
        if self._claim_id is None:
            self._claim_id = self._new_claim_id()
        self._doing = Doing.CLAIMING
        self._out.append(Claim(self._claim_id, self._poll_s))

    def _register(self, after_s: float = 0.0) -> None:
        self._registered = False
        self._registering = True
        self._out.append(Register(after_s))

    def _distrust(self, refusal: Refusal) -> None:
        """Register once more after a 401; one for an older identity tells nothing new."""
        if self._registering or refusal.identity != self._identity:
            return
        if self._distrusted:
            self._give_up(f"refused again after registering once more: {refusal.message}")
            return
        self._distrusted = True
        self._register()

    def _trusted(self) -> None:
        self._distrusted = False

    def _stop(self, how: Stopping, why: str) -> None:
        if self._current is None or self._doing not in {Doing.FETCHING, Doing.RUNNING}:
            return
        escalates = how is Stopping.ABORT and self._stopping is not Stopping.ABORT
        if self._stopping is not None and not escalates:
            return
        self._stopping = how
        self._out.append(Stop(self._current, how, why))

    def _release(self, why: str) -> None:
        if self._current is not None:
            self._doing = Doing.RELEASING
            self._tries = 0
            self._release_why = why
            self._out.append(Release(self._current, why))

    def _forget(self, key: AttemptKey, why: str) -> None:
        self._outbox.forget(key)
        self._out.append(Drop(key, why))

    def _end_operation(self) -> None:
        self._doing = Doing.IDLE
        self._interrupting = False

    def _end_attempt(self) -> None:
        self._end_operation()
        self._current = None
        self._phase = Phase.CLAIMED
        self._tries = 0
        self._stopping = None
        self._release_when_stopped = False

    def _interrupt(self) -> None:
        if not self._interrupting:
            self._interrupting = True
            self._out.append(Interrupt())

    def _finish(self, code: int, why: str) -> None:
        """Begin nothing new, deliver what there is, then leave; the gravest code wins."""
        if self._finishing is None:
            self._finishing = why
        self._finish_code = max(self._finish_code, code)
        if self._doing in {Doing.PAUSING, Doing.CLAIMING}:
            self._interrupt()

    def _give_up(self, why: str) -> None:
        """Leave with exit code 3: at once, or as soon as what runs is stopped."""
        if self._current is not None and self._doing in {Doing.FETCHING, Doing.RUNNING}:
            self._exit = Exit(EXIT_FAILED, why)
            self._stop(Stopping.ABORT, why)
        else:
            self._leave(EXIT_FAILED, why)

    def _leave(self, code: int, why: str) -> None:
        self._over = True
        self._out.append(Exit(code, why))

    def _new_pace(self) -> Backoff:
        return Backoff(
            least_s=self._rules.idle_least_s,
            most_s=self._rules.idle_most_s,
            random=self._random,
        )
