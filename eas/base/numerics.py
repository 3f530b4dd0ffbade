"""What every element operation yields, bit for bit, on NumPy arrays: the judge of all backends."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import cache
from typing import Any
from typing import cast as typing_cast

import numpy as np

from eas.base.dtypes import DType, bf16, bool_, f8e4m3, f16, f32, f64
from eas.base.errors import TypeMismatch

Array = np.ndarray[Any, np.dtype[Any]]  # not numpy.typing, which is slow to import

# A `compute array` has dtype.np_compute; its values are all members of the dtype's value set.
_quiet = np.errstate(all="ignore")


# --- memory formats ---------------------------------------------------------------------------


def decode(storage: Array, dtype: DType) -> Array:
    """The compute array of the values that memory holds; NaN payloads survive. May alias."""
    storage = _typed(storage, dtype.np_storage)
    if dtype is bf16:
        return _array(storage.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.is_storage_only:
        return _fp8_values(dtype)[storage]
    return storage


def encode(values: Array, dtype: DType) -> Array:
    """The memory form of a compute array; the values must be members of `dtype` (see round_to). May alias."""
    values = _typed(values, dtype.np_compute)
    if dtype is bf16:
        bits = values.view(np.uint32)
        assert not np.any(bits & np.uint32(0xFFFF)), "bf16 values must be rounded before encode"
        return _array(bits >> np.uint32(16)).astype(np.uint16)
    if dtype.is_storage_only:
        return _encode_fp8(values, dtype)
    return values


def bitcast(x: Array, src: DType, dst: DType) -> Array:
    """The compute array of `dst` values that have the same bits in memory."""
    if src.bits != dst.bits or bool_ in (src, dst):
        raise TypeMismatch(
            f"cannot bitcast {src.name} to {dst.name}: both must be numbers of the same width",
            hint=f"mk.cast(x, mk.{dst.name}) converts the value",
        )
    return decode(encode(x, src).view(dst.np_storage), dst)


@cache
def _fp8_values(dtype: DType) -> Array:
    """The float32 value of each of the 256 codes; NaNs keep their mantissa as the payload."""
    code = np.arange(128, dtype=np.int32)
    mbits = dtype.mantissa_bits
    exponent, fraction = code >> mbits, code & ((1 << mbits) - 1)
    significand = np.where(exponent == 0, fraction, fraction + (1 << mbits)).astype(np.float32)
    values = np.ldexp(significand, np.maximum(exponent, 1) - dtype.bias - mbits)
    special = code == 0x7F if dtype is f8e4m3 else exponent == 31
    bits = np.where(special, 0x7F800000 | (fraction << (23 - mbits)), values.view(np.int32))
    table = np.concatenate([bits, bits | np.int32(-(2**31))]).astype(np.int32).view(np.float32)
    table.flags.writeable = False
    return table


def _encode_fp8(values: Array, dtype: DType) -> Array:
    bits = values.view(np.uint32)
    # Bits of non-negative floats are ordered as the floats are, and the NaNs come last.
    magnitudes = _fp8_values(dtype)[:128].view(np.uint32)
    code = np.minimum(np.searchsorted(magnitudes, bits & np.uint32(0x7FFFFFFF)), 127)
    found = _fp8_values(dtype)[code]
    assert np.all((found == np.abs(values)) | np.isnan(values)), "round fp8 values before encode"
    return _array(code | (bits >> np.uint32(24)) & np.uint32(0x80)).astype(np.uint8)


# --- rounding and casts -----------------------------------------------------------------------


@_quiet
def round_to(values: Array, dtype: DType) -> Array:
    """Round floats once, to nearest even, to the values of a float type.

    Overflow gives inf, except that f8e4m3 has none: like torch 2.13, finite overflow and inf
    both become +-448. NaN stays NaN and keeps its sign.
    """
    values = np.asarray(values)
    assert dtype.is_float, f"cannot round to {dtype.name}"
    assert values.dtype.kind == "f", f"cannot round {values.dtype}"
    if dtype is bf16 and values.dtype != np.float64:
        return _round_f32_to_bf16(values.astype(np.float32, copy=False))
    if dtype in (f16, f32, f64):
        return values.astype(dtype.np_compute, copy=False)  # NumPy rounds these once
    return _round_wide(values.astype(np.float64, copy=False), dtype)


def _round_f32_to_bf16(values: Array) -> Array:
    bits = values.view(np.uint32)
    # Adding just under half a unit, plus the low bit kept, carries exactly when nearest-even does.
    nearest = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded = np.where(np.isnan(values), bits | np.uint32(0x400000), nearest)
    return _array(rounded & np.uint32(0xFFFF0000)).view(np.float32)


def _round_wide(values: Array, dtype: DType) -> Array:
    """Round f64 to a format that is kept in float32: integers of the last kept bit are exact."""
    exponent = np.frexp(values)[1] - 1
    ulp = np.maximum(exponent, 1 - dtype.bias) - dtype.mantissa_bits
    rounded = np.ldexp(np.rint(np.ldexp(values, -ulp)), ulp)
    limit = dtype.max_finite if dtype is f8e4m3 else math.inf
    over = np.copysign(limit, values)
    finite = np.where(np.abs(rounded) > dtype.max_finite, over, rounded).astype(np.float32)
    # All payload bits that fp8 or bf16 can keep are set: torch's NaN codes 0x7f and 0xff.
    nan = np.uint32(0x7FE00000).view(np.float32)
    return np.where(np.isnan(values), np.copysign(nan, values.astype(np.float32)), finite)


@_quiet
def cast(x: Array, src: DType, dst: DType) -> Array:
    """Convert a compute array: ints wrap, float to int truncates and saturates, floats round once."""
    x = _typed(x, src.np_compute)
    if src is dst:
        return x
    if dst.is_bool:
        return _array(x != 0)
    if not dst.is_float:
        return _float_to_int(x, dst) if src.is_float else x.astype(dst.np_compute)
    if src.is_float:
        return round_to(x, dst)
    return x.astype(np.float64) if dst is f64 else round_to(_int_to_odd_f64(x), dst)


def _float_to_int(x: Array, dst: DType) -> Array:
    whole = np.trunc(x.astype(np.float64))
    above, below = whole >= 2.0 ** dst.max.bit_length(), whole < float(dst.min)
    inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(dst.np_compute)
    low, high = dst.np_compute.type(dst.min), dst.np_compute.type(dst.max)
    return np.where(above, high, np.where(below, low, inside))


def _int_to_odd_f64(x: Array) -> Array:
    """Convert to f64, with the bits that do not fit collected in the last one.

    At least 43 significant bits stay, so rounding the result to 24 or fewer is as rounding `x`.
    """
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    negative = x < 0
    size = np.where(negative, np.negative(x), x).astype(np.uint64)  # -INT_MIN wraps to 2**63
    lost = np.uint64(0x7FF)
    sticky = np.where(size & lost, np.uint64(0x800), np.uint64(0))
    odd = np.where(size >> np.uint64(53), size & ~lost | sticky, size).astype(np.float64)
    return np.where(negative, -odd, odd)


# --- fused multiply-add -----------------------------------------------------------------------


@_quiet
def fma(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` rounded once, in f64 if the operands are, else in f32.

    f16 and bf16 widen to f32, and the caller rounds the f32 result to the narrow type.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float64:
        each = np.frompyfunc(_fma_f64, 3, 1)
        return np.asarray(each(a, b, c), np.float64)
    # 24 + 24 bits: the product is exact. The sum is rounded to odd, so that f32 rounds it once.
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    return _add_to_odd(product, addend).astype(np.float32)


def _add_to_odd(a: Array, b: Array) -> Array:
    """The f64 sum, or the neighbour with an odd significand that the exact sum lies next to."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)  # Knuth's TwoSum, exact as nothing can overflow
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = np.where((error > 0) == (total > 0), 1, -1)
    return _array(np.where(inexact, bits + away, bits)).view(np.float64)


