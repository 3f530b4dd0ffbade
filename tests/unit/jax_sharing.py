"""What JAX and eas share; test_dlpack_stress.py runs this file in a process of its own."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import eas
from eas import mk


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "u8", "bool", "f8e4m3"])
def test_jax_shares_pointers_both_ways(dtype):
    x = eas.ones(64, dtype=dtype)
    place = x._array.ctypes.data
    there = jax.dlpack.from_dlpack(x)
    assert there.unsafe_buffer_pointer() == place
    back = eas.from_dlpack(there)
    assert (back._array.ctypes.data, back.dtype) == (place, x.dtype)
    del x, there
    assert back.to("f32").tolist() == [1.0] * 64


def test_arrays_of_jax_are_read_only_here():
    """JAX never changes its arrays, and neither may a kernel."""
    ours = jax.numpy.arange(100.0).reshape(10, 10)
    shared = eas.from_dlpack(ours)
    assert shared._array.ctypes.data == ours.unsafe_buffer_pointer()
    assert not shared.numpy().flags.writeable
    for target in (ours, shared):
        with pytest.raises(eas.LostWrite, match="'y', which is read-only"):
            fill(target, BLOCK=64)
    # JAX asks for a capsule without flags, which cannot say that memory is read-only.
    frozen = np.ones(8, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="readonly"):
        jax.dlpack.from_dlpack(eas.from_numpy(frozen))


@eas.kernel
def fill(y, BLOCK: eas.constexpr):
    mk.store(y, mk.arange(0, BLOCK), 1.0)
