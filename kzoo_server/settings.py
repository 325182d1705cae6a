"""The server's settings: every place, time and bound, with where each value came from."""

from __future__ import annotations

import dataclasses
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.config import Resolved, resolve, setting
from kzoo_core.contract.limits import KIB, MIB, STDOUT_LIMIT_BYTES, PackageLimits
from kzoo_core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What ``kzoo-server`` can be told. Times are seconds, sizes are bytes.

    Each field is the key of the YAML file; ``repo``, ``state``, ``host``, ``port``, ``ready_file``
    and ``expose_unauthenticated`` are flags too.
    """

    repo: Path = setting(
        Path("../kernel_data"),
        about="the kernel repository, bare or a checkout",
        env="KERNEL_ZOO_KERNEL_REPO_PATH",
    )
    state: Path | None = setting(
        None,
        about="where queue, caches and index are kept; by default the user's state directory",
        env="KERNEL_ZOO_STATE_PATH",
    )
    index: Path | None = setting(
        None,
        about="where index.json is written; by default <state>/index.json",
        env="KERNEL_ZOO_INDEX_PATH",
    )
    host: str = setting(
        "127.0.0.1", about="the address to listen on; loopback only", env="KERNEL_ZOO_HOST"
    )
    port: int = setting(
        8000, about="the port to listen on; 0 takes a free one", env="KERNEL_ZOO_PORT", at_least=0
    )
    ready_file: Path | None = setting(
        None, about="a file that gets the server's URL once it listens and serves the board"
    )
    expose_unauthenticated: bool = setting(
        False, about="listen on an address that others can reach, though nobody is asked who he is"
    )

    log_format: str = setting("text", about="form of the log lines: text (key=value) or json")
    log_level: str = setting("info", about="least level that is logged: debug info warning error")

    file_limit_bytes: int = setting(1 * MIB, about="one file of a package", at_least=1)
    package_limit_bytes: int = setting(8 * MIB, about="a package, unpacked", at_least=1)
    archive_limit_bytes: int = setting(8 * MIB, about="an uploaded archive", at_least=1)
    package_files_limit: int = setting(500, about="number of files in a package", at_least=1)
    summary_limit_bytes: int = setting(
        16 * KIB, about="the text of an optimization_summary", at_least=1
    )
    json_limit_bytes: int = setting(
        1 * MIB, about="a JSON body other than a result's", at_least=1 * KIB
    )
    result_limit_bytes: int = setting(8 * MIB, about="the body of a result", at_least=1 * KIB)
    stdout_limit_bytes: int = setting(
        STDOUT_LIMIT_BYTES, about="what a benchmark may print", at_least=1
    )
    log_chunk_limit_bytes: int = setting(256 * KIB, about="one chunk of a log", at_least=1)
    log_head_bytes: int = setting(3 * MIB, about="beginning of a log that is kept", at_least=1)
    log_tail_bytes: int = setting(1 * MIB, about="end of a log that is kept", at_least=1)
    min_free_bytes: int = setting(
        256 * MIB, about="free disk under which no submission is taken", at_least=0
    )

    page_default: int = setting(50, about="entries of a page when no limit is asked", at_least=1)
    page_max: int = setting(1000, about="entries of a page at most", at_least=1)

    wait_default_s: float = setting(30.0, about="how long a long poll is held", at_least=0)
    wait_max_s: float = setting(60.0, about="how long a long poll is held at most", at_least=0)
    body_pause_s: float = setting(
        30.0, about="longest pause inside a request's body before it is given up", at_least=0.01
    )
    body_total_s: float = setting(
        300.0, about="longest time that a request's body may take", at_least=0.01
    )
    stop_s: float = setting(
        5.0, about="time in which the process ends after SIGTERM or SIGINT", at_least=0.5
    )
    sweep_s: float = setting(
        5.0, about="how often leases, confirmations and gone runners are looked at", at_least=0.01
    )
    board_poll_s: float = setting(
        0.5, about="how often the repository's head is looked at", at_least=0.01
    )

    heartbeat_s: float = setting(
        15.0,
        about="how often a runner is to be heard; after three misses it is not up",
        at_least=0.01,
    )
    lease_s: float = setting(
        90.0, about="silence after which an attempt counts as lost", at_least=0.01
    )
    confirm_s: float = setting(
        30.0, about="time in which a claim is confirmed by its runner", at_least=0.01
    )
    restart_grace_s: float = setting(
        120.0, about="least lease of a running attempt after the server started", at_least=0
    )
    runner_forget_s: float = setting(
        24 * 3600.0, about="silence after which a runner is forgotten", at_least=1
    )
    max_runners: int = setting(10_000, about="runners known at a time", at_least=1)

    attempts_per_kernel: int = setting(
        1, about="attempts of one kernel_id at a time; 1 keeps every verdict fresh", at_least=1
    )
    max_charged: int = setting(
        3, about="attempts lost by infrastructure after which a submission is lost", at_least=1
    )
    max_released: int = setting(5, about="times that an attempt may be handed back", at_least=0)
    max_unconfirmed: int = setting(5, about="times that a claim may go unconfirmed", at_least=0)
    max_requeued: int = setting(
        5, about="times that a submission runs anew because its kernel changed", at_least=0
    )
    keep_done: int = setting(2000, about="finished submissions whose files are kept", at_least=1)
    keep_done_bytes: int = setting(
        2048 * MIB, about="bytes of finished submissions that are kept", at_least=1
    )
    idempotency_s: float = setting(
        24 * 3600.0, about="how long an Idempotency-Key is remembered", at_least=1
    )
    freeze_timeout_s: float = setting(
        60.0, about="time in which a claim's package is made ready", at_least=1
    )
    disk_timeout_s: float = setting(
        60.0, about="silence of the disk after which it counts as broken", at_least=1
    )

    start_timeout_s: float = setting(
        600.0, about="the same for reading the whole queue at start", at_least=1
    )

    build_timeout_s: float = setting(600.0, about="time of build_test_env.py", at_least=0.01)
    bench_timeout_s: float = setting(600.0, about="time of benchmark.py", at_least=0.01)
    cancel_grace_s: float = setting(
        10.0, about="time between asking a cancelled run to end and killing it", at_least=0
    )

    @property
    def package_limits(self) -> PackageLimits:
        """The bounds of a package, as the contract wants them."""
        return PackageLimits(
            file_bytes=self.file_limit_bytes,
            package_bytes=self.package_limit_bytes,
            archive_bytes=self.archive_limit_bytes,
            files=self.package_files_limit,
        )

    @property
    def state_directory(self) -> Path:
        """The state directory; settings come from ``load``, which always fills it."""
        if self.state is None:
            raise ValueError("the settings were not made by load(): no state directory")
        return self.state

    @property
    def index_path(self) -> Path:
        """Where index.json is written."""
        return self.index if self.index is not None else self.state_directory / "index.json"


def load(
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    file: Path | None,
    default_state: Path,
) -> Resolved[ServerSettings]:
    """Resolve the server's settings and check what no single value shows.

    Raises ``BadInput`` with code ``CONFIG_ERROR``: see ``kzoo_core.config.resolve``; also for a
    word outside its list, a port above 65535, and a host that others can reach without
    ``expose_unauthenticated`` (open mode believes the header it is sent, so it stays on loopback).
    """
    resolved = resolve(ServerSettings, flags=flags, environment=environment, file=file)
    settings = resolved.settings
    state = settings.state if settings.state is not None else default_state
    index = settings.index if settings.index is not None else state / "index.json"
    settings = dataclasses.replace(settings, state=state, index=index)
    _one_of(settings.log_format, ("text", "json"), "log_format", resolved.origin)
    _one_of(settings.log_level, ("debug", "info", "warning", "error"), "log_level", resolved.origin)
    if settings.port > 65535:
        raise BadInput(
            "CONFIG_ERROR",
            f"{resolved.origin['port']}: port is {settings.port}, expected at most 65535",
        )
    if settings.page_default > settings.page_max:
        raise BadInput(
            "CONFIG_ERROR",
            f"page_default is {settings.page_default}, expected at most page_max, "
            f"which is {settings.page_max}",
        )
    if settings.wait_default_s > settings.wait_max_s:
        raise BadInput(
            "CONFIG_ERROR",
            f"wait_default_s is {settings.wait_default_s:g}, expected at most wait_max_s, "
            f"which is {settings.wait_max_s:g}",
        )
    if not is_loopback(settings.host) and not settings.expose_unauthenticated:
        raise BadInput(
            "CONFIG_ERROR",
            f"{resolved.origin['host']}: host is {settings.host!r}, expected a loopback address: "
            "in open mode everyone who reaches the port can submit under any name",
            hint="keep 127.0.0.1 behind a proxy that knows its users, or accept the risk with "
            "--expose-unauthenticated",
        )
    return Resolved(settings, resolved.origin)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``; a name other than localhost counts as no."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _one_of(value: str, words: tuple[str, ...], name: str, origin: Mapping[str, str]) -> None:
    if value not in words:
        raise BadInput(
            "CONFIG_ERROR",
            f"{origin[name]}: {name} is {value!r}, expected one of: {' '.join(words)}",
        )
