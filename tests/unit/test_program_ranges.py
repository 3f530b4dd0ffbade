"""The entry of a kernel runs exactly the programs that it is given, whatever part of a grid they are."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime.cpu import ErrorRecord, LoadedKernel


@eas.kernel
def count_programs(ids, width, height):
    x, y, z = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    place = (z * height + y) * width + x
    mk.store(ids, place, mk.load(ids, place) + 1 + 100 * x + 10_000 * y + 1_000_000 * z)


@pytest.mark.parametrize("grid", [(3, 4, 2), (1, 5, 3), (7, 1, 1), (1, 1, 4)], ids=str)
def test_every_range_of_programs(grid):
    width, height, depth = grid
    total = width * height * depth
    ids = np.zeros(total, np.int32)
    compiled = count_programs.compile(ids, width, height)
    variant = compiled.variant(frozenset())
    kernel, record = LoadedKernel(variant.args, variant.native), ErrorRecord()
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(kernel.address)
    z, y, x = (a.ravel() for a in np.indices((depth, height, width)))
    want = (1 + 100 * x + 10_000 * y + 1_000_000 * z).astype(np.int32)
    slots = kernel.slots([ids, width, height], grid, record)
    for begin, end in itertools.combinations_with_replacement(range(total + 1), 2):
        ids[:] = 0
        run(ctypes.addressof(slots), begin, end, None)
        inside = (np.arange(total) >= begin) & (np.arange(total) < end)
        np.testing.assert_array_equal(ids, np.where(inside, want, 0), f"{begin} to {end} of {grid}")
