"""Names of users in Metal text: whatever Metal's headers declare under them, the text compiles and means the same."""

from __future__ import annotations

import re
from types import FunctionType

import numpy as np
import pytest

import eas
from eas import mk
from eas.codegen.msl.text import RESERVED, Scope, kernel_name
from eas.metal_sim import toolchain
from eas.metal_sim.library import Library

# Types, functions, macros, namespaces, attributes and constants of Metal and of C++; ours, too.
MACROS = """
M_PI_F M_E_F M_LOG2E_F M_PI_2_F M_PI_H M_SQRT2_F MAXFLOAT MAXHALF HUGE_VALF HUGE_VAL INFINITY NAN FLT_EPSILON FLT_MAX FLT_MIN FLT_DIG FLT_MANT_DIG FLT_RADIX FLT_MAX_EXP FLT_MAX_10_EXP HALF_MAX
HALF_EPSILON HALF_MIN SHRT_MAX SHRT_MIN USHRT_MAX INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN ULONG_MAX CHAR_BIT CHAR_MAX SCHAR_MIN UCHAR_MAX METAL_FUNC METAL_CONST METAL_ASM METAL_VALID_RENDER_TARGET
METAL_VERSION NULL TARGET_OS_OSX TRUE FALSE FP_FAST_FMAF FP_ILOGB0 FP_ILOGBNAN BFLT_MAX BFLT_EPSILON DBL_MAX
"""
TYPES = """
bool char uchar short ushort int uint long ulong half float bfloat double size_t ptrdiff_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t uintptr_t wchar_t char16_t
bool2 char3 uchar4 short2 ushort3 int4 uint2 long3 ulong4 half2 float4 bfloat3 float2x2 float3x4 half4x4 packed_char2 packed_uchar4 packed_short3 packed_int2 packed_uint3 packed_half4 packed_float3
packed_bfloat2 packed_long4 vec matrix array array_ref span atomic atomic_int atomic_uint atomic_bool atomic_float atomic_ulong simd_vote quad_vote simdgroup_matrix simdgroup_float8x8 simdgroup_half8x8
texture1d texture2d texture2d_array texture3d texturecube texture_buffer depth2d depthcube sampler ray intersection_query visible_function_table acceleration_structure command_buffer render_command imageblock
thread_scope memory_order mem_flags access coord filter address compare_func numeric_limits integral_constant true_type is_same is_signed enable_if conditional make_signed remove_const tensor dextents extents
rgba8unorm r8unorm bias level gradient2d min_lod_clamp component patch_control_point object_data mesh mesh_grid_properties primitive_topology
"""
FUNCTIONS = """
abs absdiff addsat clamp clz ctz extract_bits hadd insert_bits mad24 madhi madsat max max3 median3 min min3 mul24 mulhi popcount reverse_bits rhadd rotate subsat acos acosh asin asinh atan atan2 atanh ceil
copysign cos cosh cospi divide exp exp10 exp2 fabs fdim floor fma fmax fmax3 fmedian3 fmin fmod fract frexp ilogb ldexp log log10 log2 modf nextafter pow powr rint round rsqrt sin sincos sinh sinpi sqrt tan
tanh tanpi trunc isfinite isinf isnan isnormal signbit select any all mix saturate sign smoothstep step cross distance dot faceforward length normalize reflect refract as_type precise fast transpose determinant
simd_sum simd_max simd_shuffle simd_shuffle_down simd_ballot simd_broadcast simd_is_first simd_prefix_inclusive_sum quad_sum quad_shuffle simdgroup_barrier threadgroup_barrier simdgroup_load simdgroup_store
simdgroup_multiply_accumulate make_filled_simdgroup_matrix atomic_load_explicit atomic_fetch_add_explicit atomic_thread_fence atomic_compare_exchange_weak_explicit unpack_unorm4x8_to_float pack_float_to_snorm4x8
dfdx fwidth discard_fragment get_num_samples os_log_default memory_order_relaxed erf erfc expm1 log1p cbrt hypot lgamma sigmoid philox elements masked_load nan_max eas_erf eas_philox wrapping_neg y0 j1 signgam
"""
WORDS = """
kernel vertex fragment device constant thread threadgroup ray_data coherent constexpr template typename namespace operator new delete this union struct enum signed unsigned register volatile mutable goto auto
static inline using virtual void switch case default do const_cast alignas sizeof typeid export extern friend explicit public metal raytracing mpp air simd std gid groups tid lane sgid args log thread_position_in_grid
threads_per_grid buffer stage_in main unix linux asm xor and_eq compl half_t f16 __metal__ _Float16 __half x__y a_
"""
needs_sim = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))


