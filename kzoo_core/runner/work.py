"""The scratch directories of attempts: made fresh for each, removed after it, whatever is inside.

Nothing here is durable on purpose: a crash leaves only what the next start removes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kzoo_core.runner.backends.base import Place

if TYPE_CHECKING:
    from kzoo_core.contract.records import Package

_OWNER_ONLY = 0o700
_FILE = 0o644
_EXECUTABLE = 0o755


def lay_out(root: Path, package: Package) -> Place:
    """Write the package below ``root`` and make its empty surroundings; raises ``OSError``.

    The package lies under its kernel_id, so that a script which reads its own path finds it there.
    ``root`` must not exist: what an attempt sees is made for it alone.
    """
    place = Place(
        root=root,
        package=root / "package" / package.kernel_id,
        workdir=root / "workdir",
        home=root / "scratch" / "home",
        tmp=root / "scratch" / "tmp",
    )
    root.parent.mkdir(parents=True, exist_ok=True)
    root.mkdir(mode=_OWNER_ONLY)
    for directory in (place.package, place.workdir, place.home, place.tmp):
        directory.mkdir(parents=True)
    for path, file in package.files.items():
        target = place.package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _EXECUTABLE if file.executable else _FILE
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(file.data)
    return place


def remove(root: Path) -> None:
    """Remove a directory with all it holds, also what an attempt has made unreadable.

    Links are removed, never followed. Raises ``OSError`` when something stays.
    """
    shutil.rmtree(root, ignore_errors=True)
    if not root.exists():
        return
    root.chmod(_OWNER_ONLY)
    for directory, names, _ in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(_OWNER_ONLY)
    shutil.rmtree(root)


def remove_all(directory: Path) -> list[str]:
    """Remove every attempt that an earlier process left in ``directory``; return their names."""
    if not directory.is_dir():
        return []
    names = sorted(path.name for path in directory.iterdir())
    for name in names:
        remove(directory / name)
    return names
