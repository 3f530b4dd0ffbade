"""Stage "facts": what we only reasoned about GPUs, asked of this one with small Metal texts."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eas import mk
from eas.lib.kernels import constexpr, kernel
from eas.verify import raw_metal
from eas.verify.events import Recorder
from eas.verify.raw_metal import HEAD

LANES = 32
_LANE = "uint lane [[thread_index_in_simdgroup]]"
_TINY = np.float32(2.0**-130)  # a subnormal number


def run(record: Recorder, backend: str) -> None:
    """All facts; those that our code generator relies on are checks as well."""
    questions: list[Callable[[Recorder, str], None]] = [
        _fragment_maps, _contraction, _subnormals, _inactive_lanes, _shuffle_past_the_end, _widths, _ulong_atomics, _rounding_of_division,
    ]  # fmt: skip
    for n, question in enumerate(questions):
        with record.checking(question.__name__.strip("_").replace("_", " ")):
            question(record, backend)
        record.progress(n + 1, len(questions))


def standard_map() -> np.ndarray:
    """The element (row * 8 + column) of an 8x8 matrix that each lane holds first; the second one is to its right."""
    lane = np.arange(LANES)
    row = (lane // 4 & 4) + lane // 2 % 4
    column = (lane // 4 & 2) * 2 + lane % 2 * 2
    return row * 8 + column


def _fragment_maps(record: Recorder, backend: str) -> None:
    """Which lane holds which element of a simdgroup matrix; `MetalTarget.fragment_map` is made of it."""
    maps = {}
    for name in ("float", "half", "bfloat"):
        text = f"""{HEAD}kernel void k(device {name}* x [[buffer(0)]], device float* out [[buffer(1)]], {_LANE}) {{
    simdgroup_matrix<{name}, 8, 8> m;
    simdgroup_load(m, x, 8);
    out[2 * lane] = float(m.thread_elements()[0]);
    out[2 * lane + 1] = float(m.thread_elements()[1]);
}}"""
        numbers = np.arange(64, dtype=np.float32)
        x = (numbers.view(np.uint32) >> 16).astype(np.uint16) if name == "bfloat" else numbers.astype(np.float16 if name == "half" else np.float32)
        out = np.zeros(64, np.float32)
        raw_metal.run(backend, text, [x, out], 1, LANES)
        first, second = out.reshape(LANES, 2).T
        is_standard = np.array_equal(first, standard_map()) and np.array_equal(second, first + 1)
        maps[name] = "standard" if is_standard else "other"
        record.fact(f"fragment_map.{name}", maps[name] if is_standard else [int(e) for e in out], expected="standard")
    record.fact("fragment_map", "standard" if set(maps.values()) == {"standard"} else "unknown", expected="standard")


@kernel
def multiply_add_kernel(a, b, c, out, n, BLOCK: constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(a, i, i < n) * mk.load(b, i, i < n) + mk.load(c, i, i < n), i < n)


def _contraction(record: Recorder, backend: str) -> None:
    """Whether a * b + c is rounded twice, as the interpreter does, in our texts; and what the compiler does without our pragma."""
    a = np.full(4, 1 + 2.0**-12, np.float32)
    b, c, out = a.copy(), np.full(4, -(1 + 2.0**-11), np.float32), np.zeros(4, np.float32)
    multiply_add_kernel[1](a, b, c, out, 4, BLOCK=4)
    fused, apart = np.float32(2.0**-24), np.float32(0)
    answer = {float(apart): "two roundings", float(fused): "one rounding"}
    record.fact("contraction.ours", answer.get(float(out[0]), str(out[0])), expected="two roundings")
    text = f"{HEAD}kernel void k(device float* a [[buffer(0)]], device float* c [[buffer(1)]], device float* o [[buffer(2)]]) {{ o[0] = a[0] * a[0] + c[0]; }}"
    raw_metal.run(backend, text, [a, c, out], 1, 1)
    record.fact("contraction.without_pragma", answer.get(float(out[0]), str(out[0])))
    multiply_add_kernel[1](a, b, c, out, 4, BLOCK=4)
    assert out[0] == apart, "a * b + c is contracted although the text says contract(off)"


def _subnormals(record: Recorder, backend: str) -> None:
    """Whether numbers below 2**-126 survive a copy, an addition, a product and a comparison."""
    text = f"""{HEAD}kernel void k(device float* x [[buffer(0)]], device float* out [[buffer(1)]], device half* h [[buffer(2)]]) {{
    out[0] = x[0];
    out[1] = x[0] + x[1];
    out[2] = x[0] * x[2];
    out[3] = x[0] > x[1] ? 1.0f : 0.0f;
    out[4] = float(h[0] + h[1]);
}}"""
    x, out = np.array([_TINY, 0, 2], np.float32), np.zeros(5, np.float32)
    half = np.array([2.0**-20, 0], np.float16)
    raw_metal.run(backend, text, [x, out, half], 1, 1)
    kept = {"copy": out[0] == _TINY, "add": out[1] == _TINY, "multiply": out[2] == 2 * _TINY, "compare": out[3] == 1, "half add": out[4] == 2.0**-20}
    for name, is_kept in kept.items():
        record.fact(f"subnormals.{name}", "kept" if is_kept else "flushed")
    assert kept["copy"], "a load and a store change a subnormal number"


def _inactive_lanes(record: Recorder, backend: str) -> None:
    """What a shuffle gives from lanes that do not take part: undefined, so our texts must never do it."""
    text = f"{HEAD}kernel void k(device int* out [[buffer(0)]], {_LANE}) {{ out[lane] = -1; if (lane < 16) out[lane] = simd_shuffle_xor(int(lane) + 100, ushort(16)); }}"
    out = np.zeros(LANES, np.int32)
    raw_metal.run(backend, text, [out], 1, LANES)
    theirs = np.arange(16, 32) + 100
    seen = "the value of the inactive lane" if np.array_equal(out[:16], theirs) else "zero" if not out[:16].any() else str(out[:16].tolist())
    record.fact("shuffle.from_inactive_lane", seen)
    assert (out[16:] == -1).all(), "lanes that did not take part were changed"


def _shuffle_past_the_end(record: Recorder, backend: str) -> None:
    """What simd_shuffle_down gives past the last lane: undefined as well."""
    text = f"{HEAD}kernel void k(device int* out [[buffer(0)]], {_LANE}) {{ out[lane] = simd_shuffle_down(int(lane) + 100, ushort(1)); }}"
    out = np.zeros(LANES, np.int32)
    raw_metal.run(backend, text, [out], 1, LANES)
    record.fact("shuffle.past_the_end", int(out[31]))
    assert np.array_equal(out[:31], np.arange(101, 132)), "simd_shuffle_down gives wrong values"


def _widths(record: Recorder, backend: str) -> None:
    """Threads of a simdgroup and of a threadgroup."""
    text = f"{HEAD}kernel void k(device uint* out [[buffer(0)]], uint w [[threads_per_simdgroup]], uint t [[thread_index_in_threadgroup]]) {{ if (t == 0) out[0] = w; }}"
    out = np.zeros(1, np.uint32)
    raw_metal.run(backend, text, [out], 1, LANES)
    record.fact("simd_width", int(out[0]), "threads", expected=LANES)
    most = 0
    for threads in (256, 512, 1024):
        every = np.zeros(threads, np.uint32)
        body = "kernel void k(device uint* o [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) { o[t] = t + 1; }"
        raw_metal.run(backend, f"{HEAD}[[max_total_threads_per_threadgroup({threads})]]\n{body}", [every], 1, threads)
        most = threads if np.array_equal(every, np.arange(1, threads + 1)) else most
    record.fact("max_threads", most, "threads", expected=1024)
    assert out[0] == LANES, f"simdgroups have {out[0]} threads"


def _ulong_atomics(record: Recorder, backend: str) -> None:
    """Which 64-bit atomics exist: sources differ, so the compiler and the GPU are asked."""
    for fact, function in (("has_ulong_min_max", "atomic_max_explicit"), ("has_ulong_atomics", "atomic_fetch_add_explicit")):
        text = f"{HEAD}kernel void k(device atomic_ulong* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {{ {function}(x, ulong(i) + (1ul << 40), memory_order_relaxed); }}"
        works = raw_metal.compiled(backend, text, "k").is_taken
        if works:
            x = np.zeros(1, np.uint64)
            raw_metal.run(backend, text, [x], 1, LANES)
            want = (1 << 40) + 31 if fact == "has_ulong_min_max" else LANES * (1 << 40) + sum(range(LANES))
            works = int(x[0]) == want
        record.fact(fact, works)


def _rounding_of_division(record: Recorder, backend: str) -> None:
    """Whether division and square root are correctly rounded in safe mode, as our table of ops says."""
    text = f"{HEAD}kernel void k(device float* a [[buffer(0)]], device float* b [[buffer(1)]], device float* q [[buffer(2)]], device float* r [[buffer(3)]], uint i [[thread_position_in_grid]]) {{ q[i] = a[i] / b[i]; r[i] = precise::sqrt(b[i]); }}"
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 2, 4096).astype(np.float32) for _ in range(2))
    q, r = np.zeros_like(a), np.zeros_like(a)
    raw_metal.run(backend, text, [a, b, q, r], 16, 256)
    record.fact("division.wrong_roundings", int((q != a / b).sum()), "of 4096", expected=0)
    record.fact("sqrt.wrong_roundings", int((r != np.sqrt(b)).sum()), "of 4096", expected=0)
