"""Metal texts that no Metal compiler may take, and valid neighbours that every one must take. A text without `kernel` is the body of one."""

from __future__ import annotations

from eas.verify.raw_metal import HEAD

_KERNEL = "kernel void k(device float* f [[buffer(0)]], device bfloat* b [[buffer(1)]], uint i [[thread_position_in_grid]]) {{\n{}\n}}"


def whole(text: str) -> str:
    """The complete text."""
    return HEAD + (text if "kernel " in text else _KERNEL.format(text))


def _with(before: str, body: str = "f[i] = 1.0f;") -> str:
    return before + "\n" + _KERNEL.format(body)


TAKEN: dict[str, str] = {
    "a plain kernel": "f[i] = 2.0f * f[i];",
    "explicit bfloat conversions": "b[i] = bfloat(float(b[i]) + 1.0f);",
    "constants at program scope": _with("constant float table[2] = {1.0f, 2.0f};", "f[i] = table[i & 1];"),
    "pointers with an address space": _with("void g(device float* p) { p[0] = 1.0f; }", "g(f + i);"),
    "threadgroup memory and barriers": "threadgroup float t[32];\nt[i & 31] = f[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\nf[i] = t[31 - (i & 31)];",
    "simd functions of floats": "f[i] = simd_sum(f[i]) + simd_shuffle_xor(f[i], 1);",
    "simdgroup matrices": "simdgroup_float8x8 m(0.0f);\nsimdgroup_load(m, f, 8);\nsimdgroup_multiply_accumulate(m, m, m, m);\nsimdgroup_store(m, f, 8);",
    "atomics on device memory": "atomic_fetch_add_explicit((device atomic_uint*)f, 1u, memory_order_relaxed);",
    "atomic float addition": "atomic_fetch_add_explicit((device atomic_float*)f, 1.0f, memory_order_relaxed);",
    "templates": _with("template <typename T> T twice(T x) { return x + x; }", "f[i] = twice(f[i]);"),
    "precise functions": "f[i] = precise::exp(f[i]);",
    "bit casts": "f[i] = as_type<float>(as_type<uint>(f[i]) + 1u);",
}

REFUSED: dict[str, str] = {
    "double": "double x = 1;\nf[i] = x;",
    "a cast to double": "f[i] = (double)f[i];",
    "long long": "long long x = 1;\nf[i] = x;",
    "goto": "again:\nif (f[i] > 0) goto again;",
    "exceptions": "try { f[i] = 1; } catch (...) { }",
    "throw": "throw 1;",
    "new": "thread float* p = new float[4];\nf[i] = p[0];",
    "delete": "delete &f[i];",
    "typeid": "f[i] = typeid(f) == typeid(i);",
    "virtual functions": _with("struct S { virtual void g() {} };"),
    "thread_local": "thread_local int x = 1;\nf[i] = x;",
    "the C++ standard library": "f[i] = std::max(f[i], 1.0f);",
    "variables at program scope": _with("static float cache[4];", "f[i] = cache[0];"),
    "constants without a value": _with("constant float n;", "f[i] = n;"),
    "kernels that return something": "kernel float k(device float* f [[buffer(0)]]) { return 1; }",
    "positions of signed type": "kernel void k(device float* f [[buffer(0)]], int i [[thread_position_in_grid]]) { f[i] = 1; }",
    "positions of mixed dimension": "kernel void k(device float* f [[buffer(0)]], uint i [[thread_position_in_grid]], uint3 j [[threads_per_threadgroup]]) { f[i] = j.x; }",
    "buffer 31": "kernel void k(device float* f [[buffer(31)]]) { f[0] = 1; }",
    "one buffer index twice": "kernel void k(device float* f [[buffer(2)]], device float* g [[buffer(2)]]) { f[0] = g[0]; }",
    "pointers without an address space": _with("void g(float* p) { p[0] = 1; }", "g(f);"),
    "local pointers without an address space": "float* p = f;\np[i] = 1.0f;",
    "casts to pointers without an address space": "f[i] = *(uint*)f;",
    "recursion": _with("int g(int n) { return n < 2 ? 1 : n * g(n - 1); }", "f[i] = g(int(f[i]));"),
    "threadgroup memory as device memory": "threadgroup float t[4];\ndevice float* p = t;\np[i] = 1.0f;",
    "thread memory as device memory": _with("void g(device float* x) { x[0] = 1; }", "float x = 0; g(&x);"),
    "device memory as thread memory": _with("void g(thread float& x) { x = 1; }", "g(f[i]);"),
    "writes to constant memory": "kernel void k(constant float* f [[buffer(0)]]) { f[0] = 1; }",
    "float to bfloat without a cast": "bfloat x = f[i];\nb[i] = x;",
    "simd functions of bool": "bool x = simd_shuffle(i > 1, ushort(0));\nf[i] = x;",
    "simd functions of 64 bits": "f[i] = simd_sum(ulong(i));",
    "bitwise simd functions of floats": "f[i] = simd_and(f[i]);",
    "conversions between vectors": "float4 v = int4(1);\nf[i] = v.x;",
    "simdgroup matrices of 4x4": "simdgroup_matrix<float, 4, 4> m;\nsimdgroup_store(m, f, 8);",
    "simdgroup matrices of integers": "simdgroup_matrix<int, 8, 8> m;\nsimdgroup_store(m, (device int*)f, 8);",
    "atomics of short": "threadgroup atomic<short> x;\natomic_store_explicit(&x, short(1), memory_order_relaxed);",
    "atomics on plain pointers": "atomic_fetch_add_explicit(f, 1.0f, memory_order_relaxed);",
    "arrays of variable length": "float x[i];\nf[i] = x[0];",
    "bit casts of other sizes": "f[i] = as_type<half>(f[i]);",
    "inline assembly": 'asm volatile("nop");',
    "vectors of 8": "vec<float, 8> v(1.0f);\nf[i] = v[0];",
    "kernels that call kernels": "kernel void g(device float* f [[buffer(0)]]) { f[0] = 1; }\nkernel void k(device float* f [[buffer(0)]]) { g(f); }",
    "undeclared names": "f[i] = undeclared;",
}
