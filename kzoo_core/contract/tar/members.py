"""Takes the members of an archive in, one by one, under the package's bounds (D5, D9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kzoo_core.contract.quoting import printable
from kzoo_core.contract.records import PackageFile
from kzoo_core.contract.tar import problems as fault_of
from kzoo_core.contract.tar.format import Kind, TarFault, TarReader
from kzoo_core.contract.tar.gzip_source import GzipFault, GzipSource
from kzoo_core.contract.tar.names import name_problem, twin_problems

if TYPE_CHECKING:
    from typing import BinaryIO

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.tar.format import Member
    from kzoo_core.errors import Problem

_HEADERS_PER_ENTRY = 4096
"""Room for one entry's headers and padding beside its data."""
_SPARE_ENTRIES = 64


@dataclass(slots=True)
class Contents:
    """What an archive holds, by whole path; ``whole`` when it was read to its end."""

    files: dict[str, PackageFile] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = False


def read_members(stream: BinaryIO, limits: PackageLimits) -> Contents:
    """Read every member that the bounds allow; what is wrong stands in ``problems``."""
    intake = _Intake(stream, limits)
    try:
        intake.read_all()
    except GzipFault as fault:
        intake.contents.problems.append(fault.problem)
    except TarFault as fault:
        intake.contents.problems.append(fault_of.not_tar(fault))
    intake.contents.problems.extend(twin_problems(intake.contents.files))
    return intake.contents


class _Intake:
    """One pass over an archive."""

    def __init__(self, stream: BinaryIO, limits: PackageLimits) -> None:
        self.contents = Contents()
        self._limits = limits
        self._entries = 2 * limits.files + _SPARE_ENTRIES
        self._reader = TarReader(
            GzipSource(
                stream,
                packed_limit=limits.archive_bytes,
                unpacked_limit=limits.package_bytes + self._entries * _HEADERS_PER_ENTRY,
            )
        )
        self._bytes = 0
        self._files = 0

    def read_all(self) -> None:
        """Read until the end, or until going on would pass a bound."""
        for _ in range(self._entries):
            member = self._reader.next()
            if member is None:
                self._reader.finish()
                self.contents.whole = True
                return
            if not self._take(member):
                return
        self._add(fault_of.too_many_files(self._limits))

    def _take(self, member: Member) -> bool:
        """Take one member in; say whether to go on."""
        name = _plain(member.name)
        shown = printable(name, 240)
        if member.kind is Kind.DIRECTORY:
            self._take_directory(name.rstrip("/"))
            return True
        if member.kind is not Kind.FILE:
            self._add(fault_of.not_regular(shown, member.kind))
            return True
        self._files += 1
        if self._files > self._limits.files:
            self._add(fault_of.too_many_files(self._limits))
            return False
        if member.size > self._limits.file_bytes:
            self._add(fault_of.file_too_large(shown, member.size, self._limits))
            return member.size <= self._limits.package_bytes
        self._bytes += member.size
        if self._bytes > self._limits.package_bytes:
            self._add(fault_of.package_too_large(shown, self._limits))
            return False
        self._take_file(name, shown, member.executable)
        return True

    def _take_directory(self, name: str) -> None:
        if not name:  # the "./" of ``tar czf x.tar.gz .``
            return
        problem = name_problem(name, path_bytes=self._limits.path_bytes)
        if problem is not None:
            self._add(problem)
        else:
            self.contents.directories.add(name)

    def _take_file(self, name: str, shown: str, executable: bool) -> None:
        problem = name_problem(name, path_bytes=self._limits.path_bytes)
        if problem is None and name in self.contents.files:
            problem = fault_of.duplicate(shown)
        if problem is not None:
            self._add(problem)
            return
        self.contents.files[name] = PackageFile(self._reader.data(), executable)

    def _add(self, problem: Problem) -> None:
        self.contents.problems.append(problem)


def _plain(name: str) -> str:
    """Take off a leading ``./``, which ``tar czf x.tar.gz ./dir`` writes."""
    while name.startswith("./"):
        name = name[2:]
    return "" if name == "." else name
