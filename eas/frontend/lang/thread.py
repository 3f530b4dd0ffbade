"""What only thread kernels have: ids, threadgroup memory, barriers, simdgroup functions and matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from eas.base import dtypes
from eas.base.errors import ModeMismatch, ShapeMismatch
from eas.base.types import Space, Type
from eas.frontend.block import Block, Operand
from eas.frontend.builder import Builder, current
from eas.frontend.lang.index import bounds, grid_axis
from eas.frontend.lang.math import described
from eas.frontend.lang.memory import address, shift
from eas.frontend.values import (
    as_block,
    emit,
    emit_inst,
    lanewise,
    static_dtype,
    static_int,
    to_bool,
)
from eas.ir import Value

MAX_THREADS = 1024
_allocations: WeakKeyDictionary[Builder, int] = WeakKeyDictionary()


def _thread(name: str) -> Builder:
    builder = current(f"mk.{name}")
    builder.need_mode("thread", f"mk.{name}")
    return builder


def tid(start: int, end: int | None = None, axis: int = 0) -> Block:
    """start + this thread's position along an axis of its threadgroup, which has end - start threads there (1 to 1024 in all); tid(n) counts from 0; i32."""
    builder = _thread("tid")
    lo, hi = bounds("tid", start, end)
    number, count = grid_axis("tid", axis), hi - lo
    known = builder.threads_along.get(number, count)
    said = f"tid({lo}, {hi}{f', axis={number}' if number else ''})"
    if known != count:
        along = f" along axis {number}" if number else ""
        raise ModeMismatch(
            f"{said} asks for {count} threads per threadgroup{along}, an earlier mk.tid for {known}",
            hint=f"tid(start, end) counts from {lo}: for axis {lo} write mk.tid(0, {hi}, axis={lo})" if lo in (1, 2) else "use one length for all mk.tid of an axis",
            loc=builder.here(),
        )
    total = prod({**builder.threads_along, number: count}.values())
    if count < 1 or total > MAX_THREADS:
        raise ShapeMismatch(
            f"{said} asks for {count if count < 1 else total} threads per threadgroup",
            hint="tid(n) counts n threads: mk.tid(0, BLOCK) are those of axis 0, mk.tid(0, 8, axis=1) those of axis 1" if count < 1 and end is None else f"use 1 to {MAX_THREADS} threads, counted over all axes",
            loc=builder.here(),
        )
    if builder.has_private and total != builder.threads:
        raise ModeMismatch(
            f"{said} changes the number of threads after mk.local, which keeps memory for each of them",
            hint="call mk.tid for every axis before mk.local",
            loc=builder.here(),
        )
    builder.threads_along[number], builder.threads = count, total
    return emit("tid", start=lo, end=hi, **({"axis": number} if number else {}))


def local_id(axis: int = 0) -> Block:
    """This thread's position in its threadgroup along axis 0, 1 or 2; i32."""
    _thread("local_id")
    return emit("local_id", axis=grid_axis("local_id", axis))


def lane_id() -> Block:
    """This thread's position in its simdgroup, 0 to 31; i32."""
    _thread("lane_id")
    return emit("lane_id")


def sg_id() -> Block:
    """The index of this thread's simdgroup in its threadgroup; i32."""
    _thread("sg_id")
    return emit("sg_id")


def alloc_tg(size: int | Sequence[int], dtype: Any = dtypes.f32) -> Block:
    """Threadgroup memory of `size` elements, or of a shape such as (16, 17) for x[i, j], uninitialised; f32 unless told."""
    builder = _thread("alloc_tg")
    shape = [static_int(n, "the size of alloc_tg") for n in (size if isinstance(size, tuple | list) else (size,))]
    return Array(_allocate(builder, prod(shape), dtype), shape)


def _allocate(builder: Builder, count: int, dtype: Any) -> Value:
    number = _allocations[builder] = _allocations.get(builder, -1) + 1
    return emit("alloc_tg", size=count, dtype=static_dtype(dtype), name=f"tg{number}").value


class Array(Block):
    """Memory that the kernel has made, whose shape is known: x[i, j] is an element of it."""

    __slots__ = ("extents",)

    def __init__(self, value: Value, extents: Sequence[int]) -> None:
        super().__init__(value)
        self.extents = tuple(extents)

    @property
    def row_sizes(self) -> list[Any]:
        return [prod(self.extents[axis + 1 :]) for axis in range(len(self.extents))]


