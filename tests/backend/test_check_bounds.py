"""`EAS_CHECK_BOUNDS=1`: the element behind the last one and the one in front of the first, in every kind of access."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import METAL

SIZE, BLOCK = 100, 64


@eas.kernel
def touch_kernel(x, places, out, first, count, KIND: eas.constexpr, BLOCK: eas.constexpr):
    """The elements of x from `first` on, `count` of them, by loads or stores of some kind."""
    i = mk.arange(0, BLOCK)
    if KIND == "load":
        mk.store(out, i, mk.load(x, first + i, i < count))
    elif KIND == "store":
        mk.store(x, first + i, mk.load(out, i), i < count)
    elif KIND == "backwards":
        mk.store(out, i, mk.load(x, first + count - 1 - i, i < count))
    elif KIND == "gather":
        mk.store(out, i, mk.load(x, first + mk.load(places, i), i < count))
    elif KIND == "scatter":
        mk.store(x, first + mk.load(places, i), mk.load(out, i), i < count)
    elif KIND == "atomic":
        mk.atomic_add(x, first + i, 1, i < count)
    elif KIND == "scalars":
        for k in range(count):
            mk.store(out, k, mk.load(x, first + k))
    else:
        for k in range(count):
            mk.store(x, first + k, mk.load(out, k))


KINDS = ("load", "store", "backwards", "gather", "scatter", "atomic", "scalars", "stored scalars")


@pytest.mark.left_out(lambda backend: backend in METAL)  # checked by the sanitizer there
@pytest.mark.left_out(lambda kind, dtype: kind == "atomic" and dtype == np.uint8)  # atomics have 32 or 64 bits
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("kind", KINDS)
def test_accesses_outside_are_refused_and_name_the_element(backend, kind, dtype, monkeypatch):
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    memory = np.zeros(SIZE + 32, dtype)
    x, places, out = memory[16 : 16 + SIZE], np.arange(BLOCK, dtype=np.int32), np.ones(BLOCK, dtype)

    def touch(first: int, count: int) -> None:
        touch_kernel(x, places, out, first, count, KIND=kind, BLOCK=BLOCK, _grid=1)

    for first, count in [(0, BLOCK), (SIZE - BLOCK, BLOCK), (SIZE - 1, 1), (0, 1), (-5, 0), (SIZE, 0)]:
        touch(first, count)
    for first, count, index in [(SIZE - BLOCK + 1, BLOCK, SIZE), (SIZE, 1, SIZE), (SIZE - 3, 4, SIZE), (-1, 1, -1), (-1, 20, -1), (SIZE - 1, 2, SIZE)]:
        with pytest.raises(eas.OutOfBounds, match=f"x.* {index} "):
            touch(first, count)
    assert not memory[:16].any()
    assert not memory[16 + SIZE :].any()


@eas.kernel
def pick_kernel(x, places, out, EXTENT: eas.constexpr, COUNT: eas.constexpr):
    mk.store(out, mk.arange(0, COUNT), mk.gather(mk.load(x, mk.arange(0, EXTENT)), mk.load(places, mk.arange(0, COUNT)), 0))


@pytest.mark.left_out(lambda backend: backend in METAL)
@pytest.mark.parametrize(("dtype", "extent"), [(np.int32, 7), (np.uint8, 200), (np.int8, 100), (np.uint8, 300), (np.uint64, 33), (np.int64, 64)])
def test_gathers_from_blocks_stay_inside_of_their_axis(backend, dtype, extent, monkeypatch):
    """The first and the last element, the one behind it and one in front, as far as the index type has them."""
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    info, x, out = np.iinfo(dtype), np.arange(extent, dtype=np.int32), np.zeros(5, np.int32)
    last = min(extent - 1, info.max)
    pick_kernel(x, np.array([0, last, 1, last, 0], dtype), out, EXTENT=extent, COUNT=5, _grid=1)
    assert out.tolist() == [0, last, 1, last, 0]
    for wrong in [n for n in (extent, extent + 1, info.max, -1, info.min) if info.min <= n <= info.max and not 0 <= n < extent]:
        with pytest.raises(eas.KernelError, match=f"gather index.* is outside of an axis of {extent} elements"):
            pick_kernel(x, np.array([0, 1, wrong, last, 0], dtype), out, EXTENT=extent, COUNT=5, _grid=1)
