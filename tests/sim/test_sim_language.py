"""The Metal language of the software Metal: small Metal texts whose results NumPy judges."""

from __future__ import annotations

import numpy as np
import pytest

from eas.metal_sim import Library, toolchain
from tests.sim.metal_texts import HEAD, run

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))

RNG = np.random.default_rng(7)


def test_half_rounds_after_each_operation():
    a, b, c = (RNG.uniform(-30, 30, 256).astype(np.float16) for _ in range(3))
    d = np.zeros((4, 256), np.float16)
    run("d[i] = a[i] * b[i] + c[i]; d[256 + i] = a[i] / b[i] - c[i]; d[512 + i] = fma(a[i], b[i], c[i]); half4 v = half4(a[i], b[i], c[i], 1.5h); d[768 + i] = (v * v).x + v.w;", a, b, c, d, threads=256)
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    np.testing.assert_array_equal(d, [a * b + c, a / b - c, exact.astype(np.float16), a * a + np.float16(1.5)])


def _bfloat(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def test_bfloat_rounds_to_nearest_even_after_each_operation():
    a, b = (RNG.normal(size=256).astype(np.float32) for _ in range(2))
    c = np.zeros((4, 256), np.float32)
    run("bfloat x = bfloat(a[i]), y = bfloat(b[i]); c[i] = x; c[256 + i] = x * y + x; c[512 + i] = x * 2.0f + b[i]; x += y; bfloat4 v = bfloat4(x, y, 1.0bf, 2); c[768 + i] = (v / v.w).x;", a, b, c, threads=256)
    x, y = _bfloat(a), _bfloat(b)
    want = [x, _bfloat(_bfloat(x * y) + x), x * np.float32(2) + b, _bfloat(_bfloat(x + y) / np.float32(2))]
    np.testing.assert_array_equal(c, want)


def test_vectors_swizzle_and_compose():
    a = np.arange(8, dtype=np.float32)
    b = np.zeros(32, np.float32)
    body = """if (i) return;
    float4 v = float4(a[1], a[2], a[3], a[4]), w = float4(v.zw, v.xy);
    w.xz = v.yx; w.a += 10; v.rgb = w.bgr; float3 t = 2; t.y -= v.x++;
    int4 n = int4(v) << 1; bool4 m = v > 2.0f; packed_float3 p = t; p.z = p.x * 3; uchar4 q = as_type<uchar4>(0x04030201u);
    float4 z = {1, 2}; float4 s = select(v, -v, m); float3x3 r = float3x3(float3(1, 2, 3), float3(4, 5, 6), float3(7, 8, 10));
    for (int k = 0; k < 4; k++) { b[k] = v[k]; b[4 + k] = w[k]; b[8 + k] = n[k]; b[12 + k] = m[k]; b[16 + k] = q[k]; b[20 + k] = z[k]; b[24 + k] = s[k]; }
    b[28] = t.y; b[29] = p.z; b[30] = (r * float3(1, 0, 2)).y; b[31] = determinant(r) + any(m) + all(m);"""
    run(body, a, b)
    v, w = [2, 4, 2, 4], [2, 4, 1, 12]
    v = [w[2] + 1, w[1], w[0], 4]
    m = [x > 2 for x in v]
    want = [*v, *w, *(int(x) * 2 for x in v), *m, 1, 2, 3, 4, 1, 2, 0, 0, *(-x if k else x for x, k in zip(v, m, strict=True)), 1, 6, 2 + 2 * 8, -3 + 1]
    np.testing.assert_allclose(b, want)


def test_conversions_are_those_of_metal():
    text = HEAD + """
    static_assert(is_same_v<decltype(half(1) + 1.0f), float>, ""); static_assert(is_same_v<decltype(char(1) + char(1)), int>, "");
    static_assert(is_same_v<decltype(bfloat(1) * 1.0f), float>, ""); static_assert(is_same_v<decltype(bfloat(1) * bfloat(1)), bfloat>, "");
    static_assert(is_same_v<decltype(1.0), float>, ""); static_assert(is_same_v<decltype(float4(1) < 2), bool4>, "");
    static_assert(is_same_v<decltype(exp(half(1))), half>, ""); static_assert(is_same_v<decltype(exp(bfloat(1))), float>, "");
    static_assert(sizeof(float3) == 16 && sizeof(packed_float3) == 12 && alignof(packed_float3) == 4 && sizeof(half3) == 8 && sizeof(long) == 8, "");
    static_assert(sizeof(float3x3) == 48 && numeric_limits<half>::max() == 65504 && numeric_limits<int>::lowest() == -2147483647 - 1, "");
    constant constexpr float4 table = float4(1, 2, 3, 4);
    kernel void k(device float* a [[buffer(0)]]) { a[0] = table.z; a[1] = uint(-3.0f) + char(200) + uchar(300.0f); a[2] = INFINITY; a[3] = M_PI_F; }"""
    a = np.zeros(4, np.float32)
    Library(text).kernel("k")(a, threadgroups=1, threads=1)
    np.testing.assert_allclose(a, [3, np.float32(2**32 - 56 + 255 - 2**32), np.inf, np.pi])


SIMD = {
    "simd_sum(x)": lambda v: np.full(32, v.sum()), "simd_product(y)": lambda v: np.full(32, (v % 3 + 1).prod()), "simd_min(x)": lambda v: np.full(32, v.min()),
    "simd_max(x)": lambda v: np.full(32, v.max()), "simd_and(u)": lambda v: np.full(32, np.bitwise_and.reduce(v.astype(int))),
    "simd_or(u)": lambda v: np.full(32, np.bitwise_or.reduce(v.astype(int))), "simd_xor(u)": lambda v: np.full(32, np.bitwise_xor.reduce(v.astype(int))),
    "simd_prefix_inclusive_sum(x)": np.cumsum, "simd_prefix_exclusive_sum(x)": lambda v: np.cumsum(v) - v,
    "simd_prefix_inclusive_product(y)": lambda v: np.cumprod(v % 3 + 1), "simd_broadcast(x, 5)": lambda v: np.full(32, v[5]),
    "simd_broadcast_first(x)": lambda v: np.full(32, v[0]), "simd_shuffle(x, 31 - lane)": lambda v: v[::-1], "simd_shuffle_xor(x, 6)": lambda v: v[np.arange(32) ^ 6],
    "simd_shuffle_rotate_up(x, 3)": lambda v: np.roll(v, 3), "simd_shuffle_rotate_down(x, 3)": lambda v: np.roll(v, -3),
    "simd_shuffle_and_fill_up(x, -x, 2)": lambda v: np.concatenate([-v[30:], v[:30]]), "simd_shuffle_and_fill_down(x, -x, 2)": lambda v: np.concatenate([v[2:], -v[:2]]),
    "lane >= 4 ? simd_shuffle_up(x, 4) : (simd_shuffle_up(x, 4), 0)": None,
    "float(simd_ballot(x > 4).all())": lambda v: np.full(32, 0.0), "float(ulong(simd_ballot(lane < 20)) >> 4)": lambda v: np.full(32, 65535.0),
    "float(simd_any(x > 8))": lambda v: np.full(32, (v > 8).any()), "float(simd_all(x >= 0))": lambda v: np.ones(32), "float(simd_is_first())": lambda v: np.arange(32) == 0,
    "quad_sum(x)": lambda v: np.repeat(v.reshape(8, 4).sum(1), 4), "quad_max(x)": lambda v: np.repeat(v.reshape(8, 4).max(1), 4), "quad_broadcast(x, 2)": lambda v: np.repeat(v[2::4], 4),
    "quad_shuffle_xor(x, 1)": lambda v: v[np.arange(32) ^ 1], "quad_prefix_exclusive_sum(x)": lambda v: (np.cumsum(v.reshape(8, 4), 1) - v.reshape(8, 4)).ravel(),
    "simd_sum(float4(x)).w": lambda v: np.full(32, v.sum()), "float(simd_max(short(u)))": lambda v: np.full(32, v.max()), "simd_sum(half(u % 4))": lambda v: np.full(32, (v % 4).sum()),
}  # fmt: skip


def test_simdgroup_functions():
    cases = {t: f for t, f in SIMD.items() if f is not None}
    a = RNG.integers(0, 9, 32).astype(np.float32)
    b = np.zeros((len(cases), 32), np.float32)
    run("float x = a[i]; uint u = uint(x); float y = u % 3 + 1;" + "".join(f"b[{k * 32} + i] = {t};" for k, t in enumerate(cases)), a, b)
    for row, (text, want) in zip(b, cases.items(), strict=True):
        np.testing.assert_allclose(row, want(a), rtol=1e-6, err_msg=text)


def _prefixes(fold, is_inclusive):
    """What each lane combines of a row of lanes that are there."""
    return lambda row: np.array([fold(row[: k + is_inclusive]) for k in range(len(row))])


def _folded(fold):
    return lambda row: np.full(len(row), fold(row))


# Of integers: what the active lanes give, in the order of the lanes.
GROUP = {
    "sum": _folded(np.sum), "product": _folded(np.prod), "min": _folded(np.min), "max": _folded(np.max), "and": _folded(np.bitwise_and.reduce),
    "or": _folded(np.bitwise_or.reduce), "xor": _folded(np.bitwise_xor.reduce), "prefix_inclusive_sum": _prefixes(np.sum, 1), "prefix_exclusive_sum": _prefixes(np.sum, 0),
    "prefix_inclusive_product": _prefixes(np.prod, 1), "prefix_exclusive_product": _prefixes(np.prod, 0), "broadcast_first": lambda row: np.full(len(row), row[0]),
    "any": _folded(lambda row: (row > 2).any()), "all": _folded(lambda row: (row > 2).all()), "is_first": lambda row: np.arange(len(row)) == 0,
}  # fmt: skip


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F3351, 0x80000001, 0xFFFF0000, 0x11111111])
def test_functions_of_the_lanes_that_are_there(mask):
    """All functions of simdgroups and quads, under branches that some lanes take; the others get 77."""
    on = np.array([bool(mask >> k & 1) for k in range(32)])
    a = RNG.integers(1, 5, 32).astype(np.int32)
    b = np.full((2 * len(GROUP), 32), 77, np.int32)
    argument = {"any": "x > 2", "all": "x > 2", "is_first": ""}
    calls = [f"{kind}_{name}({argument.get(name, 'x')})" for kind in ("simd", "quad") for name in GROUP]
    run(f"int x = a[i]; if ({mask}u >> i & 1) {{ " + "".join(f"b[{k * 32} + i] = {text};" for k, text in enumerate(calls)) + " }", a, b)
    for row, text in zip(b, calls, strict=True):
        size, fold = (32, 4)[text.startswith("quad")], GROUP[text.split("(")[0].split("_", 1)[1]]
        want = np.full(32, 77, np.int64)
        for first in range(0, 32, size):
            lanes = first + np.flatnonzero(on[first : first + size])
            want[lanes] = fold(a[lanes].astype(np.int64)) if len(lanes) else 0
        np.testing.assert_array_equal(row, want.astype(np.int32), text)


