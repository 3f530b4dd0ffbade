"""Arithmetic, bits, comparisons and selection: every dtype of the row against plain Python."""

from __future__ import annotations

import itertools
import math
import operator
from fractions import Fraction

import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from tests.backend.formats import (
    assert_identical,
    buffer,
    contents,
    edges,
    nearest,
    poison,
    sample,
    wrapped,
)
from tests.backend.launches import (
    elementwise,
    elementwise_all,
    launch,
    need_dtype,
    op_groups,
    shapes_for,
    without_subnormals,
)

# --- what each op means, on Python's own numbers ----------------------------------------------


def _divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if math.isnan(a) or not a else math.copysign(math.inf, a) * math.copysign(1, b)


def _floordiv(a, b, dtype: DType):
    if not dtype.is_float:
        return a // b if b else 0
    return a // b if b else _divided(a, b)


def _mod(a, b, dtype: DType):
    if not dtype.is_float:
        return a % b if b else 0
    return a % b if b else math.nan


def _truncdiv(a: int, b: int, dtype: DType) -> int:
    return math.trunc(Fraction(a, b)) if b else 0


def _truncmod(a: int, b: int, dtype: DType) -> int:
    return a - b * math.trunc(Fraction(a, b)) if b else 0


def _fmod(a: float, b: float, dtype: DType) -> float:
    return math.nan if math.isinf(a) or not b or math.isnan(b) else math.fmod(a, b)


def _least(a, b, dtype: DType):
    return math.nan if a != a or b != b else min(a, b)


def _greatest(a, b, dtype: DType):
    return math.nan if a != a or b != b else max(a, b)


def _without_nan(choose):
    def chosen(a: float, b: float, dtype: DType) -> float:
        return b if a != a else a if b != b else choose(a, b)

    return chosen


def _shl(a: int, n: int, dtype: DType) -> int:
    return a << n if 0 <= n < dtype.bits else 0


def _shr(a: int, n: int, dtype: DType) -> int:
    return a >> n if 0 <= n < dtype.bits else (-1 if a < 0 else 0)


def _sign(a, dtype: DType):
    return a if a != a or a == 0 else type(a)(math.copysign(1, a))


def _bits(a: int, dtype: DType) -> str:
    return format(a % (1 << dtype.bits), f"0{dtype.bits}b")


def _fma(a: float, b: float, c: float, dtype: DType) -> float:
    """One rounding in f32 or f64; f16 and bf16 are computed in f32 and then rounded."""
    if not all(map(math.isfinite, (a, b, c))) or not a or not b:
        # Python's product may overflow where the exact one does not, but not with these.
        return c if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c) else a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # x + -x is +0; two zeros of one sign keep it, and here the product is not zero.
        return a * b + c if not Fraction(a) * Fraction(b) else 0.0
    return nearest(exact, dtypes.f64 if dtype is dtypes.f64 else dtypes.f32)


def _sqrt(a: float, dtype: DType) -> float:
    return math.nan if a < 0 or a != a else math.sqrt(a)


def _integral(fn):
    return lambda a, dtype: math.copysign(float(fn(a)), a) if math.isfinite(a) else a


def _plain(fn):
    return lambda *xs: fn(*xs[:-1])


