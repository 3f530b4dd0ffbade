"""The reference element semantics, judged by exact rational arithmetic and by torch."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eas.base import dtypes as dt
from eas.base import numerics as nm
from eas.base.dtypes import DType
from eas.base.errors import TypeMismatch

INTS = [d for d in dt.ALL if d.is_int]
FLOATS = [d for d in dt.ALL if d.is_float]
NARROW = [d for d in FLOATS if d.bits < 32]
FP8 = [dt.f8e4m3, dt.f8e5m2]
TORCH = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16",
    "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        yield


def same(got: Any, want: Any) -> None:
    """Equal shape, dtype and values; NaN equals NaN, and zeros must agree in sign."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


@np.errstate(all="ignore")
def widen(x: Any, dtype: Any = np.float64) -> Any:
    """Convert without a warning about signalling NaNs."""
    return x.astype(dtype)


def array(dtype: Any, values: Any) -> Any:
    return np.array(values, dtype)


def codes(d: DType) -> Any:
    """Every bit pattern of a type of up to 16 bits, as memory."""
    return np.arange(1 << d.bits, dtype=f"u{d.nbytes}").view(d.np_storage)


def nearest(value: Fraction, d: DType) -> float:
    """Round an exact rational to nearest even in `d`: the specification, in the slowest way."""
    if value == 0:
        return 0.0
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    ulp = Fraction(2) ** (max(exponent, 1 - d.bias) - d.mantissa_bits)
    rounded = round(value / ulp) * ulp  # Fraction.__round__ is half to even
    sign = -1.0 if value < 0 else 1.0
    if abs(rounded) > d.max_finite:
        return sign * (448.0 if d is dt.f8e4m3 else math.inf)
    return sign * abs(float(rounded))


def interesting(d: DType) -> Any:
    """Values of `d` around its limits, zeros, specials and a few thousand random ones, computed."""
    rng = np.random.default_rng(7)
    if d.is_bool:
        return np.array([False, True])
    if d.is_int:
        edges = [d.min, d.min + 1, d.max, d.max - 1, 0, 1, d.max // 2, d.min // 2]
        random = rng.integers(d.min, d.max, 500, dtype=d.np_compute, endpoint=True)
        small = rng.integers(0, 64, 500)
        return np.concatenate(
            [np.array(edges, d.np_compute), random, random >> small.astype(random.dtype) % d.bits]
        )
    if d.bits <= 16:
        return nm.decode(codes(d), d)
    with np.errstate(all="ignore"):
        exact = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -2.5]
        powers = [s * 2.0**k * (1 + e) for s in (1, -1) for k in range(-30, 70)
                  for e in (0, 2**-52, -(2**-53), 2**-24, 2**-9, 2**-8, 2**-11, 2**-4)]  # fmt: skip
        bits = rng.integers(0, 2**d.bits, 4000, dtype=f"u{d.nbytes}").view(d.np_compute)
        return np.concatenate([np.array(exact + powers).astype(d.np_compute), bits])


# --- memory formats ---------------------------------------------------------------------------


@pytest.mark.parametrize("d", [d for d in dt.ALL if d.bits <= 16 and not d.is_bool], ids=str)
def test_every_code_survives_decode_and_encode(d):
    memory = codes(d)
    values = nm.decode(memory, d)
    assert values.dtype == d.np_compute
    back = nm.encode(values, d)
    assert back.dtype == d.np_storage
    np.testing.assert_array_equal(back.view(f"u{d.nbytes}"), memory.view(f"u{d.nbytes}"))


@pytest.mark.parametrize("d", NARROW, ids=str)
def test_decode_agrees_with_torch(d):
    torch = pytest.importorskip("torch")
    memory = codes(d)
    tensor = torch.from_numpy(memory.view(f"u{d.nbytes}").copy()).view(
        getattr(torch, TORCH[d.name])
    )
    same(widen(nm.decode(memory, d), np.float32), tensor.float().numpy())


@pytest.mark.parametrize("d", [dt.bf16, *FP8], ids=str)
def test_encode_refuses_unrounded_values(d):
    with pytest.raises(AssertionError, match="before encode"):
        nm.encode(array(np.float32, [1.001]), d)