def _fma_f64(a: float, b: float, c: float) -> float:
    a, b, c = float(a), float(b), float(c)
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b + c  # the product is exact
    if not math.isfinite(c):
        return c  # not a * b + c: the product may overflow
    try:
        if _MATH_FMA is not None:
            return _MATH_FMA(a, b, c)
        (an, ad), (bn, bd), (cn, cd) = (v.as_integer_ratio() for v in (a, b, c))
        return (an * bn * cd + cn * ad * bd) / (ad * bd * cd)  # Python rounds int / int once
    except OverflowError:
        # |a * b| is the large one or has c's sign: a finite c cannot overflow by itself.
        return math.copysign(math.inf, math.copysign(1.0, a) * math.copysign(1.0, b))


_MATH_FMA = typing_cast(
    "Callable[[float, float, float], float] | None", getattr(math, "fma", None)
)  # Python 3.13


# --- division ---------------------------------------------------------------------------------


@_quiet
def floor_div(a: Array, b: Array) -> Array:
    """Python's `//`; integers: x // 0 is 0 and INT_MIN // -1 wraps; floats: as NumPy."""
    a, b = _same_type(a, b)
    if a.dtype.kind == "f":
        return np.floor_divide(a, b)
    quotient = np.floor_divide(a, _safe_divisor(b))
    return _divide_edges(quotient, a, b)


