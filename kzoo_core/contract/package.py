"""Everything that can be told of a package without running it, every problem at once (D1-D7).

Three readers ask, and differ in what they need:

- a *submission* must not hold the scoreboard; D2 (category equals the path) is an error;
- a *directory* that an author is about to submit needs all four files; D2 is an error;
- a *committed* package needs all four files; D2 is a warning, because what lies in the repository
  is listed with its problems, not refused.

``status: frozen`` in a submission is a warning, not an error: what decides whether a kernel takes
submissions is the status that lies in the repository (D17), and an owner may want to freeze a
kernel with its last submission. A scoreboard whose cases are not those of the metas is a warning:
the server rewrites the file at the next accept, and an author who adds a case cannot have it there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kzoo_core.config import nearest
from kzoo_core.contract.checks.desc import (
    category_problems,
    description_problems,
    reference_problems,
    status_problems,
)
from kzoo_core.contract.checks.entry_points import (
    build_env_problems,
    random_problems,
    script_problems,
    work_directory_problems,
)
from kzoo_core.contract.checks.evidence import evidence_problems
from kzoo_core.contract.checks.scoreboard import (
    case_problems,
    kernel_id_problems,
    seed_problems,
)
from kzoo_core.contract.desc import parse_desc
from kzoo_core.contract.directory import (
    DirectoryReading,
    kernel_id_of_directory,
    read_directory,
)
from kzoo_core.contract.layout import (
    BENCHMARK_PATH,
    BUILD_PATH,
    COMMITTED_PATHS,
    CONTRACT_DIRECTORY,
    DESC_PATH,
    SCOREBOARD_PATH,
    SUBMITTED_PATHS,
    is_scoreboard,
)
from kzoo_core.contract.metas import metas_of
from kzoo_core.contract.quoting import printable
from kzoo_core.contract.records import PackageReport
from kzoo_core.contract.scoreboard_file import parse_scoreboard
from kzoo_core.contract.static.sources import parse_python
from kzoo_core.contract.tar.names import name_problem, twin_problems
from kzoo_core.contract.tar.problems import scoreboard_in_archive
from kzoo_core.errors import Problem, Severity
from kzoo_core.ids import SENTINEL_SHA, kernel_id_problem

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

    from kzoo_core.contract.records import Desc, Package, PackageFile, Scoreboard, TestCaseMeta

__all__ = [
    "BENCHMARK_PATH",
    "BUILD_PATH",
    "DESC_PATH",
    "SCOREBOARD_PATH",
    "DirectoryReading",
    "check_committed",
    "check_directory",
    "check_submission",
    "kernel_id_of_directory",
    "read_directory",
]

_PATH_BYTES = 4096
_INNER = f"/{CONTRACT_DIRECTORY}/"


class _Reader(StrEnum):
    SUBMISSION = "submission"
    DIRECTORY = "directory"
    COMMITTED = "committed"


def check_submission(package: Package) -> PackageReport:
    """Check what an archive held: no scoreboard may be in it."""
    return _check(package, _Reader.SUBMISSION)


def check_directory(package: Package) -> PackageReport:
    """Check a directory that its author is about to submit; the scoreboard is one of four files."""
    return _check(package, _Reader.DIRECTORY)


def check_committed(package: Package) -> PackageReport:
    """Check a package that lies in a repository; an error makes it listed as invalid."""
    return _check(package, _Reader.COMMITTED)


def _check(package: Package, reader: _Reader) -> PackageReport:
    problems: list[Problem] = []
    bad_id = kernel_id_problem(package.kernel_id)
    if bad_id is not None:
        problems.append(bad_id)
    problems.extend(_file_problems(package.files, reader))
    problems.extend(evidence_problems(package.files))
    desc = _desc(package, reader, problems)
    trees = _trees(package.files, problems)
    metas = _scripts(trees, problems)
    if reader is not _Reader.COMMITTED:
        problems.extend(_advice(trees, package.files))
    scoreboard = None
    if reader is not _Reader.SUBMISSION:
        scoreboard = _scoreboard(package, metas, problems)
    return PackageReport(
        kernel_id=package.kernel_id,
        problems=tuple(_once(problems)),
        desc=desc,
        metas=metas,
        scoreboard=scoreboard,
    )


def _file_problems(files: Mapping[str, PackageFile], reader: _Reader) -> Iterator[Problem]:
    needed = SUBMITTED_PATHS if reader is _Reader.SUBMISSION else COMMITTED_PATHS
    for path in needed:
        if path not in files:
            yield _missing_file(path, files)
    if reader is _Reader.SUBMISSION:
        yield from (scoreboard_in_archive(path) for path in files if is_scoreboard(path))
    if reader is _Reader.COMMITTED:  # archives and directories were asked when they were read
        named = (name_problem(path, path_bytes=_PATH_BYTES) for path in files)
        yield from (problem for problem in named if problem is not None)
        yield from twin_problems(files)
    inner = dict.fromkeys(path.partition(_INNER)[0] for path in files if _INNER in path)
    yield from (_kernel_inside(directory) for directory in inner)


def _desc(package: Package, reader: _Reader, problems: list[Problem]) -> Desc | None:
    file = package.files.get(DESC_PATH)
    if file is None:
        return None
    desc, found = parse_desc(file.data)
    problems.extend(found)
    if desc is not None:
        committed = reader is _Reader.COMMITTED
        severity = Severity.WARNING if committed else Severity.ERROR
        problems.extend(category_problems(package.kernel_id, desc, severity))
        problems.extend(reference_problems(package.files, desc))
        if not committed:
            problems.extend(status_problems(desc))
            problems.extend(description_problems(desc))
    return desc


def _trees(files: Mapping[str, PackageFile], problems: list[Problem]) -> dict[str, ast.Module]:
    """Parse every Python file of the contract directory (D6)."""
    trees: dict[str, ast.Module] = {}
    for path in sorted(files):
        if path.startswith(f"{CONTRACT_DIRECTORY}/") and path.endswith(".py"):
            tree, found = parse_python(files[path].data, path)
            problems.extend(found)
            if tree is not None:
                trees[path] = tree
    return trees


def _scripts(
    trees: dict[str, ast.Module], problems: list[Problem]
) -> tuple[TestCaseMeta, ...] | None:
    build, benchmark = trees.get(BUILD_PATH), trees.get(BENCHMARK_PATH)
    if build is not None:
        problems.extend(build_env_problems(build))
        problems.extend(script_problems(build, BUILD_PATH))
    if benchmark is None:
        return None
    metas, found = metas_of(benchmark, BENCHMARK_PATH)
    problems.extend(found)
    problems.extend(script_problems(benchmark, BENCHMARK_PATH))
    return metas


def _advice(trees: Mapping[str, ast.Module], files: Mapping[str, PackageFile]) -> Iterator[Problem]:
    """Warn an author of what the run is likely to stumble over."""
    if BUILD_PATH in trees:
        yield from random_problems(trees[BUILD_PATH])
        sources = (file.data for path, file in files.items() if path.endswith(".py"))
        yield from work_directory_problems(sources)


def _scoreboard(
    package: Package, metas: tuple[TestCaseMeta, ...] | None, problems: list[Problem]
) -> Scoreboard | None:
    file = package.files.get(SCOREBOARD_PATH)
    if file is None:
        return None
    board, found = parse_scoreboard(file.data)
    problems.extend(found)
    if board is None:
        return None
    problems.extend(kernel_id_problems(board, package.kernel_id))
    problems.extend(seed_problems(board))
    if metas is not None:
        problems.extend(case_problems(board, metas))
    return board


def _missing_file(path: str, files: Mapping[str, PackageFile]) -> Problem:
    neighbour = nearest(path, {name for name in files if name not in COMMITTED_PATHS})
    why = {
        DESC_PATH: "the operator's datasheet",
        SCOREBOARD_PATH: f'a seed: every entry with commit_sha "{SENTINEL_SHA}", or cases: []',
        BUILD_PATH: "the script that makes inputs and expected outputs",
        BENCHMARK_PATH: "the script that runs, checks and measures",
    }
    return Problem(
        code="missing_file",
        message=f"the package has no {path}",
        file=path,
        found=f"no {path}",
        expected=why[path],
        hint=f"did you mean {neighbour} to be it?" if neighbour else None,
    )


def _kernel_inside(directory: str) -> Problem:
    inner = printable(directory, 240)
    return Problem(
        code="kernel_inside_kernel",
        message=f"{inner} is a kernel_package inside this one",
        file=inner,
        found=f"{inner}/{CONTRACT_DIRECTORY}",
        expected="one kernel_package",
        hint="submit it under its own kernel_id, beside this one",
    )


def _once(problems: list[Problem]) -> Iterator[Problem]:
    """Drop what two checks say of one file in the same words, such as that it is not UTF-8."""
    seen: set[tuple[object, ...]] = set()
    for problem in problems:
        key = (problem.code, problem.file, problem.line, problem.pointer, problem.found)
        if key not in seen:
            seen.add(key)
            yield problem
