"""Builds the experiment: inputs, expected outputs and a manifest, the same bytes on every run."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

PKG_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PKG_ROOT / "src"))
from ref_attention import reference_attention

# The params of KERNEL_ZOO_TEST_CASE_METAS in benchmark.py, case by case.
TEST_CASE_PARAMS = {
    "small_b1_h1_s16_d16": {"batch": 1, "heads": 1, "seq_len": 16, "head_dim": 16},
    "large_b1_h2_s64_d32": {"batch": 1, "heads": 2, "seq_len": 64, "head_dim": 32},
}
SEED = 0xBEEF  # part of the contract: another seed is another experiment


def make_inputs(params: dict[str, int]) -> dict[str, np.ndarray]:
    """Return q, k, v of one case; each case has its own stream, so that none shifts another."""
    rng = np.random.default_rng(SEED)
    shape = (params["batch"], params["heads"], params["seq_len"], params["head_dim"])
    return {name: rng.standard_normal(shape).astype(np.float16) for name in ("q", "k", "v")}


def build_env(workdir: Path) -> None:
    """Write inputs/, expected/ and build_manifest.json under workdir."""
    cases = {}
    for tc_id, params in TEST_CASE_PARAMS.items():
        inputs = make_inputs(params)
        expected = {"o": reference_attention(**inputs)}
        files = {}
        for folder, arrays in (("inputs", inputs), ("expected", expected)):
            (workdir / folder).mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                path = workdir / folder / f"{tc_id}_{name}.npy"
                np.save(path, array)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                files[path.relative_to(workdir).as_posix()] = digest
        cases[tc_id] = {"params": params, "sha256": files}
    manifest = {"seed": SEED, "test_cases": cases}
    text = json.dumps(manifest, indent=2, sort_keys=True)
    (workdir / "build_manifest.json").write_text(text + "\n", encoding="utf-8")


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print("usage: build_test_env.py <workdir>", file=sys.stderr)
        return 2
    build_env(Path(argv[1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
