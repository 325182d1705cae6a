"""Finding and ending processes by the mark that the runner puts into their environment.

The second line behind the warden: it also finds what a killed runner left running, at its next
start, when no parent and no process group leads there any more.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK_VARIABLE = "KERNEL_ZOO_ATTEMPT"
"""``<instance of the runner>/<uuid>-<attempt>`` in every process of an attempt."""

PROC = Path("/proc")
_PAUSE_S = 0.005


def marked_processes(prefix: str, *, proc: Path = PROC) -> list[int]:
    """Return the live processes whose mark begins with ``prefix``; this process is none of them."""
    wanted = f"{MARK_VARIABLE}={prefix}".encode()
    own = os.getpid()
    found = []
    for entry in proc.iterdir():
        if not entry.name.isdigit() or int(entry.name) == own:
            continue
        # Another user's process, or one that has just ended.
        with suppress(OSError):
            environment = (entry / "environ").read_bytes()
            if any(item.startswith(wanted) for item in environment.split(b"\0")):
                found.append(int(entry.name))
    return found


def kill_marked(
    prefix: str, *, patience_s: float, proc: Path = PROC
) -> tuple[list[int], list[int]]:
    """Kill every process with that mark; return those that were killed and those that resist.

    Blocks for at most about ``patience_s``: what hangs in a driver does not die of SIGKILL.
    """
    seen: set[int] = set()
    give_up_at = time.monotonic() + patience_s
    while left := marked_processes(prefix, proc=proc):
        seen.update(left)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        if time.monotonic() >= give_up_at:
            return sorted(seen - set(left)), sorted(left)
        time.sleep(_PAUSE_S)
    return sorted(seen), []
