"""Admission: from an uploaded archive to a durable submission in the queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import write_archive
from kzoo_core.contract.digest import package_sha256
from kzoo_core.contract.metas import NOT_STATIC
from kzoo_core.contract.submission import read_submission
from kzoo_core.errors import BadInput, Conflict, Problem, Severity
from kzoo_core.ids import (
    KernelId,
    Sha256,
    kernel_id_problem,
    parse_kernel_id,
    parse_submitter_id,
)
from kzoo_core.queue.exchange import NewSubmission
from kzoo_core.queue.records import Mode

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.records import Desc, PackageReport
    from kzoo_core.lifecycle.board import Board, HeadFacts
    from kzoo_core.queue.records import Submission
    from kzoo_core.queue.service import SubmissionQueue

CHECK_TIMEOUT_S = 60.0
SUMMARY_MAX_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionForm:
    """The fields of ``POST /api/submissions`` as they came, still unchecked."""

    kernel_id: str
    submitter_id: str
    optimization_summary: str | None = None
    mode: str = Mode.RANKED.value
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedPackage:
    """A package that passed every check: its canonical archive, identity and datasheet."""

    archive: bytes
    sha256: Sha256
    desc: Desc
    warnings: tuple[Problem, ...]


class Admission:
    """Checks a submission against the contract and the head, then hands it to the queue."""

    def __init__(self, queue: SubmissionQueue, board: Board, limits: PackageLimits) -> None:
        self._queue = queue
        self._board = board
        self._limits = limits

    async def package_problems(self, kernel_id: str, archive: Path) -> tuple[Problem, ...]:
        """Return what is wrong with a package whose form is refused anyway.

        A ``kernel_id`` that is none does not count: the archive's own then says where it belongs.
        """
        known = KernelId(kernel_id) if kernel_id_problem(kernel_id) is None else None
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            report = await asyncio.to_thread(_problems_of, archive, known, self._limits)
        return report.problems

    async def submit(self, form: SubmissionForm, archive: Path) -> Submission:
        """Admit the package in the file ``archive``; the answer is durable.

        Raises ``BadInput`` (``VALIDATION_ERROR``) with every problem at once, ``Conflict``
        (``KERNEL_FROZEN``, ``KERNEL_ID_CONFLICT``), and what the queue refuses with.
        """
        kernel_id = parse_kernel_id(form.kernel_id)
        submitter_id = parse_submitter_id(form.submitter_id)
        mode = _parse_mode(form.mode)
        summary = _parse_summary(form.optimization_summary)
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            package = await asyncio.to_thread(check_archive, archive, kernel_id, self._limits)
        facts = await self._board.head_facts(kernel_id)
        _refuse_by_head(kernel_id, facts)
        return await self._queue.submit(
            NewSubmission(
                kernel_id=kernel_id,
                submitter_id=submitter_id,
                mode=mode,
                optimization_summary=summary,
                arch=package.desc.category.arch,
                min_arch_feature=package.desc.min_arch_feature,
                package=package.archive,
                package_sha256=package.sha256,
                warnings=package.warnings + _head_warnings(facts),
            ),
            idempotency_key=form.idempotency_key,
        )


def _problems_of(path: Path, kernel_id: KernelId | None, limits: PackageLimits) -> PackageReport:
    with path.open("rb") as stream:
        return read_submission(stream, limits, kernel_id=kernel_id)[1]


def check_archive(path: Path, kernel_id: KernelId, limits: PackageLimits) -> CheckedPackage:
    """Read and check an uploaded archive.

    Raises ``BadInput`` with every problem found: ``METAS_NOT_STATIC`` when that is all that is
    wrong (D4), else ``VALIDATION_ERROR``.
    """
    with path.open("rb") as stream:
        package, report = read_submission(stream, limits, kernel_id=kernel_id)
    errors = [problem for problem in report.problems if problem.severity is Severity.ERROR]
    if errors or package is None or report.desc is None:
        only_metas = {problem.code for problem in errors} == {NOT_STATIC}
        raise BadInput(
            "METAS_NOT_STATIC" if only_metas else "VALIDATION_ERROR",
            f"the package has {len(errors)} error{'s' if len(errors) != 1 else ''}",
            hint="kzoo validate PATH shows the same before an upload",
            details=report.problems,
        )
    return CheckedPackage(
        archive=write_archive(package),
        sha256=package_sha256(package),
        desc=report.desc,
        warnings=report.problems,
    )


def _refuse_by_head(kernel_id: KernelId, facts: HeadFacts) -> None:
    if facts.frozen:
        raise Conflict(
            "KERNEL_FROZEN",
            f"{kernel_id} is frozen: it takes no submissions",
            hint="submit under another kernel_id, or ask its owner to set status: normal",
        )
    if facts.conflict is not None:
        raise Conflict(
            "KERNEL_ID_CONFLICT",
            f"{kernel_id} cannot be added: {facts.conflict}",
            hint="choose a kernel_id that is neither inside nor above another kernel's, and "
            "differs from others by more than letter case",
        )


def _head_warnings(facts: HeadFacts) -> tuple[Problem, ...]:
    if not facts.deprecated:
        return ()
    return (
        Problem(
            code="kernel_deprecated",
            severity=Severity.WARNING,
            message="the kernel is deprecated: results are kept, a successor is preferred",
            found="status: deprecated at the head",
            expected="status: normal",
        ),
    )


def _parse_mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        problem = Problem(
            code="bad_mode",
            message=f"mode {text[:80]!r} is not known",
            pointer="/mode",
            found=repr(text[:80]),
            expected="ranked or check",
        )
        raise BadInput("VALIDATION_ERROR", problem.message, details=(problem,)) from None


def _parse_summary(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    if len(text) > SUMMARY_MAX_CHARACTERS:
        problem = Problem(
            code="summary_too_long",
            message="optimization_summary is too long",
            pointer="/optimization_summary",
            found=f"{len(text)} characters",
            expected=f"at most {SUMMARY_MAX_CHARACTERS} characters",
        )
        raise BadInput("VALIDATION_ERROR", problem.message, details=(problem,))
    return text.strip()
