"""The index's memory on disk: the lines of kernels whose directories did not change.

A cache alone: whatever is wrong with the file, it is dropped and the index is built from git. It is
bound to the rules that made the lines, so a new version of the product reads everything anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import kzoo_core
from kzoo_core import durable
from kzoo_core.resources import schemas_directory
from kzoo_core.store.entries import entry_from_json
from kzoo_core.store.listing import Listed

if TYPE_CHECKING:
    from collections.abc import Collection

SAVE_AFTER = 64
"""Lines that may be lost by a crash: reading them again costs less than saving at every accept."""


class IndexCache:
    """Lines by kernel_id, each with the git name of the directory that it was made from."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines = _load(path) if path is not None else {}
        self._unsaved = 0

    def get(self, kernel_id: str, tree: bytes) -> Listed | None:
        """Return the listing of a directory that was read before."""
        known = self._lines.get(kernel_id)
        if known is None or known[0] != tree:
            return None
        return Listed(entry_from_json(json.loads(known[1])), known[1])

    def put(self, kernel_id: str, tree: bytes, line: bytes) -> None:
        """Keep the line of a directory, in place of the kernel's earlier one."""
        self._lines[kernel_id] = (tree, line)
        self._unsaved += 1

    def save(self, kernel_ids: Collection[str] | None, *, force: bool = False) -> None:
        """Write the lines of ``kernel_ids``, the rest is dropped; ``None`` keeps all of them.

        Without ``force`` only when ``SAVE_AFTER`` lines have come since the last time. Raises
        ``OSError``.
        """
        if self._path is None or not self._unsaved or (self._unsaved < SAVE_AFTER and not force):
            return
        self._lines = {
            kernel_id: self._lines[kernel_id]
            for kernel_id in (self._lines if kernel_ids is None else kernel_ids)
            if kernel_id in self._lines
        }
        body = b"".join(
            b"%s\t%s\t%s\n" % (tree, json.dumps(kernel_id).encode(), line)
            for kernel_id, (tree, line) in self._lines.items()
        )
        durable.make_directory(self._path.parent)
        durable.write_file(self._path, _header(body) + body)
        self._unsaved = 0


def _load(path: Path) -> dict[str, tuple[bytes, bytes]]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    end = data.find(b"\n") + 1
    body = data[end:]
    if data[:end] != _header(body):
        return {}
    lines = {}
    for record in body.split(b"\n")[:-1]:
        tree, kernel_id, line = record.split(b"\t")
        lines[str(json.loads(kernel_id))] = (tree, line)
    return lines


def _header(body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return f"kernel-zoo index cache {_rules()} {digest}\n".encode("ascii")


def _rules() -> str:
    """Name the rules by which lines are made: the contract's and this room's code, the schemas."""
    package = Path(kzoo_core.__file__).parent
    digest = hashlib.sha256()
    for directory, pattern in (
        (package / "contract", "**/*.py"),
        (package / "store", "*.py"),
        (schemas_directory(), "*.json"),
    ):
        for file in sorted(directory.glob(pattern)):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
