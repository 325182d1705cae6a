"""What the runner's parts hand to each other: frozen records, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kzoo_core.ids import KernelId, RunnerId, Sha256, SubmissionId
    from kzoo_core.queue.exchange import Order
    from kzoo_core.queue.records import Phase

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1
"""The range of protocol versions that this runner speaks; ranges must overlap, never be equal."""

EXIT_DRAINED = 0
EXIT_FAILED = 3
EXIT_OUTDATED = 7


class AttemptKey(NamedTuple):
    """Names one attempt: submission and fence."""

    uuid: SubmissionId
    number: int

    def __str__(self) -> str:
        return f"{self.uuid}-{self.number}"


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """Bounds in bytes that the server gives; the defaults are the protocol's own numbers."""

    stdout_bytes: int = 1024 * 1024
    log_head_bytes: int = 3 * 1024 * 1024
    log_tail_bytes: int = 1024 * 1024
    log_chunk_bytes: int = 256 * 1024
    result_body_bytes: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a runner says of itself when it registers."""

    name: str
    arch: str
    product: str | None
    features: tuple[str, ...]
    backend: str
    isolation: str
    version: str
    boot_id: str
    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The server's answer: who the runner is, how often it must be heard, what it may send.

    ``poll_s`` is how long one claim may be held open; ``protocol`` is the server's own range, where
    it says one.
    """

    runner_id: RunnerId
    runner_token: str
    heartbeat_s: float
    lease_s: float
    poll_s: float
    limits: RunnerLimits
    protocol: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedAttempt:
    """One attempt that this runner has to run; the token never leaves the runner's own process."""

    key: AttemptKey
    token: str
    kernel_id: KernelId
    mode: str
    arch: str
    package_path: str
    package_sha256: Sha256
    build_s: float
    bench_s: float
    limits: RunnerLimits
    cancel_grace_s: float


class Advice(StrEnum):
    """What a heartbeat's answer may ask of the runner."""

    NONE = "none"
    DRAIN = "drain"
    REREGISTER = "reregister"


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat: what the runner is doing, and each attempt it answers for."""

    state: str
    attempts: tuple[tuple[AttemptKey, Phase], ...]


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What the server makes of a heartbeat."""

    orders: tuple[tuple[AttemptKey, Order], ...] = ()
    unknown: tuple[AttemptKey, ...] = ()
    advice: Advice = Advice.NONE


@dataclass(frozen=True, slots=True)
class Delivery:
    """The server's answer to a result; ``reason`` is the verdict's code of a rejection."""

    accepted: bool | None
    outcome: str | None
    reason: str | None
