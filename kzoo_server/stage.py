"""Where the process is between its start and its end, and the system while it is open."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.errors import Retryable

if TYPE_CHECKING:
    from datetime import datetime

    from kzoo_core.lifecycle.system import System


class Step(StrEnum):
    """The steps of a process, in order; from any of them it may fail."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


class Stage:
    """The step, the open system, and what ended the process if something did."""

    def __init__(self, started_at: datetime) -> None:
        self.started_at = started_at
        self.step = Step.STARTING
        self.failure: Exception | None = None
        self.settled = asyncio.Event()
        """Set once it is either ready or ending."""
        self.ending = asyncio.Event()
        """Set when the process begins to stop, by a signal or by a failure."""
        self._system: System | None = None

    @property
    def system(self) -> System:
        """The open system; raises ``Retryable`` (503) before and after.

        Calls that change something ask for it first: a stopping server takes nothing new.
        """
        if self._system is None or self.step is not Step.READY:
            raise Retryable(
                "STARTING" if self.step is Step.STARTING else "STOPPING",
                f"the server is {self.step.value}",
                hint="try again in a moment; /readyz says when",
            )
        return self._system

    @property
    def readable(self) -> System:
        """The system for calls that only read, or that end what is under way.

        A server that stops still answers these. Raises ``Retryable`` (503) while it is not open.
        """
        if self._system is not None and self.step is Step.STOPPING:
            return self._system
        return self.system

    @property
    def opened(self) -> System | None:
        """The system if it is open, for those who report on it."""
        return self._system

    def open(self, system: System) -> None:
        """Begin to serve ``system``, unless the process is stopping already."""
        self._system = system
        if self.step is Step.STARTING:
            self.step = Step.READY
            self.settled.set()

    def stop(self) -> None:
        """Take nothing new from here on."""
        self.step = Step.STOPPING
        self.settled.set()
        self.ending.set()

    def closed(self) -> None:
        """Note that the system is gone."""
        self._system = None

    def fail(self, error: Exception) -> None:
        """End the process because of ``error``; the first one is told."""
        if self.failure is None:
            self.failure = error
        self.stop()
