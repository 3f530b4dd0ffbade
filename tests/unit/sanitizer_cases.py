"""Kernels with one bug each, beside a sound twin that differs in one place: what the sanitizer of the software Metal must find.

A row is (name, kind of the finding, body with FIX, bad text, sound text) and options: `threads`, `grid`, `language`, `memory`
(bytes of the threadgroup argument t), `same` (the buffers f and g are one array), `before` (text in front of the kernel).
The buffers are f (256 floats), g (256 floats), u (256 uints, zeros) and n (64, a constant).
"""

from __future__ import annotations

from dataclasses import dataclass

PARAMETERS = "device float* f [[buffer(0)]], device FIX_CONST float* FIX_RESTRICT g [[buffer(1)]], device uint* u [[buffer(2)]], constant uint& n [[buffer(3)]]"
POSITIONS = (
    "uint t [[thread_index_in_threadgroup]], uint i [[thread_position_in_grid]], uint w [[threadgroup_position_in_grid]], "
    "uint lane [[thread_index_in_simdgroup]], uint s [[simdgroup_index_in_threadgroup]]"
)
GROUP = "threadgroup_barrier(mem_flags::mem_threadgroup);"
DEVICE = "threadgroup_barrier(mem_flags::mem_device);"
FENCE = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);"
RELAXED = "memory_order_relaxed"
RACE, OUTSIDE, UNWRITTEN, UNSET = "data race", "out of bounds", "uninitialised read", "uninitialised value"
DIVERGENCE, MISALIGNED, LANE, ALIASED, MATRIX = "barrier divergence", "misaligned access", "missing lane", "aliased arguments", "matrix divergence"


@dataclass(frozen=True)
class Case:
    """One bug and its sound twin."""

    name: str
    kind: str
    body: str
    bad: str
    good: str
    threads: int = 64
    grid: int = 1
    language: str = "3.1"
    memory: int = 0
    same: bool = False
    before: str = ""
    const: str = ""
    restrict: str = ""

    def text(self, name: str, fix: str) -> str:
        """The kernel under a name of its own, in a namespace of its own."""
        memory = ", threadgroup float* tg [[threadgroup(0)]]" if self.memory else ""
        head = PARAMETERS.replace("FIX_CONST", self.const).replace("FIX_RESTRICT", self.restrict)
        return f"namespace of_{name} {{\n{self.before}\nkernel void {name}({head}{memory}, {POSITIONS}) {{\n{self.body.replace('FIX', fix)}\n}}\n}}\n"


