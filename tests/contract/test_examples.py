"""The example packages and their variants: run as a runner runs them, held to what they promise."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kzoo_core.contract.archive import read_archive, write_archive
from kzoo_core.contract.directory import read_directory
from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.output import parse_output
from kzoo_core.contract.package import check_committed, check_submission
from kzoo_core.contract.records import BenchmarkOutput, Correctness, Package
from kzoo_core.contract.schemas import validate
from kzoo_core.ids import KernelId
from tests.variants import EXAMPLES, apply_variant

MHA = "gfx928/Attention/MHA/fp16/reference_impl"
RMSNORM = "gfx928/Norm/RMSNorm/fp32/rowwise"
KERNEL_IDS = (MHA, RMSNORM)
both = pytest.mark.parametrize("kernel_id", KERNEL_IDS)


@dataclass(frozen=True, slots=True)
class Ran:
    """How one of a package's two scripts ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def latencies(self) -> dict[str, float]:
        """The primary latency of each case in ms."""
        return {
            case["test_case_id"]: metric["value"]
            for case in self.document["cases"]
            for metric in case["metrics"]
            if metric["name"] == "primary_latency_ms"
        }


def run_script(package: Path, script: str, workdir: Path, **variables: str) -> Ran:
    """Start a script as a runner does: own process, package root, few variables (D14)."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-B", str(package / ".kernel_package" / script), str(workdir)],
        cwd=package,
        env={**kept, "PYTHONHASHSEED": "0", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def build(package: Path, workdir: Path) -> Path:
    workdir.mkdir(parents=True)
    built = run_script(package, "build_test_env.py", workdir)
    assert (built.exit_code, built.stdout) == (0, ""), built.stderr
    return workdir


def benchmark(package: Path, workdir: Path, **variables: str) -> Ran:
    ran = run_script(package, "benchmark.py", workdir, **variables)
    assert ran.exit_code == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One built work directory for each example; benchmarks only read it."""
    root = tmp_path_factory.mktemp("work")
    return {
        kernel_id: build(EXAMPLES / kernel_id, root / str(number))
        for number, kernel_id in enumerate(KERNEL_IDS)
    }


def in_memory(directory: Path, kernel_id: str) -> Package:
    return read_directory(directory, KernelId(kernel_id), PackageLimits()).package


def with_scoreboard(package: Path, latencies: dict[str, float]) -> None:
    """Give a copied package a scoreboard on which someone holds ``latencies``."""

    def entry(value: float) -> dict[str, object]:
        holder = {"submitter": "alice", "commit_sha": "a" * 40}
        return {"value": value, **holder, "recorded_at": "2026-08-02T00:00:00Z"}

    path = package / ".kernel_package" / "bench_result.yaml"
    board = yaml.safe_load(path.read_text("utf-8"))
    for case in board["cases"]:
        value = entry(latencies[case["test_case_id"]])
        case["metrics_best"]["primary_latency_ms"] = value
        case["metrics_current"]["primary_latency_ms"] = value
    path.write_text(yaml.safe_dump(board), "utf-8")


def copy_of(kernel_id: str, directory: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / kernel_id, directory / kernel_id))


def replace_candidate(package: Path, kernel_id: str, body: str) -> None:
    """Put a one-line kernel in place of the candidate; ``first`` is its first input."""
    file, name = {MHA: ("mha_kernel.py", "attention"), RMSNORM: ("rms_norm.py", "rms_norm")}[
        kernel_id
    ]
    text = f"import numpy as np\n\n\ndef {name}(first, *others):\n    {body}\n"
    (package / "src" / file).write_text(text, "utf-8")


def test_the_examples_are_exactly_the_two_that_the_guides_name() -> None:
    found = {
        path.parents[1].relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("desc.yaml")
    }
    assert found == set(KERNEL_IDS)


@both
def test_an_example_has_no_problem_at_all_as_a_directory(kernel_id: str) -> None:
    report = check_committed(in_memory(EXAMPLES / kernel_id, kernel_id))
    assert report.problems == ()
    assert report.valid


