"""What a place to run attempts in must be able to do: the seam between protocol and processes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kzoo_core.contract.records import RunFailure
    from kzoo_core.queue.records import Phase
    from kzoo_core.runner.records import AttemptKey


@dataclass(frozen=True, slots=True)
class Place:
    """One attempt's directories on this machine, all below ``root``.

    ``package`` is the package's root, ``workdir`` begins empty; ``home`` and ``tmp`` are scratch
    that no other attempt sees.
    """

    root: Path
    package: Path
    workdir: Path
    home: Path
    tmp: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One script to run (D14): ``<interpreter> -B <package>/<script> <workdir>``.

    ``environment`` is what the protocol demands; the backend adds what its machine needs.
    ``stdout_limit_bytes`` says that standard output is evidence and captured, up to that size;
    ``None`` sends it to the log.
    """

    key: AttemptKey
    phase: Phase
    script: str
    place: Place
    environment: Mapping[str, str]
    timeout_s: float
    kill_grace_s: float
    stdout_limit_bytes: int | None


class Ending(StrEnum):
    """What ended a step."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How a step went. ``exit_code`` is negative for a signal, ``None`` where it cannot be told.

    ``failure`` is set by a backend that knows better than an exit code what went wrong (out of
    memory, the engine's own error).
    """

    ending: Ending
    exit_code: int | None
    stdout: bytes
    duration_s: float
    failure: RunFailure | None = None


class StopSignal:
    """Asks a running step to end: first with some grace, then, or right away, without any."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self.grace_s = 0.0

    def ask(self, grace_s: float) -> None:
        """Ask once or again; no grace at all wins over an earlier one."""
        self.grace_s = grace_s
        self.asked.set()
        if grace_s <= 0:
            self.at_once.set()


class Backend(Protocol):
    """Runs the steps of attempts. One instance serves one runner for its whole life."""

    @property
    def name(self) -> str:
        """What the runner registers as its backend."""

    @property
    def isolation(self) -> str:
        """How much an attempt is kept from the machine; ``none`` where it is not."""

    @property
    def notice(self) -> str | None:
        """What a person who starts the runner has to know, if anything."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What each result says of where it ran; known once started."""

    async def start(self) -> None:
        """Check that attempts can run here, and end what an earlier process left running.

        Raises ``KzooError`` that says what is missing.
        """

    async def run(self, step: Step, log: Callable[[bytes], None], stop: StopSignal) -> StepEnd:
        """Run one step to its end; nothing that it started outlives the call.

        Raises ``KzooError`` when the step could not be started: the machine's fault. Cancelling
        the call kills the step.
        """

    async def clean(self, key: AttemptKey) -> None:
        """End whatever of an attempt is still there; called when its last step is over."""
