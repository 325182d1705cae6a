"""``kzoo-server init``: a new kernel repository, empty or with the example packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kzoo_core.contract.limits import PackageLimits
from kzoo_core.contract.package import read_directory
from kzoo_core.errors import BadInput, Broken
from kzoo_core.ids import parse_kernel_id
from kzoo_core.resources import examples_directory
from kzoo_core.store.packages import add_packages
from kzoo_core.store.repository import KernelRepository
from kzoo_core.store.worktree import follow

if TYPE_CHECKING:
    from pathlib import Path

    from kzoo_core.clock import Clock
    from kzoo_core.contract.records import Package

AUTHOR = "kernel_zoo"


def initialise(path: Path, *, bare: bool, examples: bool, clock: Clock) -> str:
    """Make a repository at ``path``; return what was made and what to do next.

    Raises ``BadInput`` with code ``NOT_EMPTY`` for a directory that holds something, also for a
    repository: nothing that exists is touched.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(
            "NOT_EMPTY",
            f"{path} exists and is not an empty directory",
            hint="name a new one; a repository that exists is served with kzoo-server --repo",
        )
    packages = example_packages() if examples else []
    with KernelRepository.init(path, bare=bare) as repository:
        if packages:
            add_packages(
                repository,
                packages,
                message="docs: add the example packages",
                author=AUTHOR,
                when=clock.now().replace(microsecond=0),
            )
        files = follow(repository)  # a checkout without them would count as deleting them all
    kind = "bare repository" if bare else "checkout"
    lines = [f"made a {kind} at {path}"]
    lines += [f"  with {package.kernel_id}" for package in packages]
    if files.message is not None:
        lines.append(f"warning: {files.message}")
    lines += [
        "next:",
        f"  kzoo-server --repo {path}",
        "  kzoo-runner --server http://127.0.0.1:8000 --arch gfx928",
        "  kzoo submit DIR --as YOUR_NAME --wait",
    ]
    return "\n".join(lines)


def example_packages() -> list[Package]:
    """Return the example packages that travel with the code; raises ``Broken`` without any."""
    root = examples_directory()
    packages = [
        read_directory(
            marker.parent,
            parse_kernel_id(marker.parent.relative_to(root).as_posix()),
            PackageLimits(),
        ).package
        for marker in sorted(root.rglob(".kernel_package"))
    ]
    if not packages:
        raise Broken("NO_EXAMPLES", f"there are no example packages under {root}")
    return packages