# op: (how a kernel spells it, what it means); integers wrap and floats round once afterwards
CASES = {
    "add": (operator.add, _plain(operator.add)),
    "sub": (operator.sub, _plain(operator.sub)),
    "mul": (operator.mul, _plain(operator.mul)),
    "div": (operator.truediv, _plain(_divided)),
    "floordiv": (operator.floordiv, _floordiv),
    "mod": (operator.mod, _mod),
    "truncdiv": (mk.div_trunc, _truncdiv),
    "truncmod": (mk.rem, _truncmod),
    "fmod": (mk.fmod, _fmod),
    "mulhi": (mk.mulhi, lambda a, b, dtype: (a * b) >> dtype.bits),
    "min": (mk.minimum, _least),
    "max": (mk.maximum, _greatest),
    "fmin": (lambda a, b: mk.minimum(a, b, propagate_nan=False), _without_nan(min)),
    "fmax": (lambda a, b: mk.maximum(a, b, propagate_nan=False), _without_nan(max)),
    "and": (operator.and_, _plain(operator.and_)),
    "or": (operator.or_, _plain(operator.or_)),
    "xor": (operator.xor, _plain(operator.xor)),
    "shl": (operator.lshift, _shl),
    "shr": (operator.rshift, _shr),
    "not": (operator.invert, lambda a, dtype: not a if dtype.is_bool else ~a),
    "neg": (operator.neg, _plain(operator.neg)),
    "abs": (mk.abs, _plain(abs)),
    "sign": (mk.sign, _sign),
    "eq": (operator.eq, _plain(operator.eq)),
    "ne": (operator.ne, _plain(operator.ne)),
    "lt": (operator.lt, _plain(operator.lt)),
    "le": (operator.le, _plain(operator.le)),
    "gt": (operator.gt, _plain(operator.gt)),
    "ge": (operator.ge, _plain(operator.ge)),
    "sqrt": (mk.sqrt, _sqrt),
    "floor": (mk.floor, _integral(math.floor)),
    "ceil": (mk.ceil, _integral(math.ceil)),
    "trunc": (mk.trunc, _integral(math.trunc)),
    "round": (mk.round, _integral(round)),
    "copysign": (mk.copysign, _plain(math.copysign)),
    "fma": (mk.fma, _fma),
    "isnan": (mk.isnan, _plain(math.isnan)),
    "isinf": (mk.isinf, _plain(math.isinf)),
    "isfinite": (mk.isfinite, _plain(math.isfinite)),
    "signbit": (mk.signbit, lambda a, dtype: math.copysign(1, a) < 0),
    "popcount": (mk.popcount, lambda a, dtype: _bits(a, dtype).count("1")),
    "clz": (mk.clz, lambda a, dtype: len(_bits(a, dtype)) - len(_bits(a, dtype).lstrip("0"))),
    "ctz": (mk.ctz, lambda a, dtype: len(_bits(a, dtype)) - len(_bits(a, dtype).rstrip("0"))),
    "bit_reverse": (mk.bit_reverse, lambda a, dtype: int(_bits(a, dtype)[::-1], 2)),
}
PREDICATES = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit"}
ZERO_SIGN_UNSPECIFIED = {"min", "max", "fmin", "fmax", "sign"}
COVERS = {*CASES, "select"}


def arity(op: str) -> int:
    return len(TABLE[op].operands.split(","))


def inputs(operands: int, dtype: DType, backend: str) -> list[list]:
    """Operand lists: all pairs of edge values for two operands, and random values."""
    points = edges(dtype)
    if operands == 3:
        points = points[:: 2 if dtype.is_float else 1][:11] + points[-3:]
    tuples = list(itertools.product(points, repeat=operands))
    tuples += list(zip(*(sample(dtype, 150, seed) for seed in range(operands)), strict=True))
    return [without_subnormals(backend, list(xs), dtype) for xs in zip(*tuples, strict=True)]


def has_one_answer(op: str, dtype: DType, xs: tuple) -> bool:
    """A float quotient that the dtype cannot hold exactly has no floor of its own."""
    if op != "floordiv" or not dtype.is_float:
        return True
    quotient = _divided(*xs)
    if math.isinf(quotient):
        return not all(map(math.isfinite, xs)) or not xs[1]
    return not abs(quotient) >= 2**7


def rounded(x, dtype: DType):
    if dtype.is_bool:
        return bool(x)
    return nearest(float(x), dtype) if dtype.is_float else wrapped(x, dtype)


@pytest.mark.parametrize(("ops", "dtype"), [g for operands in (1, 2, 3) for g in op_groups(op for op in CASES if arity(op) == operands)])
def test_ops_agree_with_python(backend, ops, dtype):
    need_dtype(backend, dtype)
    operands = inputs(arity(ops[0]), dtype, backend)
    n = len(operands[0])
    outs = {op: poison(n + 1, dtypes.bool_ if op in PREDICATES else dtype) for op in ops}
    elementwise_all(backend, [CASES[op][0] for op in ops], [buffer(xs, dtype) for xs in operands], list(outs.values()), set(ops), shapes_for(dtype))
    for op, out in outs.items():
        out_dtype = dtypes.bool_ if op in PREDICATES else dtype
        judged = [has_one_answer(op, dtype, xs) for xs in zip(*operands, strict=True)]
        meant = [rounded(CASES[op][1](*xs, dtype), out_dtype) for xs in itertools.compress(zip(*operands, strict=True), judged)]
        got = contents(out)
        assert_identical(got[:n][judged], contents(buffer(meant, out_dtype)), out_dtype, op not in ZERO_SIGN_UNSPECIFIED, f"{op} {dtype}")
        assert_identical(got[n:], contents(poison(1, out_dtype)), out_dtype)


