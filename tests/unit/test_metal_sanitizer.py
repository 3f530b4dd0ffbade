"""The sanitizer of the software Metal: seeded bugs are found at the right line, corrected twins are silent."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.errors import SanitizerError
from eas.metal_sim import Library, toolchain

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def f32(n):
    return np.arange(n, dtype=np.float32)


# name, kernel with a marker on its bad line, its corrected form, arguments, launch, kind, buffer
CASES = [
    (
        "missing barrier",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[t] = x[t];
  FIX
  x[t] = tile[63 - t];  // BAD
}""",
        ("", "threadgroup_barrier(mem_flags::mem_threadgroup);"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "data race",
        "tile",
    ),
    (
        "barrier of the wrong memory",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  x[t] = t;
  threadgroup_barrier(mem_flags::FIX);
  float y = x[(t + 1) % 64];  // BAD
  threadgroup_barrier(mem_flags::mem_device);
  x[t] = y;
}""",
        ("mem_threadgroup", "mem_device"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "data race",
        "x",
    ),
    (
        "simdgroup barrier for two simdgroups",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[t] = x[t];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = tile[t ^ FIX];  // BAD
}""",
        ("32", "1"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "data race",
        "tile",
    ),
    (
        "off by one",
        """kernel void k(device const float* a, device float* out, constant uint& n, uint i [[thread_position_in_grid]]) {
  if (i FIX n)
    out[i] = a[i];  // BAD
}""",
        ("<=", "<"),
        lambda: (f32(100), f32(100), 100),
        {"grid": 2, "threads": 64},
        "out of bounds",
        "a",
    ),
    (
        "below the start",
        """kernel void k(device const float* a, device float* out, uint i [[thread_position_in_grid]]) {
  float left = 0;
  if (i >= FIX) left =
    a[int(i) - 1];  // BAD
  out[i] = a[i] + left;
}""",
        ("0", "1"),
        lambda: (f32(64), f32(64)),
        {"grid": 1, "threads": 64},
        "out of bounds",
        "a",
    ),
    (
        "threadgroup memory past its end",
        """kernel void k(device float* x, threadgroup float* tile [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]]) {
  tile[t + FIX] = x[t];  // BAD
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = tile[t + FIX];
}""",
        ("1", "0"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64, "threadgroup_memory": {"tile": 256}},
        "out of bounds",
        "tile",
    ),
    (
        "array index",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[(t + 1) FIX] = x[t];  // BAD
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = tile[t];
}""",
        ("", "% 64"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "out of bounds",
        "tile",
    ),
    (
        "divergent barrier",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[t] = x[t];
  if (t < FIX)
    threadgroup_barrier(mem_flags::mem_threadgroup);  // BAD
  x[t] = tile[t];
}""",
        ("40", "64"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "barrier divergence",
        None,
    ),
    (
        "uninitialised read",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
  threadgroup float tile[65];
  tile[t] = x[t];
  if (t == FIX) tile[64] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[t] = tile[t + 1];  // BAD
}""",
        ("99", "0"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 64},
        "uninitialised read",
        "tile",
    ),
    (
        "racing store across groups",
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
  if (t == 0)
    x[FIX] = g;  // BAD
}""",
        ("0", "g"),
        lambda: (f32(64),),
        {"grid": 4, "threads": 32},
        "data race",
        "x",
    ),
    (
        "halves that overlap",
        """kernel void k(device half* x, uint i [[thread_position_in_grid]]) {
  x[i FIX] = half(i);  // BAD
}""",
        ("/ 2", ""),
        lambda: (np.zeros(64, np.float16),),
        {"grid": 2, "threads": 32},
        "data race",
        "x",
    ),
    (
        "misaligned float4",
        """kernel void k(device const float* a, device float* out, uint i [[thread_position_in_grid]]) {
  float4 v =
    *(device const float4*)(a + FIX * i);  // BAD
  out[i] = v.x + v.w;
}""",
        ("3", "4"),
        lambda: (f32(64), f32(16)),
        {"grid": 1, "threads": 16},
        "misaligned access",
        "a",
    ),
    (
        "misaligned store",
        """kernel void k(device float* out, uint i [[thread_position_in_grid]]) {
  device float2* pair = (device float2*)(out + FIX);
  pair[i] = float2(i, i);  // BAD
}""",
        ("1", "2"),
        lambda: (f32(64),),
        {"grid": 1, "threads": 16},
        "misaligned access",
        "out",
    ),
    (
        "plain beside atomic",
        """kernel void k(device atomic_uint* count, device uint* x, uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  x[i] = 1;
  if (i == 70) { FIX }  // BAD
}""",
        ("x[0] = ((device uint*)count)[0];", "x[i] = 2;"),
        lambda: (np.zeros(1, np.uint32), np.zeros(128, np.uint32)),
        {"grid": 2, "threads": 64},
        "data race",
        None,
    ),
]
IDS = [c[0] for c in CASES]


