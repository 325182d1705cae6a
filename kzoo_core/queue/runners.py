"""The runners that have made themselves known. In memory: after a restart each registers again.

A runner's id comes from its name and instance, so it is the same after a restart of either side and
its attempts stay its own. Two instances under one name are two runners.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kzoo_core.errors import NotFound, Retryable, Unauthorized
from kzoo_core.ids import RunnerId, parse_runner_name
from kzoo_core.queue.scheduler import RunnerCapability
from kzoo_core.queue.tokens import token_matches, token_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kzoo_core.ids import Sha256
    from kzoo_core.queue.settings import QueueSettings

_MISSED_BEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerInfo:
    """What a runner says of itself at registration; ``gpus`` are its own free-form records."""

    name: str
    instance: str
    arch: str
    product: str | None = None
    features: frozenset[str] = frozenset()
    gpus: tuple[Mapping[str, object], ...] = ()
    backend: str = "local"
    isolation: str = "none"
    version: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A registered runner; ``state`` is its own word, such as idle, busy or draining."""

    runner_id: RunnerId
    info: RunnerInfo
    registered_at: datetime
    last_seen_at: datetime
    state: str = "idle"
    gpus: tuple[Mapping[str, object], ...] = ()
    token_sha256: Sha256 = field(repr=False)

    @property
    def capability(self) -> RunnerCapability:
        """What it can take."""
        return RunnerCapability(self.info.arch, self.info.features)


def runner_id_of(name: str, instance: str) -> RunnerId:
    """Return ``<name>.<8 hex digits of the name and instance>``; raises ``BadInput`` for a name."""
    digest = hashlib.sha256(f"{parse_runner_name(name)}\0{instance}".encode("utf-8", "replace"))
    return RunnerId(f"{name}.{digest.hexdigest()[:8]}")


class RunnerRegistry:
    """Who is registered, by id and by token.

    ``token_urlsafe`` makes a token of that many random bytes. Only the newest token of a runner is
    good: an instance that registers again has lost the old one, or somebody else has it.
    """

    def __init__(self, settings: QueueSettings, token_urlsafe: Callable[[int], str]) -> None:
        self._settings = settings
        self._token_urlsafe = token_urlsafe
        self._runners: dict[RunnerId, Runner] = {}
        self._by_token: dict[Sha256, RunnerId] = {}

    def register(self, info: RunnerInfo, *, now: datetime) -> tuple[Runner, str]:
        """Register a runner, or the same one anew, and return it with its token, shown once.

        Raises ``BadInput`` for a name that is none, ``Retryable`` ``TOO_MANY_RUNNERS``.
        """
        runner_id = runner_id_of(info.name, info.instance)
        if runner_id not in self._runners and len(self._runners) >= self._settings.max_runners:
            raise Retryable(
                "TOO_MANY_RUNNERS",
                f"{len(self._runners)} runners are registered, no more are taken",
                hint="those not seen for a day are forgotten",
                retry_after_s=60,
            )
        token = self._token_urlsafe(32)
        runner = Runner(
            runner_id=runner_id,
            info=info,
            registered_at=now,
            last_seen_at=now,
            gpus=info.gpus,
            token_sha256=token_sha256(token),
        )
        self.forget(runner_id)
        self._runners[runner_id] = runner
        self._by_token[runner.token_sha256] = runner_id
        return runner, token

    def authenticate(self, token: str) -> Runner:
        """Return the runner whose newest token this is; raises ``Unauthorized`` ``UNKNOWN_RUNNER``.

        The table is asked for the digest, so the time that an answer takes tells nothing.
        """
        runner_id = self._by_token.get(token_sha256(token))
        runner = None if runner_id is None else self._runners[runner_id]
        if runner is None or not token_matches(token, runner.token_sha256):
            raise Unauthorized(
                "UNKNOWN_RUNNER",
                "no registered runner has this token",
                hint="register again; running attempts stay yours",
            )
        return runner

    def seen(
        self,
        runner_id: RunnerId,
        *,
        now: datetime,
        state: str | None = None,
        gpus: tuple[Mapping[str, object], ...] | None = None,
    ) -> Runner:
        """Take note of a call by this runner and what it says of itself; raises ``NotFound``."""
        runner = self.get(runner_id)
        runner = replace(
            runner,
            last_seen_at=now,
            state=runner.state if state is None else state,
            gpus=runner.gpus if gpus is None else gpus,
        )
        self._runners[runner_id] = runner
        return runner

    def get(self, runner_id: RunnerId) -> Runner:
        """Return one runner; raises ``NotFound`` ``UNKNOWN_RUNNER``."""
        try:
            return self._runners[runner_id]
        except KeyError:
            raise NotFound(
                "UNKNOWN_RUNNER", f"there is no runner {runner_id}", hint="register first"
            ) from None

    def all(self) -> tuple[Runner, ...]:
        """Return every runner, by id."""
        return tuple(self._runners[runner_id] for runner_id in sorted(self._runners))

    def is_up(self, runner: Runner, *, now: datetime) -> bool:
        """Whether the runner was heard of within three heartbeats."""
        silence = now - runner.last_seen_at
        return silence < timedelta(seconds=_MISSED_BEATS * self._settings.heartbeat_s)

    def forget(self, runner_id: RunnerId) -> None:
        """Forget a runner, if it is known: its token is good no more."""
        runner = self._runners.pop(runner_id, None)
        if runner is not None:
            del self._by_token[runner.token_sha256]

    def prune(self, *, now: datetime) -> tuple[RunnerId, ...]:
        """Forget who was not seen for a day, and return them."""
        silence = timedelta(seconds=self._settings.runner_forget_s)
        gone = tuple(
            runner.runner_id for runner in self.all() if now - runner.last_seen_at >= silence
        )
        for runner_id in gone:
            self.forget(runner_id)
        return gone
