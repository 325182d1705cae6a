"""Digests: what makes two packages the same package (D12)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kzoo_core.contract.archive import canonical_tar
from kzoo_core.contract.layout import SCOREBOARD_PATH
from kzoo_core.ids import Sha256

if TYPE_CHECKING:
    from kzoo_core.contract.records import Package


def package_sha256(package: Package) -> Sha256:
    """Return a package's identity: of its uncompressed canonical tar without the scoreboard."""
    return sha256_hex(canonical_tar(package, leave_out=SCOREBOARD_PATH))


def sha256_hex(data: bytes) -> Sha256:
    """Return the SHA-256 of ``data`` as 64 lower-case hex digits."""
    return Sha256(hashlib.sha256(data).hexdigest())
