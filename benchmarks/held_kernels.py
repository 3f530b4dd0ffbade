"""The kernels of `held.py`, as a user writes them: nothing in them is chosen for a machine."""

from __future__ import annotations

import eas
from eas import mk


@eas.kernel
def scale(x, out, n, sx, so, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i * so, 2 * mk.load(x, i * sx, i < n), i < n)


@eas.kernel
def add_tiles(x, y, out, M, N, BM: mk.constexpr, BN: mk.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    mask = (rows < M) & (cols < N)
    a = mk.load(x, rows * x.stride(0) + cols * x.stride(1), mask)
    b = mk.load(y, rows * y.stride(0) + cols * y.stride(1), mask)
    mk.store(out, rows * out.stride(0) + cols * out.stride(1), a + b, mask)


@eas.kernel
def add(x, y, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) + mk.load(y, i, i < n), i < n)


@eas.kernel
def blend(x, y, out, n, alpha, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    a, b = mk.load(x, i, i < n).to(mk.i32), mk.load(y, i, i < n).to(mk.i32)
    mk.store(out, i, ((a * alpha + b * (256 - alpha)) >> 8).to(mk.u8), i < n)


@eas.kernel
def threshold_rows(x, out, N, limit, BLOCK: mk.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    values = mk.load(x, row * N + cols, cols < N)
    mk.store(out, row * N + cols, mk.where(values > limit, values, 0), cols < N)


@eas.kernel
def mandelbrot(re, im, out, n, steps, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        a, b = mk.load(re, i), mk.load(im, i)
        x = y = 0.0
        k = 0
        while k < steps and x * x + y * y <= 4.0:
            x, y = x * x - y * y + a, 2.0 * x * y + b
            k += 1
        mk.store(out, i, k)


@eas.kernel
def horner(x, coefficients, out, n, degree, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n)
    total = mk.zeros([BLOCK])
    for k in range(degree):
        total = total * value + mk.load(coefficients, k)
    mk.store(out, i, total, i < n)


@eas.kernel
def stencil(x, out, n, H, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    inside, row, column = i < n, i // W, i % W
    up, down = mk.load(x, i - W, inside & (row > 0)), mk.load(x, i + W, inside & (row < H - 1))
    left, right = mk.load(x, i - 1, inside & (column > 0)), mk.load(x, i + 1, inside & (column < W - 1))
    mk.store(out, i, 0.25 * (up + down + left + right), inside)


@eas.kernel
def channels_first(x, out, n, C, HW, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    pixel, channel, image = i % HW, (i // HW) % C, i // (C * HW)
    mk.store(out, i, mk.load(x, (image * HW + pixel) * C + channel, i < n), i < n)


@eas.kernel
def channels_last(x, out, n, C, HW, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    channel, pixel, image = i % C, (i // C) % HW, i // (C * HW)
    mk.store(out, i, mk.load(x, (image * C + channel) * HW + pixel, i < n), i < n)


@eas.kernel
def channel_bias(x, bias, out, n, HW, C, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) + mk.load(bias, (i // HW) % C, i < n), i < n)


@eas.kernel
def upsample(x, out, n, W, S, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    row, column = i // (W * S), i % (W * S)
    mk.store(out, i, mk.load(x, row // S * W + column // S, i < n), i < n)


@eas.kernel
def carried_sums(x, out, n, BLOCK: mk.constexpr):
    row, total = mk.program_id(0), mk.zeros([BLOCK])
    for first in range(0, n, BLOCK):
        columns = first + mk.arange(0, BLOCK)
        total += mk.load(x, row * n + columns, columns < n)
    mk.store(out, row, mk.sum(total))


@eas.kernel
def newton(x, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n, 1.0)
    root = value
    while mk.any(mk.abs(root * root - value) > 1e-5 * value):
        root = 0.5 * (root + value / root)
    mk.store(out, i, root, i < n)


@eas.kernel
def atomic_histogram(x, bins, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(bins, mk.load(x, i, i < n, 0), 1, i < n)


@eas.kernel
def row_scales(x, s, out, n, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) * mk.load(s, i // W, i < n), i < n)


@eas.kernel
def taken_rows(x, rows, out, n, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, mk.load(rows, i // W, i < n) * W + i % W, i < n), i < n)


@eas.kernel
def bias_tiles(x, b, out, M, N, BM: mk.constexpr, BN: mk.constexpr):
    r = mk.program_id(0) * BM + mk.arange(0, BM)[:, None]
    c = mk.program_id(1) * BN + mk.arange(0, BN)[None, :]
    inside = (r < M) & (c < N)
    mk.store(out, r * N + c, mk.load(x, r * N + c, inside) + mk.load(b, c, c < N), inside)


@eas.kernel
def stride_loop(x, out, n, THREADS: mk.constexpr):
    row, t = mk.program_id(0), mk.tid(0, THREADS)
    total = 0.0
    for c in range(t, n, THREADS):
        total += mk.load(x, row * n + c)
    mk.store(out, row * THREADS + t, total)
