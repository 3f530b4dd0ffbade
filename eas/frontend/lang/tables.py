"""Constant tables: small NumPy arrays and Python lists as blocks, and their elements by a runtime index."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.hints import checked
from eas.frontend.lang.shape import need_blocks
from eas.frontend.values import (
    as_block,
    broadcast_to,
    common_dtype,
    constant,
    emit,
    fit,
    is_number,
    lanewise,
    plain,
    take_tables,
)

MAX_ELEMENTS = 256  # each of them is an instruction


def block_of(table: Any) -> Block:
    """A NumPy array of numbers, or a list of them, as a block of its shape."""
    numbers, dtype, shape = _contents(table)
    need_blocks("a table", shape)
    place = emit("arange", start=0, end=len(numbers), is_inner=True)
    found = _chosen(place, numbers, dtype)
    return found if shape == found.shape else emit("reshape", found, shape=shape)


def element(table: Any, index: Any) -> Any:
    """table[index] of a list, tuple or NumPy array, by runtime integers."""
    places = list(index) if isinstance(index, tuple) else [index]
    for place in places:
        if isinstance(place, Block) and (not place.type.is_value or not place.dtype.is_int):
            raise TypeMismatch(f"{place!r} as an index", hint="index with integers: mk.cast(x, mk.i32)", loc=current().here())
    if isinstance(table, (list, tuple)) and any(isinstance(x, Block) for x in table):
        return _one_of(list(table), places[0])
    numbers, dtype, shape = _contents(table)
    if len(places) != len(shape):
        raise ShapeMismatch(f"{len(places)} runtime indices of a table of shape {shape}", hint="write one index for each axis of it", loc=current().here())
    total: Any = None
    for axis, place in enumerate(places):
        step = prod(shape[axis + 1 :])
        product = plain(place) * step if is_number(place) else lanewise("mul", place, step) if step != 1 else place
        total = product if total is None else lanewise("add", total, product)
    return _chosen(as_block(total), numbers, dtype)


def _contents(table: Any) -> tuple[list[Any], dtypes.DType, tuple[int, ...]]:
    """The numbers of a table in row-major order, their dtype and its shape."""
    array = np.asarray(table)
    if not (array.dtype.kind in "biuf" and array.size and array.ndim):
        raise TypeMismatch(f"a {type(table).__name__} of {array.dtype} and shape {array.shape} as a table", hint="a table has numbers, and at least one", loc=current().here())
    if array.size > MAX_ELEMENTS:
        raise ShapeMismatch(f"a table of {array.size} elements", hint=f"tables of up to {MAX_ELEMENTS} numbers become part of the kernel: pass a larger one as an argument, and mk.load from it", loc=current().here())
    numbers = [plain(n) for n in array.ravel()]
    if isinstance(table, np.ndarray):
        return numbers, checked(dtypes.from_numpy, array.dtype), array.shape
    dtype = checked(dtypes.weak_default, numbers[0])
    for number in numbers[1:]:
        dtype = dtypes.common(dtype, checked(dtypes.weak_default, number))
    return numbers, dtype, array.shape


def _chosen(place: Block, numbers: Sequence[Any], dtype: dtypes.DType) -> Block:
    """The number at each place, by the bits of the place: half of the numbers are gone with each of them."""
    count = 1 << max(0, len(numbers) - 1).bit_length()
    padded = [*numbers, *[numbers[-1]] * (count - len(numbers))]
    bits: dict[int, Block] = {}

    def among(first: int, size: int) -> Block:
        part = padded[first : first + size]
        if all(type(n) is type(part[0]) and repr(n) == repr(part[0]) for n in part):
            return constant(part[0], dtype, place.shape)
        half = size // 2
        if half not in bits:
            bits[half] = lanewise("ne", lanewise("and", place, half), 0)
        return emit("select", bits[half], among(first + half, half), among(first, half))

    return among(0, count)


def _one_of(items: list[Any], place: Any) -> Block:
    """The traced value at a runtime index of a Python list."""
    found = as_block(items[-1])
    for number in reversed(range(len(items) - 1)):
        a, b = fit("an element", [items[number], found], common_dtype([items[number], found]))
        found = emit("select", broadcast_to(as_block(lanewise("eq", place, number)), a.shape), a, b)
    return found


take_tables(block_of)
