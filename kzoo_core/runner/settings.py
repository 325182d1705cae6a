"""The settings of ``kzoo-runner``: flags over environment over a file over these defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - config.resolve reads the hints at run time

from kzoo_core.config import setting
from kzoo_core.runner.backends.environment import DEFAULT_ALLOWED
from kzoo_core.runner.spool import KEEP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """One field a setting; times are seconds."""

    server: str = setting(
        "http://127.0.0.1:8000", about="Address of the server.", env="KERNEL_ZOO_SERVER"
    )
    arch: str = setting(
        "", about="Architecture of this machine's cards, such as gfx928.", env="KERNEL_ZOO_ARCH"
    )
    product: str | None = setting(
        None, about="Product name of the cards.", env="KERNEL_ZOO_RUNNER_PRODUCT"
    )
    features: tuple[str, ...] = setting(
        (),
        about="Architecture features that packages may ask for (min_arch_feature).",
        env="KERNEL_ZOO_RUNNER_FEATURES",
    )
    backend: str = setting(
        "local", about="Where attempts run: local.", env="KERNEL_ZOO_RUNNER_BACKEND"
    )
    name: str | None = setting(
        None, about="Name of the runner; the host's name by default.", env="KERNEL_ZOO_RUNNER_NAME"
    )
    state: Path | None = setting(
        None,
        about="Directory of its own for results and scratch; in the user's state directory, "
        "under the runner's name, by default.",
        env="KERNEL_ZOO_RUNNER_STATE_PATH",
    )
    python: str | None = setting(
        None,
        about="Interpreter that runs packages; the runner's own by default.",
        env="KERNEL_ZOO_RUNNER_PYTHON",
    )
    once: bool = setting(False, about="Run one attempt, or none if there is none, and exit.")
    environment_allow: tuple[str, ...] = setting(
        DEFAULT_ALLOWED,
        about="Names, or shell patterns of names, of environment variables that packages see.",
        env="KERNEL_ZOO_RUNNER_ENVIRONMENT_ALLOW",
    )
    kill_grace_s: float = setting(
        5.0,
        about="Time between SIGTERM and SIGKILL for a script that ran too long.",
        env="KERNEL_ZOO_RUNNER_KILL_GRACE_S",
        at_least=0,
    )
    log_flush_s: float = setting(
        0.2,
        about="How long bytes of a log are gathered before they are sent.",
        env="KERNEL_ZOO_RUNNER_LOG_FLUSH_S",
        at_least=0,
    )
    log_close_s: float = setting(
        10.0,
        about="How long the end of a log may hold up the result.",
        env="KERNEL_ZOO_RUNNER_LOG_CLOSE_S",
        at_least=0,
    )
    retry_least_s: float = setting(
        2.0,
        about="First wait before the server is asked again; doubles from there.",
        env="KERNEL_ZOO_RUNNER_RETRY_LEAST_S",
        at_least=0.01,
    )
    retry_most_s: float = setting(
        30.0,
        about="Longest such wait.",
        env="KERNEL_ZOO_RUNNER_RETRY_MOST_S",
        at_least=0.01,
    )
    register_patience_s: float = setting(
        60.0,
        about="How long a starting runner waits for a server that does not answer.",
        env="KERNEL_ZOO_RUNNER_REGISTER_PATIENCE_S",
        at_least=0,
    )
    drain_patience_s: float = setting(
        120.0,
        about="How long a stopping runner tries to deliver; then the result waits on disk.",
        env="KERNEL_ZOO_RUNNER_DRAIN_PATIENCE_S",
        at_least=0,
    )
    result_keep_s: float = setting(
        KEEP_S,
        about="How long an undelivered result is kept and sent again.",
        env="KERNEL_ZOO_RUNNER_RESULT_KEEP_S",
        at_least=0,
    )
