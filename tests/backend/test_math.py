"""Functions with an ulp bound: every float dtype of the row against Python's `math` in f64."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import math

import numpy as np
import pytest

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from eas.testing import assert_close
from tests.backend.formats import FLOATS, buffer, contents, edges, nearest, poison, sample
from tests.backend.launches import (
    SHAPES,
    elementwise,
    elementwise_all,
    need_dtype,
    op_groups,
    shapes_for,
    without_subnormals,
)


def ieee(fn, poles=(), pole=math.inf, odd=False):
    """A function of `math` that answers with inf and NaN, as IEEE does, instead of raising."""

    def value(x: float) -> float:
        if x in poles:
            return pole
        try:
            return fn(x)
        except OverflowError:
            return math.copysign(math.inf, x) if odd else math.inf
        except ValueError:
            return math.nan

    return value


def _rsqrt(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    return 1 / math.sqrt(x)


def _sigmoid(x: float) -> float:
    if x >= 0 or x != x:
        return 1 / (1 + math.exp(-x))
    return math.exp(x) / (1 + math.exp(x))


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1 else math.atanh(x)


# C's: Python's own is off by millions of ulp near 1 and 2.
_lgamma = ctypes.CDLL(ctypes.util.find_library("m")).lgamma
_lgamma.restype, _lgamma.argtypes = ctypes.c_double, (ctypes.c_double,)


def _pow(x: float, y: float) -> float:
    odd = math.isfinite(y) and y == math.floor(y) and math.fmod(y, 2) != 0
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:
        if x == 0:
            return math.copysign(math.inf, x) if odd else math.inf
        return math.nan


UNARY = {
    "exp": (mk.exp, ieee(math.exp)),
    "exp2": (mk.exp2, ieee(math.exp2)),
    "exp10": (mk.exp10, ieee(lambda x: 10.0**x)),
    "expm1": (mk.expm1, ieee(math.expm1)),
    "log": (mk.log, ieee(math.log, (0.0,), -math.inf)),
    "log2": (mk.log2, ieee(math.log2, (0.0,), -math.inf)),
    "log10": (mk.log10, ieee(math.log10, (0.0,), -math.inf)),
    "log1p": (mk.log1p, ieee(math.log1p, (-1.0,), -math.inf)),
    "sin": (mk.sin, ieee(math.sin)),
    "cos": (mk.cos, ieee(math.cos)),
    "tan": (mk.tan, ieee(math.tan)),
    "asin": (mk.asin, ieee(math.asin)),
    "acos": (mk.acos, ieee(math.acos)),
    "atan": (mk.atan, ieee(math.atan)),
    "sinh": (mk.sinh, ieee(math.sinh, odd=True)),
    "cosh": (mk.cosh, ieee(math.cosh)),
    "tanh": (mk.tanh, ieee(math.tanh)),
    "asinh": (mk.asinh, ieee(math.asinh)),
    "acosh": (mk.acosh, ieee(math.acosh)),
    "atanh": (mk.atanh, ieee(_atanh)),
    "erf": (mk.erf, ieee(math.erf)),
    "erfc": (mk.erfc, ieee(math.erfc)),
    "lgamma": (mk.lgamma, ieee(_lgamma)),
    "rsqrt": (mk.rsqrt, ieee(_rsqrt)),
    "cbrt": (mk.cbrt, ieee(math.cbrt)),
    "sigmoid": (mk.sigmoid, ieee(_sigmoid)),
}
BINARY = {
    "pow": (mk.pow, _pow),
    "atan2": (mk.atan2, math.atan2),
    "hypot": (mk.hypot, math.hypot),
}
COVERS = {*UNARY, *BINARY}


def points(dtype: DType, seed: int) -> list[float]:
    """Edge values, values around each function's domain, and magnitudes over the whole range."""
    rng = np.random.default_rng(seed)
    mantissa, least, largest = FLOATS[dtype.name]
    scales = 2.0 ** rng.uniform(least - mantissa, math.log2(largest), 60) * rng.choice([-1.0, 1.0], 60)
    inside = np.concatenate([rng.uniform(-1, 1, 80), rng.uniform(-10, 10, 80), rng.uniform(-100, 100, 40), 1 + rng.standard_normal(20) * 2.0**-mantissa * 8])
    return edges(dtype) + [nearest(float(x), dtype) for x in np.concatenate([scales, inside])]


