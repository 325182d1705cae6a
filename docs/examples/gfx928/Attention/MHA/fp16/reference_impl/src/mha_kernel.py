"""Candidate: multi-head attention over tiles of keys with a running (online) softmax."""

from __future__ import annotations

import math

import numpy as np

KEY_TILE = 8


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """q, k, v: fp16 [batch, heads, seq_len, head_dim] -> fp16 of the same shape.

    All heads and queries at once, KEY_TILE keys at a time, in fp32. The full score matrix never
    exists: for each query only the maximum so far, the sum so far and the unscaled output are kept.
    """
    queries = q.astype(np.float32) / math.sqrt(q.shape[-1])
    keys = k.astype(np.float32)
    values = v.astype(np.float32)
    rows = (*q.shape[:-1], 1)
    top = np.full(rows, -np.inf, dtype=np.float32)
    total = np.zeros(rows, dtype=np.float32)
    out = np.zeros(q.shape, dtype=np.float32)
    for start in range(0, k.shape[2], KEY_TILE):
        tile = slice(start, start + KEY_TILE)
        scores = queries @ keys[:, :, tile].swapaxes(-1, -2)
        new_top = np.maximum(top, scores.max(axis=-1, keepdims=True))
        weights = np.exp(scores - new_top)
        shrink = np.exp(top - new_top)
        total = total * shrink + weights.sum(axis=-1, keepdims=True)
        out = out * shrink + weights @ values[:, :, tile]
        top = new_top
    return (out / total).astype(np.float16)
