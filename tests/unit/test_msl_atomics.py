"""Atomics that a Metal target has in part: what is emitted, what is refused, and that it runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.runtime import get_runtime
from eas.schedule.gpu.target import APPLE7, APPLE8, APPLE9
from tests.backend.formats import buffer, contents, poison, sample
from tests.backend.test_atomics import UPDATES, check_update, meeting_kernel


@eas.kernel
def bound_kernel(x, low, high, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, i, i < N)
    mk.atomic_min(low, i % 3, values, i < N)
    mk.atomic_max(high, 0, mk.max(values))


@eas.kernel
def told_kernel(x, y, high):
    i = mk.arange(0, 32)
    mk.store(y, i, mk.atomic_max(high, i, mk.load(x, i)))


def arguments(dtype):
    x = np.random.default_rng(0).integers(0, 1 << 62, 300).astype(dtype) * dtype(3)
    return x, np.full(3, np.iinfo(dtype).max, dtype), np.zeros(1, dtype)


def test_apple8_has_min_and_max_of_64_bits():
    text = bound_kernel.compile(*arguments(np.uint64), 300, BLOCK=128).variant().metal_for(APPLE8).text
    assert "atomic_min_explicit((device atomic_ulong *)(low + " in text
    assert "atomic_max_explicit((device atomic_ulong *)high, " in text
    assert "atomic_fetch" not in text


@pytest.mark.skipif(not get_runtime("sim").is_available(), reason="no software Metal here")
def test_min_and_max_of_64_bits_give_the_bounds(monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")
    x, low, high = arguments(np.uint64)
    variant = bound_kernel.compile(x, low, high, 300, BLOCK=128).variant()
    variant._metal[None] = variant.metal_for(APPLE8)
    get_runtime("sim").run(variant, [x, low, high, 300], (3, 1, 1))
    assert low.tolist() == [x[k::3].min() for k in range(3)]
    assert high[0] == x.max()


@pytest.mark.skipif(not get_runtime("sim").is_available(), reason="no software Metal here")
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_all_atomics_of_64_bits_where_a_gpu_has_them(dtype):
    """Numbers with the highest bit set and not: as signed ones they are smaller, as unsigned ones larger."""
    kind, n = dtypes.from_numpy(np.dtype(dtype)), 70
    ends = [kind.min, kind.max, 0, 1, kind.max - 1, kind.max // 2 + 1]
    values, cells = ([*ends[k:], *ends[:k], *sample(kind, n - len(ends), k)] for k in (0, 2))
    start = [kind.max, kind.min, 0, 1, kind.max // 2]
    ops = list(UPDATES)
    bins, own, found = buffer(start * len(ops), kind), buffer([*cells, 1] * len(ops), kind), poison((n + 2) * len(ops), kind)
    args = (buffer(values, kind), bins, own, found, n)
    variant = meeting_kernel.compile(*args, FS=tuple(UPDATES[op][0] for op in ops)).variant()
    variant._metal[None] = variant.metal_for(APPLE9)
    get_runtime("sim").run(variant, list(args), (3, 1, 1))
    for op, *got in zip(ops, *(contents(a).reshape(len(ops), -1) for a in (bins, own, found)), strict=True):
        check_update(op, kind, values, start, cells, *got)


@pytest.mark.parametrize(
    ("kernel", "dtype", "target", "message"),
    [
        (bound_kernel, np.uint64, APPLE7, "apple7 has no 64-bit atomic_min"),
        (bound_kernel, np.int64, APPLE8, "apple8 has no 64-bit atomic_min of signed numbers"),
        (told_kernel, np.uint64, APPLE8, "apple8 has no 64-bit atomic_max that returns the old value"),
    ],
)
def test_other_atomics_of_64_bits_are_refused(kernel, dtype, target, message):
    x, low, high = arguments(dtype)
    args, meta = ((x, low, high, 300), {"BLOCK": 128}) if kernel is bound_kernel else ((x, x.copy(), low), {})
    variant = kernel.compile(*args, **meta).variant()
    with pytest.raises(eas.Unsupported) as caught:
        variant.metal_for(target)
    assert caught.value.message == message
    assert "mk.atomic_m" in str(caught.value), "the kernel line"
    assert "atomic_" in variant.metal_for(APPLE9).text


def test_a_result_that_nobody_uses_takes_no_threadgroup_memory():
    high = np.zeros(1, np.int32)

    @eas.kernel
    def count_kernel(high):
        mk.atomic_add(high, 0, mk.program_id(0))

    assert "threadgroup int" not in count_kernel.compile(high).msl


@eas.kernel
def narrow_cells_kernel(x, SIZE: eas.constexpr):
    t = mk.tid(0, 32)
    cells = mk.alloc_tg(SIZE, x.dtype)
    mk.store(cells, t, mk.load(x, t), t < SIZE)
    mk.barrier()
    mk.atomic_add(cells + t % SIZE, mk.load(x, t))
    mk.barrier()
    mk.store(x, t, mk.load(cells, t, t < SIZE), t < SIZE)


@pytest.mark.parametrize(("dtype", "size", "padded"), [(np.uint16, 7, 8), (np.uint16, 8, 8), (np.uint8, 5, 8), (np.int32, 7, 7), (np.float16, 1, 2)])
def test_narrow_cells_that_atomics_update_are_whole_words(dtype, size, padded):
    text = narrow_cells_kernel.compile(np.zeros(32, dtype), SIZE=size).msl
    assert re.search(r"threadgroup \w+ cells\[(\d+)\];", text)[1] == str(padded)
    assert re.findall(r"if \(tid == 0\) cells\[(\d+)\] = ", text) == [str(k) for k in range(size, padded)]
