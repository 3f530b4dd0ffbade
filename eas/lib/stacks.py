"""Transposes of stacks of matrices."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_small, leading, need, result
from eas.lib.kernels import constexpr, kernel
from eas.lib.sizes import tile
from eas.lib.transpose import transpose as matrix_transpose


@kernel
def batched_transpose_kernel(x, y, M, N, BM: constexpr, BN: constexpr):
    start = mk.program_id(2) * M * N
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    values = mk.load(x, start + rows[:, None] * N + cols[None, :], (rows[:, None] < M) & (cols[None, :] < N))
    mk.store(y, start + cols[:, None] * M + rows[None, :], mk.trans(values), (cols[:, None] < N) & (rows[None, :] < M))


def transpose(x: Array, out: Array | None = None, *, tiles: tuple[int, int] | None = None) -> Array:
    """The last two axes swapped, in memory of its own."""
    if x.ndim == 2:
        return matrix_transpose(x, out, tiles=tiles)
    need(x.ndim >= 2 and x.shape[-1] > 0, f"expected matrices with columns, got shape {x.shape}")
    check_small(x)
    *batch, m, n = x.shape
    out = result(out, (*batch, n, m), x.dtype, x)
    bm, bn = tiles or (tile(x, m), tile(x, n))
    batched_transpose_kernel[mk.cdiv(n, bn), mk.cdiv(m, bm), leading(tuple(batch))](x, out, m, n, BM=bm, BN=bn)
    return out
