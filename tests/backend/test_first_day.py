"""Kernels as people write them on their first day: none of them was written to be easy for the compiler."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import eas
from eas import mk

RNG = np.random.default_rng(3)
INF = float("inf")


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.fixture(autouse=True)
def _no_advice():
    with warnings.catch_warnings():
        warnings.simplefilter("error", eas.KernelWarning)
        yield


@eas.kernel
def life(a, b, BLOCK: eas.constexpr):
    H, W = a.shape
    y, x = mk.program_id(0), mk.arange(0, BLOCK)
    n = 0
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dx or dy:
                n += a[(y + dy + H) % H * W + (x + dx + W) % W].to(mk.i32)
    alive = a[y, x] != 0
    mk.store(b, y * W + x, (n == 3) | (alive & (n == 2)), x < W)


def test_game_of_life(backend):
    a = RNG.integers(0, 2, (12, 32)).astype(np.uint8)
    b = np.zeros_like(a)
    life[12](a, b, BLOCK=32)
    n = sum(np.roll(a, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy)
    assert np.array_equal(b, (n == 3) | ((a == 1) & (n == 2)))


@dataclass
class Complex:
    re: Any
    im: Any

    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    def __mul__(self, other):
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    @property
    def square(self):
        return self.re * self.re + self.im * self.im


@eas.kernel
def julia(out, W, H, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < W * H:
        z = Complex((i % W) / W * 3 - 1.5, (i // W) / H * 2 - 1.0)
        c = Complex(-0.8, 0.156)
        count = 0
        for _ in range(n):
            if z.square > 4:
                break
            z = z * z + c
            count += 1
        out[i] = count


def test_a_dataclass_with_operators_in_a_loop_with_break(backend):
    W, H, n = 30, 20, 12
    out = np.zeros(W * H, np.int32)
    julia(out, W, H, n, BLOCK=128, _grid=5)
    i = np.arange(W * H)
    z, want, live = (i % W) / W * 3 - 1.5 + 1j * ((i // W) / H * 2 - 1), 0 * i, i >= 0
    for _ in range(n):
        live &= abs(z) <= 2
        z, want = np.where(live, z * z - 0.8 + 0.156j, z), want + live
    assert np.mean(out == want) > 0.99  # f32 and f64 part at the edge of the set


@eas.kernel
def spmv(ptr, col, val, x, y, M, BLOCK: eas.constexpr):
    row = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if row < M:
        s = 0.0
        for k in range(ptr[row], ptr[row + 1]):
            s += val[k] * x[col[k]]
        y[row] = s


@eas.kernel
def bag(table, index, starts, out, D: eas.constexpr):
    b, d = mk.program_id(0), mk.arange(0, D)
    s = mk.zeros([D])
    for k in range(starts[b], starts[b + 1]):
        s += table[index[k], d]
    out[b, d] = s


def test_rows_of_a_sparse_matrix_and_of_a_table(backend):
    dense = floats(40, 40) * (RNG.random((40, 40)) < 0.2)
    ptr = np.r_[0, np.cumsum((dense != 0).sum(1))].astype(np.int32)
    x, y = floats(40), np.zeros(40, np.float32)
    spmv(ptr, np.nonzero(dense)[1].astype(np.int32), dense[dense != 0].astype(np.float32), x, y, 40, BLOCK=32, _grid=2)
    assert np.allclose(y, dense @ x, atol=1e-5)
    table, index, starts = floats(20, 8), RNG.integers(0, 20, 30), np.array([0, 5, 5, 30])  # NumPy's integers are i64
    out = np.zeros((3, 8), np.float32)
    bag[3](table, index, starts, out, D=8)
    assert np.allclose(out, [table[index[a:b]].sum(0) for a, b in pairwise(starts)], atol=1e-5)


@eas.kernel
def bilinear(src, dst, BLOCK: eas.constexpr):
    (H, W), (h, w) = src.shape, dst.shape
    y, x = mk.program_id(0), mk.arange(0, BLOCK)
    sy, sx = (y + 0.5) * H / h - 0.5, (x + 0.5) * W / w - 0.5
    top, left = mk.floor(sy).to(mk.i32), mk.floor(sx).to(mk.i32)
    fy, fx = sy - top, sx - left
    ya, yb = mk.clamp(top, 0, H - 1), mk.clamp(top + 1, 0, H - 1)
    xa, xb = mk.clamp(left, 0, W - 1), mk.clamp(left + 1, 0, W - 1)
    above = src[ya, xa] * (1 - fx) + src[ya, xb] * fx
    below = src[yb, xa] * (1 - fx) + src[yb, xb] * fx
    mk.store(dst, y * w + x, above * (1 - fy) + below * fy, x < w)


def test_bilinear_resize(backend):
    src, dst = floats(7, 9), np.zeros((15, 29), np.float32)
    bilinear[15](src, dst, BLOCK=32)

    def along(n, m):
        place = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        low = np.minimum(place.astype(int), n - 2)
        weights = np.zeros((m, n))
        weights[np.arange(m), low], weights[np.arange(m), low + 1] = 1 - (place - low), place - low
        return weights

    assert np.allclose(dst, along(7, 15) @ src @ along(9, 29).T, atol=1e-4)


@eas.kernel
def distance(a, b, out, n, m, SIZE: eas.constexpr):
    t = mk.tid(0, 32)
    row = mk.local(SIZE, mk.i32)
    for j in range(m + 1):
        row[j] = j
    for i in range(n):
        before, row[0] = row[0], i + 1
        for j in range(m):
            cost = 0 if a[t, i] == b[t, j] else 1
            best = min(row[j + 1] + 1, row[j] + 1, before + cost)
            before, row[j + 1] = row[j + 1], best
    out[t] = row[m]


def test_edit_distance_in_a_private_array(backend):
    a, b = RNG.integers(0, 4, (32, 8)).astype(np.uint8), RNG.integers(0, 4, (32, 6)).astype(np.uint8)
    out = np.zeros(32, np.int32)
    distance[1](a, b, out, 8, 6, SIZE=8)

    def edits(s, t):
        if not s or not t:
            return len(s) + len(t)
        return edits(s[1:], t[1:]) if s[0] == t[0] else 1 + min(edits(s[1:], t), edits(s, t[1:]), edits(s[1:], t[1:]))

    assert out[:6].tolist() == [edits(bytes(s), bytes(t)) for s, t in zip(a[:6], b[:6], strict=True)]


@eas.kernel
def attend(q, k, v, out, scale: float, D: eas.constexpr, BLOCK: eas.constexpr):
    row, n, d = mk.program_id(0), len(k), mk.arange(0, D)
    query = mk.load(q, row * D + d)
    best, total, acc = -INF, 0.0, mk.zeros([D])
    for start in range(0, n, BLOCK):
        j = start + mk.arange(0, BLOCK)
        inside = (j < n)[:, None]
        scores = mk.load(k, j[:, None] * D + d, inside) @ query * scale
        scores = mk.where(j < n, scores, -INF)
        largest = max(best, scores.max())
        p, shrink = mk.exp(scores - largest), mk.exp(best - largest)
        total = total * shrink + p.sum()
        acc = acc * shrink + p @ mk.load(v, j[:, None] * D + d, inside)
        best = largest
    mk.store(out, row * D + d, acc / total)


def test_a_row_of_attention(backend):
    q, k, v = floats(5, 16), floats(45, 16), floats(45, 16)
    out = np.zeros_like(q)
    attend[5](q, k, v, out, 1 / math.sqrt(16), D=16, BLOCK=16)
    p = np.exp(q @ k.T / 4)
    assert np.allclose(out, p @ v / p.sum(1, keepdims=True), atol=1e-4)


@eas.kernel
def nearest(q, p, out, N, D: eas.constexpr, K: eas.constexpr, BLOCK: eas.constexpr):
    row, i = mk.program_id(0), mk.arange(0, BLOCK)
    d = mk.zeros([BLOCK])
    for j in range(D):
        d += (mk.load(p, i * D + j, i < N) - q[row, j]) ** 2
    _, order = mk.sort(mk.where(i < N, d, INF), payload=i)
    mk.store(out, row * K + mk.arange(0, K), order[:K])


def test_nearest_neighbours(backend):
    q, p = floats(4, 3), floats(50, 3)
    out = np.zeros((4, 5), np.int32)
    nearest[4](q, p, out, 50, D=3, K=5, BLOCK=64)
    assert np.array_equal(out, ((q[:, None] - p[None]) ** 2).sum(-1).argsort(1)[:, :5])


@eas.kernel
def several_axes(x, y):
    a, b, c = mk.arange(0, 2)[:, None, None], mk.arange(0, 4)[:, None], mk.arange(0, 4)
    v = mk.load(x, a * 16 + b * 4 + c)
    mk.store(y, mk.arange(0, 2), v.sum(axis=(1, 2)))
    mk.store(y, 2 + mk.arange(0, 4), v.max(dim=(0, -1)))
    mk.store(y, 6 + mk.arange(0, 4), mk.mean(v, axis=(0, 1)))
    mk.store(y, 10 + mk.arange(0, 2), v.var(axis=[1, 2], keepdims=True).reshape(2))
    mk.store(y, 12, v.sum(axis=(0, 1, 2)))


def test_reductions_over_several_axes(backend):
    x, y = floats(2, 4, 4), np.zeros(13, np.float32)
    several_axes[1](x, y)
    want = np.r_[x.sum((1, 2)), x.max((0, 2)), x.mean((0, 1)), x.var((1, 2)), x.sum()]
    assert np.allclose(y, want, atol=1e-5)


def test_an_axis_is_named_once(backend):
    @eas.kernel
    def twice(x, y):
        mk.store(y, 0, mk.sum(mk.load(x, mk.arange(0, 4)[:, None] + mk.arange(0, 4)), axis=(0, -2)))

    with pytest.raises(eas.ShapeMismatch, match=r"sum got the axes \(0, -2\)"):
        twice[1](floats(8), floats(1))
