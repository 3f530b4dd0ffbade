"""Atomics that a Metal target has in part: what is emitted, what is refused, and that it runs."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime
from eas.schedule.metal_target import APPLE7, APPLE8, APPLE9


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