def test_bitcast_reinterprets_memory():
    x = np.array([1.0, -0.0, 2.5], np.float32)
    same(nm.bitcast(x, dt.f32, dt.u32), x.view(np.uint32))
    same(nm.bitcast(np.array(0x3F80, np.int16), dt.i16, dt.bf16), np.float32(1))
    same(
        nm.bitcast(array(np.float32, [1.0]), dt.bf16, dt.f16),
        array(np.uint16, [0x3F80]).view(np.float16),
    )
    same(nm.bitcast(array(np.float32, [448.0]), dt.f8e4m3, dt.i8), array(np.int8, [0x7E]))
    for a, b in ((dt.f32, dt.f16), (dt.bool_, dt.u8)):
        with pytest.raises(TypeMismatch, match="cannot bitcast"):
            nm.bitcast(np.zeros(1, a.np_compute), a, b)


# --- rounding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", NARROW, ids=str)
def test_representable_values_round_to_themselves(d):
    values = nm.decode(codes(d), d)
    if d is dt.f8e4m3:
        assert np.isfinite(values).sum() == 254
    for wide in (np.float32, np.float64):
        same(nm.round_to(widen(values, wide), d), values)


@pytest.mark.parametrize("d", NARROW, ids=str)
def test_halfway_cases_round_to_even_and_neighbours_do_not(d):
    values = widen(nm.decode(codes(d), d))
    values = np.unique(values[np.isfinite(values)])
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    # The larger code is `high` for positive values; the even one of the two codes wins a tie.
    code = nm.encode(high.astype(d.np_compute), d).view(f"u{d.nbytes}")
    even = np.where(code & 1 == 0, high, low)
    got = nm.round_to(middle, d).astype(np.float64)
    np.testing.assert_array_equal(got, even)
    np.testing.assert_array_equal(nm.round_to(np.nextafter(middle, np.inf), d), high)
    np.testing.assert_array_equal(nm.round_to(np.nextafter(middle, -np.inf), d), low)


@pytest.mark.parametrize("d", [*NARROW, dt.f32], ids=str)
def test_rounding_of_f64_agrees_with_rationals(d):
    values = interesting(dt.f64)
    near = widen(interesting(dt.f32))[:800]
    rng = np.random.default_rng(3)
    spread = np.ldexp(rng.uniform(-1, 1, 1000), rng.integers(-160, 130, 1000))
    values = np.concatenate([values[np.isfinite(values)][::3], near[np.isfinite(near)], spread])
    want = [math.copysign(nearest(Fraction(v), d), v) for v in values.tolist()]
    same(nm.round_to(values, d), np.array(want).astype(d.np_compute))


@pytest.mark.parametrize("d", NARROW, ids=str)
def test_rounding_of_f32_agrees_with_torch(d):
    torch = pytest.importorskip("torch")
    x = interesting(dt.f32)
    want = torch.from_numpy(x).to(getattr(torch, TORCH[d.name])).float().numpy()
    same(widen(nm.round_to(x, d), np.float32), want)
    if d in FP8:  # NaN codes too
        memory = torch.from_numpy(x).to(getattr(torch, TORCH[d.name])).view(torch.uint8).numpy()
        same(nm.encode(nm.round_to(x, d), d), memory)


def test_fp8_overflow_follows_torch():
    x = np.array([464.0, 465.0, 1e30, math.inf, -math.inf, math.nan])
    same(nm.round_to(x, dt.f8e4m3), array(np.float32, [448, 448, 448, 448, -448, math.nan]))
    x = np.array([61439.0, 61440.0, -1e30, math.inf, math.nan])
    same(
        nm.round_to(x, dt.f8e5m2),
        array(np.float32, [57344, math.inf, -math.inf, math.inf, math.nan]),
    )


def test_f64_never_rounds_twice():
    for d in NARROW:
        ulp = 2.0**-d.mantissa_bits
        x = np.array(1 + ulp / 2 + 2**-40)  # in f32 it would become a tie
        assert float(nm.cast(x, dt.f64, d)) == 1 + ulp


# --- casts ------------------------------------------------------------------------------------


