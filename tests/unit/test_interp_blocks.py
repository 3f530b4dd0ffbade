"""The interpreter, judged by NumPy: reductions, scans, sorting, dot, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from eas.base import dtypes, errors, numerics
from tests.unit.interp_kernels import block_kernel, run, two_d

rng = np.random.default_rng(7)


@pytest.mark.parametrize(("axis", "shape"), [(0, (7, 5)), (1, (7, 5)), (-1, (4, 8)), (0, (1, 3))])
def test_reduce_sum_over_any_axis(axis, shape):
    x = rng.integers(-99, 99, shape).astype(np.int32)
    size = x.sum(axis).size
    lines = f"%r = reduce %v {{axis={axis}}} : i32[{size}] (%a: i32, %b: i32) {{\n%s = add %a, %b : i32\nyield %s\n}}"
    y = np.zeros(size, np.int32)
    run(two_d(shape[0], shape[1], "i32", lines, out_size=size), x.ravel(), y)
    np.testing.assert_array_equal(y, x.sum(axis))


ARGMAX = """(%v1: f32, %i1: i32, %v2: f32, %i2: i32) {
        %gt = gt %v1, %v2 : bool
        %eq = eq %v1, %v2 : bool
        %lt = lt %i1, %i2 : bool
        %tie = and %eq, %lt : bool
        %first = or %gt, %tie : bool
        %bv = select %first, %v1, %v2 : f32
        %bi = select %first, %i1, %i2 : i32
        yield %bv, %bi
      }"""


def test_reduce_of_value_and_index_is_argmax():
    x = rng.integers(0, 6, (9, 13)).astype(np.float32)
    lines = f"""%c = arange {{start=0, end=13}} : i32[13]
      %cols = broadcast %c {{shape=(9, 13)}} : i32[9,13]
      %best, %r = reduce %v, %cols {{axis=1}} : f32[9], i32[9] {ARGMAX}"""
    y = np.zeros(9, np.int32)
    run(two_d(9, 13, "f32", lines, "i32"), x.ravel(), y)
    np.testing.assert_array_equal(y, x.argmax(1))


def test_reduce_with_a_branch_in_its_region():
    x = rng.integers(0, 6, (9, 13)).astype(np.float32)
    lines = """%c = arange {start=0, end=13} : i32[13]
      %cols = broadcast %c {shape=(9, 13)} : i32[9,13]
      %best, %r = reduce %v, %cols {axis=1} : f32[9], i32[9] (%v1: f32, %i1: i32, %v2: f32, %i2: i32) {
        %ge = ge %v1, %v2 : bool
        %bv, %bi = if %ge : f32, i32 () {
          yield %v1, %i1
        } () {
          yield %v2, %i2
        }
        yield %bv, %bi
      }"""
    y = np.zeros(9, np.int32)
    run(two_d(9, 13, "f32", lines, "i32"), x.ravel(), y)
    np.testing.assert_array_equal(y, x.argmax(1))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_value_and_index_is_running_argmax(reverse):
    x = rng.integers(0, 6, (3, 11)).astype(np.float32)
    lines = f"""%c = arange {{start=0, end=11}} : i32[11]
      %cols = broadcast %c {{shape=(3, 11)}} : i32[3,11]
      %best, %at = scan %v, %cols {{axis=1, reverse={"true" if reverse else "false"}}} : f32[3,11], i32[3,11] {ARGMAX}
      %r = reshape %at {{shape=(33,)}} : i32[33]"""
    y = np.zeros(33, np.int32)
    run(two_d(3, 11, "f32", lines, "i32", 33), x.ravel(), y)
    if reverse:
        want = [[k + int(row[k:].argmax()) for k in range(11)] for row in x]
    else:
        want = [[int(row[: k + 1].argmax()) for k in range(11)] for row in x]
    np.testing.assert_array_equal(y.reshape(3, 11), want)


def test_reduce_of_a_triple_is_welford():
    x = (rng.standard_normal((5, 37)) * 3 + 100).astype(np.float32)
    lines = """%zeros = const 0.0 : f32[5,37]
      %ones = const 1.0 : f32[5,37]
      %mean, %m2, %n = reduce %v, %zeros, %ones {axis=1} : f32[5], f32[5], f32[5] (%ma: f32, %sa: f32, %na: f32, %mb: f32, %sb: f32, %nb: f32) {
        %total = add %na, %nb : f32
        %delta = sub %mb, %ma : f32
        %share = div %nb, %total : f32
        %step = mul %delta, %share : f32
        %m = add %ma, %step : f32
        %sq = mul %delta, %delta : f32
        %w = mul %na, %share : f32
        %c = mul %sq, %w : f32
        %s = add %sa, %sb : f32
        %s2 = add %s, %c : f32
        yield %m, %s2, %total
      }
      %v5 = div %m2, %n : f32[5]
      %r = cat %mean, %v5 {axis=0} : f32[10]"""
    y = np.zeros(10, np.float32)
    run(two_d(5, 37, "f32", lines, "f32", 10), x.ravel(), y)
    np.testing.assert_allclose(y[:5], x.mean(1, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(y[5:], x.var(1, dtype=np.float64), rtol=1e-5)


def test_combine_may_use_constants_and_values_from_outside():
    lines = """%m = const 7 : i32
      %r = reduce %v {axis=1} : i32[4] (%a: i32, %b: i32) {
        %k = const 0 : i32
        %s = add %a, %b : i32
        %t = mod %s, %m : i32
        %u = add %t, %k : i32
        yield %u
      }"""
    x = rng.integers(0, 7, (4, 10)).astype(np.int32)
    y = np.zeros(4, np.int32)
    run(two_d(4, 10, "i32", lines), x.ravel(), y)
    np.testing.assert_array_equal(y, x.sum(1) % 7)


@pytest.mark.parametrize(("axis", "reverse"), [(0, False), (1, False), (0, True), (1, True)])
def test_scan_is_cumsum(axis, reverse):
    x = rng.integers(-9, 9, (4, 6)).astype(np.int32)
    lines = f"""%s = scan %v {{axis={axis}, reverse={str(reverse).lower()}}} : i32[4,6] (%a: i32, %b: i32) {{
        %t = add %a, %b : i32
        yield %t
      }}
      %r = reshape %s {{shape=(24,)}} : i32[24]"""
    y = np.zeros(24, np.int32)
    run(two_d(4, 6, "i32", lines, out_size=24), x.ravel(), y)
    want = np.flip(np.flip(x, axis).cumsum(axis), axis) if reverse else x.cumsum(axis)
    np.testing.assert_array_equal(y.reshape(4, 6), want)


def test_scan_of_a_1d_block():
    lines = """%v = load %x.p : u8[9]
    %s = scan %v {axis=0, reverse=false} : u8[9] (%a: u8, %b: u8) {
      %t = add %a, %b : u8
      yield %t
    }
    store %x.p, %s"""
    x = np.arange(30, 39, dtype=np.uint8)
    want = np.cumsum(x, dtype=np.uint8)
    run(block_kernel(9, "%x: ptr<u8>", lines), x)
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_moves_payloads_and_is_stable(descending):
    x = rng.integers(0, 4, (3, 16)).astype(np.float32)
    x[1, 3] = np.nan
    lines = f"""%c = arange {{start=0, end=16}} : i32[16]
      %cols = broadcast %c {{shape=(3, 16)}} : i32[3,16]
      %s, %p = sort %v, %cols {{axis=1, descending={str(descending).lower()}}} : f32[3,16], i32[3,16]
      %r = reshape %p {{shape=(48,)}} : i32[48]"""
    y = np.zeros(48, np.int32)
    run(two_d(3, 16, "f32", lines, "i32", 48), x.ravel(), y)
    keys = np.where(np.isnan(x), np.inf, x)
    np.testing.assert_array_equal(
        y.reshape(3, 16), np.argsort(-keys if descending else keys, axis=1, kind="stable")
    )


def test_topk_gives_values_and_indices():
    x = rng.permutation(48).reshape(3, 16).astype(np.float32)
    lines = """%top, %at = topk %v {k=4, axis=1, largest=true} : f32[3,4], i32[3,4]
      %g = gather %v, %at {axis=1} : f32[3,4]
      %d = sub %g, %top : f32[3,4]
      %sum = add %d, %top : f32[3,4]
      %r = reshape %sum {shape=(12,)} : f32[12]"""
    y = np.zeros(12, np.float32)
    run(two_d(3, 16, "f32", lines, "f32", 12), x.ravel(), y)
    np.testing.assert_array_equal(y.reshape(3, 4), -np.sort(-x, axis=1)[:, :4])


def test_histogram_counts_what_is_inside():
    x = rng.integers(-3, 12, (4, 32)).astype(np.int32)
    y = np.zeros(8, np.int32)
    run(two_d(4, 32, "i32", "%r = histogram %v {bins=8} : i32[8]", "i32", 8), x.ravel(), y)
    np.testing.assert_array_equal(y, np.bincount(x[(x >= 0) & (x < 8)], minlength=8))


def test_gather_outside_of_the_axis_fails():
    lines = "%v = load %x.p : i32[4]\n%g = gather %v, %v {axis=0} : i32[4]"
    run(block_kernel(4, "%x: ptr<i32>", lines), np.array([3, 2, 1, 0], np.int32))
    with pytest.raises(
        errors.DeviceAssertion,
        match=r"gather index 4 is outside of an axis of 4 .*program \(0,0,0\)",
    ):
        run(block_kernel(4, "%x: ptr<i32>", lines), np.array([3, 4, 1, 0], np.int32))


def dot_kernel(a, b, dtype, acc):
    out = (*a[:-1], b[-1])
    na, nb, no = (int(np.prod(s)) for s in (a, b, out))
    shape = {name: ",".join(map(str, s)) for name, s in (("a", a), ("b", b), ("o", out))}
    load = "".join(
        f"""%i{x} = arange {{start=0, end={n}}} : i32[{n}]
      %{x}.b = broadcast %{x} {{shape=({n},)}} : ptr<{t}>[{n}]
      %{x}.p = addptr %{x}.b, %i{x} : ptr<{t}>[{n}]
      """
        for x, n, t in (("a", na, dtype), ("b", nb, dtype), ("o", no, acc))
    )
    return f"""kernel mm(%a: ptr<{dtype}>, %b: ptr<{dtype}>, %o: ptr<{acc}>) spmd {{
      {load}
      %fa = load %a.p : {dtype}[{na}]
      %fb = load %b.p : {dtype}[{nb}]
      %fo = load %o.p : {acc}[{no}]
      %ma = reshape %fa {{shape=({shape["a"]})}} : {dtype}[{shape["a"]}]
      %mb = reshape %fb {{shape=({shape["b"]})}} : {dtype}[{shape["b"]}]
      %mo = reshape %fo {{shape=({shape["o"]})}} : {acc}[{shape["o"]}]
      %d = dot %ma, %mb, %mo : {acc}[{shape["o"]}]
      %r = reshape %d {{shape=({no},)}} : {acc}[{no}]
      store %o.p, %r
      yield
    }}"""


@pytest.mark.parametrize(("a", "b"), [((5, 7), (7, 3)), ((2, 4, 6), (2, 6, 8))])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_dot_adds_to_its_accumulator(a, b, dtype):
    kind = np.float32 if dtype == "f32" else np.float16
    x, y = rng.standard_normal(a).astype(kind), rng.standard_normal(b).astype(kind)
    o = rng.standard_normal((*a[:-1], b[-1])).astype(np.float32)
    got = o.ravel().copy()
    run(dot_kernel(a, b, dtype, "f32"), x.ravel(), y.ravel(), got)
    want = x.astype(np.float64) @ y.astype(np.float64) + o
    np.testing.assert_array_equal(got.reshape(o.shape), want.astype(np.float32))


def test_dot_of_bytes_is_exact():
    x, y = rng.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    got = np.zeros(256, np.int32)
    run(dot_kernel((16, 16), (16, 16), "i8", "i32"), x.ravel(), y.ravel(), got)
    np.testing.assert_array_equal(got.reshape(16, 16), x.astype(np.int32) @ y.astype(np.int32))


def atomic_kernel(op, dtype, cells, mask=False):
    """Lane i updates cell i % cells with x[i]; what it found goes to y[i]."""
    args = f"%x: ptr<{dtype}>, %y: ptr<{dtype}>, %m: ptr<{dtype}>"
    lines = f"""%v = load %x.p : {dtype}[24]
    %n = const {cells} : i32[24]
    %at = mod %i, %n : i32[24]
    %to = addptr %m.b, %at : ptr<{dtype}>[24]
    %half = const 12 : i32[24]
    %on = lt %i, %half : bool[24]
    %old = {op} %to, %v{", %on" if mask else ""} : {dtype}[24]
    store %y.p, %old"""
    return block_kernel(24, args, lines)


@pytest.mark.parametrize(
    ("op", "fn"),
    [
        ("atomic_add", np.add),
        ("atomic_max", np.maximum),
        ("atomic_min", np.minimum),
        ("atomic_and", np.bitwise_and),
        ("atomic_or", np.bitwise_or),
        ("atomic_xor", np.bitwise_xor),
        ("atomic_xchg", lambda a, b: b),
    ],
)
@pytest.mark.parametrize("mask", [False, True])
def test_atomics_apply_colliding_lanes_one_after_another(op, fn, mask):
    x = rng.integers(0, 1 << 20, 24).astype(np.int32)
    memory = rng.integers(0, 1 << 20, 5).astype(np.int32)
    want, found = memory.copy(), np.zeros(24, np.int32)
    for lane in range(12 if mask else 24):
        found[lane] = want[lane % 5]
        want[lane % 5] = fn(want[lane % 5], x[lane])
    y = np.zeros(24, np.int32)
    run(atomic_kernel(op, "i32", 5, mask), x, y, memory)
    np.testing.assert_array_equal(memory, want)
    np.testing.assert_array_equal(y, found)


@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16, dtypes.f32], ids=str)
def test_float_atomics_round_each_sum(dtype):
    x = numerics.round_to(rng.standard_normal(24).astype(np.float32), dtype)
    want = np.zeros(3, dtype.np_compute)
    for lane in range(24):
        want[lane % 3] = numerics.round_to(np.asarray(want[lane % 3] + x[lane]), dtype)
    memory = np.zeros(3, dtype.np_storage)
    run(
        atomic_kernel("atomic_add", str(dtype), 3),
        numerics.encode(x, dtype),
        np.zeros(24, dtype.np_storage),
        memory,
    )
    np.testing.assert_array_equal(numerics.decode(memory, dtype), want)


def test_atomic_cas_succeeds_once():
    lines = """%zero = const 0 : i32[8]
    %one = const 1 : i32[8]
    %mine = add %i, %one : i32[8]
    %old = atomic_cas %x.b, %zero, %mine : i32[8]
    store %y.p, %old"""
    x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
    run(block_kernel(8, "%x: ptr<i32>, %y: ptr<i32>", lines), x, y)
    assert x[0] == 1
    assert y.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


def test_philox_matches_the_published_vector():
    lines = """%z = const 0 : u32[1]
    %a, %b, %c, %d = philox %z, %z, %z, %z, %z, %z : u32[1], u32[1], u32[1], u32[1]
    store %x.p, %a"""
    x = np.zeros(1, np.uint32)
    run(block_kernel(1, "%x: ptr<u32>", lines), x)
    assert x[0] == 0x6627E8D5


def test_a_block_of_pointers_into_two_buffers_is_refused():
    lines = "%j = join %x.p, %y.p : ptr<f32>[2,2]\n%v = load %j : f32[2,2]"
    same = np.zeros(2, np.float32)
    with pytest.raises(errors.Unsupported, match="pointers into two buffers"):
        run(block_kernel(2, "%x: ptr<f32>, %y: ptr<f32>", lines), same, same)


def test_inline_numpy_text_is_run():
    lines = """%v = load %x.p : f32[4]
    %w = inline_target %v {texts=(("numpy", "np.stack([a0 * k for k in (1, 2)]).sum(0)",),)} : f32[4]
    store %x.p, %w"""
    x = np.arange(4, dtype=np.float32)
    run(block_kernel(4, "%x: ptr<f32>", lines), x)
    np.testing.assert_array_equal(x, [0, 3, 6, 9])
