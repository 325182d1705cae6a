"""Small packages and archives for the tests of every room.

``valid_package`` is complete and really runs, with nothing but the standard library and in a few
milliseconds; its latencies are constants, so that a test knows what comes out.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import TYPE_CHECKING

from kzoo_core.contract.documents import dump_yaml
from kzoo_core.contract.records import Package, PackageFile
from kzoo_core.ids import parse_kernel_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

KERNEL_ID = "gfx928/Norm/RMSNorm/fp32/demo"
CASES: Mapping[str, float] = {"n4": 1.5, "n8": 3.25}
"""Latency in milliseconds that the package reports, by test case."""

_DESCRIPTION = """\
## Mathematical definition
Y[i] = X[i] / sqrt(mean(X^2) + 1e-6)

## Input layout
X: [n] fp32, contiguous.

## Performance hints
- One pass for the sum of squares, one for the division.

## Known traps
- The epsilon lies inside the root.
"""

_KERNEL = """\
from __future__ import annotations


def rmsnorm(x: list[float]) -> list[float]:
    scale = (sum(v * v for v in x) / len(x) + 1e-6) ** -0.5
    return [v * scale for v in x]
"""

_WRONG_KERNEL = """\
from __future__ import annotations


def rmsnorm(x: list[float]) -> list[float]:
    return [0.0 for _ in x]
"""

_REFERENCE = """\
from __future__ import annotations

import math


def reference(x: list[float]) -> list[float]:
    root = math.sqrt(math.fsum(v * v for v in x) / len(x) + 1e-6)
    return [v / root for v in x]
"""

_BUILD = """\
from __future__ import annotations

import json
import random
import sys
from pathlib import Path

PKG_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PKG_ROOT / "src"))
from reference import reference

SIZES = {sizes}
SEED = 0xBEEF


