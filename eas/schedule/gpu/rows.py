"""Sorting, histograms and prints on threads, all through threadgroup memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from eas.analysis import mask_of
from eas.base import dtypes
from eas.base.types import Shape, Type
from eas.ir import Inst, Value
from eas.schedule.elements.elements import I32, Index
from eas.schedule.elements.members import mask_at
from eas.schedule.elements.statements import moved_back, moved_last
from eas.schedule.gpu.lanes import LaneElements, Lanes, LaneSlot
from eas.schedule.gpu.layouts import Layout, bits_of


def each_element(p: Lanes, layout: Layout, body: Callable[[LaneElements, tuple[Index, ...]], None], *, once: bool) -> None:
    """body at every element that exists; `once`: in one of the threads that share it."""
    parts = p.thread_parts(layout)
    owner = p.owner(layout) if once else None

    def step(register: Value | None) -> Sequence[Value]:
        coordinates = p.coordinates(layout, parts, register)
        condition, inside = owner, p.inside(layout, coordinates)
        if inside is not None:
            condition = inside if condition is None else p.e.emit("and", condition, inside)
        index = tuple(Index(c, axis=axis) for axis, c in enumerate(coordinates))
        if condition is None:
            body(p.elements(), index)
        else:
            p.when(condition, lambda: body(p.elements(), index))
        return ()

    p.over_registers(layout.num_registers, (), step)


def shared_view(p: Lanes, pointer: Value, shape: Shape, row: int = 0) -> LaneSlot:
    """A slot over threadgroup memory (or, of one thread, its array) that is already there."""
    return LaneSlot(pointer, shape, p.new_key(pointer), p.default_layout(shape), False, row)


def work_memory(p: Lanes, count: int, dtype: dtypes.DType, hint: str) -> Value:
    return p.array(count, dtype, hint) if p.threads == 1 else p.memory((count,), dtype, hint)


def uniform_for(p: Lanes, start: Value, end: Value, body: Callable[[Value], None]) -> None:
    """A loop that all threads go through together, with barriers where its body needs them."""

    def inside(i: Value) -> Sequence[Value]:
        body(i)
        return ()

    region = p.e.region([I32], inside, ["stage"])
    inst = p.e.inst("for", [start, end, p.e.const(1)], {}, [region])
    p.e.blocks[-1][-1] = inst.with_attrs(uniform=True)


def spread(p: Lanes, count: int, body: Callable[[Value], None]) -> None:
    """body(i) for i < count, dealt out to the threads."""
    rounds = -(-count // p.threads)

    def step(register: Value | None) -> Sequence[Value]:
        e = p.e
        i = p.tid if register is None else e.add(e.mul(register, p.threads), p.tid)
        if count % p.threads == 0:
            body(i)
        else:
            p.when(e.emit("lt", i, e.const(count)), lambda: body(i))
        return ()

    p.over_registers(rounds, (), step)


# --- sorting --------------------------------------------------------------------------------------


class _Sorted:
    """Rows of keys in order, with where each came from; a bitonic network over power-of-two rows."""

    def __init__(self, p: Lanes, keys: Value, descending: bool) -> None:
        self.p, self.e, self.descending = p, p.e, descending
        self.shape = keys.shape
        self.n = self.shape[-1]
        self.rows = math.prod(self.shape[:-1])
        self.bits = bits_of(self.n)
        self.padded = 1 << self.bits
        self.keys = work_memory(p, self.rows * self.padded, keys.dtype, "keys")
        self.index = work_memory(p, self.rows * self.padded, dtypes.i32, "index")
        self._fill(keys)
        uniform_for(p, self.e.const(1), self.e.const(self.bits + 1), self._merge_level)

    def slots(self) -> tuple[LaneSlot, LaneSlot]:
        row = self.padded if self.padded != self.n else 0
        return shared_view(self.p, self.keys, self.shape, row), shared_view(self.p, self.index, self.shape, row)

    def _fill(self, keys: Value) -> None:
        p, e = self.p, self.e
        target = shared_view(p, self.keys, self.shape, self.padded)

        def put(elements: LaneElements, index: tuple[Index, ...]) -> None:
            value = elements.at(keys, index)
            e.inst("store", [elements.address(target, index)[0], value])

        def count(i: Value) -> None:
            e.inst("store", [e.emit("addptr", self.index, i), e.emit("and", i, e.const(self.padded - 1))])

        each_element(p, p.layout_of(keys), put, once=True)
        spread(p, self.rows * self.padded, count)
        if self.padded != self.n:
            self._blank()

    def _blank(self) -> None:
        """Places behind the row are compared by number only, but must hold something."""
        p, e = self.p, self.e
        extra = self.padded - self.n
        zero = e.const(0.0 if self._dtype.is_float else False if self._dtype.is_bool else 0, Type(self._dtype))

        def blank(i: Value) -> None:
            row = e.emit("floordiv", i, e.const(extra))
            place = e.add(e.mul(row, self.padded), e.emit("add", e.emit("mod", i, e.const(extra)), e.const(self.n)))
            e.inst("store", [e.emit("addptr", self.keys, place), zero])

        spread(p, self.rows * extra, blank)

    @property
    def _dtype(self) -> dtypes.DType:
        return self.keys.dtype

    def _merge_level(self, level: Value) -> None:
        e = self.e

        def stage(s: Value) -> None:
            shift = e.emit("sub", e.emit("sub", level, s), e.const(1))
            stride = e.emit("shl", e.const(1), shift)
            spread(self.p, self.rows * self.padded // 2, lambda pair: self._exchange(pair, stride, level))

        uniform_for(self.p, e.const(0), level, stage)

    def _exchange(self, pair: Value, stride: Value, level: Value) -> None:
        """Put one pair into the order of its run: ascending and descending runs alternate."""
        e = self.e
        low_bits = e.emit("and", pair, e.emit("sub", stride, e.const(1)))
        first = e.emit("sub", e.emit("mul", pair, e.const(2)), low_bits)
        second = e.emit("add", first, stride)
        places = [[e.emit("addptr", m, at) for m in (self.keys, self.index)] for at in (first, second)]
        (a, i), (b, j) = ([e.emit("load", place) for place in pair_of] for pair_of in places)
        own = e.emit("and", first, e.const(self.padded - 1))
        run = e.emit("and", e.emit("shr", own, level), e.const(1))
        forward = e.emit("eq", run, e.const(0))
        wrong = e.emit("eq", self._before(b, j, a, i), forward)

        def swap() -> None:
            for place, value in zip([*places[0], *places[1]], (b, j, a, i), strict=True):
                e.inst("store", [place, value])

        self.p.when(wrong, swap)

    def _before(self, a: Value, i: Value, b: Value, j: Value) -> Value:
        """Whether (a, i) comes before (b, j): by key, then by number; NaN is the largest key."""
        e = self.e
        by_number = e.emit("lt", i, j)
        smaller, larger = self._less(a, b), self._less(b, a)
        if self.descending:
            smaller, larger = larger, smaller
        tied = e.emit("and", e.emit("eq", larger, e.const(False, Type(dtypes.bool_))), by_number)
        ordered = e.emit("or", smaller, tied)
        if self.padded == self.n:
            return ordered
        both = e.emit("lt", e.emit("max", i, j), e.const(self.n))
        return e.emit("select", both, ordered, by_number)

    def _less(self, a: Value, b: Value) -> Value:
        e = self.e
        if a.dtype.is_bool:
            return e.emit("and", b, e.emit("eq", a, e.const(False, Type(dtypes.bool_))))
        less = e.emit("lt", a, b)
        if not a.dtype.is_float:
            return less
        a_is_number, b_is_nan = e.emit("eq", a, a), e.emit("ne", b, b)
        return e.emit("or", less, e.emit("and", a_is_number, b_is_nan))


def sort(p: Lanes, inst: Inst) -> None:
    axis = inst["axis"] % len(inst.operands[0].shape)
    keys, *payloads = (moved_last(p, v, axis) for v in inst.operands)
    in_order, numbers = _Sorted(p, keys, inst["descending"]).slots()
    results = [Value(keys.type), *(Value(b.type) for b in payloads)]
    p.slots[results[0]] = in_order
    for result, payload in zip(results[1:], payloads, strict=True):
        _take(p, result, payload, numbers)
    for old, result in zip(inst.outs, results, strict=True):
        moved_back(p, old, result, axis)


def topk(p: Lanes, inst: Inst) -> None:
    axis = inst["axis"] % len(inst.operands[0].shape)
    keys = moved_last(p, inst.operands[0], axis)
    work = _Sorted(p, keys, inst["largest"])
    shape = (*keys.shape[:-1], inst["k"])
    for old, pointer in zip(inst.outs, (work.keys, work.index), strict=True):
        result = Value(Type(old.dtype, shape))
        p.slots[result] = shared_view(p, pointer, shape, work.padded)
        moved_back(p, old, result, axis)


def _take(p: Lanes, result: Value, source: Value, numbers: LaneSlot) -> None:
    """The rows of a block in the order that `numbers` says."""
    held = p.shared_slot(source)
    layout = p.default_layout(result.shape)
    slot = p.slot_for(result, layout)

    def put(elements: LaneElements, index: tuple[Index, ...]) -> None:
        where = Index(elements.read(numbers, index), is_general=True)
        elements.write(slot, index, elements.read(held, (*index[:-1], where)), layout)

    each_element(p, layout, put, once=False)


# --- counting -------------------------------------------------------------------------------------


def histogram(p: Lanes, inst: Inst) -> None:
    """Counters in threadgroup memory that the threads increment atomically."""
    e, block, bins = p.e, inst.operands[0], inst["bins"]
    mask = mask_of(inst)
    counters = work_memory(p, bins, dtypes.i32, inst.out.hint or "bins")

    def clear(i: Value) -> None:
        e.inst("store", [e.emit("addptr", counters, i), e.const(0)])

    def count(elements: LaneElements, index: tuple[Index, ...]) -> None:
        key = elements.at(block, index)
        kept = mask_at(elements, mask, index)
        for condition in _in_range(p, key, bins):
            kept = condition if kept is None else e.emit("and", kept, condition)
        number = key if key.dtype == dtypes.i32 else e.emit("cast", key, type=I32)

        def add() -> None:
            cell = e.emit("addptr", counters, number)
            if p.threads == 1:
                e.inst("store", [cell, e.emit("add", e.emit("load", cell), e.const(1))])
            else:
                e.inst("atomic_add", [cell, e.const(1)])

        if kept is None:
            add()
        else:
            p.when(kept, add)

    spread(p, bins, clear)
    each_element(p, p.layout_of(block), count, once=True)
    p.slots[inst.out] = shared_view(p, counters, inst.out.shape)


def _in_range(p: Lanes, key: Value, bins: int) -> list[Value]:
    conditions = []
    if key.dtype.min < 0:
        conditions.append(p.e.emit("ge", key, p.e.const(0, key.type)))
    if key.dtype.max >= bins:
        conditions.append(p.e.emit("lt", key, p.e.const(bins, key.type)))
    return conditions


def device_print(p: Lanes, inst: Inst) -> None:
    """The first thread writes a line of all values to the host's log."""
    pointers = []
    for value in inst.operands:
        if value.shape:
            pointers.append(p.shared_slot(value).pointer)
            continue
        pointers.append(p.array(1, value.dtype, value.hint))
        p.e.inst("store", [pointers[-1], p.scalar_of(value)])
    attrs = {
        "prefix": inst["prefix"],
        "dtypes": tuple(v.dtype for v in inst.operands),
        "shapes": tuple(v.shape for v in inst.operands),
    }
    if p.threads == 1:
        p.e.inst("write_log", pointers, attrs)
    else:
        p.when(p.e.emit("eq", p.tid, p.e.const(0)), lambda: p.e.inst("write_log", pointers, attrs))
