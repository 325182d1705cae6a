"""Stands between the runner and one script of an attempt, so that nothing of it is left behind.

A process group is not enough: a child that forks twice and calls ``setsid`` leaves it. The warden
is the *subreaper* of all that the script starts, so whatever loses its parent becomes the warden's
own child, and killing the warden's descendants until there are none ends everything. Should the
runner die, the kernel tells the warden, which does the same.

Run as a file by an isolated interpreter (``python -I -S warden.py PARENT_PID STATUS_FD COMMAND…``):
it imports nothing but the standard library, and sleeps in ``sigwait`` while the script is measured.
SIGTERM is passed on to all descendants; SIGQUIT kills them. When the script is over, one line goes
to STATUS_FD: ``exit CODE`` (negative: killed by that signal) or ``error ERRNO`` (not started).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_PATIENCE_S = 20.0
"""A process stuck in the kernel (a GPU driver) cannot be killed; the warden leaves it then."""
OOM_SCORE = "500"

_WATCHED = {signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD}


def descendants(root: int) -> list[int]:
    """Return the processes below ``root``, nearest first, zombies included."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - one readdir, thousands of names
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{entry}/stat").read_bytes()
            parent = int(stat.rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children.get(parent, ())]
        found += level
    return found


def main(arguments: list[str]) -> int:
    """Run the command to its end, end what it left, say how it went."""
    parent, status_fd, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    os.set_inheritable(status_fd, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
    if os.getppid() != parent:
        return 1  # the runner died before the kernel knew that the warden wants to be told
    child = _start(command, status_fd)
    codes: dict[int, int] = {}
    _attend(child, codes)
    _end_all(codes)
    os.write(status_fd, f"exit {codes.get(child, -signal.SIGKILL)}\n".encode())
    return 0


def _start(command: list[str], status_fd: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # when memory runs out, the attempt goes, not the runner
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(status_fd, f"error {error.errno}\n".encode())
    finally:
        os._exit(127)


def _attend(child: int, codes: dict[int, int]) -> None:
    """Wait until the script has ended or the runner wants everything killed."""
    while True:
        _reap(codes)
        if child in codes:
            return
        received = signal.sigwait(_WATCHED)
        if received == signal.SIGQUIT:
            return
        if received == signal.SIGTERM:
            _send(descendants(os.getpid()), signal.SIGTERM)


def _end_all(codes: dict[int, int]) -> None:
    give_up_at = time.monotonic() + KILL_PATIENCE_S
    while time.monotonic() < give_up_at:
        left = descendants(os.getpid())
        if not left:
            return
        _send(left, signal.SIGSTOP)  # so that none forks while its siblings are killed
        _send(left, signal.SIGKILL)
        time.sleep(0.002)
        _reap(codes)


def _reap(codes: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        codes[pid] = os.waitstatus_to_exitcode(status)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    """Ask the kernel; an old one that cannot is no reason not to run (the runner scans as well)."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
