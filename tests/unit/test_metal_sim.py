"""The software Metal: kernels of all forms, thread positions, arguments, grids, caches, the command line."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas.__main__ as cli
from eas.base.errors import (
    ArgumentError,
    EasError,
    GridError,
    LaunchError,
    LostWrite,
    SanitizerError,
)
from eas.interop import capsules
from eas.metal_sim import Library, MetalSourceError, native, toolchain

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))

SEED_004 = """#include <metal_stdlib>
using namespace metal;
kernel void r_2(device int* data0, const device int* data1, const device int* data2, uint3 gid [[threadgroup_position_in_grid]], uint3 lid [[thread_position_in_threadgroup]]) {
  int acc0 = 0;
  for (int ridx0 = 0; ridx0 < 2; ridx0++) {
    int val0 = *(data1+ridx0);
    int val1 = *(data2+ridx0);
    acc0 = (acc0+(val0*val1));
  }
  *(data0+0) = acc0;
}
"""


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def run(text, name, *args, **options):
    Library(HEAD + text).kernel(name)(*args, **options)


def test_the_dot_product_of_seed_004_is_11():
    out = zeros(1, dtype=np.int32)
    Library(SEED_004).kernel("r_2")(out, np.array([1, 2], np.int32), np.array([3, 4], np.int32), grid=1, threads=1)
    assert out[0] == 11


def test_threadgroup_reduction_with_barriers():
    text = """
    kernel void total(device const float* x, device float* out, uint i [[thread_position_in_grid]],
                      uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
      threadgroup float part[64];
      part[t] = x[i];
      for (uint s = 32; s > 0; s >>= 1) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < s) part[t] += part[t + s];
      }
      if (t == 0) out[g] = part[0];
    }"""
    x, out = np.arange(64 * 50, dtype=np.float32), zeros(50)
    run(text, "total", x, out, grid=50, threads=64)
    assert np.array_equal(out, x.reshape(50, 64).sum(1))


POSITIONS = [
    ("thread_position_in_grid", "uint3", lambda g, t, n: g * n + t),
    ("thread_position_in_threadgroup", "uint3", lambda g, t, n: t),
    ("threadgroup_position_in_grid", "ushort3", lambda g, t, n: g),
    ("threads_per_threadgroup", "uint3", lambda g, t, n: np.minimum(n, np.array([7, 5, 2]) - g * n)),
    ("dispatch_threads_per_threadgroup", "uint3", lambda g, t, n: n),
    ("threads_per_grid", "uint3", lambda g, t, n: np.array([7, 5, 2])),
    ("threadgroups_per_grid", "uint3", lambda g, t, n: np.array([2, 3, 2])),
]


@pytest.mark.parametrize(("attribute", "type_", "want"), POSITIONS, ids=[p[0] for p in POSITIONS])
def test_positions_in_a_ragged_grid(attribute, type_, want):
    text = f"""
    kernel void where(device uint* out, {type_} v [[{attribute}]], uint3 p [[thread_position_in_grid]]) {{
      uint at = 3 * (p.x + 7 * (p.y + 5 * p.z));
      out[at] = v.x; out[at + 1] = v.y; out[at + 2] = v.z;
    }}"""
    out, size = zeros(2, 5, 7, 3, dtype=np.uint32), np.array([4, 2, 1])
    run(text, "where", out, grid_threads=(7, 5, 2), threads=(4, 2, 1))
    for z, y, x in np.ndindex(2, 5, 7):
        place = np.array([x, y, z])
        assert list(out[z, y, x]) == list(want(place // size, place % size, size)), (x, y, z)


@pytest.mark.parametrize("threads", [70, 64, 6])
def test_counts_of_simdgroups_and_quadgroups(threads):
    """In the last threadgroup, which has fewer threads, and of the whole ones that were asked for."""
    names = ["thread_index_in_quadgroup", "quadgroup_index_in_threadgroup", "quadgroups_per_threadgroup", "dispatch_quadgroups_per_threadgroup", "simdgroups_per_threadgroup", "dispatch_simdgroups_per_threadgroup"]
    parameters = ", ".join(f"uint v{k} [[{name}]]" for k, name in enumerate(names))
    text = f"kernel void where(device uint* out, uint i [[thread_position_in_grid]], {parameters}) {{ {' '.join(f'out[6 * i + {k}] = v{k};' for k in range(6))} }}"
    n = 2 * threads + 5
    out = zeros(n, 6, dtype=np.uint32)
    run(text, "where", out, grid_threads=n, threads=threads)
    for i in range(n):
        t, here = i % threads, 5 if i >= 2 * threads else threads
        assert out[i].tolist() == [t % 4, t // 4, -(-here // 4), -(-threads // 4), -(-here // 32), -(-threads // 32)], i


def test_scalar_positions_and_simdgroups():
    text = """
    kernel void where(device uint4* out, uint i [[thread_position_in_grid]], ushort t [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]], uint s [[simdgroup_index_in_threadgroup]],
                      uint n [[simdgroups_per_threadgroup]], uint w [[threads_per_simdgroup]]) {
      out[i] = uint4(t, lane, s, n * 100 + w);
    }"""
    out = zeros(160, 4, dtype=np.uint32)
    run(text, "where", out, grid=2, threads=80)
    t = np.arange(160) % 80
    assert np.array_equal(out, np.stack([t, t % 32, t // 32, np.full(160, 332)], 1))


def test_simd_functions_take_the_active_lanes():
    text = """
    kernel void fold(device int* out, uint i [[thread_position_in_grid]]) {
      if (i % 2 == 0) out[i] = simd_sum(int(i));
      else out[i] = -simd_sum(1);
      for (uint k = 0; k <= i % 4; k++) out[i] += simd_sum(1) * 1000;
    }"""
    out = zeros(40, dtype=np.int32)
    run(text, "fold", out, grid=1, threads=40)
    base = [sum(range(0, 32, 2)) if i % 2 == 0 else -16 for i in range(32)]
    turns = [sum(32 - 8 * k for k in range(i % 4 + 1)) * 1000 for i in range(32)]
    assert list(out[:32]) == [a + b for a, b in zip(base, turns, strict=True)]


def test_templates_host_names_and_namespaces():
    text = """
    namespace mine {
    template <typename T, int N> [[kernel]] void scale(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= T(N); }
    }
    template [[host_name("by3")]] [[kernel]] void mine::scale<float, 3>(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]);
    typedef decltype(mine::scale<int, 5>) by5_t;
    template [[host_name("by5")]] [[kernel]] by5_t mine::scale<int, 5>;
    """
    library = Library(HEAD + text)
    assert library.kernel_names == ("by3", "by5")
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32)
    library.kernel("by3")(x, grid=1, threads=4)
    library.kernel("by5")(y, grid=1, threads=4)
    assert list(x) == [0, 3, 6, 9]
    assert list(y) == [0, 5, 10, 15]


def test_function_constants():
    text = """
    constant bool twice [[function_constant(0)]];
    constant int more [[function_constant(7)]];
    constant int extra = is_function_constant_defined(more) ? more : 100;
    kernel void f(device int* x, uint i [[thread_position_in_grid]]) { x[i] = (twice ? 2 * x[i] : x[i]) + extra; }
    """
    for given, want in (({"twice": True, 7: 1}, 9), ({0: False}, 104)):
        x = np.array([4], np.int32)
        Library(HEAD + text, function_constants=given).kernel("f")(x, grid=1)
        assert x[0] == want
    with pytest.raises(ArgumentError, match="kernel f needs a value of its function constant twice"):
        Library(HEAD + text).kernel("f")
    with pytest.raises(MetalSourceError, match="there is no function constant third; this text has twice, more"):
        Library(HEAD + text, function_constants={"third": 1})


def test_structs_scalars_bytes_and_names():
    text = """
    struct Params { uint n; float scale; };
    kernel void f(device float* x, constant Params& p, constant half& h, constant uchar& u, uint i [[thread_position_in_grid]]) {
      if (i < p.n) x[i] = p.scale * float(h) + u;
    }"""
    x = zeros(4)
    params = np.array([(3, 2.5)], [("n", np.uint32), ("scale", np.float32)])[0]
    kernel = Library(HEAD + text).kernel("f")
    kernel(x, params, 0.5, u=7, grid=1, threads=4)
    assert list(x) == [8.25, 8.25, 8.25, 0]
    kernel(x, params.tobytes(), 1, 0, grid=1, threads=4)
    assert list(x) == [2.5, 2.5, 2.5, 0]
    with pytest.raises(ArgumentError, match="argument u of f is 256, which is no constant uchar&"):
        kernel(x, params, 1, 256, grid=1)
    with pytest.raises(ArgumentError, match=r"kernel f needs h, u; its buffers are x, p, h, u"):
        kernel(x, params, grid=1)
    with pytest.raises(ArgumentError, match="x of f is not contiguous"):
        kernel(zeros(8)[::2], params, 1, 1, grid=1)
    fixed = zeros(4)
    fixed.flags.writeable = False
    with pytest.raises(LostWrite, match="may write x, which is read-only"):
        kernel(fixed, params, 1, 1, grid=1)


def test_dynamic_threadgroup_memory():
    text = """
    kernel void rev(device int* x, threadgroup int* tile [[threadgroup(0)]], uint t [[thread_index_in_threadgroup]],
                    uint n [[threads_per_threadgroup]]) {
      tile[t] = x[t];
      threadgroup_barrier(mem_flags::mem_threadgroup);
      x[t] = tile[n - 1 - t];
    }"""
    kernel = Library(HEAD + text).kernel("rev")
    x = np.arange(40, dtype=np.int32)
    kernel(x, grid=1, threads=40, threadgroup_memory={"tile": 160})
    assert list(x) == list(range(39, -1, -1))
    with pytest.raises(ArgumentError, match="needs the size of its threadgroup memory tile"):
        kernel(x, grid=1, threads=40)
    with pytest.raises(LaunchError, match="is given 40000 bytes of threadgroup memory; Metal has 32768"):
        kernel(x, grid=1, threads=40, threadgroup_memory={0: 40000})


def test_too_much_threadgroup_memory_is_refused():
    text = "kernel void f(device float* x, uint t [[thread_index_in_threadgroup]]) { threadgroup float a[8000]; threadgroup float b[8000]; a[t] = b[t] = x[t]; }"
    with pytest.raises(EasError, match=r"64000|32768"):
        run(text, "f", zeros(4), grid=1, threads=4)


class Nowhere:
    """A DLPack tensor whose address is 0."""

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        capsule = np.zeros(4, np.float32).__dlpack__(**options)
        capsules.content_of(capsule)[0].data = None
        return capsule


@pytest.mark.parametrize("sanitize", [False, True])
def test_tensors_without_memory_are_refused(sanitize):
    kernel = Library(HEAD + "kernel void f(device float* x) { x[0] = 1; }", sanitize=sanitize).kernel("f")
    with pytest.raises(ArgumentError, match=r"argument x of f has shape \(4,\), but no memory"):
        kernel(Nowhere(), grid=1)


def test_grids_are_checked():
    kernel = Library(HEAD + "[[max_total_threads_per_threadgroup(64)]] kernel void f(device float* x) { x[0] = 1; }").kernel("f")
    with pytest.raises(GridError, match="has 65 threads; it may have 1 to 64"):
        kernel(zeros(1), grid=1, threads=65)
    with pytest.raises(GridError, match="needs one of grid"):
        kernel(zeros(1))
    kernel(zeros(1), grid=0)


@pytest.mark.parametrize("sanitize", [False, True])
def test_divergent_barriers_end_with_an_error(sanitize):
    text = HEAD + """kernel void f(device int* x, uint t [[thread_index_in_threadgroup]]) {
      if (t < 5)
        threadgroup_barrier(mem_flags::mem_threadgroup);
      x[t] = 1;
    }
    kernel void g(device int* x, uint t [[thread_index_in_threadgroup]]) {
      if (t < 5) threadgroup_barrier(mem_flags::mem_threadgroup);
      else threadgroup_barrier(mem_flags::mem_none);
      x[t] = 1;
    }"""
    library = Library(text, sanitize=sanitize)
    with pytest.raises(SanitizerError, match="thread 0 of threadgroup 0 waits at the barrier of line 5, thread 5 of threadgroup 0 has returned") as error:
        library.kernel("f")(zeros(8, dtype=np.int32), grid=1, threads=8)
    assert error.value.findings[0].kind == "barrier divergence"
    with pytest.raises(SanitizerError, match="waits at another one"):
        library.kernel("g")(zeros(8, dtype=np.int32), grid=1, threads=8)
    x = zeros(8, dtype=np.int32)
    library.kernel("f")(x, grid=1, threads=8, allow_exited=True)
    assert x.sum() == 8


def test_errors_tell_the_metal_line():
    text = HEAD + "kernel void f(device float* x) {\n  x[0] = undefined_name;\n}"
    with pytest.raises(MetalSourceError) as error:
        Library(text, name="mine.metal").kernel("f")
    assert error.value.line == 4
    assert "undeclared identifier 'undefined_name'" in str(error.value)
    assert "at mine.metal:4" in str(error.value)


def test_includes_and_macros(tmp_path):
    (tmp_path / "my.h").write_text("#pragma once\n#define TIMES 3\ninline int times(int x) { return x * TIMES; }\n")
    text = HEAD + '#include "my.h"\n#if __METAL_VERSION__ >= 310\nkernel void f(device int* x) { x[0] = times(x[0]); }\n#endif\n'
    x = np.array([5], np.int32)
    Library(text, include=[str(tmp_path)]).kernel("f")(x, grid=1)
    assert x[0] == 15
    assert Library(text, include=[str(tmp_path)], language="3.0").kernel_names == ()


def test_misaligned_vectors_work_as_on_apple_gpus():
    text = "kernel void f(device float* x, uint i [[thread_position_in_grid]]) { *(device float4*)(x + 1) = *(device float4*)(x + 6) + 1; }"
    x = np.arange(16, dtype=np.float32)
    run(text, "f", x, grid=1)
    assert list(x[:6]) == [0, 7, 8, 9, 10, 5]


def test_subnormals_can_be_flushed():
    text = "kernel void f(device float* x) { x[0] = x[0] * 0.5f; }"
    kernel = Library(HEAD + text).kernel("f")
    for flush, want in ((False, 2.0**-127), (True, 0.0)):
        x = np.array([2.0**-126], np.float32)
        kernel(x, grid=1, flush_subnormals=flush)
        assert x[0] == np.float32(want)


def test_many_libraries_compile_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_SIM_CACHE_DIR", str(tmp_path / "sim"))  # engine and shim are built here, too

    def one(k):
        x = zeros(1, dtype=np.int32)
        run(f"kernel void f(device int* x) {{ x[0] = {k}; }}", "f", x, grid=1)
        return int(x[0])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(8))) == list(range(8))
    assert not list((tmp_path / "sim").rglob(".tmp-*"))


def test_processes_share_a_cold_cache(tmp_path):
    code = (
        "import numpy as np; from eas.metal_sim import Library; x = np.zeros(1, np.int32);"
        "Library('#include <metal_stdlib>\\nkernel void f(device int* x) { x[0] = 7; }').kernel('f')(x, grid=1); print(x[0])"
    )
    root = Path(__file__).parents[2]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root), "EAS_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    many = [subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [p.communicate()[0].strip() for p in many] == ["7"] * 2


def test_command_line(tmp_path, capsys):
    file = tmp_path / "r_2.metal"
    file.write_text(SEED_004)
    for name, values in (("a", [1, 2]), ("b", [3, 4])):
        np.save(tmp_path / f"{name}.npy", np.array(values, np.int32))
    assert cli.main(["sim", str(file)]) == 0
    assert "r_2\n    device int* data0  [buffer 0]\n" in capsys.readouterr().out
    run_it = ["sim", str(file), "--kernel", "r_2", "--arg", "i32:1", "--arg", str(tmp_path / "a.npy"), "--arg", str(tmp_path / "b.npy"), "--grid", "1"]
    assert cli.main(run_it) == 0
    assert capsys.readouterr().out == "data0 = [11]\n"
    assert cli.main([*run_it, "--sanitize", "--out", f"0={tmp_path / 'out.npy'}"]) == 0
    assert list(np.load(tmp_path / "out.npy")) == [11]
    assert cli.main(["sim", str(file), "--kernel", "r_3"]) == 1
    assert "there is no kernel 'r_3' in r_2.metal; it has r_2\n  hint: did you mean 'r_2'?" in capsys.readouterr().err


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(toolchain, "find_compiler", lambda: None)
    assert "pip install ziglang" in toolchain.why_unavailable()
    with pytest.raises(EasError, match="needs a C\\+\\+ compiler"):
        Library(SEED_004).kernel("r_2")


def test_the_engine_compiles_for_aarch64(tmp_path):
    compiler = toolchain.compiler()
    if "clang" not in compiler.compile[1:2]:
        pytest.skip("this clang may lack the target")
    for source in sorted(toolchain.ENGINE.glob("*.cpp")):
        command = [compiler.compile[0], "clang", "--target=aarch64-linux-gnu", *toolchain.ENGINE_FLAGS, "-I", str(toolchain.INCLUDE), "-c", str(source), "-o", str(tmp_path / "x.o")]
        done = compiler.run(command)
        assert done.returncode == 0, done.stderr


def test_operators_of_vectors_have_no_loops():
    def nbytes(statements):
        body = "    v = select(v + 0.5f, v - 1.0f, v > 2.0f);\n" * statements
        return Library(f"{HEAD}kernel void chain(device float4 *x [[buffer(0)]]) {{\n    float4 v = x[0];\n{body}    x[0] = v;\n}}\n").kernel("chain").code_nbytes

    assert nbytes(144) - nbytes(16) < 128 * 128


def test_a_launch_takes_no_more_threads_than_there_are(monkeypatch):
    """As many helpers as threads but one, as there are threadgroups, and as the work is worth."""
    asked = []
    monkeypatch.setattr(native, "num_threads", lambda: 3)
    monkeypatch.setattr(native._crew, "put", lambda helper, most: asked.append(most))
    out = np.zeros(1, np.uint32)
    text = "#include <metal_stdlib>\nusing namespace metal;\nkernel void count(device atomic_uint* out [[buffer(0)]]) { atomic_fetch_add_explicit(out, 1u, memory_order_relaxed); }"
    kernel = Library(text).kernel("count")
    for groups, helpers in ((1, 0), (2, 0), (8, 0), (16, 1), (24, 2), (64, 2)):
        asked.clear()
        out[:] = 0
        kernel(out, grid=groups, threads=512)
        assert (len(asked), set(asked) <= {3}, out[0]) == (helpers, True, 512 * groups), groups


def test_threadgroup_memory_starts_as_nan():
    """Nobody can rely on zeros, in the first threadgroup or after one that has left numbers there."""
    out = np.zeros((4, 32), np.float32)
    text = """#include <metal_stdlib>
