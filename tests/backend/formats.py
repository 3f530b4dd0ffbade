"""Numbers of every dtype on the user's side of a launch: edge values, buffers, and exact rounding.

Nothing here asks `eas.base.numerics`: these tables and rules are what the backends are judged by.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.tensor import Tensor

# name: stored mantissa bits, exponent of the smallest normal number, largest finite number
FLOATS = {
    "f64": (52, -1022, math.ldexp(2 - 2.0**-52, 1023)),
    "f32": (23, -126, math.ldexp(2 - 2.0**-23, 127)),
    "bf16": (7, -126, math.ldexp(2 - 2.0**-7, 127)),
    "f16": (10, -14, 65504.0),
    "f8e5m2": (2, -14, 57344.0),
    "f8e4m3": (3, -6, 448.0),
}


def nearest(x: float | int, dtype: DType) -> float:
    """x rounded once to a float format, halves to even; f8e4m3 saturates, the others overflow to inf."""
    mantissa, least, largest = FLOATS[dtype.name]
    if isinstance(x, float) and (x == 0 or math.isnan(x)):
        return x
    limit = largest if dtype is dtypes.f8e4m3 else math.inf
    if isinstance(x, float) and abs(x) >= 2 * largest:
        return math.copysign(limit, x)
    if dtype is dtypes.f64 and isinstance(x, float):
        return x
    if isinstance(x, float):  # the same as below: scaling by powers of two is exact, `round` takes halves to even
        unit_exponent = max(math.frexp(x)[1] - 1, least) - mantissa
        rounded = math.ldexp(round(math.ldexp(x, -unit_exponent)), unit_exponent)
        return math.copysign(rounded if abs(rounded) <= largest else limit, x)
    exact = Fraction(x)
    if exact == 0:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - mantissa)
    rounded = round(exact / unit) * unit  # Python rounds a Fraction exactly, halves to even
    sign = -1.0 if exact < 0 else 1.0
    return math.copysign(float(abs(rounded)) if abs(rounded) <= largest else limit, sign)


def wrapped(x: int, dtype: DType) -> int:
    """The low bits of an integer as a number of `dtype`."""
    low = int(x) % (1 << dtype.bits)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


def converted(x, src: DType, dst: DType):
    """The rule of casts, in plain Python."""
    if dst.is_bool:
        return x != 0
    if dst.is_float:
        return nearest(x if src.is_float else int(x), dst)
    if not src.is_float:
        return wrapped(int(x), dst)
    if math.isnan(x):
        return 0
    return int(min(max(x, dst.min), dst.max)) if math.isinf(x) else min(max(math.trunc(x), dst.min), dst.max)


# --- formats that NumPy lacks -----------------------------------------------------------------


@functools.cache
def codes(dtype: DType) -> np.ndarray:
    """The f64 value of every code of an 8-bit float."""
    if dtype is dtypes.f8e5m2:  # the upper byte of an f16
        return (np.arange(256).astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    values = []
    for code in range(128):
        exponent, fraction = code >> 3, code & 7
        values.append(math.ldexp(8 + fraction, exponent - 10) if exponent else math.ldexp(fraction, -9))
    values[127] = math.nan
    return np.array(values + [-v for v in values])


def _encoded(values: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is dtypes.bf16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    table = {(v, math.copysign(1, v)): c for c, v in enumerate(codes(dtype).tolist()) if v == v}
    stored = [127 if v != v else table[v, math.copysign(1, v)] for v in values.ravel().tolist()]
    return np.array(stored, np.uint8).reshape(values.shape)


# --- buffers ----------------------------------------------------------------------------------


def buffer(values, dtype: DType):
    """A kernel argument that holds `values`, which are numbers of `dtype`."""
    if dtype.np_storage == dtype.np_compute:
        return np.array(values, dtype.np_storage)
    return Tensor(_encoded(np.asarray(values, np.float64), dtype), dtype)


def poison(size: int, dtype: DType):
    """An output: every byte is 0x5A, so that an element nobody wrote is seen."""
    storage = np.full(size * dtype.nbytes, 0x5A if not dtype.is_bool else 1, np.uint8).view(dtype.np_storage)
    return storage if dtype.np_storage == dtype.np_compute else Tensor(storage, dtype)


def storage(argument) -> np.ndarray:
    """The elements of an argument as they lie in memory."""
    return argument._array if isinstance(argument, Tensor) else argument


def contents(argument) -> np.ndarray:
    """The elements of an argument: f64 for the formats that NumPy lacks, its own dtype else."""
    if not isinstance(argument, Tensor):
        return argument
    if argument.dtype is dtypes.bf16:
        return (argument._array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return codes(argument.dtype)[argument._array]


# --- values -----------------------------------------------------------------------------------


def edges(dtype: DType) -> list:
    """The values of a dtype at which implementations go wrong."""
    if dtype.is_bool:
        return [False, True]
    if not dtype.is_float:
        low, high = dtype.min, dtype.max
        near = [low, low + 1, -2, -1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, high // 2, high // 2 + 1, high - 1, high]
        return sorted({x for x in near if low <= x <= high})
    mantissa, least, largest = FLOATS[dtype.name]
    tiny, normal = math.ldexp(1.0, least - mantissa), math.ldexp(1.0, least)
    plain = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, nearest(math.pi, dtype), nearest(1 / 3, dtype), 1 + 2.0**-mantissa]
    extreme = [tiny, normal - tiny, normal, largest] + ([math.inf] if dtype is not dtypes.f8e4m3 else [])
    return [s * x for x in plain + extreme for s in (1.0, -1.0)] + [math.nan]


def sample(dtype: DType, count: int, seed: int) -> list:
    """Random values of a dtype: integers over the whole range, floats of many magnitudes."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(bool).tolist()
    if not dtype.is_float:
        bits = rng.integers(1, dtype.bits + 1, count)
        return [wrapped(int(x) >> (64 - int(n)), dtype) for x, n in zip(rng.integers(0, 2**64, count, np.uint64), bits, strict=True)]
    wide = rng.standard_normal(count) * 2.0 ** rng.integers(-8, 8, count)
    return [nearest(float(x), dtype) for x in wide]


def assert_identical(got, want, dtype: DType, zero_sign: bool = True, where: str = "") -> None:
    """Equal values; NaN equals NaN, and -0.0 differs from 0.0 unless `zero_sign` is False."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    if not dtype.is_float:
        differs = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if zero_sign:
            differs |= (np.signbit(a) != np.signbit(b)) & ~np.isnan(a)
    if differs.any():
        first = int(np.argmax(differs))
        raise AssertionError(f"{where or dtype}: {int(differs.sum())} of {differs.size} differ; element {first} is {got.flat[first]!r}, expected {want.flat[first]!r}")