def local(size: int | Sequence[int], dtype: Any = dtypes.f32) -> Block:
    """Memory of this thread alone: an array of `size` elements, or of a shape, uninitialised; f32 unless told. x[i], x[i, j] = v, mk.load and mk.store take it. It lies in threadgroup memory, of which Metal has 32 KiB."""
    builder = _thread("local")
    if not builder.threads:
        raise ModeMismatch("mk.local keeps memory for each thread, and their number is not known yet", hint="call mk.tid(0, BLOCK) before it", loc=builder.here())
    builder.has_private = True
    shape = [static_int(n, "the size of local") for n in (size if isinstance(size, tuple | list) else (size,))]
    count = prod(shape) | 1  # odd: neighbouring threads then meet in no bank of threadgroup memory
    base = Block(_allocate(builder, count * builder.threads, dtype))
    number = emit("local_id", axis=0, whole=True)
    return Array(shift("local", base, lanewise("mul", number, count)).value, shape)


def barrier() -> None:
    """All threads of the threadgroup meet here; what they wrote before is seen after."""
    _thread("barrier")
    emit_inst("barrier")


def _simd(name: str) -> Callable[[Operand], Block]:
    def function(x: Operand) -> Block:
        _thread(name)
        return emit(name, as_block(x))

    made: Callable[[Operand], Block] = described(function, name, name)
    return made


def _shuffle(name: str) -> Callable[[Operand, Operand], Block]:
    def function(x: Operand, n: Operand) -> Block:
        _thread(name)
        return emit(name, as_block(x), as_block(n))

    made: Callable[[Operand, Operand], Block] = described(function, name, name)
    return made


def _vote(name: str) -> Callable[[Operand], Block]:
    def function(x: Operand) -> Block:
        _thread(name)
        return emit(name, to_bool(x))

    made: Callable[[Operand], Block] = described(function, name, name)
    return made


simd_sum, simd_product = _simd("simd_sum"), _simd("simd_product")
simd_max, simd_min = _simd("simd_max"), _simd("simd_min")
simd_and, simd_or, simd_xor = _simd("simd_and"), _simd("simd_or"), _simd("simd_xor")
simd_prefix_inclusive_sum = _simd("simd_prefix_inclusive_sum")
simd_prefix_exclusive_sum = _simd("simd_prefix_exclusive_sum")
simd_prefix_inclusive_product = _simd("simd_prefix_inclusive_product")
simd_prefix_exclusive_product = _simd("simd_prefix_exclusive_product")
simd_shuffle, simd_broadcast = _shuffle("simd_shuffle"), _shuffle("simd_broadcast")
simd_shuffle_xor = _shuffle("simd_shuffle_xor")
simd_shuffle_up, simd_shuffle_down = _shuffle("simd_shuffle_up"), _shuffle("simd_shuffle_down")
simd_all, simd_any, simd_ballot = _vote("simd_all"), _vote("simd_any"), _vote("simd_ballot")


def mma_zero(dtype: Any = dtypes.f32) -> Block:
    """An 8x8 simdgroup matrix of zeros; f32 unless told."""
    _thread("mma_zero")
    return emit("mma_zero", type=Type(static_dtype(dtype), (8, 8), Space.SIMDGROUP))


def mma(
    a_buf: Block,
    a_base: Operand,
    a_stride: Operand,
    b_buf: Block,
    b_base: Operand,
    b_stride: Operand,
    acc: Block,
) -> Block:
    """acc + A @ B of two 8x8 matrices in memory, whose rows start at base + r * stride (in elements)."""
    _thread("mma")
    a, b = address("mma", a_buf, a_base), address("mma", b_buf, b_base)
    return emit("mma", a, as_block(a_stride), b, as_block(b_stride), as_block(acc))


def mma_store(buf: Block, base: Operand, stride: Operand, frag: Block) -> None:
    """Write an 8x8 matrix to memory, row r at base + r * stride (in elements), rounded to the buffer's dtype."""
    _thread("mma_store")
    emit_inst("mma_store", address("mma_store", buf, base), as_block(stride), as_block(frag))
