"""The Metal schedule of `dot`: how simdgroups share a product, and what its text must not contain."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.lib.attention import attention_kernel
from eas.lib.matmul import matmul_kernel
from eas.schedule.gpu.fragments import dot_layouts, dot_threads, padded_row
from eas.schedule.gpu.layouts import fragment
from eas.schedule.gpu.target import APPLE7
from tests.unit.golden_kernels import matmul_whole_kernel


@eas.kernel
def dot_kernel(a, b, c, M: eas.constexpr, N: eas.constexpr, K: eas.constexpr):
    i, j, k = mk.arange(0, M), mk.arange(0, N), mk.arange(0, K)
    product = mk.dot(mk.load(a, i[:, None] * K + k[None, :]), mk.load(b, k[:, None] * N + j[None, :]))
    mk.store(c, i[:, None] * N + j[None, :], product)


def _dot_module(m, n, k, dtype=np.float32):
    a, b = np.zeros(m * k, dtype), np.zeros(k * n, dtype)
    c = np.zeros(m * n, np.float32 if np.dtype(dtype).kind == "f" else np.int32)
    return dot_kernel.compile(a, b, c, M=m, N=n, K=k).variant().module


@pytest.mark.parametrize(
    ("m", "n", "threads", "split"),
    [(8, 8, 32, (1, 1)), (16, 16, 32, (1, 1)), (32, 32, 128, (2, 2)), (64, 64, 128, (2, 2)), (128, 64, 256, (4, 2)), (128, 128, 512, (4, 4)), (16, 128, 128, (1, 4))],
)
def test_simdgroups_share_a_product_in_near_squares(m, n, threads, split):
    module = _dot_module(m, n, 16)
    assert dot_threads(module, APPLE7) == threads
    (layout,) = dot_layouts(module, APPLE7, threads).values()
    assert layout == fragment((m, n), *split, threads)


@pytest.mark.parametrize(("m", "n"), [(8, 8), (64, 64), (128, 128), (256, 128)])
def test_accumulators_stay_within_the_register_budget(m, n):
    module = _dot_module(m, n, 16)
    (layout,) = dot_layouts(module, APPLE7, dot_threads(module, APPLE7)).values()
    assert layout.num_registers <= 32


@pytest.mark.parametrize(("shape", "dtype"), [((12, 16, 16), np.float32), ((16, 4, 16), np.float32), ((16, 16, 12), np.float32), ((16, 16, 16), np.int8)])
def test_other_products_take_the_general_path(shape, dtype):
    module = _dot_module(*shape, dtype)
    assert dot_threads(module, APPLE7) == 0
    assert dot_layouts(module, APPLE7, 128) == {}


def test_rows_of_operands_start_in_different_banks():
    from eas.base import dtypes

    assert padded_row(32, dtypes.f32) == 36
    assert padded_row(32, dtypes.f16) == 40


def _matmul_text(dtype):
    a, b, c = (np.zeros((128, 128), dtype) for _ in range(3))
    return matmul_kernel.compile(a, b, c, 128, 128, 128, BM=64, BN=64, BK=32).msl


def _attention_text(dtype, causal=False):
    q = np.zeros((1, 128, 64), dtype)
    return attention_kernel.compile(q, q, q, q, 128, 128, 0.1, D=64, BM=64, BN=32, CAUSAL=causal).msl


def _loop(text, head):
    """The text of the loop that starts with `head`."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if head in line)
    indent = re.match(" *", lines[start])[0]
    end = next(i for i in range(start + 1, len(lines)) if lines[i] == indent + "}")
    return "\n".join(lines[start : end + 1])


@pytest.mark.parametrize(("dtype", "name"), [(np.float32, "float"), (np.float16, "half")])
def test_matmul_keeps_accumulators_in_matrices_and_needs_two_barriers_a_step(dtype, name):
    text = _matmul_text(dtype)
    assert "simdgroup_float8x8 acc[16];" in text
    step = _loop(text, "for (int first")
    assert step.count("threadgroup_barrier") == 2
    assert "thread_elements" not in step, "nothing moves in or out of the accumulators"
    assert f"simdgroup_{name}8x8 left_tile[4];" in step
    assert step.count("simdgroup_multiply_accumulate") == 1


@pytest.mark.parametrize("causal", [False, True])
def test_attention_keeps_scores_and_weights_in_registers(causal):
    text = _attention_text(np.float16, causal)
    step = _loop(text, "for (int first")
    assert step.count("threadgroup_barrier") == 2
    assert re.findall(r"simd_shuffle_xor\(\w+, (\d+)\)", step) == ["1", "8", "1", "8"], "rows reduce over lanes 1 and 8"
    assert "true);" in step, "keys are turned as they are loaded"
    shared = re.findall(r"threadgroup \w+ (\w+)\[", text)
    assert set(shared) == {"queries", "keys", "values", "start"}


