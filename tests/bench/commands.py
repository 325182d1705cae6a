"""What starting a command costs against a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from tests.bench.figures import Figure

ROUNDS = 20


def figures() -> list[Figure]:
    """Measure ``kzoo --help`` and ``python -c pass`` in turn."""
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(_seconds("-m", "kzoo_tui.cli", "--help"))
        bare.append(_seconds("-c", "pass"))
    return [
        Figure(
            "kzoo --help against python -c pass",
            statistics.median(ours) / statistics.median(bare),
            "×",
            f"medians {statistics.median(ours) * 1e3:.0f} ms against "
            f"{statistics.median(bare) * 1e3:.0f} ms, in turn, {ROUNDS} times",
            at_most=3,
        )
    ]


def _seconds(*arguments: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - begun
