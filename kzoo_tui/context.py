"""What a command may touch of the world around it, handed in by the entry point."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from kzoo_tui.safe_text import SafeText, safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

    from kzoo_core.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Streams, terminal, clock, environment and randomness of one run of ``kzoo``.

    ``stdout`` carries data, ``stderr`` talk. ``width`` is the columns of the terminal that stdout
    is, ``None`` when it is none. ``new_key`` makes an Idempotency-Key, ``random`` a random source.
    """

    stdout: TextIO
    stderr: TextIO
    width: int | None
    stderr_is_terminal: bool
    clock: Clock
    environment: Mapping[str, str]
    random: Callable[[], Random]
    new_key: Callable[[], str]

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether a person reads stdout directly."""
        return self.width is not None

    def print(self, lines: Iterable[SafeText]) -> None:
        """Write lines of data to stdout."""
        for line in lines:
            self.stdout.write(line + "\n")
        self.stdout.flush()

    def print_json(self, document: object) -> None:
        """Write one JSON document to stdout; a terminal gets it without what could steer it."""
        text = json.dumps(document, ensure_ascii=False, indent=2)
        self.stdout.write((safe_text(text) if self.stdout_is_terminal else text) + "\n")
        self.stdout.flush()

    def write_bytes(self, data: bytes) -> None:
        """Write bytes to stdout as they are."""
        self.stdout.flush()
        self.stdout.buffer.write(data)
        self.stdout.buffer.flush()

    def say(self, *lines: SafeText) -> None:
        """Write lines of talk to stderr."""
        for line in lines:
            self.stderr.write(line + "\n")
        self.stderr.flush()
