"""Conversions between all pairs of dtypes, by value and by bits, against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from eas.tensor import Tensor
from tests.backend.formats import (
    FLOATS,
    assert_identical,
    buffer,
    contents,
    converted,
    edges,
    nearest,
    poison,
    sample,
    storage,
    wrapped,
)
from tests.backend.launches import METAL, launch, need_dtype, op_names

COVERS = {"cast", "bitcast"}
BLOCK = 64


@eas.kernel
def cast_kernel(x, o0, o1, o2, o3, o4, n, TO: eas.constexpr, BITS: eas.constexpr):
    """Five targets a launch: Metal has 31 buffers, and a compilation costs more than a store."""
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offsets < n
    value = mk.load(x, offsets, mask)
    for out, dtype in zip((o0, o1, o2, o3, o4), TO, strict=False):
        mk.store(out, offsets, mk.cast(value, dtype, bitcast=BITS), mask)


def run(backend, x, targets: list[DType], bits: bool) -> dict[DType, object]:
    """An output buffer per target, one element longer than the input."""
    outs: dict[DType, object] = {}
    for i in range(0, len(targets), 5):
        group = tuple(targets[i : i + 5])
        made = [poison(x.size + 1, d) for d in group]
        spare = [np.zeros(1, np.int32)] * (5 - len(group))
        args = (x, *made, *spare, x.size)
        launch(backend, cast_kernel, *args, grid=-(-x.size // BLOCK), TO=group, BITS=bits)
        assert op_names(cast_kernel, *args, TO=group, BITS=bits) & COVERS or len(group) == 1
        outs |= dict(zip(group, made, strict=True))
    return outs


def interesting(src: DType) -> list:
    """Values that sit on the limits and halfway points of every other dtype."""
    if src.is_bool:
        return [False, True] * 40
    limits = [x for d in dtypes.ALL if not d.is_float for x in (d.min, d.max)]
    halves = [2**24 + 1, 2**24 + 3, 2**53 + 1, 2**53 + 3, 2**31 - 127, 2**62 + 2**38 + 1, 65519, 65520, 257, 259, 385, 465, 464, 61439, 61440]
    ties = [2**e + odd * 2 ** (e - m - 1) for m, *_ in FLOATS.values() for e in (m + 2, 30, 62) if e > m for odd in (1, 3)]
    whole = [s * (x + d) for x in limits + halves + ties for s in (1, -1) for d in (-1, 0, 1)]
    if not src.is_float:
        # Halfway points with any single bit below them: none of them may be lost on the way.
        beside = [s * (2**e + 2 ** (e - m - 1) + d * 2**k) for m, *_ in FLOATS.values() if m > 6 for e in (30, 62) for k in range(e - m - 1) for d in (1, -1) for s in (1, -1)]
        inside = [x for x in [*whole, *beside] if src.min <= x <= src.max]
        return edges(src) + inside + sample(src, 100, 0)
    near = [s * (2.0**e) * m for e in range(-160, 140, 7) for m in (1, 1 + 2.0**-4, 1 + 2.0**-8, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-30, 1 + 2.0**-24, 1.9999) for s in (1, -1)]
    fractions = [x + f for x in (-3, -1, 0, 1, 2, 127, 255) for f in (-0.5, 0.25, 0.5, 0.999)]
    beside = [1 + 2.0 ** -(m + 1) + d * 2.0**-k for m, *_ in FLOATS.values() if m > 6 for k in range(m + 2, 53) for d in (1, -1)]
    return edges(src) + [nearest(float(x), src) for x in [*whole, *near, *fractions, *beside]] + sample(src, 50, 0)


@pytest.mark.every_width
@pytest.mark.parametrize("src", TABLE["cast"].dtypes, ids=str)
def test_cast_follows_the_rule_for_every_target(backend, src):
    need_dtype(backend, src)
    targets = [d for d in dtypes.ALL if not (d is dtypes.f64 and backend in METAL)]
    values = interesting(src)
    for dst, out in run(backend, buffer(values, src), targets, False).items():
        want = [converted(x, src, dst) for x in values]
        where = f"{src} -> {dst}"
        assert_identical(contents(out)[:-1], contents(buffer(want, dst)), dst, where=where)
        assert_identical(contents(out)[-1:], contents(poison(1, dst)), dst, where=where)


def _codes(src: DType) -> list[int]:
    """Bit patterns: all of 8 bits; else edges of the integers and of the floats of that width."""
    if src.bits == 8:
        return list(range(256))
    unsigned = dtypes.parse(f"u{src.bits}")
    floats = [d for d in dtypes.ALL if d.is_float and d.bits == src.bits]
    patterns = [int(c) for d in floats for c in storage(buffer(edges(d), d)).view(unsigned.np_storage)]
    return edges(unsigned) + patterns + sample(unsigned, 100, 0)


@pytest.mark.parametrize("src", TABLE["bitcast"].dtypes, ids=str)
def test_bitcast_keeps_every_bit(backend, src):
    need_dtype(backend, src)
    targets = [d for d in TABLE["bitcast"].dtypes if d.bits == src.bits and not (d is dtypes.f64 and backend in METAL)]
    codes = np.array(_codes(src), f"u{src.nbytes}")  # NaN payloads too
    stored = codes.view(src.np_storage)
    x = stored if src.np_storage == src.np_compute else Tensor(stored, src)
    for dst, out in run(backend, x, targets, True).items():
        np.testing.assert_array_equal(storage(out)[:-1].view(codes.dtype), codes, err_msg=f"{src} as {dst}")


@pytest.mark.every_width
def test_all_halves_and_what_is_between_them(backend):
    """Also on processors that have no instruction for f16."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = np.zeros(halves.size, np.float32)
    launch(backend, stored_kernel, halves, wide, halves.size, grid=mk.cdiv(halves.size, BLOCK))
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    finite = np.sort(wide[np.isfinite(wide)])
    middle = np.append((finite[:-1] + finite[1:]) / 2, np.float32([65520, -65520]))
    around = np.concatenate([np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)] + [middle])
    narrow = np.zeros(around.size, np.float16)
    launch(backend, stored_kernel, around, narrow, around.size, grid=mk.cdiv(around.size, BLOCK))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow.view(np.uint16), around.astype(np.float16).view(np.uint16))