@pytest.mark.parametrize(("name", "text", "forms", "args", "launch", "kind", "buffer"), CASES, ids=IDS)
def test_seeded_bug_is_caught_at_its_line(name, text, forms, args, launch, kind, buffer):
    bad = HEAD + text.replace("FIX", forms[0])
    line = next(i for i, t in enumerate(bad.splitlines(), 1) if "// BAD" in t)
    with pytest.raises(SanitizerError) as error:
        Library(bad, sanitize=True).kernel("k")(*args(), **launch)
    found = error.value.findings[0]
    assert found.kind == kind
    assert line in (found.line, found.other_line)
    if buffer is not None:
        assert found.buffer == buffer
        assert buffer in str(error.value)
    assert f"kernel.metal:{found.line}" in str(error.value)
    assert "hint:" in str(error.value)


@pytest.mark.parametrize(("name", "text", "forms", "args", "launch", "kind", "buffer"), CASES, ids=IDS)
def test_corrected_twin_is_silent(name, text, forms, args, launch, kind, buffer):
    good = HEAD + text.replace("FIX", forms[1])
    plain, checked = Library(good, sanitize=False).kernel("k"), Library(good, sanitize=True).kernel("k")
    want = args()
    plain(*want, **launch)
    for _ in range(20):
        got = args()
        checked(*got, **launch)
        for a, b in zip(got, want, strict=True):
            assert np.array_equal(a, b)


SILENT = {
    "last threadgroup adds up": (
        """kernel void k(device const float* x, device float* part, device float* out, device atomic_uint* done,
                uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]], uint n [[threadgroups_per_grid]]) {
          threadgroup bool is_last;
          float sum = simd_sum(x[g * 32 + t]);
          if (t == 0) {
            part[g] = sum;
            atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
            is_last = atomic_fetch_add_explicit(done, 1u, memory_order_relaxed) == n - 1;
            atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
          }
          threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
          if (is_last && t == 0) { float all = 0; for (uint i = 0; i < n; i++) all += part[i]; out[0] = all; }
        }""",
        lambda: (f32(256), f32(8), f32(1), np.zeros(1, np.uint32)),
        {"grid": 8, "threads": 32},
    ),
    "float3 in threadgroup memory": (
        """kernel void k(device float* x, uint t [[thread_index_in_threadgroup]]) {
          threadgroup float3 tile[32];
          tile[t] = float3(x[t], 1, 2);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float3 other = tile[31 - t];
          x[t] = other.x + other.z;
        }""",
        lambda: (f32(32),),
        {"grid": 1, "threads": 32},
    ),
    "shared reads, bytes and constants": (
        """constant float table[4] = {1, 2, 3, 4};
        kernel void k(device const uchar* a, device uchar* out, constant uchar& more, uint i [[thread_position_in_grid]]) {
          float own[4];
          for (int j = 0; j < 4; j++) own[j] = table[j] * float(a[0]);
          out[i] = uchar(own[i % 4]) + a[i] + more;
        }""",
        lambda: (np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8), 3),
        {"grid": 2, "threads": 32},
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_right_kernels_are_silent(name):
    text, args, launch = SILENT[name]
    if name.startswith("last"):
        want = None
    else:
        want = args()
        Library(HEAD + text, sanitize=False).kernel("k")(*want, **launch)
    got = args()
    Library(HEAD + text, language="3.2", sanitize=True).kernel("k")(*got, **launch)
    if want is None:
        assert got[2][0] == got[0].sum()
    else:
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.fixture(scope="module")
def two_writers():
    """Writes an element of each of two buffers, if the place is not negative."""
    return Library(HEAD + """kernel void k(device int* a, device int* b, const device int* at) {
  if (at[0] >= 0) a[at[0]] = 7;
  if (at[1] >= 0) b[at[1]] = 8;
}""", sanitize=True).kernel("k")


@pytest.mark.parametrize("gap", [0, 1, 16, 64])
@pytest.mark.parametrize(("at", "name"), [((4, -1), "a"), ((-1, -1), ""), ((-1, 4), "b"), ((3, 3), "")])
def test_the_element_behind_a_buffer_is_not_that_of_its_neighbour(two_writers, gap, at, name):
    memory = np.arange(4 + gap + 4, dtype=np.int32)
    a, b = memory[:4], memory[4 + gap :]
    if name:
        with pytest.raises(SanitizerError, match=rf"out of bounds(.|\n)*{name}\b") as error:
            two_writers(a, b, np.array(at, np.int32), grid=1, threads=1)
        assert error.value.findings[0].kind == "out of bounds"
        assert memory.tolist() == list(range(memory.size)), "nothing of a launch that was refused is kept"
        return
    two_writers(a, b, np.array(at, np.int32), grid=1, threads=1)
    assert (memory[3], memory[-1]) == ((7, 8) if at[0] == 3 else (3, memory.size - 1))


def test_each_of_two_arguments_over_one_memory_keeps_what_it_wrote():
    """They get a copy each: what one of them has not written must not come back over what the other has."""
    kernel = Library(HEAD + """kernel void k(device int* a, const device int* b, device int* __restrict c) {
  a[2] = b[1] + 10;
  c[3] = 5;
}""", sanitize=True).kernel("k")
    memory = np.arange(6, dtype=np.int32)
    kernel(memory[:5], memory, memory[1:], grid=1, threads=1)
    assert memory.tolist() == [0, 1, 11, 3, 5, 5]


def test_arguments_that_share_memory_stay_together():
    text = "kernel void k(device const float* a, device float* b, uint i [[thread_position_in_grid]]) { b[i] = a[i] + 1; }"
    x = f32(32)
    Library(HEAD + text, sanitize=True).kernel("k")(x, x, grid=1, threads=32)
    assert np.array_equal(x, f32(32) + 1)


def test_findings_tell_threads_and_survive_pickling():
    text = HEAD + "kernel void k(device float* x, uint2 p [[thread_position_in_grid]]) {\n  x[0] = p.x;\n}"
    with pytest.raises(SanitizerError) as error:
        Library(text, sanitize=True).kernel("k")(f32(4), grid=(2, 2), threads=(2, 1))
    found = error.value.findings[0]
    assert (found.thread, found.threadgroup) == ((1, 0, 0), (0, 0, 0))
    assert (found.other_thread, found.other_threadgroup) == ((0, 0, 0), (0, 0, 0))
    assert (found.access, found.other_access, found.nbytes, found.offset) == ("write", "write", 4, 0)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)


