"""What desc.yaml says, held against the rest of the package (D2; checklist rows on desc.yaml)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.config import nearest
from kzoo_core.contract.layout import DESC_PATH
from kzoo_core.contract.quoting import printable
from kzoo_core.contract.records import Status
from kzoo_core.errors import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kzoo_core.contract.records import Desc
    from kzoo_core.ids import KernelId

_SECTIONS = "mathematical definition, input layout, performance hints, known traps"
_SHORT_DESCRIPTION = 200


def category_problems(kernel_id: KernelId, desc: Desc, severity: Severity) -> Iterator[Problem]:
    """The category is the first four segments of a kernel_id that has at least five (D2)."""
    segments = kernel_id.split("/")
    if len(segments) < 5 or tuple(segments[:4]) == desc.category.segments():
        return
    found, expected = "/".join(desc.category.segments()), "/".join(segments[:4])
    yield Problem(
        code="category_mismatch",
        severity=severity,
        message=f"the category is {found}, the kernel_id begins with {expected}",
        file=DESC_PATH,
        pointer="/category",
        found=found,
        expected=expected,
        hint="make arch, op_class, sub_class and quant the first four segments of the kernel_id",
    )


def reference_problems(paths: Collection[str], desc: Desc) -> Iterator[Problem]:
    """Every reference source is a file of the package."""
    for place, path in enumerate(desc.reference_sources):
        if path in paths:
            continue
        directory = any(name.startswith(f"{path.rstrip('/')}/") for name in paths)
        yield Problem(
            code="reference_source_missing",
            message=f"reference_sources names {printable(path, 120)}, which is not in the package",
            file=DESC_PATH,
            pointer=f"/reference_sources/{place}",
            found=f"{printable(path)} is a directory" if directory else f"no {printable(path)}",
            expected="a file of the package",
            hint="name the files inside it" if directory else _nearest_hint(path, paths),
        )


def _nearest_hint(path: str, paths: Collection[str]) -> str:
    neighbour = nearest(path, set(paths))
    if neighbour is not None:
        return f"did you mean {neighbour}?"
    return "ship the file, or take it off the list"


def status_problems(desc: Desc) -> Iterator[Problem]:
    """A status other than normal is worth a warning before it is submitted."""
    told = {
        Status.FROZEN: "once it lies in the repository, no further submission is taken",
        Status.DEPRECATED: "listings show the kernel as deprecated",
    }
    if desc.status in told:
        yield Problem(
            code=f"status_{desc.status}",
            severity=Severity.WARNING,
            message=f"status is {desc.status}: {told[desc.status]}",
            file=DESC_PATH,
            pointer="/status",
            found=desc.status.value,
            expected=Status.NORMAL.value,
        )


def description_problems(desc: Desc) -> Iterator[Problem]:
    """The description has to stand alone; only its form can be judged here, so it warns."""
    heading = any(line.startswith("#") for line in desc.description.splitlines())
    if heading and len(desc.description) >= _SHORT_DESCRIPTION:
        return
    yield Problem(
        code="thin_description",
        severity=Severity.WARNING,
        message="the description looks too thin to write an implementation from it alone",
        file=DESC_PATH,
        pointer="/description",
        found=f"{len(desc.description)} characters" + ("" if heading else " without a heading"),
        expected=f"sections on {_SECTIONS}",
        hint="an agent that has never seen the sources must be able to work from it",
    )
