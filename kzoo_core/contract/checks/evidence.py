"""Packages are generated-evidence-free: sources in, results and artifacts out (D5).

What a rule can tell from a name or from the bytes is refused with the rule's name. Summaries of
results in prose or in sources cannot be told from sources; the contributor guide asks for their
absence all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import CONTRACT_DIRECTORY
from kzoo_core.contract.quoting import printable
from kzoo_core.errors import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kzoo_core.contract.records import PackageFile

ALLOWED_DOTFILES = frozenset({".clang-format", ".gitignore"})

_MADE_IN_BUILD = "make it in build_test_env.py under the work directory"
_COMPILED_IN_BUILD = "compile it in build_test_env.py into <workdir>/build/"
_KEPT_BY_SERVER = "leave it out: the server keeps the output and the log of every run"
_PACK_LEAVES_OUT = "leave it out, as `kzoo pack` does"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of generated evidence, what to do instead, and the suffixes by which it is known."""

    name: str
    hint: str
    suffixes: str


RULES = (
    Rule(
        "arrays and golden data",
        _MADE_IN_BUILD,
        ".npy .npz .h5 .hdf5 .mat .parquet .arrow .feather .pkl .pickle .joblib .bin .dat .raw",
    ),
    Rule(
        "model weights",
        _MADE_IN_BUILD,
        ".pt .pth .ckpt .safetensors .onnx .gguf .tflite .pb .engine",
    ),
    Rule(
        "compiled objects and libraries",
        _COMPILED_IN_BUILD,
        ".o .obj .lo .a .lib .so .dylib .dll .exe .gch .pch .pyd .class .wasm",
    ),
    Rule("GPU code objects", _COMPILED_IN_BUILD, ".co .hsaco .cubin .fatbin .hipfb .spv .bc"),
    Rule(
        "archives",
        "ship the files themselves",
        ".tar .gz .tgz .bz2 .xz .zst .lz4 .zip .7z .rar .whl .egg .jar",
    ),
    Rule("runtime traces", _KEPT_BY_SERVER, ".trace .pftrace .perfetto-trace .otf2 .etl .att"),
    Rule(
        "profiler exports",
        _KEPT_BY_SERVER,
        ".ncu-rep .nsys-rep .qdrep .qdstrm .nvvp .nvprof .rpd .prof .pstats .perf",
    ),
    Rule("logs and captured output", _KEPT_BY_SERVER, ".log .out .err .stdout .stderr"),
    Rule("databases", _MADE_IN_BUILD, ".sqlite .sqlite3 .db"),
    Rule("caches", _PACK_LEAVES_OUT, ".pyc .pyo"),
)

_BY_SUFFIX: Mapping[str, Rule] = {
    suffix: rule for rule in RULES for suffix in rule.suffixes.split()
}
_NUMBERED = re.compile(r"(\.(?:so|log|out|err))(?:\.\d+)+", re.ASCII)
"""``libx.so.1.2`` and ``run.log.1`` are what they are without the number."""

_CACHE_DIRECTORIES = frozenset({"__pycache__", "__macosx"})


def evidence_problems(files: Mapping[str, PackageFile]) -> list[Problem]:
    """Return a problem for each file that is evidence, a cache or no text; ``.csv`` only warns."""
    found = (_problem(path, file.data) for path, file in files.items())
    return [problem for problem in found if problem is not None]


def _problem(path: str, data: bytes) -> Problem | None:
    segments = path.split("/")
    if not _CACHE_DIRECTORIES.isdisjoint(segment.casefold() for segment in segments):
        return _evidence(path, "caches", "a cache directory", _PACK_LEAVES_OUT)
    hidden = _hidden(segments)
    if hidden is not None:
        return _dotfile(path, hidden)
    suffix = _suffix(segments[-1])
    rule = _BY_SUFFIX.get(suffix)
    if rule is not None:
        return _evidence(path, rule.name, f"the suffix {suffix}", rule.hint)
    return _not_text(path, data) or (_table(path) if suffix == ".csv" else None)


def _hidden(segments: list[str]) -> str | None:
    """Return the segment that hides the file, unless it is one of those that belong there."""
    *directories, name = segments
    for directory in directories:
        if directory.startswith(".") and directory != CONTRACT_DIRECTORY:
            return directory
    return name if name.startswith(".") and name not in ALLOWED_DOTFILES else None


def _suffix(name: str) -> str:
    lower = name.casefold()
    numbered = _NUMBERED.search(lower)
    if numbered is not None and numbered.end() == len(lower):
        return numbered[1]
    stem, dot, suffix = lower.rpartition(".")
    return f".{suffix}" if dot and stem else ""


def _evidence(path: str, rule: str, found: str, hint: str) -> Problem:
    return Problem(
        code="generated_evidence",
        message=f"{printable(path, 120)} belongs to {rule}, which a package may not hold",
        file=printable(path, 240),
        found=f"{found} ({rule})",
        expected="sources only",
        hint=hint,
    )


def _dotfile(path: str, segment: str) -> Problem:
    return Problem(
        code="hidden_file",
        message=f"{printable(path, 120)} is hidden by the name {printable(segment)}",
        file=printable(path, 240),
        found=printable(segment),
        expected=f"no dotfiles but {', '.join(sorted(ALLOWED_DOTFILES))}",
        hint=_PACK_LEAVES_OUT if segment in {".git", ".DS_Store"} else "leave it out",
    )


def _not_text(path: str, data: bytes) -> Problem | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        place, found = error.start, f"byte 0x{data[error.start]:02x}"
    else:
        place = data.find(b"\0")
        if place < 0:
            return None
        found = "a null byte"
    return Problem(
        code="not_utf8",
        message=f"{printable(path, 120)} is no UTF-8 text: {found} at byte {place}",
        file=printable(path, 240),
        line=data.count(b"\n", 0, place) + 1,
        found=found,
        expected="sources as UTF-8 text",
        hint=_MADE_IN_BUILD,
    )


def _table(path: str) -> Problem:
    return Problem(
        code="maybe_evidence",
        severity=Severity.WARNING,
        message=f"{printable(path, 120)} is a table; measured results do not belong in a package",
        file=printable(path, 240),
        found="the suffix .csv",
        expected="sources only",
        hint="keep it only if people wrote it",
    )
