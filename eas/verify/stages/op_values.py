"""Numbers of every dtype for launches, and what a launch left in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.tensor import Tensor
from eas.testing import ulp_distance

Values = np.ndarray
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 7.0, np.inf, -np.inf, np.nan)


def argument(values: Values, dtype: DType) -> Any:
    """A buffer of `dtype` that holds values, which are rounded to it."""
    if not dtype.is_float:
        return np.asarray(values).astype(dtype.np_storage)
    with np.errstate(all="ignore"):
        stored = numerics.encode(numerics.round_to(np.asarray(values, np.float64), dtype), dtype)
    return stored if dtype.np_storage == dtype.np_compute else Tensor(stored, dtype)


def copied(given: Any) -> Any:
    """An argument of its own memory; numbers as they are."""
    if isinstance(given, Tensor):
        return Tensor(given._array.copy(), given.dtype)
    return given.copy() if isinstance(given, np.ndarray) else given


def contents(given: Any, dtype: DType) -> Values:
    """The values that an argument holds."""
    return numerics.decode(given._array if isinstance(given, Tensor) else given, dtype)


def blank(n: int, dtype: DType) -> Any:
    """An output: zeros are no result that we look for."""
    return argument(np.full(n, 1 if dtype.is_bool else 77), dtype)


def various(dtype: DType, n: int, seed: int) -> Values:
    """Edge values, then random ones: integers of all magnitudes, floats between 2**-6 and 2**6."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    if dtype.is_float:
        special = [x for x in EDGES if dtype is not dtypes.f8e4m3 or not np.isinf(x)]
        random = rng.uniform(1, 2, n) * 2.0 ** rng.integers(-6, 6, n) * rng.choice([-1, 1], n)
        return np.concatenate([np.roll(special, seed), random])[:n]
    bits = rng.integers(1, dtype.bits + 1, n)
    whole = rng.integers(0, 2**64, n, np.uint64) >> (64 - bits).astype(np.uint64)
    edges = np.array([0, 1, 2, dtype.bits - 1, dtype.bits, dtype.max, dtype.max - 1], object)
    if dtype.is_signed:
        edges = np.concatenate([edges, np.array([dtype.min, dtype.min + 1, -1, -2], object)])
    return np.concatenate([np.roll(edges, seed).astype(object).astype(dtype.np_storage), whole.astype(dtype.np_storage)])[:n]


def small(dtype: DType, n: int, seed: int) -> Values:
    """Whole numbers whose sums every dtype holds exactly, whatever the order."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    return rng.integers(-1 if dtype.is_float or dtype.is_signed else 0, 2, n)


def difference(got: Values, want: Values, dtype: DType, ulps: float, is_metal: bool) -> str:
    """What differs by more than `ulps`, as a sentence, or nothing. Metal may flush results that are subnormal."""
    if not dtype.is_float:
        wrong = got != want
    else:
        a, b = (np.asarray(x, np.float64) for x in (got, want))
        if is_metal:
            least = 2.0 ** (1 - dtype.bias)
            a, b = (np.where(np.abs(x) < least, 0.0, x) for x in (a, b))
        wrong = ulp_distance(a, b, dtype) > ulps
    if not wrong.any():
        return ""
    first = int(np.argmax(wrong))
    return f"{int(wrong.sum())} of {wrong.size} differ: element {first} is {got.flat[first]!r}, the interpreter says {want.flat[first]!r} ({ulps:g} ulp allowed)"
