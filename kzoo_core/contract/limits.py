"""Bounds on what a package may be (D5, D9); settings of the server, with these defaults."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class PackageLimits:
    """Bounds in bytes, but for the number of files."""

    file_bytes: int = 1 * MIB
    package_bytes: int = 8 * MIB
    archive_bytes: int = 8 * MIB
    files: int = 500
    path_bytes: int = 512


STDOUT_LIMIT_BYTES = 1 * MIB
"""What a benchmark may print on stdout (D15)."""
