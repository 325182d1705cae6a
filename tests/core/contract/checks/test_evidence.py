from __future__ import annotations

import pytest

from kzoo_core.contract.checks.evidence import RULES, evidence_problems
from kzoo_core.contract.records import PackageFile
from kzoo_core.errors import Problem, Severity

MADE = "make it in build_test_env.py under the work directory"
COMPILED = "compile it in build_test_env.py into <workdir>/build/"
KEPT = "leave it out: the server keeps the output and the log of every run"
PACK = "leave it out, as `kzoo pack` does"


def problems(path: str, data: bytes = b"text\n") -> list[Problem]:
    return evidence_problems({path: PackageFile(data)})


@pytest.mark.parametrize(
    "path",
    [
        ".kernel_package/desc.yaml",
        ".kernel_package/helpers/common.py",
        "src/kernel.cu",
        "src/kernel.hip",
        "src/kernel.cl",
        "src/hand_written.ptx",
        "src/hand_written.s",
        "include/types.h",
        "Makefile",
        "CMakeLists.txt",
        "README.md",
        ".clang-format",
        "src/.gitignore",
        "src/o.py",
        "src/so",
        "src/log",
        "src/npy.md",
        "src/core.py",
        "src/empty.txt",
        "a.solution.py",
    ],
)
def test_sources_are_fine(path: str) -> None:
    assert problems(path) == []
    assert problems(path, b"") == []
    assert problems(path, "注释 ü\r\n\t".encode()) == []


@pytest.mark.parametrize(
    ("path", "suffix", "rule", "hint"),
    [
        ("src/weights.npy", ".npy", "arrays and golden data", MADE),
        ("data/GOLDEN.NPZ", ".npz", "arrays and golden data", MADE),
        ("model.safetensors", ".safetensors", "model weights", MADE),
        ("model.pt", ".pt", "model weights", MADE),
        ("build/kernel.o", ".o", "compiled objects and libraries", COMPILED),
        ("lib/libkernel.so", ".so", "compiled objects and libraries", COMPILED),
        ("lib/libkernel.so.1.2", ".so", "compiled objects and libraries", COMPILED),
        ("build/k.hsaco", ".hsaco", "GPU code objects", COMPILED),
        ("build/k.cubin", ".cubin", "GPU code objects", COMPILED),
        ("deps.tar.gz", ".gz", "archives", "ship the files themselves"),
        ("run.pftrace", ".pftrace", "runtime traces", KEPT),
        ("prof/report.ncu-rep", ".ncu-rep", "profiler exports", KEPT),
        ("prof/results.rpd", ".rpd", "profiler exports", KEPT),
        ("bench.log", ".log", "logs and captured output", KEPT),
        ("bench.log.3", ".log", "logs and captured output", KEPT),
        ("slurm-12.out", ".out", "logs and captured output", KEPT),
        ("results.db", ".db", "databases", MADE),
        ("src/kernel.pyc", ".pyc", "caches", PACK),
    ],
)
def test_evidence_is_refused_with_its_file_and_rule(
    path: str, suffix: str, rule: str, hint: str
) -> None:
    assert problems(path) == [
        Problem(
            code="generated_evidence",
            message=f"{path} belongs to {rule}, which a package may not hold",
            file=path,
            found=f"the suffix {suffix} ({rule})",
            expected="sources only",
            hint=hint,
        )
    ]


def test_every_suffix_of_every_rule_is_refused() -> None:
    suffixes = [suffix for rule in RULES for suffix in rule.suffixes.split()]
    assert len(suffixes) == len(set(suffixes))
    for suffix in suffixes:
        assert [problem.code for problem in problems(f"src/x{suffix}")] == ["generated_evidence"]


@pytest.mark.parametrize("path", ["src/__pycache__/x.py", "__MACOSX/src/x.py"])
def test_a_cache_directory_is_refused(path: str) -> None:
    (problem,) = problems(path)
    assert problem.code == "generated_evidence"
    assert problem.found == "a cache directory (caches)"
    assert problem.hint == PACK


@pytest.mark.parametrize(
    ("path", "segment", "hint"),
    [
        (".git/config", ".git", PACK),
        ("src/.DS_Store", ".DS_Store", PACK),
        (".github/workflows/ci.yml", ".github", "leave it out"),
        ("src/.env", ".env", "leave it out"),
        (".gitattributes", ".gitattributes", "leave it out"),
        (".gitignore/x", ".gitignore", "leave it out"),
        ("src/.kernel_package", ".kernel_package", "leave it out"),
    ],
)
def test_a_hidden_file_is_refused(path: str, segment: str, hint: str) -> None:
    assert problems(path) == [
        Problem(
            code="hidden_file",
            message=f"{path} is hidden by the name {segment}",
            file=path,
            found=segment,
            expected="no dotfiles but .clang-format, .gitignore",
            hint=hint,
        )
    ]


@pytest.mark.parametrize(
    ("data", "found", "place", "line"),
    [
        (b"ok\n\xff\n", "byte 0xff", 3, 2),
        (b"\x7fELF\x02\x01\x01\x00", "a null byte", 7, 1),
        ("ä".encode("latin-1"), "byte 0xe4", 0, 1),
    ],
)
def test_what_is_no_utf8_text_is_refused_whatever_its_name(
    data: bytes, found: str, place: int, line: int
) -> None:
    assert problems("src/kernel", data) == [
        Problem(
            code="not_utf8",
            message=f"src/kernel is no UTF-8 text: {found} at byte {place}",
            file="src/kernel",
            line=line,
            found=found,
            expected="sources as UTF-8 text",
            hint=MADE,
        )
    ]


def test_a_table_is_a_warning() -> None:
    assert problems("src/results.csv") == [
        Problem(
            code="maybe_evidence",
            severity=Severity.WARNING,
            message="src/results.csv is a table; measured results do not belong in a package",
            file="src/results.csv",
            found="the suffix .csv",
            expected="sources only",
            hint="keep it only if people wrote it",
        )
    ]


def test_each_file_is_told_once() -> None:
    files = {"a.npy": PackageFile(b"\xff"), "b.py": PackageFile(b""), ".x/c.log": PackageFile(b"")}
    assert [(problem.code, problem.file) for problem in evidence_problems(files)] == [
        ("generated_evidence", "a.npy"),
        ("hidden_file", ".x/c.log"),
    ]
