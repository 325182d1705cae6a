"""Packages as a runner gets them: frozen archives with the scoreboard inside."""

from __future__ import annotations

import json

from kzoo_core.contract.archive import write_archive
from kzoo_core.contract.digest import sha256_hex
from kzoo_core.contract.layout import BENCHMARK_PATH, BUILD_PATH, SCOREBOARD_PATH
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.ids import KernelId, Sha256

KERNEL_ID = KernelId("gfx928/Norm/RMSNorm/fp32/mine")

BUILD = """
import sys
from pathlib import Path
print("building")
(Path(sys.argv[1]) / "built.txt").write_text("yes")
"""

BENCHMARK = """
import json, os, sys
from pathlib import Path
print("measuring", file=sys.stderr)
built = (Path(sys.argv[1]) / "built.txt").read_text()
names = ("KERNEL_ZOO_KERNEL_ID", "KERNEL_ZOO_RUNNER_ID", "KERNEL_ZOO_ARCH", "PYTHONHASHSEED")
board = Path(__file__).with_name("bench_result.yaml").read_text()
print(json.dumps({"built": built, "board": board, **{name: os.environ[name] for name in names}}))
"""

BOARD = f'schema_version: "1.0.0"\nkernel_id: {KERNEL_ID}\ncases: []\n'


def archive(benchmark: str = BENCHMARK, build: str = BUILD) -> tuple[bytes, Sha256]:
    """Return the bytes of a frozen package and their digest."""
    files = {
        BUILD_PATH: build,
        BENCHMARK_PATH: benchmark,
        SCOREBOARD_PATH: BOARD,
        "src/kernel.py": "",
    }
    package = Package(KERNEL_ID, {path: PackageFile(text.encode()) for path, text in files.items()})
    data = write_archive(package)
    return data, sha256_hex(data)


def printed_by_benchmark(runner_id: str) -> bytes:
    """Return what ``BENCHMARK`` prints after ``BUILD`` on that runner."""
    document = {
        "built": "yes",
        "board": BOARD,
        "KERNEL_ZOO_KERNEL_ID": KERNEL_ID,
        "KERNEL_ZOO_RUNNER_ID": runner_id,
        "KERNEL_ZOO_ARCH": "gfx928",
        "PYTHONHASHSEED": "0",
    }
    return f"{json.dumps(document)}\n".encode()
