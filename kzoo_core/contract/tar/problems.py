"""What an archive can be refused for, each in one sentence with what to do instead (D9, D10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.contract.layout import CONTRACT_DIRECTORY, SCOREBOARD_PATH
from kzoo_core.contract.quoting import listed, printable
from kzoo_core.contract.tar.format import Kind
from kzoo_core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.tar.format import TarFault

_DEREFERENCE = "put the file itself in its place: tar --dereference --hard-dereference"
_SOURCES_ONLY = "ship sources only; make data in build_test_env.py under the work directory"


def not_tar(fault: TarFault) -> Problem:
    """The bytes inside the gzip stream are no well-formed tar."""
    return Problem(
        code="archive_not_tar",
        message=f"the archive holds no well-formed tar: {fault}",
        found=str(fault),
        expected="a whole tar",
        hint="close the tar file before sending it: use it in a with block",
    )


def not_regular(name: str, kind: Kind) -> Problem:
    """A member is a link, a device or anything else that is no plain file."""
    link = kind in (Kind.SYMBOLIC_LINK, Kind.HARD_LINK)
    sparse = "make the archive without --sparse" if kind is Kind.SPARSE else None
    return Problem(
        code="member_not_regular",
        message=f"{name} is a {kind}",
        file=name,
        found=f"a {kind}",
        expected="regular files and directories",
        hint=_DEREFERENCE if link else sparse,
    )


def duplicate(name: str) -> Problem:
    """Two members have one path."""
    return Problem(
        code="member_duplicate",
        message=f"{name} is in the archive twice",
        file=name,
        found="the same path again",
        expected="every path once",
        hint="make a new archive instead of adding to the old one",
    )


def file_too_large(name: str, size: int, limits: PackageLimits) -> Problem:
    """One file is over its bound."""
    return Problem(
        code="file_too_large",
        message=f"{name} has {size} bytes, more than the {limits.file_bytes} a file may have",
        file=name,
        found=f"{size} bytes",
        expected=f"at most {limits.file_bytes} bytes",
        hint=_SOURCES_ONLY,
    )


def package_too_large(name: str, limits: PackageLimits) -> Problem:
    """All files together are over their bound."""
    return Problem(
        code="package_too_large",
        message=f"the package has more than {limits.package_bytes} bytes of files at {name}",
        file=name,
        found=f"more than {limits.package_bytes} bytes",
        expected=f"at most {limits.package_bytes} bytes",
        hint=_SOURCES_ONLY,
    )


def too_many_files(limits: PackageLimits) -> Problem:
    """There are more files than a package may have."""
    return Problem(
        code="too_many_files",
        message=f"the package has more than {limits.files} files",
        found=f"more than {limits.files} files",
        expected=f"at most {limits.files} files",
        hint="ship what the kernel needs, not the whole project",
    )


def scoreboard_in_archive(path: str) -> Problem:
    """A submission holds the file that only the server writes (D10)."""
    return Problem(
        code="scoreboard_in_archive",
        message=f"the archive holds {path}; the scoreboard is written by the server alone",
        file=path,
        found="a scoreboard in a submission",
        expected=f"no {SCOREBOARD_PATH}",
        hint=(
            "leave it out with tf.add(…, filter=lambda member: None if "
            'member.name.endswith("/bench_result.yaml") else member); '
            "tf.members.remove(…) after tf.add leaves it in the archive"
        ),
    )


def no_package(tops: Sequence[str]) -> Problem:
    """Nothing in the archive says where the package begins."""
    return Problem(
        code="no_kernel_package",
        message=f"the archive holds no {CONTRACT_DIRECTORY} directory",
        found=f"top directories: {listed(tops)}" if tops else "no files",
        expected=f"<kernel_id>/{CONTRACT_DIRECTORY}/desc.yaml and the rest of the package",
        hint="give the tar the kernel_id as its top directory: tf.add(root, arcname=kernel_id)",
    )


def wrong_top_directory(tops: Sequence[str], expected: str, hint: str | None) -> Problem:
    """Members lie elsewhere than below the kernel_id."""
    wanted = printable(expected, 255)
    return Problem(
        code="wrong_top_directory",
        message=f"the archive's top directory is {listed(tops)}; expected {wanted}",
        found=listed(tops),
        expected=wanted,
        hint=hint,
    )
