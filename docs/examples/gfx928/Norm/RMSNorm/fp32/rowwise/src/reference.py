"""RMSNorm as it is defined, element by element: the source of the expected outputs."""

from __future__ import annotations

import math

import numpy as np


def rms_norm_reference(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x: fp32 [rows, cols], weight: fp32 [cols] -> fp32 [rows, cols].

    Python floats (fp64) and an exactly rounded sum; one rounding to fp32 at the end.
    """
    out = np.empty(x.shape, dtype=np.float32)
    gains = [float(gain) for gain in weight]
    for i, row in enumerate(x.tolist()):
        mean_square = math.fsum(value * value for value in row) / len(row)
        root = math.sqrt(mean_square + eps)
        out[i] = [value / root * gain for value, gain in zip(row, gains, strict=True)]
    return out