@eas.kernel
def racing(x, out):
    i = mk.program_id(0)
    mk.store(out, 0, mk.load(x, i))


@eas.kernel
def past_the_end(x, out, n):
    i = mk.program_id(0) * 32 + mk.arange(0, 32)
    mk.store(out, i, mk.load(x, i, i < n + 1))


def test_generated_text_leads_back_to_the_python_line(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_SANITIZE", "1")
    line = racing.fn.__code__.co_firstlineno + 3
    with pytest.raises(SanitizerError, match="data race in racing") as error:
        racing(f32(4), f32(4), _grid=4)
    assert error.value.findings[0].python == f"test_metal_sanitizer.py:{line}"
    assert error.value.findings[0].buffer == "out"
    assert "mk.store(out, 0, mk.load(x, i))" in str(error.value)
    with pytest.raises(SanitizerError, match="out of bounds in past_the_end: read of 4 bytes at byte 400 of x"):
        past_the_end(f32(100), f32(128), 100, _grid=4)


@eas.kernel
def softmax_product(x, b, o, K, BM: eas.constexpr, BK: eas.constexpr, N: eas.constexpr):
    r, c = mk.arange(0, BM), mk.arange(0, N)
    top, total, acc = mk.full([BM], -float("inf"), mk.f32), mk.zeros([BM], mk.f32), mk.zeros([BM, N], mk.f32)
    for k in range(0, K, BK):
        cols = k + mk.arange(0, BK)
        top = mk.maximum(top, mk.max(mk.load(x, r[:, None] * K + cols[None, :], cols[None, :] < K) * 2, axis=1))
    for k in range(0, K, BK):
        cols = k + mk.arange(0, BK)
        power = mk.exp(mk.load(x, r[:, None] * K + cols[None, :], cols[None, :] < K) * 2 - top[:, None])
        total += mk.sum(mk.where(cols[None, :] < K, power, 0.0), axis=1)
    for k in range(0, K, BK):
        cols = k + mk.arange(0, BK)
        power = mk.exp(mk.load(x, r[:, None] * K + cols[None, :], cols[None, :] < K) * 2 - top[:, None]) * (1.0 / total[:, None])
        acc = mk.dot(mk.where(cols[None, :] < K, power, 0.0), mk.load(b, cols[:, None] * N + c[None, :], cols[:, None] < K), acc)
    mk.store(o, r[:, None] * N + c[None, :], acc)


def test_sums_in_shared_memory_are_updated_by_one_of_the_lanes_that_read_them(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_SANITIZE", "1")
    rng = np.random.default_rng(0)
    x, b, o = rng.standard_normal((16, 16), dtype=np.float32), rng.standard_normal((16, 16), dtype=np.float32), np.zeros((16, 16), np.float32)
    softmax_product[1](x, b, o, 16, BM=16, BK=16, N=16)
    powers = np.exp(2 * x - 2 * x.max(1, keepdims=True))
    np.testing.assert_allclose(o, powers / powers.sum(1, keepdims=True) @ b, rtol=1e-4, atol=1e-5)
