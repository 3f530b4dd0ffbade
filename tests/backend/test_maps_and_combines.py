"""Functions of one element: with branches and loops for every element, and as what reductions and scans combine by."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

COVERS = {"map"}


def compare(x, y):
    if x < y:
        return -1
    if x == y:
        return 0
    return 1


def collatz(n):
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
            steps += 1
        else:
            n = (3 * n + 1) // 2
            steps += 2
    return steps, n


def power(x, n):
    result = 1.0
    for _ in range(n):
        if result > 100.0:
            return -x
        result = result * x
    return result


def divmod_pairs(a0, a1, b0, b1):
    return a0 // b0, a1 // b1, a0 % b0, a1 % b1


@eas.kernel
def map_kernel(X, Y, sign, steps, powers, quotients, rests, rows, limit, B: eas.constexpr):
    i = mk.arange(0, B)
    x, y = mk.load(X + i), mk.load(Y + i)
    mk.store(sign + i, mk.map_elementwise(compare, x, y))
    count, _ = mk.map_elementwise(collatz, mk.abs(x) + 1)
    mk.store(steps + i, count)
    mk.store(powers + i, mk.map_elementwise(power, y.to(mk.f32), mk.abs(x)))
    q, r = mk.map_elementwise(divmod_pairs, x, y, pack=2)
    mk.store(quotients + i, q)
    mk.store(rests + i, r)
    mk.store(rows + i, mk.ravel(mk.map_elementwise(compare, mk.reshape(x, [4, B // 4]), limit)))


def collatz_steps(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def plain_power(x: float, n: int) -> float:
    result = 1.0
    for _ in range(n):
        if result > 100.0:
            return -x
        result *= x
    return result


@pytest.mark.every_width
def test_functions_of_elements_branch_and_loop(backend):
    rng = np.random.default_rng(3)
    B = 64
    x, y = (rng.integers(-9, 10, B).astype(np.int32) for _ in range(2))
    y[y == 0] = 5
    outs = [np.zeros(B, np.float32 if k == 2 else np.int32) for k in range(6)]
    launch(backend, map_kernel, x, y, *outs, 3, grid=1, B=B)
    sign, steps, powers, quotients, rests, rows = outs
    np.testing.assert_array_equal(sign, np.sign(x - y))
    np.testing.assert_array_equal(steps, [collatz_steps(abs(int(v)) + 1) for v in x])
    np.testing.assert_array_equal(powers, np.array([plain_power(float(b), abs(int(a))) for a, b in zip(x, y, strict=True)], np.float32))
    np.testing.assert_array_equal(quotients, x // y)
    np.testing.assert_array_equal(rests, x % y)
    np.testing.assert_array_equal(rows, np.sign(x - 3))


def test_a_function_of_elements_may_touch_memory(backend):
    """Only the elements that take a branch store in it."""

    def store_even(p, x):
        if x % 2 == 0:
            mk.store(p, x, x)
        return x

    @eas.kernel
    def k(x, y, n, B: eas.constexpr):
        i = mk.arange(0, B)
        mk.map_elementwise(lambda v: store_even(y, v), mk.load(x, i, i < n, -1 + i * 0))

    x, y = np.arange(30, dtype=np.int32), np.full(30, -1, np.int32)
    launch(backend, k, x, y, 30, grid=1, B=32)
    assert y.tolist() == [v if v % 2 == 0 else -1 for v in range(30)]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: mk.map_elementwise(lambda v: v + i, x), "the function of map_elementwise works on scalars, and uses"),
        (lambda x, i: mk.map_elementwise(compare, x, i, pack=3), "map_elementwise got pack=3 for blocks of shape [16]"),
        (lambda x, i: mk.map_elementwise(lambda a, b: (a, b, a), x, pack=2), "returned 3 values with pack=2"),
        (lambda x, i: mk.map_elementwise(3, x), "map_elementwise needs a function"),
    ],
)
def test_refusals(call, text, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")

    @eas.kernel
    def k(x):
        i = mk.arange(0, 16)
        call(mk.load(x, i), i)

    with pytest.raises(eas.EasError) as caught:
        k(np.zeros(16, np.int32), _grid=1)
    assert text in str(caught.value)


# --- combine functions ----------------------------------------------------------------------------


def add_exps(a, b):
    """Its first instruction alone is a reduction, too."""
    most = mk.maximum(a, b)
    return most + mk.log(mk.exp(a - most) + mk.exp(b - most))


def largest(a, b):
    return mk.where(a > b, a, b)


def largest_of_ones(a, b):
    """Constants of shape [1], as generated Triton code has them."""
    zero = mk.full([1], 0, mk.i32)
    return mk.where(a > b + zero, a, b) * mk.full([1], 1, mk.i32)


def first_largest(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j) & mk.full([1], True, mk.bool_))
    return mk.where(take, a, b), mk.where(take, i, j)


def many(*args):
    """Five components: matrices of two by two that are multiplied, and a count."""
    a, b, c, d, n, e, f, g, h, m = args
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h, n + m


@eas.kernel
def combine_kernel(X, F, out, sums, products, B: eas.constexpr, ROWS: eas.constexpr):
    i = mk.arange(0, B)
    x, f = mk.load(X + i), mk.load(F + i)
    mk.store(out, mk.reduce(x, 0, largest))
    mk.store(out + 1, mk.reduce(x, 0, largest_of_ones))
    best, at = mk.reduce((x, i), 0, first_largest)
    mk.store(out + 2, best)
    mk.store(out + 3, at)
    mk.store(out + 4 + i, mk.associative_scan(x, 0, largest_of_ones))
    mk.store(sums, mk.reduce(f, 0, add_exps))
    mk.store(sums + 1 + i, mk.associative_scan(f, 0, add_exps))
    rows = mk.reduce(mk.reshape(f, [ROWS, B // ROWS]), 1, add_exps)
    mk.store(sums + 1 + B + mk.arange(0, ROWS), rows)
    one, bit = mk.full([B], 1, mk.i32), x & 1
    parts = (one, bit, 0 * bit, one, one)
    for k, total in enumerate(mk.reduce(parts, 0, many)):
        mk.store(products + k, total)
    for k, each in enumerate(mk.associative_scan(parts, 0, many)):
        mk.store(products + 5 + k * B + i, each)


@pytest.mark.every_width
@pytest.mark.parametrize(("B", "rows"), [(64, 4), (21, 3)])
def test_any_function_of_scalars_combines(backend, B, rows):
    rng = np.random.default_rng(B)
    x, f = rng.integers(-9, 10, B).astype(np.int32), rng.standard_normal(B).astype(np.float32)
    out, sums, products = np.zeros(4 + B, np.int32), np.zeros(1 + B + rows, np.float32), np.zeros(5 + 5 * B, np.int32)
    launch(backend, combine_kernel, x, f, out, sums, products, grid=1, B=B, ROWS=rows)
    assert out[:4].tolist() == [x.max(), x.max(), x.max(), x.argmax()]
    np.testing.assert_array_equal(out[4:], np.maximum.accumulate(x))
    wide = f.astype(np.float64)
    want = [np.logaddexp.reduce(wide), *np.logaddexp.accumulate(wide), *np.logaddexp.reduce(wide.reshape(rows, -1), axis=1)]
    np.testing.assert_allclose(sums, want, rtol=2e-6, atol=2e-6)
    ones = np.ones(B, np.int32)
    matrices = [(1, int(v) & 1, 0, 1, 1) for v in x]
    total = reduce(lambda p, q: many(*p, *q), matrices)
    assert products[:5].tolist() == list(total)
    np.testing.assert_array_equal(products[5:].reshape(5, B), [ones, np.cumsum(x & 1), 0 * ones, ones, np.cumsum(ones)])