def build_env(workdir: Path) -> None:
    for folder in ("inputs", "expected"):
        (workdir / folder).mkdir(parents=True, exist_ok=True)
    for case, size in SIZES.items():
        rng = random.Random(SEED)
        x = [rng.gauss(0.0, 1.0) for _ in range(size)]
        (workdir / "inputs" / f"{{case}}_x.json").write_text(json.dumps(x))
        (workdir / "expected" / f"{{case}}_y.json").write_text(json.dumps(reference(x)))
    (workdir / "build_manifest.json").write_text(json.dumps({{"seed": SEED}}))


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print("usage: build_test_env.py <workdir>", file=sys.stderr)
        return 2
    build_env(Path(argv[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
"""

_BENCHMARK = """\
from __future__ import annotations

import json
import os
import sys
from pathlib import Path

PKG_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PKG_ROOT / "src"))
from kernel import rmsnorm

LATENCY_MS = {latencies}

KERNEL_ZOO_TEST_CASE_METAS = [
    {{
        "test_case_id": case,
        "params": {{"case": case}},
        "primary_metric": "latency_ms",
        "metrics": [
            {{"name": "latency_ms", "unit": "ms", "direction": "lower_better"}},
            {{"name": "throughput", "unit": "runs/s", "direction": "higher_better"}},
        ],
        "tolerance": {{"atol": 1e-9}},
    }}
    for case in LATENCY_MS
]


def run_case(workdir: Path, meta: dict) -> dict:
    case = meta["test_case_id"]
    x = json.loads((workdir / "inputs" / f"{{case}}_x.json").read_text())
    want = json.loads((workdir / "expected" / f"{{case}}_y.json").read_text())
    error = max(abs(a - b) for a, b in zip(rmsnorm(x), want))
    passed = error <= meta["tolerance"]["atol"]
    print(f"{{case}}: passed={{passed}}", file=sys.stderr)
    return {{
        "test_case_id": case,
        "correctness": "passed" if passed else "failed",
        "correctness_detail": {{"max_abs_err": error}},
        "accept": passed and {accept},
        "accept_reason": "within tolerance" if passed else f"max_abs_err {{error:.3g}}",
        "metrics": [
            {{"name": "latency_ms", "value": LATENCY_MS[case]}},
            {{"name": "throughput", "value": 1000 / LATENCY_MS[case]}},
        ],
        "error": None,
    }}


def main(argv: list[str]) -> int:
    cases = [run_case(Path(argv[1]), meta) for meta in KERNEL_ZOO_TEST_CASE_METAS]
    accept = all(case["accept"] for case in cases)
    document = {{
        "schema_version": "1.0.0",
        "kernel_id": os.environ.get("KERNEL_ZOO_KERNEL_ID", "{kernel_id}"),
        "ran_at": "2026-08-02T11:00:00Z",
        "runner_id": os.environ.get("KERNEL_ZOO_RUNNER_ID", "local"),
        "arch": os.environ.get("KERNEL_ZOO_ARCH", "{arch}"),
        "overall": {{
            "accept": accept,
            "accept_reason": "all cases accepted" if accept else "a case was not accepted",
            "build_ok": True,
        }},
        "cases": cases,
    }}
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
"""


def valid_package(
    kernel_id: str = KERNEL_ID,
    *,
    files: Mapping[str, bytes | str | None] | None = None,
    desc: Mapping[str, object] | None = None,
    cases: Mapping[str, float] = CASES,
    correct: bool = True,
    accept: bool = True,
    scoreboard: bool = False,
) -> Package:
    """Return a complete package that validates, and runs in milliseconds.

    ``files`` adds, replaces or (``None``) removes files; ``desc`` replaces or (``None`` as value)
    removes fields of desc.yaml; ``cases`` are latencies in ms by test case. ``correct=False`` ships
    a kernel whose output is wrong; ``accept=False`` a benchmark that rejects although it passes.
    ``scoreboard`` adds a seed bench_result.yaml: a directory needs one, a submission has none.
    """
    fields = desc_fields(kernel_id) | dict(desc or {})
    sizes = {case: 4 * (place + 1) for place, case in enumerate(cases)}
    texts: dict[str, bytes | str | None] = {
        ".kernel_package/desc.yaml": dump_yaml(
            {name: value for name, value in fields.items() if value is not None}
        ),
        ".kernel_package/build_test_env.py": _BUILD.format(sizes=sizes),
        ".kernel_package/benchmark.py": _BENCHMARK.format(
            latencies=dict(cases), accept=accept, kernel_id=kernel_id, arch=_category(kernel_id)[0]
        ),
        "src/kernel.py": _KERNEL if correct else _WRONG_KERNEL,
        "src/reference.py": _REFERENCE,
    }
    if scoreboard:
        texts[".kernel_package/bench_result.yaml"] = seed_scoreboard(kernel_id, cases)
    texts.update(files or {})
    return Package(
        parse_kernel_id(kernel_id),
        {
            path: PackageFile(text.encode() if isinstance(text, str) else text)
            for path, text in texts.items()
            if text is not None
        },
    )


def desc_fields(kernel_id: str = KERNEL_ID) -> dict[str, object]:
    """Return the fields of a valid desc.yaml."""
    arch, op_class, sub_class, quant = _category(kernel_id)
    return {
        "schema_version": "1.0.0",
        "name": "RMSNorm demo",
        "category": {
            "arch": arch,
            "op_class": op_class,
            "sub_class": sub_class,
            "quant": quant,
        },
        "summary": "RMS normalization of a vector.",
        "description": _DESCRIPTION,
        "io_signature": [
            {"name": "X", "kind": "in", "dtype": "fp32", "shape": ["n"]},
            {"name": "Y", "kind": "out", "dtype": "fp32", "shape": ["n"]},
        ],
        "quantization": {"scheme": "none"},
        "reference_sources": ["src/reference.py"],
        "status": "normal",
        "tags": ["norm"],
        "owner": "alice",
    }


def seed_scoreboard(kernel_id: str = KERNEL_ID, cases: Mapping[str, float] = CASES) -> bytes:
    """Return a seed bench_result.yaml: placeholders only."""
    seed = {
        "value": 100.0,
        "submitter": "seed",
        "commit_sha": "0000000",
        "recorded_at": "2026-08-02T00:00:00Z",
    }
    metrics = {"latency_ms": seed, "throughput": seed}
    return dump_yaml(
        {
            "schema_version": "1.0.0",
            "kernel_id": kernel_id,
            "cases": [
                {
                    "test_case_id": case,
                    "metrics_best": metrics,
                    "metrics_current": metrics,
                    "correctness_current": "unknown",
                }
                for case in cases
            ],
        }
    )


def output_document(
    kernel_id: str = KERNEL_ID, cases: Mapping[str, float] = CASES
) -> dict[str, object]:
    """Return what the benchmark of ``valid_package`` prints, as a document to change."""
    return {
        "schema_version": "1.0.0",
        "kernel_id": kernel_id,
        "ran_at": "2026-08-02T11:00:00Z",
        "runner_id": "runner-1",
        "arch": _category(kernel_id)[0],
        "overall": {"accept": True, "accept_reason": "all cases accepted", "build_ok": True},
        "cases": [
            {
                "test_case_id": case,
                "correctness": "passed",
                "correctness_detail": {"max_abs_err": 0.0},
                "accept": True,
                "accept_reason": "within tolerance",
                "metrics": [
                    {"name": "latency_ms", "value": latency},
                    {"name": "throughput", "value": 1000 / latency},
                ],
                "error": None,
            }
            for case, latency in cases.items()
        ],
    }


def output_bytes(
    kernel_id: str = KERNEL_ID, cases: Mapping[str, float] = CASES, **changes: object
) -> bytes:
    """Return ``output_document`` as stdout; ``changes`` replace top-level fields."""
    return json.dumps(output_document(kernel_id, cases) | changes).encode() + b"\n"


def tarball(
    files: Mapping[str, bytes],
    *,
    extra: Iterable[tarfile.TarInfo] = (),
    layout: int = tarfile.PAX_FORMAT,
    compressed: bool = True,
) -> bytes:
    """Return an archive with members exactly as named, hostile or not.

    ``extra`` members come last and carry no data; ``layout`` is one of ``tarfile``'s formats.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=layout) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for member in extra:
            tar.addfile(member)
    return gzip.compress(stream.getvalue(), mtime=0) if compressed else stream.getvalue()


def package_tarball(package: Package, *, top: str | None = None) -> bytes:
    """Return ``package`` as a submitter's tar would hold it, below ``top`` (its kernel_id)."""
    root = package.kernel_id if top is None else top
    return tarball({f"{root}/{path}": file.data for path, file in package.files.items()})


def write_directory(package: Package, root: Path) -> None:
    """Write the files of ``package`` straight below the directory ``root``."""
    for path, file in package.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(0o755 if file.executable else 0o644)


def _category(kernel_id: str) -> tuple[str, str, str, str]:
    segments = kernel_id.split("/")
    if len(segments) < 5:
        return ("gfx928", "Norm", "RMSNorm", "fp32")
    return (segments[0], segments[1], segments[2], segments[3])
