"""Matrix product: one program per tile of the result, a runtime loop over K."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_small, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide_dtype
from eas.lib.sizes import PROGRAMS_PER_THREAD, dot_tiles
from eas.runtime.host_cpu import num_threads


@kernel
def matmul_kernel(a, b, c, M, N, K, BM: constexpr, BN: constexpr, BK: constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], wide_dtype(a.dtype))
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, inner[:, None] * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    mk.store(c, rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


def matmul(a: Array, b: Array, out: Array | None = None, *, tiles: tuple[int, int, int] | None = None) -> Array:
    """a @ b of two matrices of one float dtype, summed in at least f32 and rounded once."""
    need(a.ndim == 2 and b.ndim == 2 and a.shape[1] == b.shape[0] and a.dtype == b.dtype,
         lambda: f"matmul needs [M, K] and [K, N], got {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}")  # fmt: skip
    need_float(a, "matmul")
    (m, k), n = a.shape, b.shape[1]
    out = result(out, (m, n), a.dtype, a)
    check_small(a, b, out)
    bm, bn, bk = tiles or dot_tiles(m, n, k, programs=PROGRAMS_PER_THREAD * num_threads())
    matmul_kernel[mk.cdiv(n, bn), mk.cdiv(m, bm)](a, b, out, m, n, k, BM=bm, BN=bn, BK=bk)
    return out
