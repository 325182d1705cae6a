"""``make bench``: measures this machine's ratios and prints them beside their goals."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from pathlib import Path

from tests.bench import accepts, archives, commands
from tests.bench.figures import table


def main() -> int:
    """Measure and print; a goal that is missed is marked, and is no error."""
    full = os.environ.get("BENCH_FULL", "") not in {"", "0"}
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores; every ratio is of figures "
        "taken in turn in one run",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="kernel_zoo-bench-") as name:
        figures = [
            *accepts.figures(Path(name), 10_000 if full else 1_000),
            *archives.figures(),
            *commands.figures(),
        ]
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
