"""The words between the pure protocol machine and its shell: events go in, commands come out.

Each command that begins an operation (``Register``, ``Claim``, ``Fetch``, ``Execute``, ``Deliver``,
``Release``, ``Pause``) is answered by exactly one event, also when it was interrupted or stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kzoo_core.ids import ClaimId
    from kzoo_core.queue.records import Phase
    from kzoo_core.runner.records import AttemptKey, BeatAnswer


class Call(StrEnum):
    """The calls that a server can refuse."""

    REGISTER = "register"
    CLAIM = "claim"
    PACKAGE = "package"
    HEARTBEAT = "heartbeat"
    LOG = "log"
    RESULT = "result"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call did not go through.

    ``status`` is ``None`` when no answer came, and 200 when one came that cannot be read; ``code``
    is the envelope's.
    ``identity`` counts the registrations before the call, so that a 401 for an older one is told.
    """

    call: Call
    status: int | None
    message: str
    code: str | None = None
    key: AttemptKey | None = None
    retry_after_s: float | None = None
    identity: int = 0


@dataclass(frozen=True, slots=True)
class Leftover:
    """A result that an earlier process of this runner could not deliver; kept ``keep_s`` more."""

    key: AttemptKey
    keep_s: float


@dataclass(frozen=True, slots=True)
class Started:
    """The runner begins; ``leftovers`` are the results found on its disk."""

    leftovers: tuple[Leftover, ...] = ()


@dataclass(frozen=True, slots=True)
class HasRegistered:
    """The server knows the runner; ``poll_s`` is how long it holds a claim open."""

    poll_s: float


@dataclass(frozen=True, slots=True)
class HasClaimed:
    """The claim was answered with an attempt."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class NothingToClaim:
    """The claim was answered with nothing after ``waited_s``."""

    waited_s: float


@dataclass(frozen=True, slots=True)
class HasFetched:
    """The attempt's package is here."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """The attempt has entered build or benchmark."""

    key: AttemptKey
    phase: Phase


@dataclass(frozen=True, slots=True)
class HasEnded:
    """The attempt is over and its result is durable on the runner's disk.

    ``machine_failed``: by the result it was this machine, not the package, that failed.
    """

    key: AttemptKey
    machine_failed: bool = False


@dataclass(frozen=True, slots=True)
class HasStopped:
    """The attempt was stopped as asked and leaves no result."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class HasDelivered:
    """The server has the result."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class HasReleased:
    """The server has the attempt back."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class PauseOver:
    """The pause has passed."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The claim, pause or delivery was interrupted before it came to an end of its own."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A call did not go through."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Heard:
    """A heartbeat was answered."""

    answer: BeatAnswer


@dataclass(frozen=True, slots=True)
class StopAsked:
    """SIGTERM or Ctrl-C."""


Event: TypeAlias = (
    Started
    | HasRegistered
    | HasClaimed
    | NothingToClaim
    | HasFetched
    | PhaseBegan
    | HasEnded
    | HasStopped
    | HasDelivered
    | HasReleased
    | PauseOver
    | Interrupted
    | Refused
    | Heard
    | StopAsked
)


class Stopping(StrEnum):
    """How an attempt is stopped: with time to clean up or at once, with a result or without."""

    CANCEL = "cancel"
    ABORT = "abort"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Register:
    """Register after a wait."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask for an attempt; the server may hold the call for ``wait_s``."""

    claim_id: ClaimId
    wait_s: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """Download the attempt's package after a wait."""

    key: AttemptKey
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Execute:
    """Verify, unpack, build, benchmark, and put the result on disk."""

    key: AttemptKey


@dataclass(frozen=True, slots=True)
class Stop:
    """End the attempt that is being fetched or executed."""

    key: AttemptKey
    how: Stopping
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Hand an attempt back that has not begun."""

    key: AttemptKey
    why: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Deliver:
    """Post a result from disk: whole, without its log (1 cut), without its output too (2)."""

    key: AttemptKey
    cuts: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove a result from disk: delivered, refused for good, or too old."""

    key: AttemptKey
    why: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Interrupt:
    """End the claim, pause or delivery that is going on."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave with this exit code, whatever still goes on."""

    code: int
    why: str


Command: TypeAlias = (
    Register | Claim | Fetch | Execute | Stop | Release | Deliver | Drop | Pause | Interrupt | Exit
)