CASES = [
    # races in a threadgroup
    Case("no barrier before a neighbour", RACE, "threadgroup float x[64]; x[t] = f[t]; FIX f[t] = x[63 - t];", "", GROUP),
    Case("no barrier before the next round", RACE, f"threadgroup float x[64]; for (int k = 0; k < 2; k++) {{ x[t] = f[t] + k; {GROUP} float y = x[63 - t]; FIX f[t] = y; }}", "", GROUP),
    Case("a barrier of device memory for threadgroup memory", RACE, "threadgroup float x[64]; x[t] = f[t]; FIX f[t] = x[63 - t];", DEVICE, GROUP),
    Case("a barrier of threadgroup memory for device memory", RACE, f"f[t] = t; FIX float y = f[63 - t]; {DEVICE} f[t] = y;", GROUP, DEVICE),
    Case("a barrier of no memory", RACE, "threadgroup float x[64]; x[t] = f[t]; threadgroup_barrier(mem_flags::FIX); f[t] = x[63 - t];", "mem_none", "mem_threadgroup"),
    Case("a simdgroup barrier for two simdgroups", RACE, "threadgroup float x[64]; x[t] = f[t]; FIX f[t] = x[t ^ 32];", "simdgroup_barrier(mem_flags::mem_threadgroup);", GROUP),
    Case("no simdgroup barrier", RACE, "threadgroup float x[64]; x[t] = f[t]; FIX f[t] = x[t ^ 1];", "", "simdgroup_barrier(mem_flags::mem_threadgroup);"),
    Case("all threads write one element", RACE, "threadgroup float x[64]; x[FIX] = f[t]; f[t] = x[FIX];", "0", "t"),
    Case("a counter without atomics", RACE, "threadgroup uint x[64]; x[FIX] = 0; x[FIX] += 1; u[t] = x[FIX];", "t / 2", "t"),
    Case("a dynamic argument without a barrier", RACE, "tg[t] = f[t]; FIX f[t] = tg[(t + 1) % 64];", "", GROUP, memory=256),
    Case("a reduction without its barriers", RACE, f"threadgroup float x[64]; x[t] = f[t]; {GROUP} for (uint k = 32; k; k /= 2) {{ if (t < k) x[t] += x[t + k]; FIX }} if (t == 0) f[0] = x[0];", "", GROUP),
    Case("two halves of one word", RACE, "device half* h = (device half*)f; h[FIX] = 1;", "t / 2", "t"),
    Case("a bool of all", RACE, f"threadgroup bool x; if (FIX) x = f[t] > 3; {GROUP} f[t] = x;", "true", "t == 0"),
    # races between threadgroups
    Case("threadgroups that write one element", RACE, "if (t == 0) f[FIX] = w;", "0", "w", grid=4),
    Case("threadgroups that read a neighbour", RACE, "f[i] = 1; u[i] = f[FIX];", "i ^ 64", "i", grid=2),
    Case("a barrier is no order between threadgroups", RACE, f"f[i] = 1; {DEVICE} u[i] = f[FIX];", "(i + 64) % 128", "i", grid=2),
    Case("a sum of threadgroups without atomics", RACE, "if (t == 0) { FIX }", "u[0] += 1;", f"atomic_fetch_add_explicit((device atomic_uint*)u, 1, {RELAXED});", grid=4),
    Case("plain beside atomic", RACE, "FIX if (i == 70) u[1] = u[0];", f"atomic_fetch_add_explicit((device atomic_uint*)u, 1, {RELAXED});", f"atomic_fetch_add_explicit((device atomic_uint*)u + 2, 1, {RELAXED});", grid=2),
    Case("a stored flag publishes data", RACE, f"device atomic_uint* flag = (device atomic_uint*)u; if (i == 0) {{ f[0] = 5; FIX atomic_store_explicit(flag, 1, {RELAXED}); }} if (i == 64 && atomic_load_explicit(flag, {RELAXED})) {{ FIX f[1] = f[0]; }}", "", FENCE, grid=2, language="3.2"),
    Case("the last threadgroup reads what all have written", RACE, f"threadgroup bool last; if (t == 0) {{ f[w] = w; FIX last = atomic_fetch_add_explicit((device atomic_uint*)u, 1, {RELAXED}) == 3; FIX }} threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); if (last && t == 0) {{ float all = 0; for (int k = 0; k < 4; k++) all += f[k]; f[9] = all; }}", "", FENCE, grid=4, language="3.2"),
    Case("a barrier before a relaxed counter", RACE, f"threadgroup bool last; if (t == 0) f[w] = w; FIX if (t == 0) last = atomic_fetch_add_explicit((device atomic_uint*)u, 1, {RELAXED}) == 3; threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup); if (last && t == 0) f[9] = f[w];", DEVICE + " if (w == 3 && t == 0) f[8] = f[0];", DEVICE, grid=4),
    Case("a flag inside of a threadgroup", RACE, f"device atomic_uint* flag = (device atomic_uint*)u; if (t == 0) {{ f[0] = 5; atomic_store_explicit(flag, 1, {RELAXED}); }} FIX if (t == 40 && atomic_load_explicit(flag, {RELAXED})) f[1] = f[0];", "", DEVICE),
    # out of bounds
    Case("one behind the end", OUTSIDE, "if (i FIX n) f[i * 4] = 1;", "<=", "<", grid=2),
    Case("below the start", OUTSIDE, "f[t] = g[FIX];", "int(t) - 1", "max(int(t) - 1, 0)"),
    Case("far outside", OUTSIDE, "f[t] = g[t * FIX];", "400", "4"),
    Case("a vector across the end", OUTSIDE, "device packed_float4* v = (device packed_float4*)(g + FIX); f[t] = v[63].w + t;", "2", "0"),
    Case("threadgroup memory behind its end", OUTSIDE, "tg[t + FIX] = f[t]; f[t] = tg[t + FIX];", "1", "0", memory=256),
    Case("a threadgroup array", OUTSIDE, "threadgroup float x[64]; x[(t + 1) FIX] = f[t];", "", "% 64"),
    Case("an array of the thread", OUTSIDE, "float x[4] = {1, 2, 3, 4}; f[t] = x[t FIX];", "/ 2", "% 4"),
    Case("an array in a struct", OUTSIDE, "S y = {{1, 2, 3}}; f[t] = y.x[t FIX];", "% 4", "% 3", before="struct S { float x[3]; };"),
    Case("a component of a vector", OUTSIDE, "float4 x = 1; f[t] = x[t FIX];", "% 5", "% 4"),
    Case("a written component", OUTSIDE, "float2 x = 1; x[t FIX] = 3; f[t] = x.x;", "% 3", "% 2"),
    Case("a column of a matrix", OUTSIDE, "float3x3 x = float3x3(1); f[t] = x[t FIX].x;", "% 4", "% 3"),
    Case("an element of array<>", OUTSIDE, "array<float, 3> x = {1, 2, 3}; f[t] = x[t FIX];", "% 4", "% 3"),
    Case("a matrix behind the end", OUTSIDE, "simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1); simdgroup_store(m, f + FIX, 8);", "200", "192", threads=32),
    # memory and values that nobody has written
    Case("an unwritten element", UNWRITTEN, f"threadgroup float x[65]; x[t] = f[t]; if (t == FIX) x[64] = 0; {GROUP} f[t] = x[t + 1];", "99", "0"),
    Case("an unwritten half of an array", UNWRITTEN, f"threadgroup float x[128]; x[t] = f[t]; FIX {GROUP} f[t] = x[t * 2];", "", "x[t + 64] = 0;"),
    Case("a register without a value", UNSET, "float x FIX; for (int k = 0; k < 4; k++) x += f[t]; f[t] = x;", "", "= 0"),
    Case("a register with a value on one way", UNSET, "float x; if (t FIX) x = 2; f[t] = x;", "> 5", "< 64"),
    Case("a branch on no value", UNSET, "int x; if (t FIX) x = 1; if (x > 0) f[t] = 1;", "> 5", "< 64"),
    Case("an array with a hole", UNSET, "float x[4]; for (int k = FIX; k < 4; k++) x[k] = k; f[t] = x[t % 4];", "1", "0"),
    Case("a component without a value", UNSET, "float4 x; x.xyz = 1; FIX f[t] = x.w;", "", "x.w = 2;"),
    Case("a member without a value", UNSET, "S x; x.a = 1; FIX f[t] = x.a + x.b;", "", "x.b = 2;", before="struct S { float a, b; };"),
    Case("a sum over lanes without values", UNSET, "float x; if (lane FIX) x = 1; f[t] = simd_sum(x);", "> 3", ">= 0"),
    Case("a matrix without a value", UNSET, "simdgroup_float8x8 a, c FIX; simdgroup_load(a, g, 8); simdgroup_multiply_accumulate(c, a, a, c); simdgroup_store(c, f, 8);", "", "= make_filled_simdgroup_matrix<float, 8, 8>(0)", threads=32),
    Case("an index without a value", UNSET, "uint x; if (t FIX) x = t; f[x & 63] = 1;", "> 5", "< 64"),
    # lanes
    Case("a shuffle inside of a branch", LANE, "float x = f[t]; FIX f[t] = x;", "if (lane < 16) x = simd_shuffle(x, lane + 16);", "x = simd_shuffle(x, lane ^ 16);"),
    Case("a shuffle behind the last lane", LANE, "f[t] = simd_shuffle(f[t], FIX);", "lane + 1", "(lane + 1) % 32"),
    Case("a broadcast of lane 40", LANE, "f[t] = simd_broadcast(f[t], FIX);", "40", "20"),
    Case("a butterfly of a part of the lanes", LANE, "float x = f[t]; if (lane < FIX) x += simd_shuffle_xor(x, 8); f[t] = x;", "12", "16"),
    Case("a shift inside of a branch", LANE, "float x = f[t]; if (lane < FIX) x = simd_shuffle_down(x, 1); f[t] = x;", "16", "32"),
    Case("a shuffle with lanes that do not exist", LANE, "f[t] = simd_shuffle_xor(f[t], FIX);", "16", "1", threads=20),
    Case("a quad with one lane less", LANE, "float x = f[t]; if (lane % 4 < FIX) x = quad_broadcast(x, 3); f[t] = x;", "3", "4"),
    # divergence
    Case("a barrier in a branch", DIVERGENCE, f"threadgroup float x[64]; x[t] = f[t]; if (t < FIX) {GROUP} f[t] = x[t];", "40", "64"),
    Case("a return before a barrier", DIVERGENCE, f"if (t >= FIX) return; {GROUP} f[t] = 1;", "60", "64"),
    Case("two barriers in two branches", DIVERGENCE, f"if (t < FIX) {{ {GROUP} f[t] = 1; }} else {{ {GROUP} f[t] = 2; }}", "32", "64"),
    Case("a loop of different lengths", DIVERGENCE, f"for (uint k = 0; k < FIX; k++) {GROUP} f[t] = 1;", "t / 32 + 1", "2"),
    Case("a simdgroup barrier in a branch", DIVERGENCE, "if (lane < FIX) simdgroup_barrier(mem_flags::mem_threadgroup); f[t] = 1;", "7", "32"),
    Case("a matrix product in a branch", MATRIX, "simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1); if (lane < FIX) simdgroup_multiply(m, m, m);", "16", "32"),
    Case("a matrix load in a branch", MATRIX, "simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1); if (lane < FIX) simdgroup_load(m, g, 8);", "31", "32"),
    Case("a matrix store in a branch", MATRIX, "simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1); if (lane < FIX) simdgroup_store(m, f, 8);", "8", "32", threads=32),
    # alignment
    Case("a vector between two places", MISALIGNED, "float4 v = *(device float4*)(g + FIX * t); f[t] = v.x;", "3", "4", threads=32),
    Case("a stored pair", MISALIGNED, "*(device float2*)(f + 2 * t + FIX) = float2(t);", "1", "0"),
    Case("an atomic inside of two words", MISALIGNED, f"atomic_fetch_add_explicit((device atomic_uint*)((device char*)u + FIX), 1, {RELAXED});", "2", "4"),
    # arguments that share memory
    Case("a restrict argument that is not alone", ALIASED, "f[t] = g[FIX] + 1;", "t", "t + 64", same=True, restrict="__restrict"),
    Case("a restrict argument read again", ALIASED, "float y = g[t]; f[t + FIX] = y; u[t] = g[t];", "0", "64", same=True, restrict="__restrict"),
    Case("a const argument that changes", ALIASED, "f[t + FIX] = 1; u[t] = g[t];", "0", "64", same=True, const="const"),
    Case("a const argument that others change", RACE, "f[(t + FIX) % 64] = g[t];", "1", "0", same=True, const="const"),
]  # fmt: skip
