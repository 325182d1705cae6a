"""What bench_result.yaml says, held against the rest of the package (checklist rows on it)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.contract.quoting import listed, printable
from kzoo_core.contract.schema_problems import pointer
from kzoo_core.errors import Problem, Severity
from kzoo_core.ids import SENTINEL_SHA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kzoo_core.contract.records import Scoreboard, TestCaseMeta
    from kzoo_core.ids import KernelId

_SEED = "seed"
"""The submitter that the authoring guides write in placeholders."""


def kernel_id_problems(board: Scoreboard, kernel_id: KernelId) -> Iterator[Problem]:
    """The scoreboard's kernel_id is the path of the directory."""
    if board.kernel_id == kernel_id:
        return
    yield Problem(
        code="scoreboard_kernel_id",
        message=f"the scoreboard is that of {board.kernel_id}, the directory is {kernel_id}",
        file=SCOREBOARD_PATH,
        pointer="/kernel_id",
        found=board.kernel_id,
        expected=kernel_id,
        hint=f"write kernel_id: {kernel_id}",
    )


def seed_problems(board: Scoreboard) -> Iterator[Problem]:
    """A placeholder carries the sentinel; without it, it would count as a result."""
    for place, case in enumerate(board.cases):
        for side in ("metrics_best", "metrics_current"):
            entries = case.metrics_best if side == "metrics_best" else case.metrics_current
            for name, entry in entries.items():
                if entry.submitter != _SEED or entry.is_seed:
                    continue
                yield Problem(
                    code="seed_without_sentinel",
                    severity=Severity.WARNING,
                    message=f"the seed of {case.test_case_id}, {printable(name)}, names a commit",
                    file=SCOREBOARD_PATH,
                    pointer=pointer(("cases", place, side, name, "commit_sha")),
                    found=entry.commit_sha,
                    expected=f'"{SENTINEL_SHA}"',
                    hint=f'write commit_sha: "{SENTINEL_SHA}", or it counts as a result',
                )


def case_problems(board: Scoreboard, metas: Sequence[TestCaseMeta]) -> Iterator[Problem]:
    """A board that has cases has those of the metas; a difference warns, see ``package``."""
    have = [case.test_case_id for case in board.cases]
    want = [meta.test_case_id for meta in metas]
    if not have or set(have) == set(want):
        return
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    told = [f"{listed(missing)} missing"] if missing else []
    told += [f"{listed(extra)} too many"] if extra else []
    yield Problem(
        code="scoreboard_cases_differ",
        severity=Severity.WARNING,
        message=f"the scoreboard's cases are not those of the benchmark: {'; '.join(told)}",
        file=SCOREBOARD_PATH,
        pointer="/cases",
        found=listed(have),
        expected=listed(want),
        hint="mirror the metas in the seed of a new kernel; later on the server keeps the file",
    )