@eas.kernel
def stored_kernel(x, y, n):
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offsets, mk.load(x, offsets, offsets < n), offsets < n)


@pytest.mark.parametrize(("src", "dst"), [("f32", "f16"), ("f32", "bf16"), ("i32", "bf16"), ("f32", "f8e4m3"), ("f16", "f8e5m2"), ("bool", "f32"), ("i64", "i8"), ("u8", "i32"), ("i32", "bool")])
def test_store_converts_to_the_dtype_of_the_buffer(backend, src, dst):
    source, target = dtypes.parse(src), dtypes.parse(dst)
    values = interesting(source)
    out = poison(len(values) + 1, target)
    launch(backend, stored_kernel, buffer(values, source), out, len(values), grid=-(-len(values) // BLOCK))
    want = [converted(x, source, target) for x in values]
    assert_identical(contents(out)[:-1], contents(buffer(want, target)), target)


CASTERS = {d: getattr(mk, f"to_{d.name}") for d in dtypes.ALL if not d.is_storage_only}


@eas.kernel
def named_kernel(x, y, TO: eas.constexpr, METHOD: eas.constexpr):
    i = mk.arange(0, 7)
    value = mk.load(x, i)
    mk.store(y, i, value.to(TO) if METHOD else CASTERS[TO](value))


@pytest.mark.parametrize("dtype", [d for d in CASTERS if d is not dtypes.f64], ids=str)
def test_named_casts_are_casts(backend, dtype):
    values = [-300.75, -1.5, 0.0, 0.4, 2.5, 70000.0, math.nan]
    want = contents(buffer([converted(x, dtypes.f32, dtype) for x in values], dtype))
    for method in (False, True):
        out = poison(7, dtype)
        launch(backend, named_kernel, buffer(values, dtypes.f32), out, grid=1, TO=dtype, METHOD=method)
        assert_identical(contents(out), want, dtype)


@pytest.mark.parametrize("dtype", [dtypes.bf16, dtypes.f8e4m3, dtypes.f8e5m2], ids=str)
def test_rounding_agrees_with_torch(dtype):
    """The judge of the casts is judged, where torch has the format."""
    torch = pytest.importorskip("torch")
    name = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}[dtype.name]
    largest = FLOATS[dtype.name][2]
    values = [x for x in interesting(dtypes.f32) if abs(x) <= largest]
    want = torch.tensor(values).to(getattr(torch, name)).to(torch.float64).numpy()
    assert_identical(np.array([nearest(x, dtype) for x in values]), want, dtype)


def test_wrapping_agrees_with_numpy():
    values = sample(dtypes.i64, 200, 0)
    for dtype in dtypes.ALL:
        if dtype.is_int:
            want = np.array(values, np.int64).astype(dtype.np_storage)
            np.testing.assert_array_equal([wrapped(x, dtype) for x in values], want)


@eas.kernel
def fp8_sign_kernel(x, size, other, B: eas.constexpr):
    i = mk.arange(0, B)
    code = mk.load(x, i)
    mk.store(size, i, mk.abs(code))
    mk.store(other, i, -code)


@pytest.mark.parametrize("dtype", [dtypes.f8e4m3, dtypes.f8e5m2], ids=str)
def test_storage_formats_have_a_sign(backend, dtype):
    x, size, other = (Tensor(np.full(256, k, np.uint8) if k else np.arange(256, dtype=np.uint8), dtype) for k in (0, 1, 2))
    launch(backend, fp8_sign_kernel, x, size, other, grid=1, B=256)
    np.testing.assert_array_equal(size._array, np.arange(256) & 0x7F)
    np.testing.assert_array_equal(other._array, np.arange(256) ^ 0x80)
