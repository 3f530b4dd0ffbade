"""Lane IR without slots: registers are values, loops of one step are gone, arrays of vectors are declared as such."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.lib.rows import argmax_kernel, cumsum_kernel
from eas.lib.softmax import softmax_kernel
from eas.schedule.gpu.promote_registers import promote_registers
from eas.schedule.gpu.target import APPLE7
from eas.schedule.gpu_steps import schedule_metal
from tests.backend.test_shared_vectors import rows_kernel

F32, I32 = np.zeros(1024, np.float32), np.zeros(1024, np.int32)


def _lane_ir(kernel, *args, **meta):
    compiled = kernel.compile(*args, **meta)
    return verify(schedule_metal(compiled.variant(frozenset(f for f in compiled.facts if f.kind != "equals_1")).module, APPLE7))


def _text(kernel, *args, **meta):
    compiled = kernel.compile(*args, **meta)
    text = compiled.variant(frozenset(f for f in compiled.facts if f.kind != "equals_1")).msl
    return text[text.index("kernel void") :]


def test_softmax_of_a_row_reads_and_writes_each_element_once():
    """One float4 load and one float4 store per thread: the row stays in registers."""
    lowered = _lane_ir(softmax_kernel, F32, F32, 1024, BLOCK=1024)
    names = [inst.op.name for inst in walk(lowered.body)]
    assert names.count("vload") == 1
    assert names.count("vstore") == 1
    assert "scratch" not in names
    assert all(inst["lanes"] == 4 for inst in walk(lowered.body) if inst.op.name in ("vload", "vstore"))
    text = _text(softmax_kernel, F32, F32, 1024, BLOCK=1024)
    assert len(re.findall(r"\(x \+", text)) == 1
    assert len(re.findall(r"\bif \(mask\)", text)) == 1, "one predicated path for the tail"


@eas.kernel
def carried_kernel(x, y, n, K: eas.constexpr, BLOCK: eas.constexpr):
    """A vector that goes around a loop with a cut in it, and one that is made anew each time."""
    i = mk.arange(0, BLOCK)
    best = mk.full([BLOCK], 0.0, mk.f32)
    for step in range(n):
        new = mk.load(x, step * BLOCK + i)
        best = mk.maximum(best, new - mk.sum(new) / BLOCK)
    mk.store(y, i, best)


def test_vectors_go_around_loops_as_values():
    text = _text(carried_kernel, F32, F32, 4, K=1, BLOCK=256)
    assert "float4 best = float4(0.0f);" in text
    assert re.search(r"best = eas_nan_max\(best, ", text)
    assert not re.search(r"float\w* \w+\[\d+\];", text.replace("threadgroup float", "")), "no array of the thread is left"


def test_scan_writes_its_result_in_one_loop():
    text = _text(cumsum_kernel, F32, F32, 1024, BLOCK=1024)
    assert text.count("for (int r = 0; r < 4; ++r)") == 2, "prefixes of the run, then those behind other threads"
    assert text.count("threadgroup_barrier") == 1


def test_argmax_asks_the_simdgroup_twice():
    text = _text(argmax_kernel, F32, I32, 1024, LOWEST=-float("inf"), BLOCK=1024)
    assert "simd_shuffle" not in text
    assert text.count("simd_max(") == text.count("simd_min(") == 1
    assert "float4 values = " in text


@eas.kernel
def first_nonzero_kernel(x, y, BLOCK: eas.constexpr):
    def pick(a, i, b, j):
        return mk.where(a != 0, a, b), mk.where(a != 0, i, j)

    i = mk.arange(0, BLOCK)
    _, at = mk.reduce((mk.load(x, i), i), 0, pick)
    mk.store(y, 0, at)


def test_ordered_reduction_of_whole_blocks_needs_no_flags():
    text = _text(first_nonzero_kernel, F32, I32, BLOCK=1024)
    assert text.count("simd_shuffle_xor") == 2, "a loop over the bits of the lane, for two values"
    assert "r == 0 ?" in text, "the first element starts"
    assert len(re.findall(r"threadgroup \w+ \w+\[", text)) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_names_are_free_after_their_block(dtype):
    text = _text(cumsum_kernel, F32.astype(dtype), F32.astype(dtype), 4096, BLOCK=4096)
    assert set(re.findall(r"for \(int (\w+) = 0; \w+ < 16", text)) == {"r"}


def test_a_vector_that_rows_share_is_loaded_by_each_of_them():
    text = _text(rows_kernel, F32, F32, F32, 1024, BM=8, BK=128)
    assert "threadgroup_barrier" not in text
    assert "*(device const float4 *)(x + k)" in text


@eas.kernel
def column_sums_kernel(x, y, M: eas.constexpr, N: eas.constexpr):
    rows, cols = mk.arange(0, M), mk.arange(0, N)
    mk.store(y, cols, mk.sum(mk.load(x, rows[:, None] * N + cols[None, :]), axis=0))


def test_sums_of_columns_read_vectors_along_rows():
    text = _text(column_sums_kernel, F32, F32, M=32, N=32)
    assert text.count("*(device const float4 *)") == 1
    assert text.count("threadgroup_barrier") == 1


def test_a_slot_that_is_written_in_parts_stays_one():
    """Four lanes of eight, then all: what the others hold is not known as one value."""
    text = """kernel k(%p: ptr<f32>) spmd {{scheduled="lanes", threads=32}} {{
  %s = scratch {{dtype=f32, size=4}} : scratch_ptr<f32>
  %a = const 1.0 : f32
  %b = const 2.0 : f32
  {first}
  {second}
  %v = vload %s {{lanes=4}} : f32
  vstore %p, %v {{lanes=4}}
  yield
}}"""
    whole, part = "vstore %s, %a {lanes=4}", "vstore %s, %b {lanes=2}"
    for first, second, is_kept in ((whole, whole.replace("%a", "%b"), False), (whole, part, True), (part, whole, True), ("store %s, %a", whole, True)):
        module = verify(parse_module(text.format(first=first, second=second)))
        assert any(inst.op.name == "scratch" for inst in walk(promote_registers(module).body)) == is_kept, f"{first}; {second}"