def _names():
    import keyword

    every = dict.fromkeys(f"{MACROS} {TYPES} {FUNCTIONS} {WORDS}".split())
    return [n for n in every if not keyword.iskeyword(n)]


NAMES = _names()


def _kernel(parameters, lines):
    space = {"mk": mk}
    exec(compile(f"def probe({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines), "<names>", "exec"), space)
    assert isinstance(space["probe"], FunctionType)
    return eas.Kernel(space["probe"])


@needs_sim
def test_every_name_may_be_a_variable_and_a_scalar(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_VERIFY", "0")
    lines = ["total_ = mk.load(x_buffer)", *(f"{n} = mk.load(x_buffer + {i}) + {n}" for i, n in enumerate(NAMES))]
    lines += [f"mk.store(x_buffer + {i}, {n} * {n})" for i, n in enumerate(NAMES)]
    kernel = _kernel(["x_buffer", *NAMES], lines)
    x = np.ones(len(NAMES), np.float32)
    kernel(x, *range(len(NAMES)), _grid=1)
    assert np.array_equal(x, (1.0 + np.arange(len(NAMES))) ** 2)


@needs_sim
def test_every_name_may_be_a_buffer(monkeypatch):
    monkeypatch.setenv("EAS_VERIFY", "0")
    texts = []
    for first in range(0, len(NAMES), 24):
        names = NAMES[first : first + 24]
        compiled = _kernel(names, [f"mk.store({n}, mk.load({n}) + 1)" for n in names]).compile(*(np.zeros(1, np.float32) for _ in names))
        texts.append(compiled.msl[compiled.msl.index("[[max_total") :].replace("void probe(", f"void probe{first}("))
    library = Library("#include <metal_stdlib>\nusing namespace metal;\n" + "\n".join(texts))
    assert library.kernel("probe0").max_total_threads >= 1


@needs_sim
def test_every_name_may_be_a_kernel():
    names = [kernel_name(n) for n in NAMES]
    spelt = dict.fromkeys(names)
    assert len(spelt) >= len(NAMES) - 3  # `a_` is `a`, ...
    text = "#include <metal_stdlib>\nusing namespace metal;\n" + "".join(f"struct {n}_args {{ int x; }};\nkernel void {n}(device int *x [[buffer(0)]]) {{ x[0] = 1; }}\n" for n in spelt)
    assert len(Library(text).kernel_names) == len(spelt)
    assert Library(text).kernel(names[0]).name == names[0]


def test_kernels_keep_their_names_for_users():
    kernel = _kernel(["x"], ["mk.store(x, 1.0)"])
    kernel.fn.__name__ = "packed_float3"
    compiled = eas.Kernel(kernel.fn).compile(np.zeros(1, np.float32))
    assert compiled.name == "packed_float3"
    assert "kernel void packed_float3_kernel(" in compiled.msl


@pytest.mark.parametrize("name", ["add", "x", "n_cols", "softmax_kernel", "thread_sum_kernel", "N", "acc_1"])
def test_plain_names_stay(name):
    assert kernel_name(name) == name
    assert Scope().claim(name) == name


@pytest.mark.parametrize("name", ["FLT_MAX_2", "PACKED", "packed_thing", "eas_mine", "int24_t", "float9x9", "my_t", "simdgroup_future", "atomic_half"])
def test_names_that_may_come_are_avoided(name):
    scope = Scope()
    made = [scope.claim(name) for _ in range(3)]
    assert len(set(made)) == 3
    assert all(m not in RESERVED and not re.fullmatch(r"eas_\w*[^_]|[A-Z0-9_]*[A-Z0-9]|\w+_t|packed_\w*[a-z]", m) for m in made)


def test_no_name_has_two_underscores():
    scope = Scope()
    for name in ("a__b", "__x", "_Float16", "a___"):
        assert "__" not in scope.claim(name)


def test_helpers_carry_our_prefix():
    @eas.kernel
    def uses_many(x, erf, N, BLOCK: eas.constexpr):
        i = mk.arange(0, BLOCK)
        v = mk.load(x, i, i < N)
        expm1 = mk.expm1(v) + mk.erf(v) + erf
        mk.store(x, i, mk.maximum(expm1, v // 3.0), i < N)

    text = uses_many.compile(np.zeros(8, np.float32), 1.0, 8, BLOCK=8).msl
    defined = re.findall(r"^inline [^(\n]*?(\w+)\(", text, re.M)
    assert len(defined) >= 4
    assert all(name.startswith("eas_") for name in defined)
    assert "args.erf" in text
