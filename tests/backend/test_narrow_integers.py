"""Arithmetic on widened integers, at the edges of what 16 bits hold."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.rewrite.narrow_integers import narrow_integers
from tests.backend.launches import launch

# Written once for blocks and NumPy: `m` is the module that has minimum, maximum, abs and where.
FORMS = {
    "scaled": lambda m, a, b: (a * 3 + 64) >> 2,
    "square": lambda m, a, b: a * a,
    "product": lambda m, a, b: a * b - b,
    "least that overflows": lambda m, a, b: a * 258 + 1,
    "most that fits": lambda m, a, b: a * 257,
    "distance": lambda m, a, b: abs(a - b),
    "negated": lambda m, a, b: -a - 1,
    "bits": lambda m, a, b: ((a << 4) ^ (b & 63)) | 1,
    "choice": lambda m, a, b: m.where(a * 2 > b + 7, a + b, m.minimum(a, b) - m.maximum(a, 5)),
    "sum of signs": lambda m, a, b: (a - 200) * 2 + (b >> 1),
    "large shift": lambda m, a, b: (a >> 17) + (b << 20),
}
SHORT = ("uint8", "int8", "uint16", "int16")


@eas.kernel
def forms_kernel(x, y, wide, narrow, n, FORMS: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    a, b = mk.load(x, i, i < n).to(mk.i32), mk.load(y, i, i < n).to(mk.i32)
    for k, form in enumerate(FORMS):
        result = form(mk, a, b)
        mk.store(wide, k * n + i, result, i < n)
        mk.store(narrow, k * n + i, result.to(narrow.dtype), i < n)


def edges(dtype):
    info = np.iinfo(dtype)
    few = np.unique(np.clip([info.min, info.min + 1, -129, -128, -1, 0, 1, 2, 63, 127, 128, 254, 255, info.max - 1, info.max], info.min, info.max))
    return [v.ravel().astype(dtype) for v in np.meshgrid(few, few)]


@pytest.mark.parametrize("dtype", SHORT)
def test_forms(backend, dtype):
    x, y = edges(dtype)
    wide, narrow = np.zeros((len(FORMS), x.size), np.int32), np.zeros((len(FORMS), x.size), dtype)
    launch(backend, forms_kernel, x, y, wide, narrow, x.size, grid=2, FORMS=tuple(FORMS.values()), BLOCK=128)
    for name, got, short in zip(FORMS, wide, narrow, strict=True):
        expected = FORMS[name](np, x.astype(np.int32), y.astype(np.int32))
        np.testing.assert_array_equal(got, expected, name)
        np.testing.assert_array_equal(short, expected.astype(dtype), name)


@pytest.mark.parametrize(
    ("form", "dtype", "used"),
    [("scaled", "uint8", "i16"), ("square", "uint8", "u16"), ("square", "int8", "i16"), ("square", "int16", "i32"), ("most that fits", "uint8", "u16"), ("least that overflows", "uint8", "i32")],
)
def test_which_type_is_used(form, dtype, used):
    x = np.zeros(8, dtype)
    module = forms_kernel.compile(x, x, np.zeros(8, np.int32), x, 8, FORMS=(FORMS[form],), BLOCK=8).ir
    products = [inst.out.dtype.name for inst in walk(narrow_integers(module).body) if inst.op.name == "mul" and inst.out.shape]
    assert products == [used]


@eas.kernel
def compared_kernel(x, out, n, limit, AS: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v, m = mk.load(x, i, i < n).to(AS), limit.to(AS)
    mk.store(out, i, (v < m).to(mk.i32) + 2 * (v >= m).to(mk.i32) + 4 * (v == m).to(mk.i32) + 8 * (v > m).to(mk.i32), i < n)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("other", ["i8", "u8", "i16", "u16", "u32", "i64"])
def test_comparisons_after_casts_that_change_numbers(backend, dtype, other):
    """A cast to fewer bits, or of negative numbers to unsigned ones, is compared as what it gives."""
    x, _ = edges(dtype)
    out, as_dtype = np.zeros(x.size, np.int32), getattr(mk, other)
    v = x.astype(other.replace("i", "int") if other[0] == "i" else other.replace("u", "uint"))
    for limit in (-129, -1, 0, 5, 40000):
        launch(backend, compared_kernel, x, out, x.size, limit, grid=2, AS=as_dtype, BLOCK=128)
        m = np.int64(limit).astype(v.dtype)
        np.testing.assert_array_equal(out, (v < m) + 2 * (v >= m) + 4 * (v == m) + 8 * (v > m), f"{limit}")


def all_comparisons(v, limit):
    """A bit for each, from either side."""
    both = ((v < limit), (v <= limit), (v > limit), (v >= limit), (v == limit), (v != limit), (limit < v), (limit <= v), (limit > v), (limit >= v))
    return sum((1 << k) * (held.to(mk.i32) if hasattr(held, "to") else held.astype(np.int32)) for k, held in enumerate(both))


@eas.kernel
def ends_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, all_comparisons(mk.load(x, i, i < n).to(mk.i32), limit), i < n)


@pytest.mark.parametrize("dtype", SHORT)
def test_comparisons_with_the_ends_of_a_short_type(backend, dtype):
    """And one beyond them, where no element can be: the comparison in fewer bits still has its answer."""
    x, info = edges(dtype)[0], np.iinfo(dtype)
    x[:4] = info.min, info.max, info.min + 1, info.max - 1
    out = np.zeros(x.size, np.int32)
    for end in (info.min, info.max, -(2**31) + 1, 2**31 - 2):
        for limit in (end - 1, end, end + 1):
            launch(backend, ends_kernel, x, out, x.size, int(limit), grid=-(-x.size // 128), BLOCK=128)
            np.testing.assert_array_equal(out, all_comparisons(x.astype(np.int64), np.int64(limit)), f"{limit}")


@eas.kernel
def halves_kernel(x, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n).to(mk.u32).to(mk.f16), i < n)


def test_negative_numbers_as_unsigned_ones_are_large_floats(backend):
    x = np.array([-128, -1, 0, 1, 127], np.int8)
    out = np.zeros(5, np.float16)
    launch(backend, halves_kernel, x, out, 5, grid=1, BLOCK=8)
    np.testing.assert_array_equal(out, [np.inf, np.inf, 0, 1, 127])


LOW_FORMS = {
    "blend": lambda a, b, s: (a * s + b * (256 - s)) >> 8,
    "wrapping product": lambda a, b, s: a * s * b - s,
    "most that is shifted": lambda a, b, s: (a * s) >> 8,
    "too much is shifted": lambda a, b, s: (a * s) >> 9,
    "bits": lambda a, b, s: ((a ^ s) & b) | (a + s),
    "negated": lambda a, b, s: -(a * s) + ~b,
}


@eas.kernel
def low_kernel(x, y, out, s, n, FORMS: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    a, b = mk.load(x, i, i < n).to(mk.i32), mk.load(y, i, i < n).to(mk.i32)
    for k, form in enumerate(FORMS):
        mk.store(out, k * n + i, form(a, b, s).to(out.dtype), i < n)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("result", SHORT)
def test_low_bits_of_numbers_told_at_run_time(backend, dtype, result):
    x, y = edges(dtype)
    for s in (0, 77, -3, 255, 65537, 2**31 - 1):
        out = np.zeros((len(LOW_FORMS), x.size), result)
        launch(backend, low_kernel, x, y, out, s, x.size, grid=2, FORMS=tuple(LOW_FORMS.values()), BLOCK=128)
        for (name, form), got in zip(LOW_FORMS.items(), out, strict=True):
            with np.errstate(over="ignore"):
                want = form(x.astype(np.int32), y.astype(np.int32), np.int32(s)).astype(result)
            np.testing.assert_array_equal(got, want, f"{name} with {s}")


@pytest.mark.parametrize(("name", "used"), [("blend", "u16"), ("most that is shifted", "u16"), ("too much is shifted", "i32")])
def test_which_products_need_low_bits_only(name, used):
    x = np.zeros(128, np.uint8)
    module = low_kernel.compile(x, x, x, 77, 128, FORMS=(LOW_FORMS[name],), BLOCK=128).ir
    muls = {i.out.dtype.name for i in walk(narrow_integers(module).body) if i.op.name == "mul" and i.out.shape}
    dead = {"i32"} if used != "i32" else set()
    assert used in muls
    assert muls <= {used} | dead
