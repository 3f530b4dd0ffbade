"""What the software Metal refuses, one text per check, beside texts that Apple's compiler takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eas.base.errors import EasError
from eas.metal_sim import Library, toolchain
from eas.metal_sim.strict import check as strict

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
FIRST = HEAD.count("\n") + 1
K = "kernel void k(device float* f [[buffer(0)]], device bfloat* b [[buffer(1)]], uint i [[thread_position_in_grid]]) {{\n{}\n}}"
# check -> [(text, line of the error in it counted from 1, part of the message, language)]; a text without `kernel` is K's body
REFUSED: dict[str, list[tuple[str, int, str]]] = {
    "double": [("double x = 1;", 2, "no double"), ("float x = (double)f[i];", 2, "no double")],
    "long long": [("unsigned long long x = 1;", 2, "no long long")],
    "types of C": [("_Float16 x = f[i];", 2, "no _Float16")],
    "literals": [("long x = 0LL;", 2, "the suffix LL"), ("half x = 1h;", 2, "behind an integer")],
    "names": [("int vertex = 1;", 2, "cannot be a name")],
    "main": [("int main() { return 1; }\n" + K.format(""), 1, "cannot be called main")],
    "noexcept": [("f[i] = noexcept(f[0]);", 2, "no noexcept operator")],
    "asm": [('asm("nop");', 2, "no inline assembly")],
    "headers": [("#include <metal_tensor>\n" + K.format(""), 1, "no header <metal_tensor>")],
    "coherent before 3.2": [("kernel void k(coherent device float* f [[buffer(0)]]) { f[0] = 1; }", 1, "needs Metal 3.2")],
    "long before 2.2": [],
    "static members": [("struct S { static constexpr int n = 1; };\n" + K.format(""), 1, "a static member must be")],
    "local variables": [("threadgroup float x[2] = {1, 2};", 2, "cannot have a value"), ("static int x = 1;", 2, "static variable x"), ("device float x;", 2, "cannot be declared in device memory")],
    "function pointers": [("float (*p)(float);", 2, "function pointer")],
    "variadic functions": [("int g(int n, ...) { return n; }\n" + K.format(""), 1, "any number of arguments")],
    "function constant declarations": [("constant int n [[function_constant(0)]];\nconstant int m [[function_constant(0)]];\n" + K.format(""), 2, "used twice")],
    "kernel methods": [("struct S { kernel void k(device float* f [[buffer(0)]]) { f[0] = 1; } };", 1, "cannot be a method")],
    "kernel calls": [("kernel void j(device float* f [[buffer(0)]]) { f[0] = 1; }\n" + K.format("j(f);"), 3, "launched by the host")],
    "bindings": [("kernel void k(thread float* f [[buffer(0)]]) { f[0] = 1; }", 1, "cannot be in thread memory")],
    "thread limits": [("[[max_total_threads_per_threadgroup(0)]] kernel void k(device float* f [[buffer(0)]]) { f[0] = 1; }", 1, "needs a positive constant")],
    "private atomics": [("atomic_int x;", 2, "atomic of the thread")],
    "goto": [("again:\nif (f[i] > 0) goto again;", 3, "no goto")],
    "exceptions": [("try { f[i] = 1; } catch (...) { }", 2, "no exceptions"), ("throw 1;", 2, "no exceptions")],
    "heap": [("thread float* p = new float[4];", 2, "no new"), ("delete &f[i];", 2, "no delete")],
    "type identification": [("f[i] = typeid(f) == typeid(i);", 2, "no typeid")],
    "virtual": [("struct S { virtual void g() {} };\n" + K.format(""), 1, "no virtual")],
    "thread_local": [("thread_local int x = 1;", 2, "no thread_local")],
    "standard library": [("f[i] = std::max(f[i], 1.0f);", 2, "standard library")],
    "program scope": [("constexpr int n = 4;\n" + K.format(""), 1, "constant address space"), ("static float cache[4];\n" + K.format(""), 1, "constant address space")],
    "constants without value": [("constant float n;\n" + K.format(""), 1, "needs a value")],
    "kernel result": [("kernel float k(device float* f [[buffer(0)]]) { return 1; }", 1, "must return void")],
    "position types": [("kernel void k(device float* f [[buffer(0)]], int i [[thread_position_in_grid]]) { f[i] = 1; }", 1, "needs a ushort or uint")],
    "buffer indices": [
        ("kernel void k(device float* f [[buffer(31)]]) { f[0] = 1; }", 1, "above 30"),
        ("kernel void k(device float* f [[buffer(2)]], device float* g [[buffer(2)]]) { f[0] = g[0]; }", 1, "used twice"),
    ],
    "local attributes": [("device float* p [[buffer(3)]] = f;", 2, "is for parameters of kernels")],
    "kernel names": [("static kernel void k(device float* f [[buffer(0)]]) { f[0] = 1; }", 1, "cannot be static"), ("float g();\n" + K.format("f[i] = g();"), 1, "never defined")],
    "references": [("const device float& x = 3.0f;", 2, "a device reference cannot name")],
    "threadgroup float atomics": [("threadgroup atomic_float x;", 2, "needs Metal 4.1")],
    "pointers without space": [
        ("void g(float* p) { p[0] = 1; }\n" + K.format("g(f);"), 1, "must name its address space"),
        ("float* p = f;", 2, "must name its address space"),
        ("f[i] = *(uint*)f;", 2, "must name its address space"),
        ("struct S { int n; };\nint g(const S& s) { return s.n; }\n" + K.format(""), 2, "must name its address space"),
    ],
    "recursion": [
        ("int g(int n) { return n < 2 ? 1 : n * g(n - 1); }\n" + K.format("f[i] = g(3);"), 1, "no recursion"),
        ("int h(int n);\nint g(int n) { return n ? h(n - 1) : 0; }\nint h(int n) { return n ? g(n - 1) : 1; }\n" + K.format("f[i] = g(3);"), 3, "no recursion"),
    ],
    "address spaces": [
        ("threadgroup float t[4];\ndevice float* p = t;", 3, "threadgroup pointer cannot be used as a device pointer"),
        ("void g(device float* x) { x[0] = 1; }\n" + K.format("float x; g(&x);"), 3, "thread pointer cannot be used as a device pointer"),
        ("void g(device float* x) { x[0] = 1; }\n" + K.format("threadgroup float t[4]; g(t);"), 3, "threadgroup pointer cannot be used as a device pointer"),
        ("void g(thread float& x) { x = 1; }\n" + K.format("g(f[i]);"), 3, "device pointer cannot be used as a thread pointer"),
        ("kernel void k(device float* f [[buffer(0)]], constant float* c [[buffer(1)]]) { const device float* p = c; f[0] = p[0]; }", 1, "constant pointer cannot be used as a device pointer"),
        ("threadgroup float4* p = (threadgroup float4*)f;", 2, "device pointer cannot be used as a threadgroup pointer"),
    ],
    "writes to constant": [("kernel void k(constant float* f [[buffer(0)]]) { f[0] = 1; }", 1, "not assignable")],
    "bfloat conversions": [("b[i] = f[i];", 2, "cannot convert float to bfloat implicitly"), ("bfloat x = 1.0h;", 2, "to bfloat")],
    "bfloat functions": [("b[i] = exp(b[i]);", 2, "cannot convert float to bfloat implicitly"), ("f[i] = max(b[i], b[i]);", 2, "ambiguous")],
    "bfloat before 3.1": [],
    "simd types": [("f[i] = simd_sum(b[i]);", 2, "simd_sum"), ("f[i] = simd_sum(ulong(i));", 2, "simd_sum"), ("bool x = simd_shuffle(i > 1, 0);", 2, "simd_shuffle"), ("f[i] = quad_sum(b[i]);", 2, "quad_sum")],
    "simd bit types": [("f[i] = simd_and(f[i]);", 2, "simd_and")],
    "vector conversions": [("float4 v = int4(1);", 2, "from 'int4' to 'float4'")],
    "ambiguous calls": [("f[i] = max(f[i], 0);", 2, "'max' is ambiguous"), ("f[i] = sqrt(2);", 2, "'sqrt' is ambiguous")],
    "matrix shapes": [("simdgroup_matrix<float, 4, 4> m;", 2, "8 columns"), ("simdgroup_matrix<int, 8, 8> m;", 2, "float, half and bfloat")],
    "atomic types": [("threadgroup atomic<short> x;", 2, "atomic<T>"), ("atomic_fetch_add_explicit(f, 1.0f, memory_order_relaxed);", 2, "atomic_fetch_add_explicit")],
    "atomic float min": [("atomic_fetch_min_explicit((device atomic_float*)f, 1.0f, memory_order_relaxed);", 2, "atomic_fetch_min_explicit")],
    "memory orders": [],
    "variable-length arrays": [("float x[i];\nf[i] = x[0];", 2, "constant length")],
    "as_type sizes": [("f[i] = as_type<half>(f[i]);", 2, "same size")],
    "threadgroup memory": [],
    "threads": [],
    "function constants": [],
    "bytes": [],
}  # fmt: skip
ROWS = [(name, k) for name, cases in REFUSED.items() for k in range(len(cases))]


def whole(text: str) -> str:
    return HEAD + (text if "kernel void" in text or "kernel float" in text else K.format(text))


@pytest.mark.parametrize(("name", "k"), ROWS, ids=lambda v: str(v).replace(" ", "-"))
def test_text_is_refused_with_its_line(name, k):
    text, line, message = REFUSED[name][k]
    with pytest.raises(EasError) as caught:
        Library(whole(text)).kernel("k")
    assert message in str(caught.value)
    assert f":{line + FIRST - 1}\n" in f"{caught.value}\n"


def test_every_check_has_a_text():
    assert {c.name for c in strict.CHECKS} == REFUSED.keys()


def test_language_features_need_their_level():
    bfloat = HEAD + "kernel void k(device bfloat* b [[buffer(0)]]) { b[0] = bfloat(1.0f); }"
    with pytest.raises(EasError, match=r"bfloat[\s\S]*hint: bfloat needs Metal 3.1"):
        Library(bfloat, language="3.0").kernel("k")
    Library(bfloat, language="3.1").kernel("k")
    order = HEAD + "kernel void k(device atomic_uint* u [[buffer(0)]]) { atomic_fetch_add_explicit(u, 1, memory_order_acq_rel); }"
    with pytest.raises(EasError, match=r"needs memory_order_relaxed before Metal 4\.1"):
        Library(order, language="3.2").kernel("k")
    Library(order, language="4.1").kernel("k")
    Library(whole("threadgroup atomic_float x; atomic_store_explicit(&x, 1.0f, memory_order_relaxed);"), language="4.1").kernel("k")


def test_function_constants_need_a_value():
    text = HEAD + "constant int n [[function_constant(0)]];\nkernel void k(device float* f [[buffer(0)]]) { f[0] = n; }"
    with pytest.raises(EasError, match="needs a value of its function constant n"):
        Library(text).kernel("k")


def test_limits_of_a_launch():
    f = np.zeros(4, np.float32)
    big = Library(HEAD + "kernel void k(device float* f [[buffer(0)]], uint i [[thread_position_in_grid]]) { threadgroup float t[8193]; t[i] = 1; f[0] = t[i]; }")
    with pytest.raises(EasError, match="32768"):
        big.kernel("k")(f, threadgroups=1, threads=32)
    plain = Library(HEAD + "kernel void k(device float* f [[buffer(0)]]) { f[0] = 1; }").kernel("k")
    with pytest.raises(EasError, match="1024"):
        plain(f, threadgroups=1, threads=1025)
    value = Library(HEAD + "struct S { int n[1025]; };\nkernel void k(device float* f [[buffer(0)]], constant S& s [[buffer(1)]]) { f[0] = s.n[0]; }").kernel("k")
    with pytest.raises(EasError, match=r"4096|4 KB"):
        value(f, bytes(4100), threadgroups=1, threads=1)


ACCEPTED = {
    "deleted functions and members named like keywords": "struct S { int n; S() = default; S(const thread S&) = delete; };\n" + K.format("f[i] = 1;"),
    "constants of all kinds": "constant int n = 4; constant constexpr float t[2] = {1, 2}; constant bool flag [[function_constant(0)]]; static constant constexpr const uint m = 3;\n" + K.format("f[i] = n + t[1] + m + flag;"),
    "overloads that call each other": "float g(float x) { return x; }\nhalf g(half x) { return half(g(float(x))); }\n" + K.format("f[i] = g(1.0h);"),
    "templates that end at compile time": "template <int N> int g() { if constexpr (N > 0) return N + g<N - 1>(); else return 0; }\n" + K.format("f[i] = g<4>();"),
    "methods in address spaces": "struct S { float x; float get() const device { return x; } float get() const thread { return x; } float get() const constant { return x; } };\nkernel void k(device S* s [[buffer(0)]], constant S& c [[buffer(1)]], device float* f [[buffer(2)]]) { S t = {2}; f[0] = s->get() + c.get() + t.get(); }",
    "references to templates' types": "template <typename T> void g(thread T& x, T y) { x += y; }\n" + K.format("float x = 1; g(x, 2.0f); f[i] = x;"),
    "pointers of every space": "float g(device const float* a, constant float* b, threadgroup float* c, thread float* d) { return a[0] + b[0] + c[0] + d[0]; }\nkernel void k(device float* f [[buffer(0)]], constant float* c [[buffer(1)]], threadgroup float* t [[threadgroup(0)]]) { float x = 1; threadgroup_barrier(mem_flags::mem_threadgroup); f[0] = g(f, c, t, &x); }",
    "pointers cast inside a space": K.format("device uint4* p = reinterpret_cast<device uint4*>(f); device const char* q = (device const char*)f; f[i] = p[0].x + q[1];"),
    "threadgroup memory of zeros": K.format("threadgroup float t[32] = {0}; t[i] += 1; f[i] = t[i];"),
    "attributes of threadgroup memory": K.format("threadgroup __attribute__((aligned(16))) float t[32]; alignas(16) threadgroup float4 s; t[i] = 1; s = 2; f[i] = t[i] + s.x;"),
    "lambdas and autos": K.format("auto g = [&](float x) { return x + f[i]; }; f[i] = g(1);"),
    "inherited structs": "struct A { int n; }; struct B : A { int m; };\n" + K.format("B x; x.n = 1; x.m = 2; f[i] = x.n + x.m;"),
    "enums, unions and arrays": "enum class E : uint { one = 1, two }; union U { float f; uint u; };\n" + K.format("U u; u.f = 1; array<float, 3> a = {1, 2, 3}; f[i] = u.u + a[1] + uint(E::two);"),
    "constant vectors": "kernel void k(constant uint3& n [[buffer(0)]], constant float4* v [[buffer(1)]], device float* f [[buffer(2)]]) { f[n.x] = v[n.y].zyx.x + v->w; }",
    "positions": "kernel void k(device float* f [[buffer(0)]], ushort3 p [[thread_position_in_grid]], uint3 n [[threads_per_grid]], ushort l [[thread_index_in_simdgroup]], uint t [[thread_index_in_threadgroup]]) { f[t] = p.x + n.y + l; }",
    "bfloat through float": K.format("b[i] = bfloat(exp(float(b[i]))); b[i] += bfloat(2); float x = b[i] * 2.0f; bool n = isnan(b[i]); f[i] = x + n + precise::sqrt(b[i]);"),
    "volatile and coherent memory": "kernel void k(volatile device uint* f [[buffer(0)]], volatile coherent(device) device uint* g [[buffer(1)]]) { f[0] = g[0]; }",
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_text_that_apple_takes_is_taken(name):
    constants = {"flag": True} if "bool flag" in ACCEPTED[name] else None
    Library(HEAD + ACCEPTED[name], language="3.2", function_constants=constants).kernel("k")


def test_the_table_in_the_docs_is_the_table_in_the_code():
    page = Path(__file__).parents[2] / "docs" / "software-metal-checks.md"
    assert page.read_text(encoding="utf-8") == strict.table(), "write strict.table() to docs/software-metal-checks.md"
