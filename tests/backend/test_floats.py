"""Neighbours, exponents and remainders of floats, against Python's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.formats import assert_identical
from tests.backend.launches import METAL, launch, need_dtype

KINDS = {"f32": np.float32, "f64": np.float64}


@eas.kernel
def floats_kernel(x, y, after, exponent, whole, rest, n, B: eas.constexpr):
    i = mk.program_id(0) * B + mk.arange(0, B)
    mask = i < n
    a, b = mk.load(x, i, mask, 1.0), mk.load(y, i, mask, 1.0)
    mk.store(after, i, mk.nextafter(a, b), mask)
    mk.store(exponent, i, mk.logb(a), mask)
    mk.store(whole, i, mk.ilogb(a), mask)
    mk.store(rest, i, mk.remainder(a, b), mask)


def exponent_of(v: float) -> float:
    if v == 0 or not math.isfinite(v):
        return -math.inf if v == 0 else v * v
    return float(math.frexp(v)[1] - 1)


def remainder_of(a: float, b: float) -> float:
    return math.nan if math.isnan(a + b) or math.isinf(a) or b == 0 else math.remainder(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_exponents_and_remainders(backend, kind):
    need_dtype(backend, getattr(dtypes, kind))
    info = np.finfo(KINDS[kind])
    few = [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -7.25, 3.0, 1e10, -1e-10, float(info.max), -float(info.max), float(info.tiny), math.inf, -math.inf, math.nan, 0.1]
    few += [] if backend in METAL else [float(info.smallest_subnormal), -float(info.tiny) / 4]  # Metal may flush them
    x, y = (np.array(v, KINDS[kind]).ravel() for v in np.meshgrid(few, few))
    outs = [np.zeros_like(x), np.zeros_like(x), np.zeros(len(x), np.int32), np.zeros_like(x)]
    launch(backend, floats_kernel, x, y, *outs, len(x), grid=-(-len(x) // 128), B=128)
    after, exponent, whole, rest = outs
    with np.errstate(all="ignore"):
        want = np.nextafter(x, y)
    if backend in METAL:
        keep = ~((x == 0) & (y != 0)) & (np.abs(want) >= info.tiny)
        after, want = after[keep], want[keep]
    assert_identical(after, want, getattr(dtypes, kind))
    wanted = np.array([exponent_of(float(v)) for v in x])
    assert_identical(exponent.astype(np.float64), wanted, dtypes.f64)
    special = {math.inf: 2**31 - 1, -math.inf: -(2**31)}
    np.testing.assert_array_equal(whole, [-(2**31) if math.isnan(v) else special.get(v, v) for v in wanted])
    assert_identical(rest.astype(np.float64), np.array([remainder_of(float(a), float(b)) for a, b in zip(x, y, strict=True)]), dtypes.f64)


def test_random_remainders(backend):
    rng = np.random.default_rng(0)
    x, y = ((rng.standard_normal(500) * 2.0 ** rng.integers(-30, 30, 500)).astype(np.float32) for _ in range(2))
    x[::3] = y[::3] * (rng.integers(-9, 9, len(y[::3])) + 0.5)
    outs = [np.zeros_like(x), np.zeros_like(x), np.zeros(len(x), np.int32), np.zeros_like(x)]
    launch(backend, floats_kernel, x, y, *outs, len(x), grid=4, B=128)
    assert_identical(outs[3].astype(np.float64), np.array([math.remainder(float(a), float(b)) for a, b in zip(x, y, strict=True)]), dtypes.f64)
    assert_identical(outs[0], np.nextafter(x, y), dtypes.f32)