def _chosen(pick, a, b):
    return mk.where(pick, a, b)


@pytest.mark.parametrize("dtype", TABLE["select"].dtypes, ids=str)
def test_select_takes_every_dtype(backend, dtype):
    need_dtype(backend, dtype)
    a = edges(dtype) + sample(dtype, 200, 0)
    b = a[::-1]
    pick = sample(dtypes.bool_, len(a), 1)
    out = poison(len(a) + 1, dtype)
    elementwise(backend, _chosen, [buffer(pick, dtypes.bool_), buffer(a, dtype), buffer(b, dtype)], out, "select", shapes_for(dtype))
    want = [x if p else y for p, x, y in zip(pick, a, b, strict=True)]
    assert_identical(contents(out)[:-1], contents(buffer(want, dtype)), dtype)


# --- spellings that meet the same rows --------------------------------------------------------


def _python_number_right(x):
    return (x + 1) * 2 - 3


def _python_number_left(x):
    return 3 - 2 * (1 + x)


@pytest.mark.parametrize("dtype", [d for d in TABLE["add"].dtypes if d.is_signed], ids=str)
@pytest.mark.parametrize("fn", [_python_number_right, _python_number_left])
def test_python_numbers_take_the_dtype_of_the_block(backend, fn, dtype):
    need_dtype(backend, dtype)
    values = [float(x) if dtype.is_float else x for x in range(-15, 16)]
    out = poison(len(values) + 1, dtype)
    elementwise(backend, fn, [buffer(values, dtype)], out, "mul")
    assert_identical(contents(out)[:-1], contents(buffer([fn(x) for x in values], dtype)), dtype, False)


@eas.kernel
def bounded_shift_kernel(x, n, y, MOST: eas.constexpr, BLOCK: eas.constexpr):
    """Counts of which the compiler knows the largest: up to the width, one less, and one more."""
    i = mk.arange(0, BLOCK)
    v = mk.load(x, i)
    for k, most in enumerate(MOST):
        count = mk.minimum(mk.maximum(mk.load(n, i), 0), most)
        mk.store(y, 2 * k * BLOCK + i, v << count)
        mk.store(y, (2 * k + 1) * BLOCK + i, v >> count)


@pytest.mark.parametrize("dtype", TABLE["shl"].dtypes, ids=str)
def test_shifts_by_counts_of_a_known_range(backend, dtype):
    most, block = (dtype.bits - 1, dtype.bits, dtype.bits + 1), 128
    if max(most) > dtype.max:
        most = tuple(m for m in most if m <= dtype.max)
    values, counts = sample(dtype, block, 3), [k % (dtype.bits + 2) for k in range(block)]
    y = poison(2 * len(most) * block, dtype)
    launch(backend, bounded_shift_kernel, buffer(values, dtype), buffer(counts, dtype), y, grid=1, MOST=most, BLOCK=block)
    want = [wrapped(meaning(v, min(c, m), dtype), dtype) for m in most for meaning in (_shl, _shr) for v, c in zip(values, counts, strict=True)]
    assert_identical(contents(y), contents(buffer(want, dtype)), dtype)


@pytest.mark.parametrize("dtype", [d for d in TABLE["shl"].dtypes if d.bits < 64], ids=str)
def test_wide_shift_counts_do_not_become_small_ones(backend, dtype):
    counts = [0, 1, dtype.bits - 1, dtype.bits, 256, 2**31, 2**32, 2**62, -1, -256, -(2**63)]
    values = [1 if not dtype.is_signed else -1] * len(counts)
    for fn, op, meaning in ((operator.lshift, "shl", _shl), (operator.rshift, "shr", _shr)):
        out = poison(len(counts) + 1, dtype)
        elementwise(backend, fn, [buffer(values, dtype), buffer(counts, dtypes.i64)], out, op)
        want = [wrapped(meaning(x, n, dtype), dtype) for x, n in zip(values, counts, strict=True)]
        assert_identical(contents(out)[:-1], contents(buffer(want, dtype)), dtype, where=op)