def test_simd_sum_of_the_active_lanes_only():
    a = np.arange(32, dtype=np.float32)
    b = np.zeros(32, np.float32)
    run("if (lane % 2) b[i] = simd_sum(a[i]); else b[i] = -simd_sum(a[i]) - popcount(uint(ulong(simd_active_threads_mask())));", a, b)
    np.testing.assert_array_equal(b, np.where(np.arange(32) % 2, a[1::2].sum(), -a[::2].sum() - 16))


def test_simdgroup_matrices_multiply_with_every_map_and_type():
    a, b = (RNG.integers(-4, 5, (8, 8)).astype(np.float32) for _ in range(2))
    for fragment_map in (0, 1):
        c = np.zeros((5, 8, 8), np.float32)
        body = """threadgroup half h[64]; threadgroup bfloat t[64];
        h[i] = half(a[i]); h[i + 32] = half(a[i + 32]); t[i] = bfloat(b[i]); t[i + 32] = bfloat(b[i + 32]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 x, y, z, one(1.0f); simdgroup_half8x8 hx; simdgroup_bfloat8x8 ty;
        simdgroup_load(x, a); simdgroup_load(y, b, 8, ulong2(0, 0), true); simdgroup_load(hx, h, 8); simdgroup_load(ty, t, 8);
        simdgroup_multiply(z, x, y); simdgroup_store(z, c, 8);
        simdgroup_multiply_accumulate(z, hx, hx, make_filled_simdgroup_matrix<float, 8, 8>(2.0f)); simdgroup_store(z, c + 64, 8);
        simdgroup_multiply_accumulate(z, x, ty, one); simdgroup_store(z, c + 128, 8, 0, true);
        z = x; z.thread_elements()[0] *= 2; z.thread_elements()[1] *= 2; simdgroup_store(z, c + 192, 8);
        simdgroup_store(x * one, c + 256, 8);"""
        run(body, a, b, c, fragment_map=fragment_map)
        np.testing.assert_array_equal(c, [a @ b.T, a @ a + 2, (a @ b + np.eye(8)).T, 2 * a, a])


