"""Bessel functions and inverse error functions, against series in decimals and against what they invert."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from functools import cache

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.launches import launch, need_dtype

KINDS = {"f32": np.float32, "f64": np.float64}
getcontext().prec = 90  # series of numbers up to 60 lose 52 digits
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
GAMMA = Decimal("0.57721566490153286060651209008240243104215933593992359880576723488486772677766467")


@eas.kernel
def function_kernel(x, out, n, F: eas.constexpr, B: eas.constexpr):
    i = mk.program_id(0) * B + mk.arange(0, B)
    mk.store(out, i, F(mk.load(x, i, i < n)), i < n)


def computed(backend, function, x):
    out = np.zeros_like(x)
    launch(backend, function_kernel, x, out, len(x), grid=-(-len(x) // 64), F=function, B=64)
    return out


@cache
def series(order: int, x: float, sign: int) -> Decimal:
    """J (sign -1) or I (sign 1) by its power series."""
    half = Decimal(x) / 2
    term = half**order / math.factorial(order)
    total, k = term, 0
    while abs(term) > Decimal("1e-60") or k < abs(x):
        k += 1
        term = term * half * half * sign / (k * (k + order))
        total += term
    return total


def second_kind(order: int, x: float) -> Decimal:
    """Y0 and Y1 by their power series."""
    half, total, k = Decimal(x) / 2, Decimal(0), 0
    harmonic = [Decimal(0)]
    for n in range(1, 200):
        harmonic.append(harmonic[-1] + Decimal(1) / n)
    for k in range(190):
        weight = 2 * harmonic[k] if order == 0 else harmonic[k] + harmonic[k + 1]
        total += (-1) ** k * weight * half ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order))
    log = (half.ln() + GAMMA) * series(order, x, -1)
    return (2 * log - total - (1 / half if order else 0)) / PI


BESSEL = {
    "bessel_j0": lambda x: series(0, x, -1), "bessel_j1": lambda x: series(1, x, -1), "bessel_i0": lambda x: series(0, x, 1),
    "bessel_i1": lambda x: series(1, x, 1), "bessel_y0": lambda x: second_kind(0, x), "bessel_y1": lambda x: second_kind(1, x),
}  # fmt: skip
SIZES = [1e-6, 0.003, 0.2, 0.9, 1.7, 2.404825, 3.1, 4.6, 6.3, 7.9, 7.9999, 8.0, 8.1, 11.5, 20.25, 33.3, 59.0]
LIMITS = {"j": [0.0, 0.0], "y": [0.0, -math.inf], "i": [math.inf, None]}  # at infinity, at 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions(backend, name, kind):
    need_dtype(backend, getattr(dtypes, kind))
    is_odd, letter = name.endswith("1"), name[7]
    x = np.array(SIZES if letter == "y" else [*SIZES, *(-s for s in SIZES)], KINDS[kind])
    got = computed(backend, getattr(mk, name), x)
    want = np.array([float(BESSEL[name](abs(float(v)))) * (-1 if v < 0 and is_odd else 1) for v in x])
    wide = 2e-6 if kind == "f32" else 1e-13
    if letter == "i":  # relative
        wide, floor = 512 * np.finfo(np.float64).eps if kind == "f64" else 16 * np.finfo(np.float32).eps, 0.0
    else:
        floor = wide
    np.testing.assert_allclose(got, want, rtol=wide, atol=floor)
    ends = computed(backend, getattr(mk, name), np.array([math.inf, 0.0, math.nan], KINDS[kind]))
    assert ends[0] == LIMITS[letter][0]
    np.testing.assert_allclose(ends[1], LIMITS[letter][1] if letter == "y" else float(not is_odd), rtol=wide)
    assert np.isnan(ends[2])
    if letter == "y":
        assert np.isnan(computed(backend, getattr(mk, name), np.array([-1.0, -20.0], KINDS[kind]))).all()


def near(z: float, wanted: float, found: float, kind: str) -> bool:
    """Whether z is within some ulp of where a function of that slope takes the wanted value, `found` being that at z."""
    slope = 2 / math.sqrt(math.pi) * math.exp(-z * z)
    ulps = 16 * np.finfo(np.float32).eps if kind == "f32" else 256 * np.finfo(np.float64).eps
    return abs(found - wanted) <= slope * ulps * abs(z) + 4e-16 * abs(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_inverse_error_functions(backend, kind):
    need_dtype(backend, getattr(dtypes, kind))
    x = np.array([1e-7, 0.001, 0.3, -0.5, 0.74, 0.76, -0.9, 0.99, -0.9999, 0.999999, 0.0], KINDS[kind])
    for v, z in zip(x, computed(backend, mk.erfinv, x), strict=True):
        assert near(float(z), float(v), math.erf(float(z)), kind), (v, z)
    y = np.array([1e-30, 1e-12, 1e-5, 0.01, 0.2, 0.25, 0.6, 1.5, 1.9, 1.99], KINDS[kind])
    for v, z in zip(y, computed(backend, mk.erfcinv, y), strict=True):
        assert near(float(z), float(v), math.erfc(float(z)), kind), (v, z)
    p = np.array([1e-30, 1e-5, 0.01, 0.3, 0.5, 0.8, 0.99], KINDS[kind])
    for v, z in zip(p, computed(backend, mk.normcdfinv, p), strict=True):
        half = -float(z) / math.sqrt(2)
        assert near(half, 2 * float(v), math.erfc(half), kind), (v, z)
    np.testing.assert_array_equal(computed(backend, mk.erfinv, np.array([1.0, -1.0, 1.5, math.nan], KINDS[kind])), [math.inf, -math.inf, math.nan, math.nan])
    np.testing.assert_array_equal(computed(backend, mk.erfcinv, np.array([0.0, 2.0, 1.0, -1.0], KINDS[kind])), [math.inf, -math.inf, 0.0, math.nan])


def test_narrow_floats_are_computed_in_f32(backend):
    x = np.array([0.5, 3.0, 20.0], np.float16)
    got = computed(backend, mk.bessel_j0, x)
    np.testing.assert_allclose(got, [float(series(0, float(v), -1)) for v in x], rtol=2e-3, atol=1e-4)
    with pytest.raises(eas.TypeMismatch, match="bessel_j0 needs a float operand, got i32"):
        computed(backend, mk.bessel_j0, np.ones(4, np.int32))
