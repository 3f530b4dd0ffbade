"""Matrix products as networks use them: a weight stored by output, stacks of matrices, int8 weights."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Any

import numpy as np

from eas import mk
from eas.lib.arrays import (
    Array,
    check_small,
    check_vector,
    dtype_of,
    fill,
    flat,
    leading,
    need,
    need_float,
    result,
)
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.matmul import matmul as matrix_product
from eas.lib.matmul import matvec
from eas.lib.sizes import (
    CACHES,
    PROGRAMS_PER_THREAD,
    dot_tiles,
    even_tile,
    on_metal,
    power_of_2,
    tile,
)
from eas.runtime.native.host_cpu import num_threads

INT8_ROWS = 32
INT8_COLS = power_of_2(CACHES.l1 // INT8_ROWS)  # weights of a step fill L1: 1024 of 32 KiB


@kernel
def linear_kernel(x, weight, bias, y, M, N, K, BM: constexpr, BN: constexpr, BK: constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], wide_dtype(x.dtype))
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(x, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(weight, cols[:, None] * K + inner[None, :], (cols[:, None] < N) & (inner[None, :] < K))
        acc = mk.dot(left, mk.trans(right), acc)
    if bias is not None:
        acc = acc + wide(mk.load(bias, cols, cols < N))[None, :]
    mk.store(y, rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


@kernel
def batched_matmul_kernel(a, b, c, M, N, K, a_step, b_step, BM: constexpr, BN: constexpr, BK: constexpr):
    """Like the product of two matrices; a step of 0 uses one matrix for the whole stack."""
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    a_start, b_start = mk.program_id(2) * a_step, mk.program_id(2) * b_step
    acc = mk.zeros([BM, BN], wide_dtype(a.dtype))
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, a_start + rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, b_start + inner[:, None] * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    c_start = mk.program_id(2) * M * N
    mk.store(c, c_start + rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


@kernel
def int8_matvec_kernel(weight, scale, x, y, M, K, BM: constexpr, BK: constexpr):
    """Each row of weights has one scale, so it is applied once, to the sum."""
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    which = mk.program_id(1)
    total = mk.zeros([BM], wide_dtype(x.dtype))
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        quantised = mk.load(weight, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        values = wide(mk.load(x, which * K + inner, inner < K))
        total += mk.sum(quantised.to(total.dtype) * values[None, :], axis=1)
    mk.store(y, which * M + rows, total * wide(mk.load(scale, rows, rows < M)), rows < M)


def matmul(a: Array, b: Array, out: Array | None = None, *, tiles: tuple[int, int, int] | None = None) -> Array:
    """a @ b of [..., M, K] and [..., K, N] of one float dtype; leading axes are equal, or one side has none."""
    if a.ndim == 2 and b.ndim == 2:
        return matrix_product(a, b, out, tiles=tiles)
    fits = a.ndim >= 2 and b.ndim >= 2 and a.shape[-1] == b.shape[-2] and a.dtype == b.dtype
    need(fits and (a.ndim == 2 or b.ndim == 2 or a.shape[:-2] == b.shape[:-2]),
         lambda: f"matmul needs [..., M, K] and [..., K, N], got {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}")  # fmt: skip
    need_float(a, "matmul")
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = (a if b.ndim == 2 else b).shape[:-2]
    out = result(out, (*batch, m, n), a.dtype, a)
    if b.ndim == 2:  # one matrix on the right: the stack is one tall matrix
        tall = matrix_product(a.reshape(leading(batch) * m, k), b, flat(out, leading(batch) * m, n), tiles=tiles)
        fill(out, tall.reshape(out.shape))
        return out
    check_small(a, b, out)
    programs = mk.cdiv(PROGRAMS_PER_THREAD * num_threads(), max(leading(batch), 1))
    bm, bn, bk = tiles or dot_tiles(m, n, k, programs, on_metal(a))
    steps = (0 if a.ndim == 2 else m * k, 0 if b.ndim == 2 else k * n)
    batched_matmul_kernel[mk.cdiv(n, bn), mk.cdiv(m, bm), leading(batch)](a, b, out, m, n, k, *steps, BM=bm, BN=bn, BK=bk)
    return out


def linear(x: Array, weight: Array, bias: Array | None = None, out: Array | None = None, *, tiles: tuple[int, int, int] | None = None) -> Array:
    """x @ weight.T + bias of [..., K], [N, K] and [N], as torch.nn.Linear stores them."""
    need(x.ndim >= 1 and weight.ndim == 2 and x.shape[-1] == weight.shape[1] and x.dtype == weight.dtype,
         lambda: f"linear needs [..., K] and [N, K], got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}")  # fmt: skip
    need_float(x, "linear")
    m, (n, k) = leading(x.shape[:-1]), weight.shape
    if bias is not None:
        check_vector(bias, n, "bias")
    out = result(out, (*x.shape[:-1], n), x.dtype, x)
    check_small(x, weight, out)
    metal = on_metal(x)
    if m == 1 and tiles is None and not metal:
        matvec(weight, x, bias, out)
        return out
    bm, bn, bk = tiles or dot_tiles(m, n, k, PROGRAMS_PER_THREAD * num_threads(), metal)
    linear_kernel[mk.cdiv(n, bn), mk.cdiv(m, bm)](x, weight, bias, out, m, n, k, BM=bm, BN=bn, BK=bk)
    return out


def int8_tiles(x: Any, m: int, k: int) -> tuple[int, int]:
    """(BM, BK); on the CPU blocks end soon behind their rows, because masked bytes are read one by one there."""
    return tile(x, m, INT8_ROWS), tile(x, k, INT8_COLS) if on_metal(x) else even_tile(k, INT8_COLS)


def int8_matvec(weight: Array, scale: Array, x: Array, out: Array | None = None) -> Array:
    """(weight * scale[:, None]) @ x of int8 [M, K], floats [M] and [..., K]; weights are read as bytes."""
    need(weight.ndim == 2 and dtype_of(weight).name == "i8" and x.ndim >= 1 and x.shape[-1] == weight.shape[1],
         lambda: f"int8_matvec needs int8 [M, K] and [..., K], got {weight.dtype}{list(weight.shape)} and {x.dtype}{list(x.shape)}")  # fmt: skip
    need_float(x, "int8_matvec")
    m, k = weight.shape
    check_vector(scale, m, "scale")
    check_small(weight, x)
    out = result(out, (*x.shape[:-1], m), x.dtype, x)
    bm, bk = int8_tiles(x, m, k)
    int8_matvec_kernel[mk.cdiv(m, bm), leading(x.shape[:-1])](weight, scale, x, out, m, k, BM=bm, BK=bk)
    return out


def quantise_int8(weight: Array) -> tuple[Array, Array]:
    """(int8 weights, f32 scales) with weight ~ int8 * scale[:, None]; the largest of each row becomes 127."""
    values = np.asarray(weight, dtype=np.float32)
    need(values.ndim == 2, f"expected a matrix, got shape {values.shape}")
    scale = np.abs(values).max(axis=1, initial=0) / np.float32(127)
    scale[scale == 0] = 1
    return np.round(values / scale[:, None]).astype(np.int8), scale