using namespace metal;
kernel void look(device float* out [[buffer(0)]], uint i [[thread_position_in_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
    threadgroup float held[32];
    out[g * 32 + i] = held[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    held[i] = 1.0f;
}"""
    Library(text).kernel("look")(out, grid=4, threads=32)
    assert np.isnan(out).all()


def test_numbers_as_constants_keep_their_bytes():
    """Of every width, at the ends and with bytes that differ."""
    kinds = {"char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32, "long": np.int64, "ulong": np.uint64}
    kernels = "\n".join(f"kernel void copy_{name}(device {name}* out [[buffer(0)]], constant {name}& n [[buffer(1)]]) {{ out[0] = n; }}" for name in kinds)
    library = Library(f"#include <metal_stdlib>\nusing namespace metal;\n{kernels}")
    for name, dtype in kinds.items():
        info, out = np.iinfo(dtype), np.zeros(1, dtype)
        kernel = library.kernel(f"copy_{name}")
        for number in (info.min, info.max, 0, 1, 0x0102030405060708 % info.max, -2 if info.min else 2):
            kernel(out, number, grid=1, threads=1)
            assert out[0] == number, name


def test_a_template_may_have_a_kernel_that_does_not_fit():
    text = (
        "template <typename T, int N> kernel void f(device T* x, uint t [[thread_index_in_threadgroup]]) { threadgroup T a[N]; a[t] = x[t] + 1; x[t] = a[t]; }\n"
        'template [[host_name("small")]] kernel void f<float, 64>(device float*, uint);\ntemplate [[host_name("large")]] kernel void f<float, 9000>(device float*, uint);\n'
    )
    library = Library(HEAD + text)
    library.check()
    x = np.zeros(4, np.float32)
    library.kernel("small")(x, grid=1, threads=4)
    assert list(x) == [1] * 4
    with pytest.raises(LaunchError, match="needs 36000 bytes of threadgroup memory; Metal has 32768"):
        library.kernel("large")(x, grid=1, threads=4)


def test_plain_literals_are_floats_in_templates_too():
    text = (
        "template <typename T> float g(T x) { static_assert(sizeof(x + 0.5) == sizeof(float) && sizeof(1e-3 * x) == sizeof(float) && sizeof(x - 0x1p-2) == 4, \"\"); return fmax(0, fmin(1, x / 6 + .5)); }\n"
        "kernel void f(device float* x, uint t [[thread_index_in_threadgroup]]) { x[t] = g(x[t]); }"
    )
    x = np.array([0, 1.5, 9, -9], np.float32)
    run(text, "f", x, grid=1, threads=4)
    assert list(x) == [0.5, 0.75, 1, 0]


def test_an_overload_that_calls_metals_function_is_no_recursion():
    text = (
        "struct S { float x; };\nS max(S a, S b) { return S{max(a.x, b.x)}; }\n"
        "kernel void f(device float* x, uint t [[thread_index_in_threadgroup]]) { x[t] = max(S{x[t]}, S{1}).x; }"
    )
    x = np.array([0, 1.5], np.float32)
    run(text, "f", x, grid=1, threads=2)
    assert list(x) == [1, 1.5]
