"""Reductions and scans: built-in and custom combine functions, every dtype, any axis."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from eas.testing import assert_close
from tests.backend.blocks import Step, run_steps
from tests.backend.formats import assert_identical, buffer, nearest, sample
from tests.backend.launches import METAL, THOROUGH, launch, need_dtype

COVERS = {"reduce", "scan"}
NUMERIC = TABLE["add"].dtypes
ARITHMETIC = (dtypes.bool_, *NUMERIC)
AXES = [((128,), 0), ((33,), None), ((3, 5), 0), ((3, 5), 1), ((3, 5), None), ((2, 3, 7), 1), ((7, 1), -1), ((1,), 0)]
FEW_AXES = [((33,), 0), ((3, 5), None), ((2, 3, 7), 1)]


def summed(dtype: DType) -> DType:
    """What a sum of `dtype` is given as."""
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return dtypes.i32 if dtype.is_bool or dtype.is_signed else dtypes.u32


def along(axis, fn, **options):
    def of_block(x):
        return fn(x, axis=axis, **options)

    return of_block


def axes_for(dtype: DType) -> list:
    return AXES if dtype in THOROUGH else FEW_AXES


def steps(name: str, meaning, cases) -> list[Step]:
    return [Step(along(axis, getattr(mk, name)), functools.partial(meaning, axis=axis), shape, f"{name} of {shape} along {axis}") for shape, axis in cases]


def _exact(values: np.ndarray) -> np.ndarray:
    return values.astype(object) if values.dtype.kind in "iub" else values.astype(np.float64)


def _sum(x, axis):
    return np.sum(_exact(x), axis=axis)


def _prod(x, axis):
    return np.prod(_exact(x), axis=axis)


def _wrapped(want: np.ndarray, dtype: DType) -> np.ndarray:
    mask = (1 << dtype.bits) - 1
    return np.array([int(v) & mask for v in want.ravel()], f"u{dtype.nbytes}").view(dtype.np_storage).reshape(want.shape)


def compare_sums(results, dtype: DType) -> None:
    for step, got, want in results:
        if dtype.is_float:
            terms = math.prod(step.shape)
            rounded = np.array([nearest(float(v), dtype) for v in want.ravel()]).reshape(want.shape)
            assert_close(got, rounded, dtype, scale=math.sqrt(max(terms, 2)))
        else:
            assert_identical(got, _wrapped(want, dtype), dtype, where=step.name)


def near_one(dtype: DType):
    """Values whose products neither vanish nor overflow in f16."""

    def values(n: int) -> list:
        if not dtype.is_float:
            return sample(dtype, n, 5)
        return [nearest(float(v), dtype) for v in np.random.default_rng(5).choice([-1, 1], n) * np.random.default_rng(6).uniform(0.9, 1.12, n)]

    return values


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_sum_and_prod_along_any_axis(backend, dtype):
    need_dtype(backend, dtype)
    both = steps("sum", _sum, axes_for(dtype)) + steps("prod", _prod, axes_for(dtype))
    compare_sums(run_steps(backend, both, near_one(dtype), dtype, summed(dtype), {"reduce"}), summed(dtype))


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_max_and_min_along_any_axis(backend, dtype):
    need_dtype(backend, dtype)
    both = steps("max", np.max, axes_for(dtype)) + steps("min", np.min, axes_for(dtype))
    for step, got, want in run_steps(backend, both, lambda n: sample(dtype, n, 1), dtype, dtype, {"reduce"}):
        assert_identical(got, want, dtype, False, step.name)


@pytest.mark.parametrize("dtype", [d for d in NUMERIC if d.is_float], ids=str)
def test_max_and_min_propagate_nan_and_order_infinities(backend, dtype):
    need_dtype(backend, dtype)

    def values(n: int) -> list:
        given = sample(dtype, n, 1)
        given[3], given[130], given[135], given[190] = math.nan, math.inf, -math.inf, math.nan
        return given

    both = steps("max", np.max, AXES) + steps("min", np.min, AXES)
    for step, got, want in run_steps(backend, both, values, dtype, dtype, {"reduce"}):
        assert_identical(got, want, dtype, False, step.name)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_argmax_and_argmin_take_the_first(backend, dtype):
    need_dtype(backend, dtype)

    def values(n: int) -> list:
        few = sample(dtype, 4, 2)  # many ties
        given = [few[i] for i in np.random.default_rng(3).integers(0, 4, n)]
        if dtype.is_float:
            given[50], given[70], given[140], given[190 % n] = math.nan, math.nan, math.nan, math.inf
        return given

    both = steps("argmax", np.argmax, axes_for(dtype)) + steps("argmin", np.argmin, axes_for(dtype))
    for step, got, want in run_steps(backend, both, values, dtype, dtypes.i32, {"reduce"}):
        assert_identical(got, want, dtypes.i32, where=step.name)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_any_and_all_are_python_truth(backend, dtype):
    need_dtype(backend, dtype)

    def values(n: int) -> list:
        zero, one = (0.0, math.nan) if dtype.is_float else (dtype.min * 0, dtype.max)
        given = [one] * n
        for i in (5, 129, 150, 166, 167, 168, 200):
            given[i % n] = zero
        return given

    both = steps("any", np.any, axes_for(dtype)) + steps("all", np.all, axes_for(dtype))
    for step, got, want in run_steps(backend, both, values, dtype, dtypes.bool_, {"reduce"}):
        assert_identical(got, want, dtypes.bool_, where=step.name)


@pytest.mark.parametrize("dtype", [d for d in ARITHMETIC if not d.is_float], ids=str)
def test_xor_sum_keeps_the_dtype(backend, dtype):
    folds = steps("xor_sum", np.bitwise_xor.reduce, axes_for(dtype))
    for step, got, want in run_steps(backend, folds, lambda n: sample(dtype, n, 1), dtype, dtype, {"reduce"}):
        assert_identical(got, want, dtype, where=step.name)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_mean_and_softmax_are_floats(backend, dtype):
    need_dtype(backend, dtype)
    out = dtype if dtype.is_float else dtypes.f32

    def softmax(x, axis):
        powers = np.exp(x.astype(np.float64) - np.max(x.astype(np.float64), axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)

    def small(n: int) -> list:
        wide = dtypes.i8 if dtype.is_signed else dtypes.u8
        return sample(dtype, n, 1) if dtype.is_bool else [v // 8 for v in sample(wide, n, 1)] if dtype.is_int else near_one(dtype)(n)

    mean = steps("mean", lambda x, axis: np.mean(x.astype(np.float64), axis=axis), axes_for(dtype))
    both = mean + steps("softmax", softmax, [(s, a) for s, a in axes_for(dtype) if a is not None])
    compare_sums(run_steps(backend, both, small, dtype, out, {"reduce"}), out)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_cumsum_and_cumprod_both_ways(backend, dtype):
    need_dtype(backend, dtype)
    cases = [(s, a) for s, a in axes_for(dtype) if a is not None]
    both = []
    for name, fold in (("cumsum", np.add), ("cumprod", np.multiply)):
        both += steps(name, lambda x, axis, fold=fold: fold.accumulate(_exact(x), axis=axis), cases)
        both += [
            Step(along(axis, getattr(mk, name), reverse=True), lambda x, axis=axis, fold=fold: np.flip(fold.accumulate(np.flip(_exact(x), axis), axis=axis), axis), shape, f"{name} from the end")
            for shape, axis in cases[:3]
        ]
    compare_sums(run_steps(backend, both, near_one(dtype), dtype, summed(dtype), {"scan"}), summed(dtype))


# --- combine functions of the author's own ----------------------------------------------------


def composed(a, b, c, d):
    """x -> a*x + b, then x -> c*x + d: associative, not commutative."""
    return a * c, b * c + d


@eas.kernel
def affine_kernel(scale, shift, y, z, N: eas.constexpr):
    i = mk.arange(0, N)
    pair = mk.load(scale, i), mk.load(shift, i)
    a, b = mk.reduce(pair, 0, composed)
    mk.store(y, 0, a)
    mk.store(y, 1, b)
    forward = mk.associative_scan(pair, 0, composed)
    mk.store(z, i, forward[0])
    mk.store(z, N + i, forward[1])
    backward = mk.associative_scan(pair, 0, composed, reverse=True)
    mk.store(z, 2 * N + i, backward[0])
    mk.store(z, 3 * N + i, backward[1])


@pytest.mark.parametrize(("n", "warps"), [(1, 1), (7, 1), (33, 1), (128, 1), (1000, 8), (1024, 4)])  # on Metal across simdgroups, with padding and without
def test_custom_combine_keeps_the_order(backend, n, warps):
    rng = np.random.default_rng(n)
    scale, shift = rng.integers(-3, 4, (2, n)).astype(np.int64)
    scale = 2 * scale + 1  # odd numbers: an even one, many times, would hide all that comes before
    y, z = np.zeros(2, np.int64), np.zeros((4, n), np.int64)
    launch(backend, affine_kernel, scale, shift, y, z, grid=1, N=n, num_warps=warps)

    def prefixes(order):
        state = None
        for i in order:
            state = (scale[i], shift[i]) if state is None else composed(*state, scale[i], shift[i])
            yield state

    with np.errstate(over="ignore"):
        forward = np.array(list(prefixes(range(n)))).T
        backward = np.array(list(prefixes(range(n - 1, -1, -1)))).T[:, ::-1]
    np.testing.assert_array_equal(y, forward[:, -1])
    np.testing.assert_array_equal(z, np.concatenate([forward, backward]))


def plus(a, b):
    return a + b


@eas.kernel
def rounded_prefixes(x, y, N: eas.constexpr):
    i = mk.arange(0, N)
    mk.store(y, i, mk.associative_scan(mk.load(x, i), 0, plus))


@pytest.mark.left_out(lambda backend: backend in METAL)  # its scans combine runs, in whichever order
@pytest.mark.parametrize("dtype", [np.float16])
def test_sums_of_narrow_floats_round_one_by_one(backend, dtype):
    """2048 and a half is 2048: however many come, the sum stays, unless they meet each other first."""
    x = np.full(100, 0.5, dtype)
    x[0] = 2048
    y = np.zeros(100, dtype)
    launch(backend, rounded_prefixes, x, y, grid=1, N=100)
    np.testing.assert_array_equal(y, 2048)


def larger_magnitude(a, b):
    return a if abs(a) > abs(b) else b



@eas.kernel
def magnitude_kernel(x, y, rows, COLS: eas.constexpr):
    r, c = mk.arange(0, 5), mk.arange(0, COLS)
    block = mk.load(x, r[:, None] * COLS + c[None, :], r[:, None] < rows)
    mk.store(y, r[:, None], mk.reduce(block, 1, larger_magnitude, keep_dims=True), r[:, None] < rows)


def test_combine_may_choose_with_a_conditional(backend):
    x = np.random.default_rng(0).standard_normal((3, 17)).astype(np.float32)
    y = np.full(5, 9, np.float32)
    launch(backend, magnitude_kernel, x, y, 3, grid=1, COLS=17)
    np.testing.assert_array_equal(y, [*x[range(3), np.abs(x).argmax(axis=1)], 9, 9])


def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    share = count_b / mk.maximum(count, 1.0)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@eas.kernel
def variance_kernel(x, y, N, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mask = i < N
    mean, m2, count = mk.reduce((mk.load(x, i, mask), mk.zeros([BLOCK]), mk.where(mask, 1.0, 0.0)), 0, welford)
    mk.store(y, 0, mean)
    mk.store(y, 1, m2 / count)


@pytest.mark.parametrize("n", [1, 33, 100, 128])
def test_welford_over_a_masked_block(backend, n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32) + 100
    y = np.zeros(2, np.float32)
    launch(backend, variance_kernel, x, y, n, grid=1, BLOCK=128)
    np.testing.assert_allclose(y, [x.mean(dtype=np.float64), x.var(dtype=np.float64)], rtol=1e-4, atol=1e-6)


@eas.kernel
def masked_rows_kernel(x, y, n_cols, BLOCK: eas.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    mask = cols < n_cols
    top, at = mk.max(mk.load(x, row * n_cols + cols, mask, other=-math.inf), return_indices=True)
    mk.store(y, row * 3, mk.sum(mk.load(x, row * n_cols + cols, mask)))
    mk.store(y, row * 3 + 1, top)
    mk.store(y, row * 3 + 2, at)


@pytest.mark.parametrize("cols", [1, 7, 33, 64])
def test_masked_tails_do_not_count(backend, cols):
    x = -np.abs(np.random.default_rng(cols).standard_normal((5, cols))).astype(np.float32)
    y = np.zeros((5, 3), np.float32)
    launch(backend, masked_rows_kernel, buffer(x, dtypes.f32), y, cols, grid=5, BLOCK=64)
    assert_close(y[:, 0], x.sum(axis=1, dtype=np.float64), "f32", scale=8)
    np.testing.assert_array_equal(y[:, 1:], np.stack([x.max(axis=1), x.argmax(axis=1)], axis=1))