@_quiet
def floor_mod(a: Array, b: Array) -> Array:
    """Python's `%`, with the sign of `b`; integers: x % 0 is 0; floats: as NumPy."""
    a, b = _same_type(a, b)
    if a.dtype.kind == "f":
        return np.remainder(a, b)
    return np.where(b == 0, b, np.remainder(a, _safe_divisor(b)))


@_quiet
def trunc_div(a: Array, b: Array) -> Array:
    """Integer division toward zero as in C; x / 0 is 0 and INT_MIN / -1 wraps."""
    a, b = _same_type(a, b, "iu")
    safe = _safe_divisor(b)
    quotient = np.floor_divide(a, safe)
    short = (np.fmod(a, safe) != 0) & ((a < 0) != (b < 0))
    return _divide_edges(quotient + short.astype(a.dtype), a, b)


@_quiet
def trunc_mod(a: Array, b: Array) -> Array:
    """Integer remainder with the sign of `a` as in C; x % 0 is 0."""
    a, b = _same_type(a, b, "iu")
    return np.where(b == 0, b, np.fmod(a, _safe_divisor(b)))


def _same_type(a: Array, b: Array, kinds: str = "iuf") -> tuple[Array, Array]:
    a = np.asarray(a)
    assert a.dtype.kind in kinds, f"the operation does not take {a.dtype}"
    return a, _typed(b, a.dtype)


def _safe_divisor(b: Array) -> Array:
    """`b`, but 1 where division would trap or overflow; the remainder by -1 and by 1 is the same."""
    unsafe = b == 0 if b.dtype.kind == "u" else (b == 0) | (b == -1)
    return np.where(unsafe, b.dtype.type(1), b)


def _divide_edges(quotient: Array, a: Array, b: Array) -> Array:
    quotient = np.where(b == 0, b, quotient)
    if a.dtype.kind == "u":
        return quotient
    return np.where(b == -1, np.negative(a), quotient)


# --- bits -------------------------------------------------------------------------------------


def _unsigned(x: Array) -> Array:
    x = np.asarray(x)
    assert x.dtype.kind in "iu", f"{x.dtype} is not an integer dtype"
    return _array(x.view(f"u{x.dtype.itemsize}"))


def _width(x: Array) -> int:
    return x.dtype.itemsize * 8


def shl(x: Array, count: Array) -> Array:
    """Shift left; a count that is negative or at least the width gives 0."""
    u, count = _unsigned(x), np.asarray(count)
    lost = (count < 0) | (count >= _width(u))
    shifted = np.left_shift(u, np.where(lost, 0, count).astype(u.dtype))
    return _array(np.where(lost, u.dtype.type(0), shifted)).view(np.asarray(x).dtype)


def shr(x: Array, count: Array) -> Array:
    """Shift right, arithmetic if signed; a negative or too large count gives 0 or the sign."""
    x, count = np.asarray(x), np.asarray(count)
    lost = (count < 0) | (count >= _width(x))
    shifted = np.right_shift(x, np.where(lost, _width(x) - 1, count).astype(x.dtype))
    if x.dtype.kind == "i":
        return _array(shifted)
    return _array(np.where(lost, x.dtype.type(0), shifted))


@_quiet
def mulhi(a: Array, b: Array) -> Array:
    """The high half of the double-width product."""
    a, b = _same_type(a, b, "iu")
    if a.dtype.itemsize < 8:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        product = a.astype(wide) * b.astype(wide)
        return _array(product >> wide(_width(a))).astype(a.dtype)
    high = _mulhi_u64(_unsigned(a), _unsigned(b))
    if a.dtype.kind == "u":
        return high
    zero = np.uint64(0)
    # A negative operand was read 2**64 too large.
    excess = np.where(a < 0, _unsigned(b), zero) + np.where(b < 0, _unsigned(a), zero)
    return _array(high - excess).view(np.int64)


def _mulhi_u64(a: Array, b: Array) -> Array:
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    return _array(a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half))


def popcount(x: Array) -> Array:
    """Number of set bits, in the dtype of `x`."""
    return _array(np.bitwise_count(_unsigned(x))).astype(np.asarray(x).dtype)


