"""The runner's shell: carries out what the machine commands and tells it what came of it.

The main loop takes one event at a time. What takes time is a task that ends in exactly one event;
at most one main operation is going on, beside it perhaps a registration. The heartbeat has a thread
of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kzoo_core.durable import exclusive_lock, make_directory
from kzoo_core.runner.attempt import AttemptRun
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
from kzoo_core.runner.heartbeat import Heartbeat
from kzoo_core.runner.logfmt import fields
from kzoo_core.runner.machine import DELIVERED, Rules, RunnerMachine
from kzoo_core.runner.protocol import CallRefused, Identity, RunnerApi, common_version
from kzoo_core.runner.result import cut_body
from kzoo_core.runner.spool import ResultSpool
from kzoo_core.runner.work import remove_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from logging import Logger
    from pathlib import Path
    from random import Random

    from kzoo_core.client.transport import Transport
    from kzoo_core.clock import Clock
    from kzoo_core.ids import ClaimId
    from kzoo_core.runner.backends.base import Backend
    from kzoo_core.runner.events import Command, Event
    from kzoo_core.runner.records import AttemptKey, BeatAnswer, ClaimedAttempt, Registration
    from kzoo_core.runner.settings import RunnerSettings
    from kzoo_core.runner.spool import SpooledResult

Item = TypeVar("Item")

INTERRUPTED = Interrupted()
OUTDATED_STATUS = 426


class RunnerDaemon:
    """One runner, for one call of ``run``; ``state`` is its directory and nobody else's."""

    def __init__(
        self,
        settings: RunnerSettings,
        *,
        state: Path,
        registration: Registration,
        backend: Backend,
        new_transport: Callable[[], Transport],
        clock: Clock,
        random: Random,
        new_claim_id: Callable[[], ClaimId],
        log: Logger,
    ) -> None:
        self._settings = settings
        self._state = state
        self._registration = registration
        self._backend = backend
        self._new_transport = new_transport
        self._clock = clock
        self._random = random
        self._log = log
        self._machine = RunnerMachine(
            Rules(
                once=settings.once,
                idle_least_s=settings.retry_least_s,
                idle_most_s=settings.retry_most_s,
                patience_s=settings.register_patience_s,
                drain_patience_s=settings.drain_patience_s,
                keep_result_s=settings.result_keep_s,
            ),
            random=random,
            new_claim_id=new_claim_id,
        )
        self._spool = ResultSpool(state / "results", clock=clock, keep_s=settings.result_keep_s)
        self._identity = Identity()
        # Not bounded by a size: an event is the end of one operation, one heartbeat or one signal.
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._operation: asyncio.Task[None] | None = None
        self._attempt: AttemptRun | None = None
        self._stopping: Stopping | None = None
        self._claims: dict[AttemptKey, ClaimedAttempt] = {}
        self._packages: dict[AttemptKey, bytes] = {}
        self._results: dict[AttemptKey, SpooledResult] = {}
        self._api: RunnerApi
        self._group: asyncio.TaskGroup

    def request_stop(self) -> None:
        """Drain; asked a second time: stop what runs; a third time: leave. For signal handlers."""
        self._events.put_nowait(StopAsked())

    async def run(self) -> int:
        """Serve until told to stop and return the exit code.

        Raises ``Conflict`` ``LOCKED`` when another runner has the state directory, and whatever
        the backend's start raises.
        """
        make_directory(self._state)
        with exclusive_lock(self._state / "lock", owner="kzoo-runner"):
            await self._backend.start()
            left = await asyncio.to_thread(remove_all, self._work)
            if left:
                self._log.warning("removed what a killed runner left", extra=fields(attempts=left))
            await self._take_up_results()
            async with self._new_transport() as transport:
                self._api = RunnerApi(transport, self._identity)
                return await self._serve()

    @property
    def _work(self) -> Path:
        return self._state / "work"

    async def _take_up_results(self) -> None:
        leftovers = []
        for result in await asyncio.to_thread(self._spool.load):
            self._results[result.key] = result
            leftovers.append(Leftover(result.key, self._spool.keep_left_s(result)))
            self._log.info("a result waits for delivery", extra=fields(attempt=result.key))
        self._post(Started(tuple(leftovers)))

    async def _serve(self) -> int:
        loop = asyncio.get_running_loop()
        heartbeat = Heartbeat(
            identity=self._identity,
            new_transport=self._new_transport,
            first=self._machine.beat,
            on_answer=lambda answer: _hand_over(loop, self._heard, answer),
            on_refused=lambda refusal: _hand_over(loop, self._refused, refusal),
            on_crash=lambda error: _hand_over(loop, self._crashed, error),
        )
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                end = await self._obey_until_exit(heartbeat)
                for task in self._tasks:
                    task.cancel()
        finally:
            await asyncio.to_thread(heartbeat.stop)
        level = self._log.info if end.code == 0 else self._log.error
        level("leaving", extra=fields(exit_code=end.code, why=end.why))
        return end.code

    async def _obey_until_exit(self, heartbeat: Heartbeat) -> Exit:
        heard = False
        while True:
            event = await self._events.get()
            self._report(event)
            commands = self._machine.handle(event, self._clock.monotonic())
            # Said before the commands are carried out: a claim is confirmed while it is fetched.
            heartbeat.say(self._machine.beat)
            if self._machine.identity and not heard:
                heartbeat.start()
                heard = True
            for command in commands:
                if isinstance(command, Exit):
                    return command
                await self._obey(command)

    async def _obey(self, command: Command) -> None:
        match command:
            case Register(after_s):
                self._tasks.add(self._begin(partial(self._register, after_s), INTERRUPTED))
            case Claim(claim_id, wait_s):
                self._operate(partial(self._claim, claim_id, wait_s))
            case Fetch(key, after_s):
                self._operate(partial(self._fetch, key, after_s), HasStopped(key))
            case Execute(key):
                self._attempt = self._new_attempt(key)
                self._operate(partial(self._execute, key, self._attempt), HasStopped(key))
            case Stop():
                self._stop(command)
            case Release():
                self._operate(partial(self._release, command))
            case Deliver(key, cuts):
                self._operate(partial(self._deliver, key, cuts))
            case Drop(key, why):
                await self._drop(key, why)
            case Pause(seconds):
                self._operate(partial(self._pause, seconds))
            case Interrupt():
                self._cancel_operation()

    # --- operations: each ends in one event -----------------------------------------------------

    def _operate(
        self,
        work: Callable[[], Coroutine[object, object, Event]],
        interrupted: Event = INTERRUPTED,
    ) -> None:
        self._operation = self._begin(work, interrupted)
        self._tasks.add(self._operation)

    def _begin(
        self, work: Callable[[], Coroutine[object, object, Event]], interrupted: Event
    ) -> asyncio.Task[None]:
        """Start a task that posts what ``work`` returns, or ``interrupted`` when it is cancelled.

        A callback posts the latter: a task may be cancelled before it has run at all.
        """

        async def carry_out() -> None:
            try:
                self._post(await work())
            except CallRefused as refused:
                self._post(Refused(refused.refusal))

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                self._post(interrupted)

        task = self._group.create_task(carry_out())
        task.add_done_callback(ended)
        return task

    async def _register(self, after_s: float) -> Event:
        await asyncio.sleep(after_s)
        registered = await self._api.register(self._registration)
        if common_version(registered.protocol) is None:
            message = f"the server speaks protocol {registered.protocol}, not this runner's"
            return Refused(Refusal(call=Call.REGISTER, status=OUTDATED_STATUS, message=message))
        self._identity.adopt(registered)
        return HasRegistered(registered.poll_s)

    async def _claim(self, claim_id: ClaimId, wait_s: float) -> Event:
        began = self._clock.monotonic()
        claimed = await self._api.claim(claim_id, wait_s)
        if claimed is None:
            return NothingToClaim(self._clock.monotonic() - began)
        self._claims[claimed.key] = claimed
        return HasClaimed(claimed.key)

    async def _fetch(self, key: AttemptKey, after_s: float) -> Event:
        await asyncio.sleep(after_s)
        self._packages[key] = await self._api.package(self._claims[key])
        return HasFetched(key)

    def _new_attempt(self, key: AttemptKey) -> AttemptRun:
        self._stopping = None
        return AttemptRun(
            self._claims[key],
            runner_id=self._identity.snapshot()[1].runner_id,
            root=self._work / str(key),
            backend=self._backend,
            api=self._api,
            random=self._random,
            kill_grace_s=self._settings.kill_grace_s,
            log_flush_s=self._settings.log_flush_s,
            log_close_s=self._settings.log_close_s,
            on_phase=lambda phase: self._post(PhaseBegan(key, phase)),
            on_refused=self._refused,
            log=self._log,
        )

    async def _execute(self, key: AttemptKey, attempt: AttemptRun) -> Event:
        try:
            body = await attempt.run(self._packages.pop(key))
            if self._stopping in {Stopping.CANCEL, Stopping.ABORT}:
                return HasStopped(key)
            await self._keep_result(key, body)
            return HasEnded(key, attempt.machine_failed)
        finally:
            self._attempt = None
            self._claims.pop(key, None)

    async def _keep_result(self, key: AttemptKey, body: bytes) -> None:
        result = self._spool.new(key, self._claims[key].token, body)
        self._results[key] = result
        try:
            await asyncio.to_thread(self._spool.save, result)
        except OSError as error:
            # Not durable, yet better delivered from memory than lost to a full disk.
            self._log.error(
                "a result is kept in memory alone", extra=fields(attempt=key, why=error)
            )

    async def _release(self, command: Release) -> Event:
        await asyncio.sleep(command.after_s)
        claimed = self._claims[command.key]
        await self._api.release(command.key, claimed.token, command.why)
        self._log.info("released", extra=fields(attempt=command.key, why=command.why))
        return HasReleased(command.key)

    async def _deliver(self, key: AttemptKey, cuts: int) -> Event:
        result = self._results[key]
        body = await asyncio.to_thread(cut_body, result.body, cuts)
        delivery = await self._api.report(key, result.token, body)
        self._log.info(
            "delivered",
            extra=fields(
                attempt=key,
                accepted=delivery.accepted,
                outcome=delivery.outcome,
                reason=delivery.reason,
            ),
        )
        return HasDelivered(key)

    async def _pause(self, seconds: float) -> Event:
        await asyncio.sleep(seconds)
        return PauseOver()

    # --- at once --------------------------------------------------------------------------------

    def _stop(self, command: Stop) -> None:
        self._log.warning("stopping", extra=fields(attempt=command.key, why=command.why))
        if self._attempt is None:
            self._cancel_operation()
            return
        self._stopping = command.how
        claimed = self._claims[command.key]
        grace_s = {
            Stopping.CANCEL: claimed.cancel_grace_s,
            Stopping.REPORT: self._settings.kill_grace_s,
            Stopping.ABORT: 0.0,
        }[command.how]
        self._attempt.stop.ask(grace_s)

    async def _drop(self, key: AttemptKey, why: str) -> None:
        if self._results.pop(key, None) is None:
            return
        if why != DELIVERED:
            self._log.warning("result let go", extra=fields(attempt=key, why=why))
        try:
            await asyncio.to_thread(self._spool.remove, key)
        except OSError as error:
            # It is sent again at the next start, which the server takes for the same once more.
            self._log.warning("a result stays on disk", extra=fields(attempt=key, why=error))

    def _cancel_operation(self) -> None:
        if self._operation is not None:
            self._operation.cancel()

    # --- events ---------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        self._events.put_nowait(event)

    def _heard(self, answer: BeatAnswer) -> None:
        self._post(Heard(answer))

    def _refused(self, refusal: Refusal) -> None:
        self._post(Refused(refusal))

    def _crashed(self, error: BaseException) -> None:
        self._operate(partial(_raise, error))

    def _report(self, event: Event) -> None:
        """Write a log line for what a person would want to see go by."""
        match event:
            case HasRegistered():
                _, registered = self._identity.snapshot()
                self._log.info("registered", extra=fields(runner_id=registered.runner_id))
            case HasClaimed(key):
                claimed = self._claims[key]
                self._log.info(
                    "claimed",
                    extra=fields(attempt=key, kernel_id=claimed.kernel_id, mode=claimed.mode),
                )
            case PhaseBegan(key, phase):
                self._log.info("phase", extra=fields(attempt=key, phase=phase))
            case HasEnded(key, _) | HasStopped(key):
                word = "ended" if isinstance(event, HasEnded) else "stopped"
                self._log.info(word, extra=fields(attempt=key))
            case Refused(refusal):
                self._log.warning(
                    "refused",
                    extra=fields(
                        attempt=refusal.key,
                        call=refusal.call,
                        status=refusal.status,
                        why=refusal.message,
                    ),
                )
            case StopAsked():
                self._log.info("asked to stop")


async def _raise(error: BaseException) -> Event:
    raise error


def _hand_over(loop: asyncio.AbstractEventLoop, take: Callable[[Item], None], item: Item) -> None:
    """Give the main loop something from another thread; a loop that has ended needs nothing."""
    try:
        loop.call_soon_threadsafe(take, item)
    except RuntimeError:
        return
