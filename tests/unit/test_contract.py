"""The register blocks of a matrix product for other CPUs than this one."""

from __future__ import annotations

import numpy as np
import pytest

from eas.codegen.llvm.generate import generate
from eas.codegen.llvm.matrix.contract import _rest, _row_blocks
from eas.lib.matmul import matmul_kernel
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON


@pytest.mark.parametrize(("target", "vector"), [(AVX2, "<8 x float>"), (AVX512, "<16 x float>"), (NEON, "<4 x float>")])
def test_fma_has_the_width_of_the_target(target, vector):
    a = np.zeros((64, 64), np.float32)
    compiled = matmul_kernel.compile(a, a, a, 64, 64, 64, BM=64, BN=64, BK=64)
    text = generate(schedule(compiled.variant().module, target), target).llvm
    accumulators = target.vector_registers // 8 * 6
    assert text.count(f"= phi {vector}") >= accumulators
    assert "call void @panels_f32_f32_64_64" in text


def test_row_blocks_cover_all_rows_and_leave_no_low_block():
    for m in range(1, 200):
        blocks = _row_blocks(m)
        assert sum(height * repeats for height, repeats in blocks) == m
        assert m < 6 or all(3 <= height <= 6 for height, _ in blocks)


def test_rest_covers_all_columns():
    for n in range(100):
        assert sum(lanes * vectors for lanes, vectors in _rest(n, 8)) == n
