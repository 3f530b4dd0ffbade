"""Transpose of a matrix by tiles, so that both sides are walked along their rows."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import math

from eas import mk
from eas.lib.arrays import Array, check_small, need, result
from eas.lib.kernels import constexpr, kernel
from eas.lib.sizes import CACHES, power_of_2, tile

TRANSPOSE_TILE = (power_of_2(math.isqrt(CACHES.l2 // 4 // 4)),) * 2  # a quarter of L2 in f32, with rows long enough to be streamed: 256

@kernel
def transpose_kernel(x, y, M, N, BM: constexpr, BN: constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    values = mk.load(x, rows[:, None] * N + cols[None, :], (rows[:, None] < M) & (cols[None, :] < N))
    mk.store(y, cols[:, None] * M + rows[None, :], mk.trans(values), (cols[:, None] < N) & (rows[None, :] < M))


def transpose(x: Array, out: Array | None = None, *, tiles: tuple[int, int] | None = None) -> Array:
    """The transpose of a matrix, in memory of its own."""
    need(x.ndim == 2 and x.shape[1] > 0, f"expected a matrix with columns, got shape {x.shape}")
    check_small(x)
    m, n = x.shape
    out = result(out, (n, m), x.dtype, x)
    bm, bn = tiles or (tile(x, m, TRANSPOSE_TILE[0]), tile(x, n, TRANSPOSE_TILE[1]))
    transpose_kernel[mk.cdiv(n, bn), mk.cdiv(m, bm)](x, out, m, n, BM=bm, BN=bn)
    return out