def clz(x: Array) -> Array:
    """Number of zero bits above the highest set one, the width for 0, in the dtype of `x`."""
    u = _unsigned(x)
    shift = 1
    while shift < _width(u):
        u = u | (u >> u.dtype.type(shift))
        shift *= 2
    return popcount(~u).astype(np.asarray(x).dtype)


@_quiet
def ctz(x: Array) -> Array:
    """Number of zero bits below the lowest set one, the width for 0, in the dtype of `x`."""
    u = _unsigned(x)
    return popcount(~u & (u - u.dtype.type(1))).astype(np.asarray(x).dtype)


def bit_reverse(x: Array) -> Array:
    """The bits in the opposite order."""
    u = _unsigned(x)
    mask, shift = (1 << _width(u)) - 1, _width(u) // 2
    while shift:
        mask ^= (mask << shift) & ((1 << _width(u)) - 1)
        by, low = u.dtype.type(shift), u.dtype.type(mask)
        u = ((u >> by) & low) | ((u & low) << by)
        shift //= 2
    return _array(u).view(np.asarray(x).dtype)


# --- functions --------------------------------------------------------------------------------


def wide(fn: Callable[..., Any]) -> Callable[..., Array]:
    """`fn` computed in f64 and rounded once to the operands' NumPy dtype."""

    @_quiet
    def computed(*args: Array) -> Array:
        narrow = np.result_type(*args)
        return np.asarray(fn(*(np.asarray(x, np.float64) for x in args))).astype(narrow)

    return computed


def _each(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    vector = np.frompyfunc(lambda x: fn(float(x)), 1, 1)
    return wide(lambda x: np.asarray(vector(x), np.float64))


def _lgamma(x: float) -> float:
    return _libm_lgamma()(x)


@functools.cache
def _libm_lgamma() -> Callable[[float], float]:
    """The C library's; Python's own loses millions of ulp near 1 and 2."""
    import ctypes

    for library in (None, "libm.so.6"):
        try:
            found = ctypes.CDLL(library).lgamma
        except (AttributeError, OSError, TypeError):
            continue
        found.restype, found.argtypes = ctypes.c_double, [ctypes.c_double]
        return found
    return _lgamma_of_python


def _lgamma_of_python(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


def _tgamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)
    except ValueError:  # the poles: only at zero does the sign say which infinity
        return math.copysign(math.inf, x) if x == 0 else math.nan


erf, erfc = _each(math.erf), _each(math.erfc)
lgamma, tgamma = _each(_lgamma), _each(_tgamma)


@_quiet
def minimum(a: Array, b: Array) -> Array:
    """The smaller one; NaN if either is."""
    return _array(np.minimum(a, b))


@_quiet
def maximum(a: Array, b: Array) -> Array:
    """The larger one; NaN if either is."""
    return _array(np.maximum(a, b))


@_quiet
def fmin(a: Array, b: Array) -> Array:
    """The smaller one; the other one if one is NaN."""
    return _array(np.fmin(a, b))


@_quiet
def fmax(a: Array, b: Array) -> Array:
    """The larger one; the other one if one is NaN."""
    return _array(np.fmax(a, b))


# --- random bits ------------------------------------------------------------------------------


@_quiet
def philox4x32(
    c0: Array, c1: Array, c2: Array, c3: Array, k0: Array, k1: Array
) -> tuple[Array, Array, Array, Array]:
    """Random123's Philox4x32-10: four words of random bits for a counter and a key."""
    c0, c1, c2, c3, k0, k1 = (np.asarray(word, np.uint32) for word in (c0, c1, c2, c3, k0, k1))
    for _ in range(10):
        high0, low0 = _mul_words(0xD2511F53, c0)
        high1, low1 = _mul_words(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = _array(k0 + np.uint32(0x9E3779B9)), _array(k1 + np.uint32(0xBB67AE85))
    return _array(c0), _array(c1), _array(c2), _array(c3)


def _mul_words(constant: int, word: Array) -> tuple[Array, Array]:
    product = np.uint64(constant) * word.astype(np.uint64)
    high, low = product >> np.uint64(32), product & np.uint64(0xFFFFFFFF)
    return _array(high).astype(np.uint32), _array(low).astype(np.uint32)


def _typed(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x` as an array; a conversion here would hide a second rounding."""
    x = np.asarray(x)
    assert x.dtype == dtype, f"expected {dtype}, got {x.dtype}"
    return x


def _array(x: Any) -> Array:
    """NumPy turns 0-d results into scalars; keep them arrays."""
    return np.asarray(x)