def test_a_kernel_that_assumes_the_fragment_map_fails_under_the_other_one():
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    b = np.zeros((8, 8), np.float32)
    body = """simdgroup_float8x8 m; simdgroup_load(m, a); uint q = lane / 4;
    uint row = (q & 4) + (lane / 2) % 4, column = (q & 2) * 2 + (lane % 2) * 2;
    b[row * 8 + column] = m.thread_elements()[0]; b[row * 8 + column + 1] = m.thread_elements()[1];"""
    run(body, a, b, fragment_map=0)
    np.testing.assert_array_equal(b, a)
    run(body, a, b, fragment_map=1)
    assert (b != a).any()


def test_atomics():
    a = RNG.integers(0, 8, 256).astype(np.uint32)
    counts, total, high = np.zeros(8, np.uint32), np.zeros(1, np.float32), np.zeros(2, np.uint64)
    body = """device atomic_uint* bins = (device atomic_uint*)b; atomic_fetch_add_explicit(&bins[a[i]], 1, memory_order_relaxed);
    atomic_fetch_add_explicit((device atomic_float*)c, 0.5f, memory_order_relaxed);
    atomic_max_explicit((device atomic_ulong*)d, ulong(a[i]) << 40, memory_order_relaxed);
    threadgroup atomic_int last; if (i == 0) atomic_store_explicit(&last, 0, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int seen = atomic_load_explicit(&last, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&last, &seen, seen + 3, memory_order_relaxed, memory_order_relaxed)) {}
    threadgroup_barrier(mem_flags::mem_threadgroup); if (i == 0) d[1] = ulong(atomic_exchange_explicit(&last, 1, memory_order_relaxed));"""
    run(body, a, counts, total, high, threads=256)
    np.testing.assert_array_equal(counts, np.bincount(a, minlength=8))
    assert total[0] == 128
    assert high.tolist() == [int(a.max()) << 40, 768]