def judge(op: str, got: np.ndarray, want: list[float], dtype: DType) -> None:
    assert_close(got, np.array(want), dtype, ulps=TABLE[op].accuracy.bound(dtype))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), np.isnan(want))


def check(backend, table, ops: list[str], dtype: DType, operands: list[list[float]], shapes=SHAPES) -> None:
    operands = [without_subnormals(backend, xs, dtype) for xs in operands]
    outs = [poison(len(operands[0]) + 1, dtype) for _ in ops]
    elementwise_all(backend, [table[op][0] for op in ops], [buffer(xs, dtype) for xs in operands], outs, set(ops), shapes)
    for op, out in zip(ops, outs, strict=True):
        judge(op, contents(out)[:-1], [nearest(table[op][1](*xs), dtype) for xs in zip(*operands, strict=True)], dtype)


@pytest.mark.parametrize(("ops", "dtype"), op_groups(UNARY))
def test_functions_of_one_are_within_their_bounds(backend, ops, dtype):
    need_dtype(backend, dtype)
    check(backend, UNARY, ops, dtype, [points(dtype, 0)], shapes_for(dtype))


LGAMMA_ZEROS = (-2.4570247382208006, -2.7476826467274127, -3.14358088834998, -3.955294284858598, -4.039361839740537, -4.991544640560048, -5.998607480080875, -6.001385294453155, -7.000198333407325, -7.999975197095821, -9.000002755714823)  # fmt: skip


def test_lgamma_keeps_its_bound_where_it_is_nearly_zero(backend):
    steps = np.concatenate([np.arange(-20, 21), 2 ** np.arange(5, 16), -(2 ** np.arange(5, 16))])
    around = [np.float32(z) + steps * np.spacing(np.float32(z)) for z in LGAMMA_ZEROS]
    check(backend, UNARY, ["lgamma"], dtypes.f32, [np.concatenate(around).astype(np.float32).tolist()])


@pytest.mark.parametrize(("ops", "dtype"), op_groups(BINARY))
def test_functions_of_two_are_within_their_bounds(backend, ops, dtype):
    need_dtype(backend, dtype)
    pairs = list(itertools.product(edges(dtype), repeat=2))
    pairs += list(zip(points(dtype, 1), points(dtype, 2)[::-1], strict=True))
    pairs += list(zip(map(abs, sample(dtype, 200, 3)), sample(dtype, 200, 4), strict=True))
    check(backend, BINARY, ops, dtype, [list(xs) for xs in zip(*pairs, strict=True)], shapes_for(dtype))


def _squared(x):
    return x**2


def _cubed(x):
    return x**3


def _to_the_fourth(x):
    return x**4


def _half_power(x):
    return x**0.5


@pytest.mark.parametrize(("fn", "exponent"), [(_squared, 2), (_cubed, 3), (_to_the_fourth, 4), (_half_power, 0.5)])
def test_static_powers_of_floats_stay_near_pow(backend, fn, exponent):
    values = sample(dtypes.f32, 200, 0)
    out = poison(201, dtypes.f32)
    elementwise(backend, fn, [buffer(values, dtypes.f32)], out, "mul" if exponent in (2, 3) else "pow")
    want = [nearest(_pow(x, float(exponent)), dtypes.f32) for x in values]
    assert_close(out[:-1], np.array(want), "f32", ulps=2 if exponent in (2, 3) else TABLE["pow"].accuracy.bound(dtypes.f32))


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u8, dtypes.i64], ids=str)
def test_static_powers_of_integers_wrap(backend, dtype):
    values = sample(dtype, 100, 0)
    out = poison(101, dtype)
    elementwise(backend, _to_the_fourth, [buffer(values, dtype)], out, "mul")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out[:-1], np.array(values, dtype.np_storage) ** 4)