@np.errstate(all="ignore")
def torch_can_judge(src: DType, dst: DType, x: Any) -> Any:
    """Where torch's cast neither is undefined in C nor rounds twice, through f32."""
    if src.is_float and dst.is_int:
        whole = np.trunc(x.astype(np.float64))
        return (whole >= dst.min) & (whole < 2.0 ** dst.max.bit_length())
    if dst not in NARROW or src.bits < 32:
        return np.ones(x.shape, bool)
    if src.is_float:
        return (x.astype(np.float32) == x) | ~np.isfinite(x)
    return (x < 2**62) & (x.astype(np.float32).astype(np.int64) == x.astype(np.int64))


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(dt.ALL, repeat=2)), ids=str)
def test_casts_agree_with_torch(src, dst):
    torch = pytest.importorskip("torch")
    x = interesting(src)
    got = nm.cast(x, src, dst)
    assert got.dtype == dst.np_compute
    ok = torch_can_judge(src, dst, x)
    assert ok.any()
    memory = nm.encode(x[ok], src)
    tensor = torch.from_numpy(memory.copy()).view(getattr(torch, TORCH[src.name]))
    moved = tensor.to(getattr(torch, TORCH[dst.name]))
    want = moved.float().numpy() if dst in NARROW else moved.numpy()
    got = got[ok]
    same(widen(got, np.float32) if dst in NARROW else got, want)


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(FLOATS, INTS)), ids=str)
def test_float_to_int_truncates_and_saturates(src, dst):
    x = interesting(src)[::5]
    want = [
        0 if math.isnan(v) else dst.max if v == math.inf else dst.min if v == -math.inf
        else min(max(math.trunc(v), dst.min), dst.max) for v in x.tolist()
    ]  # fmt: skip
    same(nm.cast(x, src, dst), np.array(want, dst.np_compute))


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(INTS, INTS)), ids=str)
def test_int_to_int_wraps(src, dst):
    x = interesting(src)
    want = [(int(v) - dst.min) % (1 << dst.bits) + dst.min for v in x]
    same(nm.cast(x, src, dst), np.array(want, dst.np_compute))


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(INTS, FLOATS)), ids=str)
def test_int_to_float_rounds_once(src, dst):
    x = interesting(src)
    if src.bits == 64:  # just off a tie of every format
        ties = [s * ((1 << k) + (1 << (k - m - 1)) + e) for k in (54, 60, 62) for e in (-1, 0, 1)
                for m in (2, 3, 7, 10, 23, 52) if k - m - 1 >= 0 for s in (1, -1)]  # fmt: skip
        x = np.concatenate([x, np.array([t for t in ties if t >= src.min], src.np_compute)])
    want = [nearest(Fraction(int(v)), dst) for v in x]
    same(nm.cast(x, src, dst), np.array(want).astype(dst.np_compute))


@pytest.mark.parametrize("d", dt.ALL, ids=str)
def test_bool_casts_are_tests_against_zero(d):
    x = interesting(d)
    same(nm.cast(x, d, dt.bool_), x != 0)
    same(nm.cast(np.array([False, True]), dt.bool_, d), np.array([0, 1]).astype(d.np_compute))


@pytest.mark.parametrize(("src", "dst"), list(itertools.product(dt.ALL, repeat=2)), ids=str)
def test_casts_of_scalars_stay_arrays(src, dst):
    x = np.array(1, src.np_compute)
    same(nm.cast(x, src, dst), np.array(1, dst.np_compute))


# --- fma --------------------------------------------------------------------------------------


def exact_fma(a: float, b: float, c: float, d: DType) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return nearest(exact, d)
    return a * b + c if a == 0 or b == 0 else 0.0


