"""A package as a ``.tar.gz``: a strict reader for what strangers send, a canonical writer (D9-D12).

A submission is never extracted. Its members are read as a stream into memory under the package's
bounds; anything that is not a plain file at a plain path below the kernel_id refuses the whole
archive, with every problem that could be told.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kzoo_core.contract.layout import CONTRACT_DIRECTORY, is_scoreboard
from kzoo_core.contract.records import Package
from kzoo_core.contract.tar import problems as fault_of
from kzoo_core.contract.tar.format import Entry, write_tar
from kzoo_core.contract.tar.members import read_members
from kzoo_core.errors import BadInput, Problem
from kzoo_core.ids import KernelId, kernel_id_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import BinaryIO

    from kzoo_core.contract.limits import PackageLimits
    from kzoo_core.contract.records import PackageFile
    from kzoo_core.contract.tar.members import Contents

_OWN_ROOT = "the archive's own root"


def read_archive(
    stream: BinaryIO,
    limits: PackageLimits,
    *,
    kernel_id: KernelId | None,
    allow_scoreboard: bool = False,
) -> Package:
    """Return the package in a ``.tar.gz``.

    Every member has to lie below ``kernel_id``; with ``None`` it is what the members say: the
    parent of ``.kernel_package``. ``allow_scoreboard`` is for archives that the server froze for a
    runner; a submission may not hold bench_result.yaml (D10). Raises ``BadInput``
    (``VALIDATION_ERROR``) with every problem that can be told.
    """
    package, problems = inspect_archive(
        stream, limits, kernel_id=kernel_id, allow_scoreboard=allow_scoreboard
    )
    if package is None or problems:
        raise refused(problems)
    return package


def refused(problems: list[Problem]) -> BadInput:
    """Return the error that refuses an archive for ``problems``, of which there is at least one."""
    first = problems[0]
    message = first.message if len(problems) == 1 else f"the archive has {len(problems)} problems"
    return BadInput("VALIDATION_ERROR", message, hint=first.hint, details=tuple(problems))


def inspect_archive(
    stream: BinaryIO,
    limits: PackageLimits,
    *,
    kernel_id: KernelId | None,
    allow_scoreboard: bool = False,
) -> tuple[Package | None, list[Problem]]:
    """Return what could be read of an archive, and every problem of the archive itself.

    The package is ``None`` where the archive breaks off or its root cannot be told. Beside problems
    it is good for finding further problems, and for nothing else.
    """
    contents = read_members(stream, limits)
    root, root_problems = _root(contents, kernel_id)
    problems = [*contents.problems, *root_problems]
    if root is None:
        return None, problems
    files = _below(contents.files, root)
    if not allow_scoreboard:
        for path in [path for path in files if is_scoreboard(path)]:
            problems.append(fault_of.scoreboard_in_archive(path))
            del files[path]
    return (Package(kernel_id or KernelId(root), files) if contents.whole else None), problems


def _root(contents: Contents, kernel_id: KernelId | None) -> tuple[str | None, list[Problem]]:
    """Return the directory that is the package, and a problem if members lie outside of it."""
    found = _package_roots(contents.files)
    if kernel_id is None:
        return _found_root(contents, found)
    outside = _outside(contents, kernel_id)
    if not outside:
        return kernel_id, []
    hint = f'give the tar that top directory: tf.add(root, arcname="{kernel_id}")'
    problem = fault_of.wrong_top_directory(_tops(outside, found, kernel_id), kernel_id, hint)
    return (kernel_id if kernel_id in found or not found else found[0]), [problem]


def _found_root(contents: Contents, found: list[str]) -> tuple[str | None, list[Problem]]:
    """Let the members say where the package begins."""
    if not found:
        tops = dict.fromkeys(name.partition("/")[0] for name in contents.files)
        return None, [fault_of.no_package(list(tops))] if contents.whole else []
    root = found[0]
    bad_id = kernel_id_problem(root)
    if bad_id is not None:
        top = root or _OWN_ROOT
        return None, [fault_of.wrong_top_directory([top], "a kernel_id", bad_id.hint)]
    outside = _outside(contents, root)
    if not outside:
        return root, []
    hint = "put one package into an archive, below its kernel_id"
    return root, [fault_of.wrong_top_directory(_tops(outside, found, root), root, hint)]


def _package_roots(names: Iterable[str]) -> list[str]:
    """Return the directories that hold a ``.kernel_package``, the outermost first."""
    marker = f"/{CONTRACT_DIRECTORY}/"
    roots = {f"/{name}".partition(marker)[0][1:] for name in names if marker in f"/{name}"}
    return sorted(roots, key=lambda root: (root.count("/"), root))


def _outside(contents: Contents, root: str) -> list[str]:
    """Return what is neither below ``root`` nor a directory on the way to it."""
    files = [name for name in contents.files if not name.startswith(f"{root}/")]
    directories = [
        name
        for name in sorted(contents.directories)
        if name != root and not name.startswith(f"{root}/") and not root.startswith(f"{name}/")
    ]
    return files + directories


def _tops(outside: Iterable[str], roots: Collection[str], expected: str) -> list[str]:
    """Name the directories to which stray members belong: whole kernel_ids where they are ones."""
    tops: dict[str, None] = {}
    for name in outside:
        within = (root for root in roots if root != expected and _on_one_path(name, root))
        top = next(within, name.partition("/")[0])
        tops[top or _OWN_ROOT] = None
    return list(tops)


def _on_one_path(name: str, root: str) -> bool:
    return not root or f"{name}/".startswith(f"{root}/") or root.startswith(f"{name}/")


def _below(files: dict[str, PackageFile], root: str) -> dict[str, PackageFile]:
    prefix = f"{root}/" if root else ""
    return {name[len(prefix) :]: file for name, file in files.items() if name.startswith(prefix)}


def write_archive(package: Package) -> bytes:
    """Return the canonical ``.tar.gz`` of every file of ``package``: the same package, same bytes.

    Members lie below the kernel_id, sorted by path. The deflate stream depends on zlib's version;
    the identity of a package is therefore taken of ``canonical_tar`` (D12).
    """
    tar = canonical_tar(package)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(tar) + deflate.flush()
    trailer = zlib.crc32(tar).to_bytes(4, "little") + len(tar).to_bytes(4, "little")
    # gzip, deflate, no flags, no time, no extra flags, unknown operating system
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + body + trailer


def canonical_tar(package: Package, *, leave_out: str | None = None) -> bytes:
    """Return the uncompressed canonical tar, without the file ``leave_out``."""
    return write_tar(
        Entry(f"{package.kernel_id}/{path}", file.data, file.executable)
        for path, file in sorted(package.files.items())
        if path != leave_out
    )
