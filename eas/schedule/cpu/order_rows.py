"""CPU lowerings of what puts the rows of a block in order: sort, argsort, top-k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.rows import rows
from eas.schedule.elements.elements import Index, Slot
from eas.schedule.elements.statements import moved_back, moved_last

_LEAST_LANES = 4  # words of narrower registers are sorted as pairs of them
_WORD = dtypes.i32.nbytes


def sort(p: Lowering, inst: Inst) -> None:
    axis = inst["axis"] % len(inst.operands[0].shape)
    keys, *payloads = (moved_last(p, v, axis) for v in inst.operands)
    keys, n = _in_memory(p, keys), keys.shape[-1]
    if not payloads:
        moved_back(p, inst.out, _sorted(p, keys, inst["descending"]), axis)
        return
    order = _order(p, keys, n, inst["descending"])
    for old, block in zip(inst.outs, (keys, *payloads), strict=True):
        result = Value(block.type)
        _take(p, result, block, order)
        moved_back(p, old, result, axis)


def topk(p: Lowering, inst: Inst) -> None:
    axis = inst["axis"] % len(inst.operands[0].shape)
    keys = _in_memory(p, moved_last(p, inst.operands[0], axis))
    order = _order(p, keys, inst["k"], inst["largest"])
    values, places = (Value(Type(old.dtype, order.shape)) for old in inst.outs)
    _take(p, values, keys, order)
    p.slots[places] = order
    for old, result in zip(inst.outs, (values, places), strict=True):
        moved_back(p, old, result, axis)


def _in_memory(p: Lowering, value: Value) -> Value:
    """The same block, in a slot."""
    held = Value(value.type)
    p.slots[held] = p.materialise(value)
    return held


@dataclass(eq=False)
class _Order:
    """The positions of the first `count` elements along the last axis, in their order."""

    p: Lowering
    keys: Value
    count: int
    descending: bool

    def __post_init__(self) -> None:
        p, n = self.p, self.keys.shape[-1]
        self.slot = p.new_slot((*self.keys.shape[:-1], self.count), dtypes.i32)
        lanes = max(_LEAST_LANES, p.target.vector_nbytes // dtypes.i64.nbytes)
        whole, few = (max(lanes, 1 << (extent - 1).bit_length()) for extent in (n, max(self.count, 8 * lanes)))
        size = few if 4 * few <= whole else whole  # a few of many: the best so far meet as many of the others
        words = 1 if self.keys.dtype.nbytes <= _WORD else 2
        self.work = p.new_slot((words * 2 * size if size < whole or words > 1 else size,), dtypes.i64)
        self.attrs = {"n": n, "count": self.count, "size": size, "lanes": lanes, "descending": self.descending}

    def row(self, at: tuple[Index, ...]) -> None:
        """Those of one row."""
        elements = self.p.elements()
        pointers = [elements.address(s, (*at, Index()))[0] for s in (self.p.slots[self.keys], self.slot)]
        self.p.e.inst("sort_row", [*pointers, self.work.pointer], self.attrs)


def _order(p: Lowering, keys: Value, count: int, descending: bool) -> Slot:
    order = _Order(p, keys, count, descending)
    rows(p, keys.shape, order.row)
    return order.slot


def _take(p: Lowering, result: Value, source: Value, index: Slot) -> None:
    """The rows of a block in the order that `index` says."""
    slot = p.slot_for(result)
    rows(p, slot.shape, lambda at: _take_row(p, slot, source, index, at))


def _take_row(p: Lowering, slot: Slot, source: Value, index: Slot, at: tuple[Index, ...]) -> None:
    def step(i: Value) -> None:
        elements = p.elements()
        where = elements.read(index, (*at, Index(i)))
        value = elements.at(source, (*at, Index(where)))
        p.e.inst("store", [elements.address(slot, (*at, Index(i)))[0], value])

    p.counted(slot.shape[-1], step)


def _sorted(p: Lowering, keys: Value, descending: bool) -> Value:
    """The rows in order. Equal numbers are one number, but for zeros of two signs and NaN: a row with these is sorted by positions."""
    n, word = keys.shape[-1], dtypes.i32 if keys.dtype.nbytes <= _WORD else dtypes.i64
    result = Value(keys.type)
    slot, lanes = p.slot_for(result), max(_LEAST_LANES, p.target.vector_nbytes // word.nbytes)
    size = max(lanes, 1 << (n - 1).bit_length())
    work = p.new_slot((size,), word)
    attrs = {"n": n, "size": size, "lanes": lanes, "registers": p.target.vector_registers // 2, "descending": descending}
    order = _Order(p, keys, n, descending) if keys.dtype.is_float else None

    def row(at: tuple[Index, ...]) -> None:
        elements = p.elements()
        pointers = [elements.address(s, (*at, Index()))[0] for s in (p.slots[keys], slot)]
        is_done = p.e.inst("sort_values", [*pointers, work.pointer], attrs).out
        if order is not None:
            again = p.e.region([], lambda: by_positions(order, at))
            p.e.inst("if", [is_done], {}, [p.e.region([], lambda: ()), again])

    def by_positions(order: _Order, at: tuple[Index, ...]) -> Sequence[Value]:
        order.row(at)
        _take_row(p, slot, keys, order.slot, at)
        return ()

    rows(p, slot.shape, row)
    return result
