"""The rows as a Numba user writes them: parallel loops, fast math."""

from __future__ import annotations

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True, cache=True)


@jit
def add(x, y, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + y[i]


@jit
def gelu(x, a, b, out):
    for i in numba.prange(x.size):
        v = a * x[i] + b
        out[i] = np.float32(0.5) * v * (np.float32(1) + math.erf(v * np.float32(0.70710678)))


@jit
def gelu_tanh(x, a, b, out):
    for i in numba.prange(x.size):
        v = a * x[i] + b
        inner = np.float32(0.79788456) * (v + np.float32(0.044715) * v * v * v)
        out[i] = np.float32(0.5) * v * (np.float32(1) + math.tanh(inner))


@jit
def softmax(x, out):
    for r in numba.prange(x.shape[0]):
        best = np.float32(-np.inf)
        for c in range(x.shape[1]):
            best = max(best, x[r, c])
        total = np.float32(0)
        for c in range(x.shape[1]):
            out[r, c] = math.exp(x[r, c] - best)
            total += out[r, c]
        scale = np.float32(1) / total
        for c in range(x.shape[1]):
            out[r, c] *= scale


@jit
def layer_norm(x, weight, bias, out, eps):
    cols = x.shape[1]
    for r in numba.prange(x.shape[0]):
        total = np.float32(0)
        for c in range(cols):
            total += x[r, c]
        mean = total / np.float32(cols)
        squares = np.float32(0)
        for c in range(cols):
            squares += (x[r, c] - mean) * (x[r, c] - mean)
        rstd = np.float32(1) / np.sqrt(squares / np.float32(cols) + eps)
        for c in range(cols):
            out[r, c] = (x[r, c] - mean) * rstd * weight[c] + bias[c]


@jit
def rms_norm(x, weight, out, eps):
    cols = x.shape[1]
    for r in numba.prange(x.shape[0]):
        squares = np.float32(0)
        for c in range(cols):
            squares += x[r, c] * x[r, c]
        rstd = np.float32(1) / np.sqrt(squares / np.float32(cols) + eps)
        for c in range(cols):
            out[r, c] = x[r, c] * rstd * weight[c]


@jit
def cumsum(x, out):
    for r in numba.prange(x.shape[0]):
        total = np.float32(0)
        for c in range(x.shape[1]):
            total += x[r, c]
            out[r, c] = total


@jit
def sum(x):
    total = np.float32(0)
    for i in numba.prange(x.size):
        total += x[i]
    return total


@jit
def histogram(x, counts, threads):
    private = np.zeros((threads, counts.size), np.int32)
    step = (x.size + threads - 1) // threads
    for t in numba.prange(threads):
        for i in range(t * step, min((t + 1) * step, x.size)):
            private[t, x[i]] += 1
    counts[:] = private.sum(axis=0)


@jit
def transpose(x, out, tile):
    rows, cols = x.shape
    for block in numba.prange(rows // tile):
        for c0 in range(0, cols, tile):
            for c in range(c0, c0 + tile):
                for r in range(block * tile, (block + 1) * tile):
                    out[c, r] = x[r, c]


@jit
def stencil3(x, f, out):
    """3x3; pixels outside of the image are 0."""
    h, w = x.shape
    a, b, c, d, e, g, i, j, k = f[0, 0], f[0, 1], f[0, 2], f[1, 0], f[1, 1], f[1, 2], f[2, 0], f[2, 1], f[2, 2]
    for row in numba.prange(h):
        if 0 < row < h - 1:
            for col in range(1, w - 1):
                top = x[row - 1, col - 1] * a + x[row - 1, col] * b + x[row - 1, col + 1] * c
                middle = x[row, col - 1] * d + x[row, col] * e + x[row, col + 1] * g
                bottom = x[row + 1, col - 1] * i + x[row + 1, col] * j + x[row + 1, col + 1] * k
                out[row, col] = top + middle + bottom
            edge(x, f, out, row, 0)
            edge(x, f, out, row, w - 1)
        else:
            for col in range(w):
                edge(x, f, out, row, col)


@jit
def conv3(x, f, out):
    """3x3 of many channels, row by row, the taps of a row written out; pixels outside of the image are 0."""
    n, c, h, w = x.shape
    o = f.shape[0]
    for plane in numba.prange(n * o):
        image, channel = plane // o, plane % o
        for row in range(h):
            total = out[image, channel, row]
            total[:] = 0
            for k in range(c):
                for i in range(max(0, 1 - row), min(3, h + 1 - row)):
                    line = x[image, k, row + i - 1]
                    left, middle, right = f[channel, k, i, 0], f[channel, k, i, 1], f[channel, k, i, 2]
                    for col in range(1, w - 1):
                        total[col] += line[col - 1] * left + line[col] * middle + line[col + 1] * right
                    total[0] += line[0] * middle + line[1] * right
                    total[w - 1] += line[w - 2] * left + line[w - 1] * middle


@jit
def stencil(x, f, out):
    """Any odd size; pixels outside of the image are 0."""
    h, w = x.shape
    away = f.shape[0] // 2
    for row in numba.prange(h):
        if away <= row < h - away:
            for col in range(away, w - away):
                total = np.float32(0)
                for i in range(f.shape[0]):
                    for j in range(f.shape[1]):
                        total += x[row + i - away, col + j - away] * f[i, j]
                out[row, col] = total
            for col in range(away):
                edge(x, f, out, row, col)
                edge(x, f, out, row, w - 1 - col)
        else:
            for col in range(w):
                edge(x, f, out, row, col)


@numba.njit(fastmath=True, cache=True)
def edge(x, f, out, row, col):
    away, total = f.shape[0] // 2, np.float32(0)
    for i in range(f.shape[0]):
        for j in range(f.shape[1]):
            r, c = row + i - away, col + j - away
            if 0 <= r < x.shape[0] and 0 <= c < x.shape[1]:
                total += x[r, c] * f[i, j]
    out[row, col] = total


@jit
def matvec(a, x, out):
    for row in numba.prange(a.shape[0]):
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * x[k]
        out[row] = total
