"""Attention without the matrix of scores: a running softmax over blocks of keys, causal or not."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import math

from eas import mk
from eas.lib.arrays import Array, check_small, need, result
from eas.lib.kernels import constexpr, kernel, wide_dtype
from eas.lib.sizes import SCORES_TILE, metal_scores, on_metal, tile


@kernel
def attention_kernel(
    q, k, v, out, n, n_keys, scale,
    D: constexpr, BM: constexpr, BN: constexpr, CAUSAL: constexpr,
):  # fmt: skip
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    dims = mk.arange(0, D)
    mine = mk.program_id(1) * n * D + rows[:, None] * D + dims[None, :]
    keys_start = mk.program_id(1) * n_keys * D
    queries = (mk.load(q, mine, rows[:, None] < n) * scale).to(q.dtype)
    best = mk.full([BM], -float("inf"), wide_dtype(q.dtype))
    total = mk.zeros([BM], wide_dtype(q.dtype))
    acc = mk.zeros([BM, D], wide_dtype(q.dtype))
    # Query i sees the keys up to i.
    end = min((mk.program_id(0) + 1) * BM, n_keys) if CAUSAL else n_keys
    for first in range(0, end, BN):
        cols = first + mk.arange(0, BN)
        theirs = keys_start + cols[:, None] * D + dims[None, :]
        keys = mk.load(k, theirs, cols[:, None] < n_keys)
        # Keys past the end start, and so stay, at -inf.
        start = mk.where(cols < n_keys, 0.0, -float("inf")).to(total.dtype)
        scores = mk.dot(queries, mk.trans(keys), mk.broadcast_to(start[None, :], [BM, BN]))
        if CAUSAL:
            scores = mk.where(cols[None, :] <= rows[:, None], scores, -float("inf"))
        new_best = mk.maximum(best, mk.max(scores, axis=1))
        alpha = mk.exp2(best - new_best)
        weights = mk.exp2(scores - new_best[:, None])
        values = mk.load(v, theirs, cols[:, None] < n_keys)
        acc = mk.dot(weights.to(v.dtype), values, acc * alpha[:, None])
        total = total * alpha + mk.sum(weights, axis=1)
        best = new_best
    mk.store(out, mine, acc * (1.0 / total)[:, None], rows[:, None] < n)


def attention(q: Array, k: Array, v: Array, out: Array | None = None, *, causal: bool = False, scale: float | None = None, tiles: tuple[int, int] | None = None) -> Array:
    """softmax(q @ k.T * scale) @ v of [heads, n, D] arrays; scale is D ** -0.5 unless given."""
    need(q.ndim == 3 and k.shape == v.shape and k.ndim == 3 and (q.shape[0], q.shape[2]) == (k.shape[0], k.shape[2]) and k.shape[1] > 0,
         lambda: f"attention needs q [heads, n, D] and k, v [heads, m, D], got {q.shape}, {k.shape}, {v.shape}")  # fmt: skip
    need(q.dtype == k.dtype == v.dtype, lambda: f"attention needs one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    heads, n, d = q.shape
    out = result(out, q.shape, q.dtype, q)
    check_small(q, k)
    bm, bn = tiles or (metal_scores(q, n, k.shape[1], d) if on_metal(q) else (tile(q, n, SCORES_TILE), tile(q, k.shape[1], SCORES_TILE)))
    # 2 ** (x * log2(e)) is exp(x), and cheaper.
    scale = (d**-0.5 if scale is None else float(scale)) * math.log2(math.e)
    attention_kernel[mk.cdiv(n, bm), heads](q, k, v, out, n, k.shape[1], scale, D=d, BM=bm, BN=bn, CAUSAL=causal)
    return out
