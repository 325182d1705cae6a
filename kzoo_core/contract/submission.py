"""An archive that somebody submits, with everything that is wrong with it at once (D7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import inspect_archive
from kzoo_core.contract.package import check_submission
from kzoo_core.contract.records import PackageReport

if TYPE_CHECKING:
    from typing import BinaryIO

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.records import Package
    from kzoo_core.ids import KernelId


def read_submission(
    stream: BinaryIO, limits: PackageLimits, *, kernel_id: KernelId | None
) -> tuple[Package | None, PackageReport]:
    """Return the package in a ``.tar.gz`` and the report on it, the archive's own problems first.

    Where the archive can be read at all, the package in it is checked too, so that an author sees
    every problem in one answer. The package is ``None`` where it could not be read, and must not be
    used unless the report is valid.
    """
    package, problems = inspect_archive(stream, limits, kernel_id=kernel_id)
    if package is None:
        return None, PackageReport(kernel_id or "", tuple(problems))
    report = check_submission(package)
    return package, replace(report, problems=(*problems, *report.problems))