@pytest.mark.parametrize("dtype", [d for d in TABLE["mulhi"].dtypes if d.is_signed], ids=str)
def test_umulhi_takes_the_bits_as_unsigned(backend, dtype):
    unsigned = dtypes.parse(f"u{dtype.bits}")
    pairs = list(itertools.product(edges(dtype), repeat=2))
    a, b = ([p[i] for p in pairs] for i in (0, 1))
    out = poison(len(pairs) + 1, unsigned)
    elementwise(backend, mk.umulhi, [buffer(a, dtype), buffer(b, dtype)], out, "mulhi")
    want = [(wrapped(x, unsigned) * wrapped(y, unsigned)) >> dtype.bits for x, y in pairs]
    assert_identical(contents(out)[:-1], contents(buffer(want, unsigned)), unsigned)


def _clamped(x, lo, hi):
    return mk.clamp(x, lo, hi)


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i16, dtypes.u8, dtypes.bf16], ids=str)
def test_clamp_keeps_nan_and_bounds(backend, dtype):
    x = edges(dtype) + sample(dtype, 50, 0)
    lo, hi = [x[-1] if x[-1] < x[-2] else x[-2]] * len(x), [max(x[-1], x[-2])] * len(x)
    out = poison(len(x) + 1, dtype)
    elementwise(backend, _clamped, [buffer(v, dtype) for v in (x, lo, hi)], out, "max")
    want = [v if v != v else min(max(v, lo[0]), hi[0]) for v in x]
    assert_identical(contents(out)[:-1], contents(buffer(want, dtype)), dtype, False)


@pytest.mark.parametrize(("a", "b", "out"), [("i8", "u8", "i16"), ("u32", "i32", "i64"), ("f16", "bf16", "f32"), ("i64", "f16", "f16"), ("bool", "u8", "u8")])
def test_mixed_dtypes_compute_in_the_promoted_one(backend, a, b, out):
    left, right, result = map(dtypes.parse, (a, b, out))
    xs, ys = sample(left, 60, 0), sample(right, 60, 1)
    got = poison(61, result)
    elementwise(backend, operator.add, [buffer(xs, left), buffer(ys, right)], got, "add")
    if result.is_float:
        want = [nearest(nearest(x, result) + nearest(y, result), result) for x, y in zip(xs, ys, strict=True)]
    else:
        want = [wrapped(x + y, result) for x, y in zip(xs, ys, strict=True)]
    assert_identical(contents(got)[:-1], contents(buffer(want, result)), result)


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u8, dtypes.bool_], ids=str)
def test_true_division_of_integers_is_f32(backend, dtype):
    xs, ys = sample(dtype, 80, 0), sample(dtype, 80, 1)
    out = poison(81, dtypes.f32)
    elementwise(backend, operator.truediv, [buffer(xs, dtype), buffer(ys, dtype)], out, "div")
    want = [nearest(_divided(nearest(int(x), dtypes.f32), nearest(int(y), dtypes.f32)), dtypes.f32) for x, y in zip(xs, ys, strict=True)]
    assert_identical(out[:-1], contents(buffer(want, dtypes.f32)), dtypes.f32)


@eas.kernel
def clamped_shift_kernel(x, counts, left, right, MOST: eas.constexpr, BLOCK: eas.constexpr):
    """Counts that ranges know to lie between 0 and one number."""
    i = mk.arange(0, BLOCK)
    value, count = mk.load(x, i), mk.minimum(mk.maximum(mk.load(counts, i), 0), MOST)
    mk.store(left, i, value << count)
    mk.store(right, i, value >> count)


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u32, dtypes.i8, dtypes.u16], ids=str)
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_shifts_by_known_ranges_around_the_width(backend, dtype, over):
    most = dtype.bits + over
    counts = [*range(most - 3, most + 3), -1, 0, 1, 2]
    values = [v for v in (dtype.max, dtype.min, 1, 77 - 100 * dtype.is_signed) for _ in counts]
    n, counts = len(values), counts * 4
    left, right = poison(n, dtype), poison(n, dtype)
    given = buffer([max(c, dtype.min) for c in counts], dtype)
    launch(backend, clamped_shift_kernel, buffer(values, dtype), given, left, right, grid=1, MOST=most, BLOCK=n)
    by = [min(max(c, 0), most) for c in counts]
    assert_identical(contents(left), contents(buffer([wrapped(v << b, dtype) for v, b in zip(values, by, strict=True)], dtype)), dtype)
    assert_identical(contents(right), contents(buffer([v >> b for v, b in zip(values, by, strict=True)], dtype)), dtype)
