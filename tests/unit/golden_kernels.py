"""Kernels whose Metal text is worth reading; `tests/golden/msl` holds it."""

from __future__ import annotations

import numpy as np

import eas
from eas import mk
from eas.lib.attention import attention_kernel
from eas.lib.matmul import matmul_kernel
from eas.lib.norms import layer_norm_kernel, rms_norm_kernel
from eas.lib.rows import argmax_kernel, cumsum_kernel
from eas.lib.softmax import softmax_kernel
from eas.lib.transpose import transpose_kernel


@eas.kernel
def add_kernel(x, y, out, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    mk.store(out, i, mk.load(x, i, mask) + mk.load(y, i, mask), mask)


@eas.kernel
def masked_copy_kernel(x, keep, y, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = (i < n) & mk.load(keep, i, i < n)
    mk.store(y, i, mk.load(x, i, mask), mask)


@eas.kernel
def matmul_gelu_kernel(a, b, bias, c, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """a @ b + bias through the tanh form of GELU."""
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, inner[:, None] * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    z = acc + mk.cast(mk.load(bias, cols, cols < N), mk.f32)[None, :]
    z = 0.5 * z * (1.0 + mk.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))
    mk.store(c, rows[:, None] * N + cols[None, :], z, (rows[:, None] < M) & (cols[None, :] < N))


@eas.kernel
def matmul_whole_kernel(a, b, c, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr, TURNED: eas.constexpr = False):
    """a @ b, or a @ b.T, of whole tiles: simdgroups read both sides from device memory."""
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :])
        right = mk.load(b, cols[:, None] * K + inner[None, :] if TURNED else inner[:, None] * N + cols[None, :])
        acc = mk.dot(left, mk.trans(right) if TURNED else right, acc)
    mk.store(c, rows[:, None] * N + cols[None, :], acc)


@eas.kernel
def histogram_kernel(x, counts, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(counts, mk.load(x, i, i < n), 1, mask=i < n)


@eas.kernel
def thread_sum_kernel(x, out, n, BLOCK: eas.constexpr):
    """A threadgroup sums BLOCK elements by a tree in threadgroup memory."""
    t = mk.tid(0, BLOCK)
    i = mk.program_id(0) * BLOCK + t
    shared = mk.alloc_tg(BLOCK, mk.f32)
    mk.store(shared, t, mk.load(x, i, i < n))
    mk.barrier()
    half = BLOCK // 2
    while half > 0:
        if t < half:
            mk.store(shared, t, mk.load(shared, t) + mk.load(shared, t + half))
        mk.barrier()
        half = half // 2
    if t == 0:
        mk.store(out, mk.program_id(0), mk.load(shared, 0))


@eas.kernel
def thread_mma_kernel(a, b, c, N, K, BLOCK: eas.constexpr):
    """A simdgroup makes one 8x8 tile of a @ b."""
    simdgroup = mk.tid(0, BLOCK) // 32
    row, col = mk.program_id(1) * 8, (mk.program_id(0) * (BLOCK // 32) + simdgroup) * 8
    acc = mk.mma_zero()
    for k in range(0, K, 8):
        acc = mk.mma(a, row * K + k, K, b, k * N + col, N, acc)
    mk.mma_store(c, row * N + col, N, acc)


@eas.kernel
def dropout_kernel(x, y, n, p, seed, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    keep = mk.rand(seed, i) >= p
    value = mk.load(x, i, i < n)
    mk.store(y, i, mk.where(keep, value / (1.0 - p), 0.0), i < n)


@eas.kernel
def int8_matvec_kernel(a, x, y, scale, K, BLOCK: eas.constexpr):
    row = mk.program_id(0)
    total = mk.zeros([], mk.i32)
    for first in range(0, K, BLOCK):
        k = first + mk.arange(0, BLOCK)
        left = mk.cast(mk.load(a, row * K + k, k < K), mk.i32)
        total += mk.sum(left * mk.cast(mk.load(x, k, k < K), mk.i32))
    mk.store(y, row, mk.cast(total, mk.f32) * scale)


@eas.kernel
def dot_kernel(a, b, out, N: eas.constexpr):
    """The dot product of the user's tinygrad notes."""
    i = mk.arange(0, N)
    mk.store(out, 0, mk.sum(mk.load(a, i) * mk.load(b, i)))


F32, F16, I32, I8, BOOL = (np.zeros(256, d) for d in (np.float32, np.float16, np.int32, np.int8, np.bool_))

# name -> kernel, arguments, meta-parameters
GOLDEN = {
    "add": (add_kernel, (F32, F32, F32, 100), {"BLOCK": 1024}),
    "masked_copy": (masked_copy_kernel, (F32, BOOL, F32, 100), {"BLOCK": 256}),
    "softmax": (softmax_kernel, (F32, F32, 100), {"BLOCK": 1024}),
    "layer_norm": (layer_norm_kernel, (F32, F32, F32, F32, 100, 1e-5), {"BLOCK": 1024}),
    "rms_norm": (rms_norm_kernel, (F32, F32, F32, 100, 1e-5), {"BLOCK": 1024}),
    "row_argmax": (argmax_kernel, (F32, I32, 100), {"LOWEST": -float("inf"), "BLOCK": 1024}),
    "matmul_f32": (matmul_kernel, (F32, F32, F32, 16, 16, 16), {"BM": 64, "BN": 64, "BK": 16}),
    "matmul_f16_gelu": (matmul_gelu_kernel, (F16, F16, F16, F16, 16, 16, 16), {"BM": 64, "BN": 64, "BK": 32}),
    "matmul_direct": (matmul_whole_kernel, (F16, F16, F16, 16, 16), {"BM": 64, "BN": 64, "BK": 32}),
    "flash_attention": (attention_kernel, (F16, F16, F16, F16, 8, 8, 0.5), {"D": 64, "BM": 32, "BN": 32, "CAUSAL": True}),
    "transpose": (transpose_kernel, (F32, F32, 16, 16), {"BM": 32, "BN": 32}),
    "cumsum": (cumsum_kernel, (F32, F32, 100), {"BLOCK": 1024}),
    "histogram": (histogram_kernel, (I32, I32, 100), {"BLOCK": 1024}),
    "thread_sum": (thread_sum_kernel, (F32, F32, 100), {"BLOCK": 256}),
    "thread_mma": (thread_mma_kernel, (F32, F32, F32, 16, 16), {"BLOCK": 128}),
    "dropout": (dropout_kernel, (F32, F32, 100, 0.5, 7), {"BLOCK": 256}),
    "int8_matvec": (int8_matvec_kernel, (I8, I8, F32, 0.5, 64), {"BLOCK": 256}),
}  # fmt: skip
