"""The rows of `held.py` as a Numba user writes them: parallel loops over rows where there are rows, fast math."""

from __future__ import annotations

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True, cache=True)


@jit
def scale(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i] * np.float32(2)


@jit
def add_tiles(x, y, out):
    for r in numba.prange(out.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] = x[r, c] + y[r, c]


@jit
def add(x, y, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + y[i]


@jit
def blend(x, y, out, alpha):
    a, b = np.int32(alpha), np.int32(256 - alpha)
    for i in numba.prange(x.size):
        out[i] = np.uint8((np.int32(x[i]) * a + np.int32(y[i]) * b) >> 8)


@jit
def threshold_rows(x, out, limit):
    for r in numba.prange(x.shape[0]):
        for c in range(x.shape[1]):
            v = x[r, c]
            out[r, c] = v if v > limit else np.uint8(0)


@jit
def mandelbrot(re, im, out, steps):
    for i in numba.prange(re.size):
        a, b = re[i], im[i]
        x = y = np.float32(0)
        k = np.int32(0)
        while k < steps and x * x + y * y <= np.float32(4):
            x, y = x * x - y * y + a, np.float32(2) * x * y + b
            k += np.int32(1)
        out[i] = k


@jit
def horner(x, coefficients, out):
    for i in numba.prange(x.size):
        v, total = x[i], np.float32(0)
        for k in range(coefficients.size):
            total = total * v + coefficients[k]
        out[i] = total


@jit
def stencil(x, out):
    h, w = x.shape
    for r in numba.prange(h):
        for c in range(w):
            s = np.float32(0)
            if r > 0:
                s += x[r - 1, c]
            if r < h - 1:
                s += x[r + 1, c]
            if c > 0:
                s += x[r, c - 1]
            if c < w - 1:
                s += x[r, c + 1]
            out[r, c] = np.float32(0.25) * s


@jit
def channels_first(x, out):
    images, rows, columns = out.shape
    for row in numba.prange(images * rows):
        image, r = row // rows, row % rows
        for c in range(columns):
            out[image, r, c] = x[image, c, r]


channels_last = channels_first  # pixels and channels change places either way


@jit
def channel_bias(x, bias, out):
    for row in numba.prange(x.shape[0]):
        b = bias[row % bias.size]
        for p in range(x.shape[1]):
            out[row, p] = x[row, p] + b


@jit
def upsample(x, out, s):
    h, w = x.shape
    for r in numba.prange(h * s):
        for c in range(w):
            v = x[r // s, c]
            for k in range(s):
                out[r, c * s + k] = v


@jit
def row_sums(x, out):
    for r in numba.prange(x.shape[0]):
        total = np.float32(0)
        for c in range(x.shape[1]):
            total += x[r, c]
        out[r] = total


@jit
def newton(x, out):
    for i in numba.prange(x.size):
        root = x[i]
        while abs(root * root - x[i]) > np.float32(1e-5) * x[i]:
            root = np.float32(0.5) * (root + x[i] / root)
        out[i] = root


@jit
def row_scales(x, s, out):
    for r in numba.prange(x.shape[0]):
        for c in range(x.shape[1]):
            out[r, c] = x[r, c] * s[r]


@jit
def taken_rows(x, rows, out):
    for r in numba.prange(rows.size):
        for c in range(x.shape[1]):
            out[r, c] = x[rows[r], c]


@jit
def bias_tiles(x, b, out):
    for r in numba.prange(x.shape[0]):
        for c in range(x.shape[1]):
            out[r, c] = x[r, c] + b[c]


@jit
def thread_sums(x, out):
    threads = out.shape[1]
    for r in numba.prange(x.shape[0]):
        for t in range(threads):
            out[r, t] = np.float32(0)
        for first in range(0, x.shape[1], threads):
            for t in range(min(threads, x.shape[1] - first)):
                out[r, t] += x[r, first + t]