def test_program_of_templates_host_names_and_function_constants():
    text = HEAD + """
    constant bool twice [[function_constant(0)]];
    constant int offset [[function_constant(1)]];
    constant bool has_offset = is_function_constant_defined(offset);
    struct Args { uint n; float2 scale; packed_float3 shift; };
    template <typename T, int N> [[kernel]] void scale(device const vec<T, N>* x [[buffer(0)]], device vec<T, N>* y [[buffer(1)]], constant Args& args [[buffer(2)]], uint i [[thread_position_in_grid]]) {
      if (i >= args.n) return;
      y[i] = x[i] * T(args.scale.y) + T(args.shift.z) + T(has_offset ? offset : 0);
      if (twice) y[i] += y[i];
    }
    #define make(name, T, N) template [[host_name(name)]] [[kernel]] decltype(scale<T, N>) scale<T, N>;
    make("scale_f4", float, 4) make("scale_h2", half, 2)"""
    x = np.arange(16, dtype=np.float32)
    y = np.zeros_like(x)
    args = np.zeros(32, np.uint8)
    args[:4] = np.array([3], np.uint32).view(np.uint8)
    args[8:28] = np.array([0, 2, 0, 0, 5], np.float32).view(np.uint8)
    Library(text, function_constants={"twice": True, 1: 7}).kernel("scale_f4")(x, y, args, threadgroups=1, threads=4)
    np.testing.assert_array_equal(y, np.where(np.arange(16) < 12, (x * 2 + 12) * 2, 0))