def test_row_padding_reaches_threadgroup_memory():
    assert "threadgroup float left[2304];" in _matmul_text(np.float32)  # 64 x (32 + 4)
    assert "threadgroup half left[2560];" in _matmul_text(np.float16)  # 64 x (32 + 8)


def test_serial_schedule_has_no_matrices(monkeypatch):
    monkeypatch.setenv("EAS_NOOPT", "1")
    text = _matmul_text(np.float32)
    assert "simdgroup" not in text


def test_fragment_rows_verify_and_print():
    """The rows are IR like any other: the scheduled module is checked by their rules."""
    from eas.ir import verify
    from eas.ir.text import print_module
    from eas.schedule.gpu_steps import schedule_metal

    a = np.zeros((64, 64), np.float16)
    module = matmul_kernel.compile(a, a, a, 64, 64, 64, BM=32, BN=32, BK=16).variant().module
    scheduled = verify(schedule_metal(module, APPLE7))
    found = {inst.op.name: inst for inst in walk(scheduled.body)}
    assert {"fragments", "frag_fill", "frag_mma"} <= found.keys()
    assert found["frag_mma"]["tiles"] == (2, 2, 2)
    assert "frag_mma" in print_module(scheduled)


def test_memory_is_shared_only_where_it_is_short():
    """Keys and values of f32 lie in one place; the price is two more barriers per step."""
    roomy, tight = _attention_text(np.float16), _attention_text(np.float32)
    assert re.findall(r"threadgroup \w+ (\w+)\[", tight).count("keys_values") == 1
    assert "keys_values" not in roomy
    assert _loop(tight, "for (int first").count("threadgroup_barrier") == 4


def _whole_tiles_text(bm, bn, facts=("disjoint", "fits_32")):
    a = np.zeros((256, 256), np.float16)
    compiled = matmul_whole_kernel.compile(a, a, a.astype(np.float32), 256, 256, BM=bm, BN=bn, BK=32, TURNED=True)
    return compiled.variant(frozenset(f for f in compiled.facts if f.kind in facts)).msl


def test_unmasked_operands_are_loaded_without_threadgroup_memory():
    text = _whole_tiles_text(64, 64)
    assert "threadgroup_barrier" not in text
    assert not re.search(r"threadgroup \w+ \w+\[", text)
    step = _loop(text, "for (int first")
    assert "simdgroup_load(a_tile[i], a_corner + i * 8 * args.K + k, ulong(args.K));" in step
    assert "simdgroup_load(b_tile[j], b_corner + j * 8 * args.K + k, ulong(args.K), ulong2(0, 0), true);" in step


@pytest.mark.parametrize(
    ("bm", "bn", "staged"),
    [(32, 32, set()), (128, 64, {"right"}), (64, 128, {"left"}), (128, 128, {"left", "right"})],
)
def test_operands_that_more_than_two_simdgroups_read_are_staged(bm, bn, staged):
    text = _whole_tiles_text(bm, bn)
    assert set(re.findall(r"threadgroup half (\w+)\[", text)) == staged
    assert _loop(text, "for (int first").count("threadgroup_barrier") == (2 if staged else 0)


def test_operands_that_may_be_overwritten_are_staged():
    text = _whole_tiles_text(64, 64, facts=("fits_32",))
    assert set(re.findall(r"threadgroup half (\w+)\[", text)) == {"left", "right"}


@eas.kernel
def far_apart_kernel(a, c, row, N: eas.constexpr):
    i = mk.arange(0, N)
    left = mk.load(a, mk.cast(i, mk.i64)[:, None] * row + i[None, :])
    mk.store(c, i[:, None] * N + i[None, :], mk.dot(left, mk.full([N, N], 1.0, mk.f32)))


def test_rows_far_apart_are_counted_in_64_bits():
    a = np.zeros(256, np.float32)
    compiled = far_apart_kernel.compile(a, a, 2**20, N=16)
    texts = [compiled.variant(frozenset(f for f in compiled.facts if f.kind in kinds)).msl for kinds in (("disjoint",), ("disjoint", "fits_32"))]
    assert "simdgroup_load(a_tile[i], a + i * 8 * long(args.row) + k, ulong(long(args.row)));" in texts[0]
    assert "simdgroup_load(a_tile[i], a + i * 8 * args.row + k, ulong(args.row));" in texts[1]
