"""Which environment variables an attempt sees: an allow-list of the runner's own, and no secret."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_ALLOWED = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "LD_LIBRARY_PATH",
    "ROCM_*",
    "HIP_*",
    "HSA_*",
    "ROCR_*",
    "GPU_*",
    "DTK*",
    "HYHAL*",
    "CUDA_*",
    "NVIDIA_*",
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
)
"""Shell patterns of names: what toolkits and thread pools need (D14)."""


def allowed(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the variables whose names match a pattern; the runner's own settings never do.

    A pattern as wide as ``*`` still keeps ``KERNEL_ZOO_*`` out, because a token may be among them.
    """
    wanted = tuple(patterns)
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("KERNEL_ZOO_")
        and any(fnmatchcase(name, pattern) for pattern in wanted)
    }
