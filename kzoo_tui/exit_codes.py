"""The exit codes of ``kzoo``: an interface that scripts and agents rely on."""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False  # typing's own costs a quarter of start-up; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
    """What a finished command says to the process that started it."""

    OK = 0
    """Done; a submission that was waited for is accepted."""
    REJECTED = 1
    """The benchmark or a hard rule rejected it, or the server refuses it as things stand."""
    INVALID = 2
    """The package breaks a rule of the contract; every problem was named."""
    UNUSABLE = 3
    """Usage, IO, connection, authorisation, no such thing: nothing was decided."""
    FAILED = 4
    """Lost, failed or cancelled: no verdict on the package. Also a fault of this program."""
    INTERRUPTED = 130
    """Ctrl-C, as shells count it (128 + SIGINT)."""


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "done; accepted",
    ExitCode.REJECTED: "rejected, or refused by the server as things stand",
    ExitCode.INVALID: "the package breaks rules of the contract",
    ExitCode.UNUSABLE: "usage, IO, connection, authorisation, not found, wait timed out",
    ExitCode.FAILED: "failed, lost or cancelled: no verdict",
}
"""For the help: the codes that a script tells apart."""

_OF_OUTCOME = {
    None: ExitCode.OK,
    "accepted": ExitCode.OK,
    "rejected": ExitCode.REJECTED,
}


def of_outcome(outcome: str | None) -> ExitCode:
    """Return the code of a submission's outcome; one that is not over yet is no failure."""
    return _OF_OUTCOME.get(outcome, ExitCode.FAILED)
