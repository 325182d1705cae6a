"""Multi-head attention as it is defined, one query at a time: the source of expected outputs."""

from __future__ import annotations

import math

import numpy as np


def reference_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """q, k, v: fp16 [batch, heads, seq_len, head_dim] -> fp16 of the same shape.

    Everything is computed in fp64 and rounded once, at the end. Sums are numpy's own, never a
    BLAS call, so that the bytes do not depend on which BLAS a machine has.
    """
    batch, heads, seq_len, head_dim = q.shape
    out = np.empty(q.shape, dtype=np.float64)
    for b in range(batch):
        for h in range(heads):
            keys = k[b, h].astype(np.float64)
            values = v[b, h].astype(np.float64)
            for i in range(seq_len):
                query = q[b, h, i].astype(np.float64)
                scores = (keys * query).sum(axis=1) / math.sqrt(head_dim)
                weights = np.exp(scores - scores.max())
                weights = weights / weights.sum()
                out[b, h, i] = (weights[:, None] * values).sum(axis=0)
    return out.astype(np.float16)