def test_shifts_take_their_type_from_the_left():
    a, b = np.arange(1, 33, dtype=np.int32), np.zeros(64, np.int32)
    run("int2 v = int2(a[i], -a[i]) << uint2(1, 2); v >>= uint2(0, 1); b[2 * i] = v.x; b[2 * i + 1] = v.y;", a, b)
    assert (b[::2] == a * 2).all()
    assert (b[1::2] == -a * 2).all()


def test_lists_in_braces_fill_vectors_matrices_and_structs():
    a = np.zeros(8, np.float32)
    body = """float4 v = {float2(1, 2), 3, 4}; S s = {{1, 2}, {3}}; float2x2 m = {{1, 2}, {3, 4}}; float3 z[2] = {{1, 2, 3}, {4, 5, 6}}; half h = {0.5};
    if (i == 0) { a[0] = v.w; a[1] = s.a.y; a[2] = s.b.x; a[3] = m[1].x; a[4] = z[1].z; a[5] = h; a[6] = g(2).z; a[7] = float2{1}.y; }"""
    run(body, a, before="struct S { float2 a; int2 b; };\nfloat4 g(float x) { return {x, x, x + 1, x}; }")
    assert a.tolist() == [4, 2, 3, 3, 6, 0.5, 3, 0]


def test_threadgroup_arrays_of_zeros_are_shared_and_zero_in_every_threadgroup():
    text = f"""{HEAD}kernel void k(device float* f [[buffer(0)]], uint i [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {{
  threadgroup float t[32] = {{0}};
  if (i == 3) t[3] = 5 + g;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  f[g * 32 + i] = t[31 - i];
}}"""
    for sanitize in (False, True):
        f = np.ones(64, np.float32)
        Library(text, sanitize=sanitize).kernel("k")(f, threadgroups=2, threads=32)
        assert (f[28], f[60], f.sum()) == (5, 6, 11)


def test_grids_start_at_their_origin():
    a = np.ones(32, np.uint32)
    text = f"{HEAD}kernel void k(device uint* a [[buffer(0)]], uint3 i [[thread_position_in_grid]], uint3 o [[grid_origin]]) {{ a[i.x] = o.x + o.y + o.z; }}"
    Library(text).kernel("k")(a, threadgroups=1, threads=32)
    assert not a.any()


def test_instances_are_told_apart_by_their_parameters():
    text = f"""{HEAD}template <int N> struct P {{ int n[N]; }};
template <typename T, int N> [[kernel]] void unfold(device T* out [[buffer(0)]], const constant P<N>* p [[buffer(1)]], uint i [[thread_position_in_grid]]) {{ out[i] = p->n[N - 1] * N; }}
template [[host_name("two")]] [[kernel]] void unfold(device float* out [[buffer(0)]], const constant P<2>* p [[buffer(1)]], uint i [[thread_position_in_grid]]);
template [[host_name("three")]] [[kernel]] void unfold(device int* out [[buffer(0)]], const constant P<3>* p [[buffer(1)]], uint i [[thread_position_in_grid]]);"""
    library = Library(text)
    numbers, f, n = np.array([5, 7, 9], np.int32), np.zeros(4, np.float32), np.zeros(4, np.int32)
    library.kernel("two")(f, numbers, threadgroups=1, threads=4)
    library.kernel("three")(n, numbers, threadgroups=1, threads=4)
    assert f.tolist() == [14] * 4
    assert n.tolist() == [27] * 4


def test_what_converts_to_a_number_becomes_a_bfloat_or_half_when_asked():
    a = np.zeros(4, np.float32)
    body = "M m = {2}; bfloat x = bfloat(m); vec<long, 3> v = 1; if (i == 0) { a[0] = x; a[1] = half(bfloat(0.5f)); a[2] = half(m); a[3] = g(v); }"
    before = "struct M { char x; operator bool() const thread { return x != 0; } };\ntemplate <typename V> float g(V v) { auto w = v; long step = 3; w.x += step; return w.x; }"
    run(body, a, before=before)
    assert a.tolist() == [1, 0.5, 1, 4]
