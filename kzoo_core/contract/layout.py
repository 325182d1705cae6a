"""Where the files of a kernel_package lie (authoring guide, section 2)."""

from __future__ import annotations

CONTRACT_DIRECTORY = ".kernel_package"
DESC_PATH = f"{CONTRACT_DIRECTORY}/desc.yaml"
SCOREBOARD_PATH = f"{CONTRACT_DIRECTORY}/bench_result.yaml"
BUILD_PATH = f"{CONTRACT_DIRECTORY}/build_test_env.py"
BENCHMARK_PATH = f"{CONTRACT_DIRECTORY}/benchmark.py"

SUBMITTED_PATHS = (DESC_PATH, BUILD_PATH, BENCHMARK_PATH)
"""What every archive must hold; the scoreboard is the server's and must not be in it."""

COMMITTED_PATHS = (DESC_PATH, SCOREBOARD_PATH, BUILD_PATH, BENCHMARK_PATH)
"""The four files of a package that lies in a repository or a directory."""


def is_scoreboard(path: str) -> bool:
    """Whether some machine would take ``path`` for the scoreboard, or for something inside it."""
    folded = path.casefold()
    return folded == SCOREBOARD_PATH or folded.startswith(f"{SCOREBOARD_PATH}/")
