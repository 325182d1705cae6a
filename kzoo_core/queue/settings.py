"""The numbers that the queue works by."""

from __future__ import annotations

from dataclasses import dataclass

from kzoo_core.contract.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Times in seconds, sizes in bytes; the defaults are what runners are told at registration.

    ``lease_s`` is six heartbeats, so that a runner may miss five before its attempt is lost.
    ``confirm_s`` is how long an answered claim may stay without a sign of its runner.
    ``restart_grace_s`` is the least that a live lease has after the server came back.
    """

    heartbeat_s: float = 15
    lease_s: float = 90
    confirm_s: float = 30
    restart_grace_s: float = 120

    max_charged: int = 3
    """The charged attempt at which a submission is lost."""
    max_released: int = 5
    max_unconfirmed: int = 5
    max_requeued: int = 5
    """How often an attempt may end in this uncharged way and be tried again."""

    attempts_per_kernel: int = 1
    """Running or reported attempts of one kernel_id at a time: 1 keeps every verdict fresh."""

    keep_done: int = 2000
    keep_done_bytes: int = 2048 * MIB
    """Finished submissions beyond either bound are evicted, oldest first."""

    log_bytes: int = 5 * MIB
    """The most of one attempt's log; a runner sends 3 MiB, a mark and the last 1 MiB."""

    idempotency_s: float = 24 * 3600
    runner_forget_s: float = 24 * 3600
    max_runners: int = 10_000

    max_wait_s: float = 60
    """The longest that a long poll is held."""
    freeze_timeout_s: float = 60
    disk_timeout_s: float = 60
    """A disk that has not answered for so long counts as broken."""
    start_timeout_s: float = 600
    """The same for the one step that reads the whole spool."""