@np.errstate(all="ignore")
def fma_inputs(d: DType, n: int) -> list[Any]:
    rng = np.random.default_rng(11)
    t = d.np_compute.type
    eps, tiny, big = t(2.0**-d.mantissa_bits), t(2.0 ** (1 - d.bias)), t(d.max_finite)
    sub = np.nextafter(t(0), t(1))
    one, zero = t(1), t(0)
    positive = [zero, one, one + eps, one - eps / t(2), eps, tiny, tiny * eps, sub, big, t(3)]
    edges = [sign * v for v in positive for sign in (one, -one)]
    grid = np.array(list(itertools.product(edges, repeat=3))[::3], t).T
    span = d.bias // 2
    parts = [
        np.ldexp(rng.uniform(-2, 2, n), rng.integers(-span, span, n)).astype(t) for _ in range(2)
    ]
    cancel = -(parts[0] * parts[1]) * rng.choice(
        np.array([1, 1 + 4 * float(eps), 0.5, 2.0**-25], t), n
    )
    # Products one bit beside a tie, with an addend that only the sticky bit can see.
    k = rng.integers(1, 2 ** (d.mantissa_bits // 2), n)
    a, b = (one + k.astype(t) * eps), (one + (k[::-1]).astype(t) * eps)
    c = np.ldexp(rng.choice([-1.0, 1.0], n), rng.integers(-4 * d.mantissa_bits, 4, n)).astype(t)
    return [np.concatenate(v) for v in zip(grid, [*parts, cancel], [a, b, c], strict=True)]


@pytest.mark.parametrize("d", [dt.f32, dt.f64], ids=str)
def test_fma_rounds_once(d):
    a, b, c = fma_inputs(d, 2000)
    want = [exact_fma(*v, d) for v in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    same(nm.fma(a, b, c), np.array(want).astype(d.np_compute))


def test_fma_differs_from_two_roundings_and_from_f64():
    a, c = array(np.float32, [1 + 2**-12]), array(np.float32, [2.0**-80])
    assert nm.fma(a, a, c)[0] != (a * a + c)[0]
    assert nm.fma(a, a, c)[0] != (a.astype(np.float64) * a + c).astype(np.float32)[0]


@pytest.mark.parametrize("t", [np.float32, np.float64])
def test_fma_specials(t):
    inf, nan, big = math.inf, math.nan, float(np.finfo(t).max)
    rows = [(inf, 0, nan, nan), (inf, 0, 1, nan), (inf, 1, -inf, nan), (inf, -1, 1, -inf), (1, 1, inf, inf),
            (big, big, -inf, -inf), (big, -big, inf, inf), (big, 2, -big, big), (big, 2, 0, inf),
            (-big, 2, big, -big), (nan, 1, 1, nan), (1, 1, nan, nan), (0, -1, 0, 0), (0, -1, -0.0, -0.0), (2, 3, -6, 0)]  # fmt: skip
    a, b, c, want = np.array(rows, t).T
    same(nm.fma(a, b, c), want)


def test_fma_of_f16_is_f32():
    x = array(np.float16, [1.5])
    same(nm.fma(x, x, x), array(np.float32, [3.75]))
    same(
        nm.fma(array(np.float32, 2), array(np.float32, [3, 4]), array(np.float32, 1)),
        array(np.float32, [7, 9]),
    )


# --- integers ---------------------------------------------------------------------------------


def pairs(d: DType) -> tuple[Any, Any]:
    wanted = (d.min, d.min + 1, d.max, d.max - 1, -7, -1, 0, 1, 2, 3, 7, d.max // 3)
    edges = [v for v in wanted if v >= d.min]
    rng = np.random.default_rng(5)
    random = rng.integers(d.min, d.max, (2, 300), dtype=d.np_compute, endpoint=True)
    grid = np.array(list(itertools.product(edges, repeat=2)), d.np_compute).T
    a, b = np.concatenate([grid, random], axis=1)
    return a, b


def wrapped(values: list[int], d: DType) -> Any:
    return np.array([(v - d.min) % (1 << d.bits) + d.min for v in values], d.np_compute)


def trunc(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


@pytest.mark.parametrize("d", INTS, ids=str)
def test_integer_operations_agree_with_python(d):
    a, b = pairs(d)
    both = list(zip(a.tolist(), b.tolist(), strict=True))
    table = {
        nm.floor_div: lambda p, q: p // q if q else 0,
        nm.floor_mod: lambda p, q: p % q if q else 0,
        nm.trunc_div: lambda p, q: trunc(p, q) if q else 0,
        nm.trunc_mod: lambda p, q: p - q * trunc(p, q) if q else 0,
        nm.mulhi: lambda p, q: p * q >> d.bits,
        nm.shl: lambda p, q: p << q if 0 <= q < d.bits else 0,
        nm.shr: lambda p, q: p >> q if 0 <= q < d.bits else -(p < 0),
    }
    for op, want in table.items():
        same(op(a, b), wrapped([want(p, q) for p, q in both], d))
        same(op(a[0], b[0]), wrapped([want(*both[0])], d)[0])  # scalars: no warning either


@pytest.mark.parametrize("d", INTS, ids=str)
def test_bit_operations_agree_with_python(d):
    x, _ = pairs(d)
    x = np.concatenate([x, np.array([d.min, 0, 1], d.np_compute)])
    texts = [format(v % (1 << d.bits), f"0{d.bits}b") for v in x.tolist()]
    same(nm.popcount(x), wrapped([t.count("1") for t in texts], d))
    same(nm.clz(x), wrapped([len(t) - len(t.lstrip("0")) for t in texts], d))
    same(nm.ctz(x), wrapped([len(t) - len(t.rstrip("0")) for t in texts], d))
    same(nm.bit_reverse(x), wrapped([int(t[::-1], 2) for t in texts], d))
    for op in (nm.popcount, nm.clz, nm.ctz, nm.bit_reverse):
        same(op(x[-2]), op(x)[-2])


@pytest.mark.parametrize("d", [d for d in INTS if d.is_signed], ids=str)
def test_integer_division_edges(d):
    a = np.array([d.min, d.min, 7, -7, 0], d.np_compute)
    b = np.array([-1, 0, 0, 0, 0], d.np_compute)
    same(nm.floor_div(a, b), np.array([d.min, 0, 0, 0, 0], d.np_compute))
    same(nm.trunc_div(a, b), np.array([d.min, 0, 0, 0, 0], d.np_compute))
    same(nm.floor_mod(a, b), np.zeros(5, d.np_compute))
    same(nm.trunc_mod(a, b), np.zeros(5, d.np_compute))


def test_shift_counts_may_have_another_type():
    same(
        nm.shl(array(np.uint8, [1, 1, 1]), array(np.int64, [3, 2**40, -1])),
        array(np.uint8, [8, 0, 0]),
    )
    same(
        nm.shr(array(np.int16, [-8, -8, 8]), array(np.uint32, [1, 2**31, 16])),
        array(np.int16, [-4, -1, 0]),
    )


def test_float_division_follows_numpy():
    a, b = array(np.float32, [7, -7, 1, 0, -1]), array(np.float32, [2, 2, 0, 0, math.inf])
    same(nm.floor_div(a, b), array(np.float32, [3, -4, math.inf, math.nan, -1]))
    same(nm.floor_mod(a, b), array(np.float32, [1, 1, math.nan, math.nan, math.inf]))


# --- functions --------------------------------------------------------------------------------


def test_gamma_and_error_functions_at_the_edges():
    inf, nan = math.inf, math.nan
    x = array(np.float32, [inf, -inf, nan, 0.0, -0.0, -1.0, 200.0])
    same(nm.erf(x), array(np.float32, [1, -1, nan, 0, -0.0, math.erf(-1), 1]))
    same(nm.erfc(x), array(np.float32, [0, 2, nan, 1, 1, math.erfc(-1), 0]))
    same(nm.tgamma(x), array(np.float32, [inf, nan, nan, inf, -inf, nan, inf]))
    same(nm.lgamma(x), array(np.float32, [inf, inf, nan, inf, inf, inf, math.lgamma(200)]))
    same(nm.tgamma(np.array(5.0)), np.array(24.0))


def test_functions_agree_with_torch():
    torch = pytest.importorskip("torch")
    x = np.linspace(-5.3, 9.1, 400)
    for ours, theirs in ((nm.erf, torch.erf), (nm.erfc, torch.erfc), (nm.lgamma, torch.lgamma)):
        np.testing.assert_allclose(
            ours(x), theirs(torch.from_numpy(x)).numpy(), rtol=1e-12, atol=1e-13
        )


def test_wide_rounds_the_f64_result_once():
    x = np.linspace(0.1, 5, 1000)
    for t in (np.float16, np.float32, np.float64):
        narrow = x.astype(t)
        same(nm.wide(np.exp)(narrow), np.exp(narrow.astype(np.float64)).astype(t))
        same(
            nm.wide(np.power)(narrow, narrow),
            np.power(narrow.astype(float), narrow.astype(float)).astype(t),
        )
    assert np.isnan(nm.wide(np.log)(array(np.float32, [-1.0])))[0]


def test_minimum_propagates_nan_and_fmin_does_not():
    a, b = array(np.float32, [1, math.nan, 3]), array(np.float32, [2, 5, math.nan])
    same(nm.minimum(a, b), array(np.float32, [1, math.nan, math.nan]))
    same(nm.maximum(a, b), array(np.float32, [2, math.nan, math.nan]))
    same(nm.fmin(a, b), array(np.float32, [1, 5, 3]))
    same(nm.fmax(a, b), array(np.float32, [2, 5, 3]))
    same(nm.minimum(array(np.int8, [-1]), array(np.int8, [1])), array(np.int8, [-1]))


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)  # fmt: skip
def test_philox_known_answers(counter, key, want):
    words = [np.array([int(w, 16)] * 2, np.uint32) for w in f"{counter} {key}".split()]
    got = nm.philox4x32(*words)
    assert [f"{int(w[1]):08x}" for w in got] == want.split()
    scalars = nm.philox4x32(*(w[0] for w in words))
    assert [f"{int(w):08x}" for w in scalars] == want.split()
    assert all(w.dtype == np.uint32 and isinstance(w, np.ndarray) for w in scalars)
