"""A place to run ``kzoo`` command lines in: streams that are read back, a clock that stands."""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass, field
from typing import Any

from kzoo_core.clock import ManualClock
from kzoo_tui.cli import parse
from kzoo_tui.context import Context
from kzoo_tui.execution import execute


@dataclass
class Ended:
    """How a command line ended."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """What is on stdout, as text."""
        return self.raw.decode("utf-8")

    def json(self) -> Any:
        """Return the one document on stdout."""
        return json.loads(self.out)


@dataclass
class Console:
    """Runs command lines in this process. ``width`` makes stdout a terminal of that width."""

    environment: dict[str, str] = field(default_factory=dict)
    width: int | None = None
    stderr_is_terminal: bool = False
    clock: ManualClock = field(default_factory=ManualClock)
    keys: list[str] = field(default_factory=lambda: ["key-1", "key-2", "key-3"])

    def run(self, *argv: str) -> Ended:
        """Run one command line and return what it left."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        context = Context(
            stdout=out,
            stderr=err,
            width=self.width,
            stderr_is_terminal=self.stderr_is_terminal,
            clock=self.clock,
            environment=self.environment,
            random=lambda: random.Random(5),
            new_key=lambda: self.keys.pop(0),
        )
        code = execute(parse(argv), argv, context)
        return Ended(int(code), _read(out), _read(err).decode("utf-8"))


def _read(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue()
