"""Matrix product: one program per tile of the result, a runtime loop over K."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np

from eas import mk
from eas.lib.arrays import Array, as_dtype, check_count, dtype_of, need, result
from eas.lib.gradients import column_sums_launch
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import (
    FLAT_BLOCK,
    METAL_TILE,
    PROGRAMS_PER_THREAD,
    SMALL,
    dot_tiles,
    on_metal,
    small_dot_tiles,
    strip,
    tile,
)
from eas.runtime.native.host_cpu import num_threads

VECTOR_STEP = 4096  # columns of a step of a matrix times a vector: four pages of each of its rows
VECTOR_TILE = 1 << 16  # elements of such a step
AT_ONCE = 4  # rows that are added before the sums go back to memory
SUM_PART, MOST_PARTS = 1 << 20, 16  # elements of a partial sum, and most of them


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


@kernel
def matvec_kernel(a, x, bias, y, M, K, BM: constexpr, BK: constexpr):
    """The sums of the rows of a, each times x; a program makes BM of them."""
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    acc = mk.zeros([BM], wide_dtype(a.dtype))
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        part = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        acc += mk.sum(wide(part) * wide(mk.load(x, inner, inner < K))[None, :], axis=1)
    if bias is not None:
        acc += wide(mk.load(bias, rows, rows < M))
    mk.store(y, rows, acc, rows < M)


@kernel
def vecmat_kernel(x, b, y, K, N, BK: constexpr, BN: constexpr):
    """Rows of b times elements of x, summed over BK of them; as many rows of y as there are such sums."""
    cols, start = mk.program_id(0) * BN + mk.arange(0, BN), mk.program_id(1) * BK
    acc = mk.zeros([BN], wide_dtype(b.dtype))
    for first in range(start, min(start + BK, K), AT_ONCE):
        for i in mk.static_range(AT_ONCE):
            row = first + i
            acc += wide(mk.load(b, row * N + cols, (row < K) & (cols < N))) * wide(mk.load(x, row, row < K))
    mk.store(y, mk.program_id(1) * N + cols, acc, cols < N)


def matvec(a: Array, x: Array, bias: Array | None, out: Array) -> None:
    """out = a @ x + bias of [M, K], K numbers and M numbers."""
    m, k = a.shape
    bk = tile(a, k, VECTOR_STEP)
    bm = tile(a, m, min(VECTOR_TILE // bk, METAL_TILE))
    matvec_kernel[mk.cdiv(m, bm)](a, x, bias, out, m, k, BM=bm, BK=bk)


def vecmat(x: Array, b: Array, out: Array) -> None:
    """out = x @ b of K numbers and [K, N]; how the sum is split does not depend on threads."""
    k, n = b.shape
    parts = max(1, min(k * n // SUM_PART, MOST_PARTS))
    bk, bn = mk.cdiv(mk.cdiv(k, parts), AT_ONCE) * AT_ONCE, strip(n, FLAT_BLOCK)
    sums = out if parts == 1 else result(None, (mk.cdiv(k, bk), n), b.dtype if dtype_of(b).bits >= 32 else np.float32, b)
    vecmat_kernel[mk.cdiv(n, bn), mk.cdiv(k, bk)](x, b, sums, k, n, BK=bk, BN=bn)
    if parts > 1:
        launch, grid, rest = column_sums_launch(*sums.shape)
        launch[grid](sums, None, out, None, *rest)


Plan: TypeAlias = tuple[tuple[int, int], tuple[int, ...], tuple[int, int]]  # shape, (m, n, k, *tiles), grid


def _sizes(a: tuple[int, ...], b: tuple[int, ...], a_dtype: Any, b_dtype: Any) -> tuple[int, int, int]:
    """(m, n, k) of two matrices that fit."""
    need(len(a) == 2 and len(b) == 2 and a[1] == b[0] and a_dtype == b_dtype,
         lambda: f"matmul needs [M, K] and [K, N], got {a_dtype}{list(a)} and {b_dtype}{list(b)}")  # fmt: skip
    need(as_dtype(a_dtype).is_float, lambda: f"matmul needs floats, got {a_dtype}")
    m, k, n = *a, b[1]
    check_count(max(m * k, k * n, m * n))
    return m, n, k


def _plan(m: int, n: int, k: int, tiles: tuple[int, int, int]) -> Plan:
    return (m, n), (m, n, k, *tiles), (mk.cdiv(n, tiles[1]), mk.cdiv(m, tiles[0]))


# The checks would take longer than a small product.
@functools.lru_cache(maxsize=1024)
def _small_plan(a: tuple[int, ...], b: tuple[int, ...], a_dtype: Any, b_dtype: Any) -> Plan | None:
    """How a product that is one tile is computed on any device; None if it is larger."""
    m, n, k = _sizes(a, b, a_dtype, b_dtype)
    return _plan(m, n, k, small_dot_tiles(m, n, k)) if max(m, n) <= SMALL else None


@functools.lru_cache(maxsize=1024)
def _large_plan(a: tuple[int, ...], b: tuple[int, ...], threads: int, metal: bool) -> Plan:
    m, n, k = a[0], b[1], a[1]
    return _plan(m, n, k, dot_tiles(m, n, k, PROGRAMS_PER_THREAD * threads, metal))


def matmul(a: Array, b: Array, out: Array | None = None, *, tiles: tuple[int, int, int] | None = None) -> Array:
    """a @ b of two matrices of one float dtype, summed in at least f32 and rounded once."""
    if tiles is not None:
        plan = _plan(*_sizes(a.shape, b.shape, a.dtype, b.dtype), tiles)
    elif (small := _small_plan(a.shape, b.shape, a.dtype, b.dtype)) is not None:
        plan = small
    else:
        metal = on_metal(a)
        if 1 in (a.shape[0], b.shape[1]) and not metal:
            return _of_a_vector(a, b, out)
        plan = _large_plan(a.shape, b.shape, num_threads(), metal)
    shape, numbers, grid = plan
    out = result(out, shape, a.dtype, a)
    matmul_kernel(a, b, out, *numbers, _grid=grid)  # by position: a launch by names takes half a microsecond more
    return out


def _of_a_vector(a: Array, b: Array, out: Array | None) -> Array:
    """a @ b where one of them is a row or a column."""
    out = result(out, (a.shape[0], b.shape[1]), a.dtype, a)
    if b.shape[1] == 1:
        matvec(a, b, None, out)
    else:
        vecmat(a, b, out)
    return out
