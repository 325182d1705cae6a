"""What looking into an archive costs against inflating it."""

from __future__ import annotations

import io
import random
import statistics
import time
import zlib
from dataclasses import replace

from kzoo_core.contract.archive import read_archive, write_archive
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.records import Package, PackageFile
from tests.bench.figures import Figure
from tests.bench.repositories import EXAMPLE, example_package

ROUNDS = 60
ARCHIVE_BYTES = 200_000


def figures() -> list[Figure]:
    """Measure the strict reader and plain zlib on one archive of about 200 KB, in turn."""
    archive = write_archive(_package())
    ours, bare = [], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        read_archive(io.BytesIO(archive), PackageLimits(), kernel_id=EXAMPLE)
        between = time.perf_counter()
        zlib.decompress(archive, wbits=31)
        ours.append(between - begun)
        bare.append(time.perf_counter() - between)
    return [
        Figure(
            "archive inspection against zlib alone",
            statistics.median(a / b for a, b in zip(ours, bare, strict=True)),
            "×",
            f"medians {statistics.median(ours) * 1e3:.2f} ms against "
            f"{statistics.median(bare) * 1e3:.2f} ms, {len(archive) / 1000:.0f} KB, {ROUNDS} times",
            at_most=3.5,
        )
    ]


def _package() -> Package:
    """Return the example with sources that fill an archive of about 200 KB."""
    package = example_package()
    files = {path: file for path, file in package.files.items() if "bench_result" not in path}
    chance = random.Random(1)
    words = [f"value_{chance.randrange(10**6)}" for _ in range(2_000)]
    number = 0
    while len(write_archive(replace(package, files=files))) < ARCHIVE_BYTES:
        lines = [" = ".join(chance.choices(words, k=4)) for _ in range(600)]
        files[f"src/generated_{number}.py"] = PackageFile("\n".join(lines).encode())
        number += 1
    return replace(package, files=files)