@both
def test_an_example_has_no_problem_at_all_as_a_submitted_archive(kernel_id: str) -> None:
    files = dict(in_memory(EXAMPLES / kernel_id, kernel_id).files)
    del files[".kernel_package/bench_result.yaml"]
    archive = write_archive(Package(KernelId(kernel_id), files))
    package = read_archive(io.BytesIO(archive), PackageLimits(), kernel_id=None)
    assert package.kernel_id == kernel_id
    assert check_submission(package).problems == ()


@both
def test_two_builds_of_an_example_are_equal_bit_for_bit(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    again = build(EXAMPLES / kernel_id, tmp_path / "again")
    assert snapshot(again) == snapshot(workdirs[kernel_id])


@both
def test_the_manifest_names_every_file_with_its_digest(
    kernel_id: str, workdirs: dict[str, Path]
) -> None:
    workdir = workdirs[kernel_id]
    manifest = json.loads((workdir / "build_manifest.json").read_text("utf-8"))
    named = {
        name: digest
        for case in manifest["test_cases"].values()
        for name, digest in case["sha256"].items()
    }
    files = snapshot(workdir)
    del files["build_manifest.json"]
    assert named == files
    assert isinstance(manifest["seed"], int)


@both
def test_metas_build_and_seed_name_the_same_cases_with_the_same_params(
    kernel_id: str, workdirs: dict[str, Path]
) -> None:
    report = check_committed(in_memory(EXAMPLES / kernel_id, kernel_id))
    assert report.metas is not None
    assert report.scoreboard is not None
    declared = {meta.test_case_id: dict(meta.params) for meta in report.metas}
    manifest = json.loads((workdirs[kernel_id] / "build_manifest.json").read_text("utf-8"))
    built = {name: case["params"] for name, case in manifest["test_cases"].items()}
    assert built == declared
    assert [case.test_case_id for case in report.scoreboard.cases] == list(declared)
    assert all(
        entry.is_seed for case in report.scoreboard.cases for entry in case.metrics_best.values()
    )


@both
def test_an_example_accepts_itself_and_prints_one_valid_document(
    kernel_id: str, workdirs: dict[str, Path]
) -> None:
    ran = benchmark(EXAMPLES / kernel_id, workdirs[kernel_id])
    assert ran.stdout.count("\n") == 1
    assert validate("benchmark_output", ran.document) == []
    output = parse_output(ran.document)
    assert isinstance(output, BenchmarkOutput)
    assert output.accept
    assert output.build_ok
    assert {case.correctness for case in output.cases} == {Correctness.PASSED}
    for case in output.cases:
        latency = case.metrics[0]
        assert latency.name == "primary_latency_ms"
        assert len(latency.samples) >= 15
        assert latency.value == float(np.median(latency.samples))
        assert case.test_case_id in ran.stderr


@both
def test_identity_comes_from_the_runner_and_else_from_the_package(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    package = EXAMPLES / kernel_id
    alone = benchmark(package, workdirs[kernel_id]).document
    assert (alone["kernel_id"], alone["runner_id"], alone["arch"]) == (kernel_id, "local", "gfx928")
    told = benchmark(
        package,
        workdirs[kernel_id],
        KERNEL_ZOO_KERNEL_ID="gfx936/Other/Kernel/fp64/mine",
        KERNEL_ZOO_RUNNER_ID="node-7",
        KERNEL_ZOO_ARCH="gfx936",
    ).document
    assert (told["kernel_id"], told["runner_id"], told["arch"]) == (
        "gfx936/Other/Kernel/fp64/mine",
        "node-7",
        "gfx936",
    )


@both
def test_the_same_code_again_is_no_regression(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    package = copy_of(kernel_id, tmp_path)
    with_scoreboard(package, benchmark(package, workdirs[kernel_id]).latencies)
    overall = benchmark(package, workdirs[kernel_id]).document["overall"]
    assert overall == {
        "accept": True,
        "accept_reason": "all cases passed and none regressed",
        "build_ok": True,
    }


@both
def test_the_faster_variant_is_clearly_faster_in_every_case(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    before = benchmark(EXAMPLES / kernel_id, workdirs[kernel_id]).latencies
    package = apply_variant(kernel_id, "faster", tmp_path)
    with_scoreboard(package, before)
    ran = benchmark(package, workdirs[kernel_id])
    assert ran.document["overall"]["accept"] is True
    assert {name: before[name] / value >= 1.5 for name, value in ran.latencies.items()} == (
        dict.fromkeys(before, True)
    )


@both
def test_the_slower_variant_is_correct_and_refused_by_its_own_regression_check(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    package = apply_variant(kernel_id, "slower", tmp_path)
    assert benchmark(package, workdirs[kernel_id]).document["overall"]["accept"] is True
    with_scoreboard(package, benchmark(EXAMPLES / kernel_id, workdirs[kernel_id]).latencies)
    document = benchmark(package, workdirs[kernel_id]).document
    assert document["overall"]["accept"] is False
    for case in document["cases"]:
        assert (case["correctness"], case["accept"]) == ("passed", False)
        assert " ms vs best " in case["accept_reason"]
        assert "allowed +25%" in case["accept_reason"]


@both
def test_the_wrong_variant_fails_correctness_in_every_case(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    document = benchmark(apply_variant(kernel_id, "wrong", tmp_path), workdirs[kernel_id]).document
    assert validate("benchmark_output", document) == []
    assert document["overall"]["accept"] is False
    for case in document["cases"]:
        assert (case["correctness"], case["accept"], case["error"]) == ("failed", False, None)
        assert case["accept_reason"].startswith("correctness failed: largest absolute error ")


@both
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return np.zeros_like(first)", "correctness failed"),
        ("return first.copy()", "correctness failed"),
        ("return np.full_like(first, np.nan)", "ValueError: the output holds NaN or infinity"),
        ("return first.astype(np.float64)", "ValueError: the output is float64"),
        ("return first[..., :1]", "ValueError: the output is float"),
        ("return None", "ValueError: the output is NoneType, expected float"),
        ("raise RuntimeError('no device')", "RuntimeError: no device"),
        ("first *= 0; return first", "ValueError: output array is read-only"),
    ],
)
def test_a_kernel_that_computes_nothing_of_use_fails_its_case(
    kernel_id: str, body: str, reason: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    package = copy_of(kernel_id, tmp_path)
    replace_candidate(package, kernel_id, body)
    document = benchmark(package, workdirs[kernel_id]).document
    assert validate("benchmark_output", document) == []
    assert document["overall"]["accept"] is False
    for case in document["cases"]:
        assert (case["correctness"], case["accept"]) == ("failed", False)
        assert case["accept_reason"].startswith(reason)


@both
def test_a_benchmark_that_finds_no_expected_outputs_does_not_pass(
    kernel_id: str, workdirs: dict[str, Path], tmp_path: Path
) -> None:
    workdir = Path(shutil.copytree(workdirs[kernel_id], tmp_path / "work"))
    shutil.rmtree(workdir / "expected")
    document = benchmark(EXAMPLES / kernel_id, workdir).document
    assert document["overall"]["accept"] is False
    assert {case["correctness"] for case in document["cases"]} == {"failed"}


@both
@pytest.mark.parametrize("script", ["build_test_env.py", "benchmark.py"])
def test_a_script_called_without_a_work_directory_says_how_it_is_used(
    kernel_id: str, script: str
) -> None:
    path = EXAMPLES / kernel_id / ".kernel_package" / script
    done = subprocess.run(
        [sys.executable, "-B", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"usage: {script} <workdir>\n"


def test_the_malformed_variant_has_every_problem_that_the_demo_shows(tmp_path: Path) -> None:
    package = apply_variant(RMSNORM, "malformed", tmp_path)
    files = dict(in_memory(package, RMSNORM).files)
    del files[".kernel_package/bench_result.yaml"]
    report = check_submission(Package(KernelId(RMSNORM), files))
    found = {(problem.file, problem.pointer or problem.line) for problem in report.problems}
    assert found == {
        (".kernel_package/desc.yaml", "/io_signature/0/dtype"),
        (".kernel_package/desc.yaml", "/acceptance"),
        (".kernel_package/desc.yaml", "/reference_sources/1"),
        (".kernel_package/benchmark.py", 13),
    }
    assert not report.valid


def snapshot(directory: Path) -> dict[str, str]:
    """Return the digest of every file below ``directory`` by relative path."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
