"""One kernel for each scheduled op that random kernels rarely have: run after every step, as in `test_steps_random`."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from eas.runtime.interp import execute
from eas.schedule.cpu_steps import schedule
from eas.schedule.gpu.target import DEFAULT
from eas.schedule.gpu_steps import schedule_metal
from eas.schedule.target import AVX2, AVX512
from tests.fuzz.test_steps_random import buffers, check_steps, compiled, without_aliases

PRODUCT = """
def kernel(a, b, c, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    cols = mk.program_id(1) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.float32)
    for k in range(0, K, BK):
        inner = k + mk.arange(0, BK)
        acc = mk.dot(mk.load(a + rows[:, None] * K + inner[None, :]), mk.load(b + inner[:, None] * N + cols[None, :]), acc)
    mk.store(c + rows[:, None] * N + cols[None, :], acc)
"""
TWO_PRODUCTS = """
def kernel(a, b, c, N: eas.constexpr, K: eas.constexpr):
    i, j, k = mk.arange(0, N), mk.arange(0, N), mk.arange(0, K)
    acc = mk.load(c + i[:, None] * N + j[None, :])
    for _ in mk.static_range(2):
        acc = mk.dot(mk.load(a + i[:, None] * K + k[None, :]), mk.load(b + k[:, None] * N + j[None, :]), acc) + 1
    mk.store(c + i[:, None] * N + j[None, :], acc)
"""
TRANSPOSE = """
def kernel(x, y, M, N, B: eas.constexpr):
    r = mk.program_id(0) * B + mk.arange(0, B)
    c = mk.program_id(1) * B + mk.arange(0, B)
    on = (r[:, None] < M) & (c[None, :] < N)
    mk.store(y + c[None, :] * M + r[:, None], mk.load(x + r[:, None] * N + c[None, :], mask=on), mask=on)
"""
TURNED = """
def kernel(x, y, M, N, B: eas.constexpr):
    r = mk.program_id(0) * B + mk.arange(0, B)
    c = mk.program_id(1) * B + mk.arange(0, B)
    mk.store(y + c[:, None] * M + r[None, :], mk.trans(mk.load(x + r[:, None] * N + c[None, :])) * 2)
"""
LARGEST = """
def kernel(x, y, n, B: eas.constexpr):
    i, row = mk.arange(0, B), mk.program_id(0)
    mk.store(y + row, mk.argmax(mk.load(x + row * n + i, mask=i < n, other=-100), axis=0))
"""
QUOTIENTS = """
def kernel(x, t, y, n, B: eas.constexpr):
    i = mk.program_id(0) * B + mk.arange(0, B)
    mk.store(y + i, mk.load(x + i // 4, mask=i < n) + mk.load(t + i % 4, mask=i < n), mask=i < n)
"""
FILTERS = """
def kernel(x, t, y, w, taps, B: eas.constexpr):
    o = mk.program_id(1)
    c = mk.program_id(0) * B + mk.arange(0, B)
    acc = mk.zeros([B], mk.float32)
    for k in range(taps):
        for j in range(3):
            acc += mk.load(x + k * w + c + j - 1, mask=(c + j >= 1) & (c + j <= w), other=0) * mk.load(t + (o * taps + k) * 3 + j)
    mk.store(y + o * w + c, acc, mask=c < w)
"""


def floats(n, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, n).astype(np.float32)


def rows_with_nan():
    x = floats(3000)
    x[1007] = np.nan
    return x


def on_cpu(target):
    return lambda module: schedule(module, target)


def on_metal(target):
    return lambda module: schedule_metal(module, target)


CASES = {
    "panels": (PRODUCT, [floats(4096), floats(4096, 1), floats(4096), 64, 64, 64], {"BM": 32, "BN": 32, "BK": 16}, (2, 2, 1), on_cpu(AVX2), ("contraction", "contract_panels")),
    "direct operands": (PRODUCT, [floats(4096), floats(4096, 1), floats(4096), 64, 64, 64], {"BM": 32, "BN": 32, "BK": 16}, (2, 2, 1), on_metal(DEFAULT), ("dot_direct", "frag_mma")),
    "unknown map": (TWO_PRODUCTS, [floats(512), floats(512, 1), floats(1024)], {"N": 32, "K": 16}, (1, 1, 1), on_metal(replace(DEFAULT, fragment_map=None)), ("frag_load", "frag_store")),
    "transpose": (TRANSPOSE, [floats(3500), floats(3500), 50, 70], {"B": 16}, (4, 5, 1), on_cpu(AVX2), ("vtranspose",)),
    "turned tile": (TURNED, [floats(4096), floats(4096), 64, 64], {"B": 32}, (2, 2, 1), on_metal(DEFAULT), ("vgather",)),
    "largest": (LARGEST, [rows_with_nan(), np.zeros(3, np.int32), 1000], {"B": 1024}, (3, 1, 1), on_cpu(AVX512), ("find",)),
    "quotients": (QUOTIENTS, [floats(250), floats(4), floats(1000), 1000], {"B": 256}, (4, 1, 1), on_cpu(AVX2), ("near_load", "table_load")),
    "filters": (FILTERS, [floats(500), floats(105), floats(700), 100, 5], {"B": 128}, (1, 7, 1), on_cpu(AVX2), ("opaque", "is_joined")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_step_changes_what_a_kernel_with_rare_ops_does(name, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setenv("EAS_VERIFY", "0")  # the interpreter verifies what it runs
    source, args, meta, grid, run_schedule, ops = CASES[name]

    def run(module):
        given = copy.deepcopy(args)
        execute(module, given, grid)
        return buffers(given)

    met = check_steps(without_aliases(compiled(source, args, meta)), run_schedule, run)
    assert set(ops) <= met
