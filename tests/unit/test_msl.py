"""The Metal code generator: limits and refusals, names, pointers, arithmetic that must not overflow, messages."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis.indexing import Fact
from eas.codegen.msl.text import RESERVED, Scope
from eas.runtime import get_runtime
from eas.schedule.gpu.target import APPLE9

F, I32, I64 = np.zeros(64, np.float32), np.zeros(64, np.int32), np.zeros(64, np.int64)
DISJOINT = frozenset({Fact("disjoint")})
sim = pytest.mark.skipif(not get_runtime("sim").is_available(), reason="the software Metal is not available")


def body(text: str) -> str:
    return text[text.index("kernel void") :]


def refusal(kernel, *args, **meta) -> eas.Unsupported:
    compiled = kernel.compile(*args, **meta)
    with pytest.raises(eas.Unsupported) as caught:
        _ = compiled.msl
    return caught.value


# --- refusals ---


@eas.kernel
def wide_kernel(x, y, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    value = mk.cast(mk.load(x, t), mk.f64) * 1.1
    mk.store(y, t, mk.cast(value, mk.f32))


def test_f64_is_refused_with_the_kernel_line():
    error = refusal(wide_kernel, F, F, BLOCK=32)
    assert error.message == "Metal has no f64, which cast needs here"
    assert "value = mk.cast(mk.load(x, t), mk.f64) * 1.1" in str(error)
    assert "hint: compute in mk.f32" in str(error)


def test_an_f64_argument_is_refused_by_name():
    @eas.kernel
    def kernel(x, y, BLOCK: eas.constexpr):
        t = mk.tid(0, BLOCK)
        mk.store(y, t, mk.load(x, t))

    wide = np.zeros(4)
    assert "Metal has no f64, the dtype of argument x" in str(refusal(kernel, wide, wide, BLOCK=4))


@eas.kernel
def hungry_kernel(x, SIZE: eas.constexpr, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    small = mk.alloc_tg(4, mk.f32)
    tile = mk.alloc_tg(SIZE, mk.f32)
    mk.store(tile, t, mk.load(x, t))
    mk.store(small, t % 4, mk.load(tile, t))
    mk.barrier()
    mk.store(x, t, mk.load(tile, BLOCK - 1 - t) + mk.load(small, 0))


def test_too_much_threadgroup_memory_names_the_allocation():
    assert hungry_kernel.compile(F, SIZE=8188, BLOCK=32).variant().metal.threadgroup_nbytes == 32768
    error = refusal(hungry_kernel, F, SIZE=8189, BLOCK=32)
    assert error.message == "kernel hungry_kernel needs 32784 bytes of threadgroup memory, apple7 has 32768; the largest allocation is tile: 8189 x f32 = 32768 bytes"
    assert "tile = mk.alloc_tg(SIZE, mk.f32)" in str(error)
    assert "hint: use smaller blocks or a narrower dtype" in str(error)


@eas.kernel
def meeting_kernel(x, y, SHARED: eas.constexpr, READS: eas.constexpr, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    if SHARED:
        tile = mk.alloc_tg(BLOCK, mk.f32)
        mk.store(tile, t, mk.load(x, t))
    mk.store(y, t, 1.0)
    mk.barrier()
    if SHARED:
        mk.store(x, t, mk.load(tile, BLOCK - 1 - t))
    if READS:
        mk.store(x, BLOCK + t, mk.load(y, BLOCK - 1 - t))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_barriers_name_the_memory_that_threads_share(shared, reads):
    """A barrier without the flag of a memory lets others see what was there before, on a GPU if not on a CPU."""
    flags = re.findall(r"threadgroup_barrier\((.*)\)", meeting_kernel.to_msl(np.zeros(64, np.float32), np.zeros(32, np.float32), SHARED=shared, READS=reads, BLOCK=32))
    assert flags
    for flag in flags:
        assert ("mem_threadgroup" in flag) >= shared, flags
        assert ("mem_device" in flag) >= reads, flags


@eas.kernel
def counted_kernel(x, DTYPE: eas.constexpr, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    before = mk.alloc_tg(3, mk.u8)
    bins = mk.alloc_tg(BLOCK, DTYPE)
    mk.store(before, t % 3, mk.to_u8(t))
    mk.store(bins, t, mk.cast(0, DTYPE))
    mk.barrier()
    mk.atomic_add(bins, t % 4, mk.cast(1, DTYPE))
    mk.barrier()
    mk.store(x, t, mk.cast(mk.load(bins, t), mk.i32) + mk.cast(mk.load(before, t % 3), mk.i32))


@pytest.mark.parametrize("dtype", [mk.u8, mk.i16, mk.i32], ids=str)
def test_narrow_elements_of_atomics_lie_in_whole_words(dtype):
    """An atomic changes the word around them, which must be aligned, wherever the compiler puts the memory before it."""
    text = counted_kernel.to_msl(np.zeros(32, np.int32), DTYPE=dtype, BLOCK=32)
    (line,) = [line for line in text.splitlines() if "threadgroup" in line and " bins[" in line]
    assert ("alignas(4)" in line) == (dtype.bits < 32)


def test_too_many_buffers_are_refused():
    names = [f"b{i}" for i in range(31)]
    lines = "\n".join(f"    mk.store({n}, t, s)" for n in names)
    source = f"import eas\nfrom eas import mk\n@eas.kernel\ndef many({', '.join(names)}, s, BLOCK: eas.constexpr):\n    t = mk.tid(0, BLOCK)\n{lines}\n"
    import linecache

    linecache.cache["<many>"] = (len(source), None, source.splitlines(True), "<many>")
    scope: dict = {}
    exec(compile(source, "<many>", "exec"), scope)
    buffers = [np.zeros(4, np.float32) for _ in names]
    error = refusal(scope["many"], *buffers, 1.0, BLOCK=4)
    assert error.message == "kernel many binds 32 buffers, apple7 has 31 places for them"


@eas.kernel
def wide_count_kernel(x, counts, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    mk.atomic_add(counts, mk.load(x, t), 1)


def test_64_bit_atomics_are_refused_where_the_target_lacks_them():
    error = refusal(wide_count_kernel, I32, I64, BLOCK=32)
    assert error.message == "apple7 has no 64-bit atomic_add"
    assert "mk.atomic_add(counts, mk.load(x, t), 1)" in str(error)
    text = wide_count_kernel.compile(I32, I64, BLOCK=32).variant().metal_for(APPLE9).text
    assert "atomic_fetch_add_explicit((device atomic_ulong *)(counts + x[" in text


def test_inline_text_of_another_target_only_is_refused():
    @eas.kernel
    def kernel(x, BLOCK: eas.constexpr):
        t = mk.tid(0, BLOCK)
        mk.store(x, t, mk.inline(mk.f32, mk.load(x, t), numpy="a0 + 1"))

    assert refusal(kernel, F, BLOCK=32).message == "mk.inline has no msl text"


# --- names ---


def test_names_never_collide_with_metal():
    scope = Scope()
    names = [scope.claim(word) for word in ("float", "float", "half", "thread", "sum", "a.b", "2x", "", "x.3")]
    assert names == ["float_", "float_1", "half_", "thread_", "sum", "a_b", "v2x", "v", "x"]
    assert not RESERVED & set(names)


@eas.kernel
def awkward(kernel, device, float4, thread, BLOCK: eas.constexpr):
    metal = mk.tid(0, BLOCK)
    half = mk.load(kernel, metal, metal < thread)
    uint = half * half
    mk.store(device, metal, uint + mk.load(float4, metal, metal < thread), metal < thread)


@sim
def test_kernels_may_use_words_of_metal(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    awkward(x, y, x, 8, _grid=1, BLOCK=8)
    np.testing.assert_array_equal(y, x * x + x)


def test_text_is_the_same_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    texts = []
    for _ in range(2):
        kernel = eas.kernel(hungry_kernel.fn)
        texts.append(kernel.compile(F, SIZE=64, BLOCK=32).msl)
    assert texts[0] == texts[1]


# --- signature ---


@eas.kernel
def copy_kernel(x, y, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    mk.store(y, t, mk.load(x, t))


def test_const_and_restrict_only_where_they_are_true():
    compiled = copy_kernel.compile(F, F, BLOCK=32)
    general, disjoint = compiled.msl, compiled.variant(DISJOINT).msl
    assert "device float *x [[buffer(0)]]" in general
    assert "__restrict" not in general
    assert "device const float *x [[buffer(0)]]" in disjoint
    assert "device float *__restrict y [[buffer(1)]]" in disjoint


@eas.kernel
def scalars_kernel(y, flag, a, b, c, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    mk.store(y, t, mk.where(flag, mk.cast(a, mk.f32) + b, mk.cast(c, mk.f32)))


def test_scalars_lie_in_one_struct_at_natural_offsets():
    code = scalars_kernel.compile(F, True, 1, 2.0, 1 << 40, BLOCK=32).variant().metal
    assert [(name, str(dtype), offset) for name, dtype, offset in code.scalars] == [("flag", "bool", 0), ("a", "i32", 4), ("b", "f32", 8), ("c", "i64", 16)]
    assert (code.scalars_index, code.scalars_nbytes, code.log_index) == (1, 24, None)
    assert code.buffers == (("y", 0, True),)


# --- arithmetic ---


@eas.kernel
def strided_kernel(x, n, BLOCK: eas.constexpr):
    for i in range(mk.tid(0, BLOCK), n, BLOCK):
        mk.store(x, i, mk.load(x, i) * 2)


def test_signed_data_wraps_and_indices_stay_plain():
    text = body(strided_kernel.compile(I32, 64, BLOCK=32).msl)
    assert "x[i] = int(uint(x[i]) * 2u);" in text
    assert "i = addsat(i, 32)" in text  # the last step of a loop up to INT_MAX


@eas.kernel
def far_kernel(x, y, rows, BLOCK: eas.constexpr):
    base = x + mk.program_id(0) * rows
    mk.store(y, mk.tid(0, BLOCK), mk.load(base + mk.tid(0, BLOCK) * rows))


def test_offsets_are_added_in_32_bits_only_where_they_fit():
    compiled = far_kernel.compile(F, F, 100, BLOCK=32)
    general, small = (body(compiled.variant(f).msl) for f in (frozenset(), frozenset({Fact("fits_32")})))
    assert re.search(r"\(x \+ [^]]*\)\[", general)
    assert not re.search(r"\(x \+ [^]]*\)\[", small)


@pytest.mark.parametrize(("mode", "spelled"), [("safe", "precise::exp("), ("relaxed", " exp("), ("fast", "fast::exp(")])
def test_functions_follow_the_math_mode(mode, spelled):
    @eas.kernel(math_mode=mode)
    def kernel(x, BLOCK: eas.constexpr):
        t = mk.tid(0, BLOCK)
        mk.store(x, t, mk.exp(mk.load(x, t)))

    code = kernel.compile(F, BLOCK=32).variant().metal
    assert spelled in code.text
    assert code.math_mode == mode
    assert "#pragma METAL fp contract(off)" in code.text


# --- messages ---


@eas.kernel
def talking_kernel(x, n, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    value = mk.load(x, t, t < n)
    mk.device_print("values", value, mk.program_id(0))
    mk.device_assert(value >= 0, "negative")


@sim
def test_messages_of_threads_are_those_of_the_interpreter(monkeypatch, capfd):
    x = np.arange(4, dtype=np.float32)
    lines = []
    for backend in ("interp", "sim"):
        monkeypatch.setenv("EAS_BACKEND", backend)
        talking_kernel(x, 4, _grid=2, BLOCK=4)
        x[2] = -1.0
        with pytest.raises(eas.base.errors.DeviceAssertion) as caught:
            talking_kernel(x, 4, _grid=1, BLOCK=4)
        x[2] = 2.0
        lines.append((capfd.readouterr().out, str(caught.value)))
    assert lines[0][1] == lines[1][1]
    # The interpreter stops at the assertion; on Metal what was printed is there as well.
    assert lines[0][0].splitlines()[:2] == lines[1][0].splitlines()[:2]
    assert "[talking_kernel pid=(1,0,0)] values [0. 1. 2. 3.] 1" in lines[1][0]


def test_debug_shows_the_metal_text(monkeypatch, capfd):
    monkeypatch.setenv("EAS_DEBUG", "5")
    _ = eas.kernel(copy_kernel.fn).compile(F, F, BLOCK=32).msl
    err = capfd.readouterr().err
    assert "*** MSL of copy_kernel, relies on: nothing" in err
    assert "*** scheduled IR of copy_kernel" in err
    assert "kernel void copy_kernel(" in err
