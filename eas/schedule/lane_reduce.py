"""Reductions on threads: registers first, then the lanes of a simdgroup, then simdgroups through memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from eas.ir import Inst, Region, Value
from eas.passes.rewriting import clone_region
from eas.schedule.combines import identity, inline
from eas.schedule.elements import I32, Index
from eas.schedule.lanes import LaneElements, Lanes, LaneSlot
from eas.schedule.layouts import Layout
from eas.types import Type

_LANE_BITS = 5
# Combinations that the hardware has for all 32 lanes at once.
_SIMD = {"add": "simd_sum", "mul": "simd_product", "max": "simd_max", "min": "simd_min", "and": "simd_and", "or": "simd_or", "xor": "simd_xor"}  # fmt: skip


def commutes(combine: Region) -> bool:
    """Whether elements may be combined in any order: one known instruction."""
    return identity(combine) is not None


@dataclass(eq=False)
class Combiner:
    """Combines partial results; `flagged` ones carry whether there is anything in them yet."""

    p: Lanes
    region: Region
    flagged: bool

    @property
    def types(self) -> list[Type]:
        own = [p.type for p in self.region.params[: len(self.region.params) // 2]]
        return [*own, I32] if self.flagged else own

    def neutral(self) -> list[Value]:
        """What a thread starts from; flagged ones start empty."""
        e, known = self.p.e, identity(self.region)
        return [e.const(known if known is not None else _zero(t), t) for t in self.types]

    def __call__(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        e = self.p.e
        if not self.flagged:
            return inline(e, self.region, [*a, *b])
        (*first, has_first), (*second, has_second) = a, b
        both = inline(e, self.region, [*first, *second])
        left, right = (e.emit("ne", flag, e.const(0)) for flag in (has_first, has_second))
        values = [
            e.emit("select", left, e.emit("select", right, m, x), y)
            for m, x, y in zip(both, first, second, strict=True)
        ]
        return [*values, e.emit("or", has_first, has_second)]


def _zero(t: Type) -> Any:
    return 0.0 if t.dtype.is_float else False if t.dtype.is_bool else 0


@dataclass(eq=False)
class Reduction:
    """One `reduce` of a nest: collects in the loop over registers, then across threads."""

    p: Lanes
    inst: Inst
    layout: Layout
    has_padding: bool
    outers: Sequence[Value | None]
    accumulators: list[Value] = field(default_factory=list)
    """The carried values after the loop, or arrays of the thread where it keeps several results."""

    def __post_init__(self) -> None:
        self.axis = self.inst["axis"] % len(self.layout.shape)
        self.result = self.layout.reduced(self.axis) if len(self.layout.shape) > 1 else None
        self.kept = self.result.num_registers if self.result is not None else 1
        region = self.inst.regions[0]
        self.combine = Combiner(self.p, region, identity(region) is None)
        self.slots: list[LaneSlot | None] = []
        if self.result is not None:
            self.slots = [
                self.p.slot_for(outer, self.result) if outer is not None else None for outer in self.outers
            ]

    # --- in the loop over registers ---------------------------------------------------------------

    def start(self) -> list[Value]:
        """What the loop carries."""
        if self.kept == 1:
            return self.combine.neutral()
        self.accumulators = [self.p.array(self.kept, t.dtype, "partial") for t in self.combine.types]

        def clear(register: Value | None) -> Sequence[Value]:
            for array, value in zip(self.accumulators, self.combine.neutral(), strict=True):
                self.p.e.inst("store", [self._at(array, register), value])
            return ()

        self.p.over_registers(self.kept, (), clear)
        return []

    def hints(self) -> list[str]:
        """Names for what the loop carries."""
        if self.kept > 1:
            return []
        op = self.inst.regions[0].body[0].op.name
        usual = {"add": "total", "mul": "product", "max": "largest", "min": "smallest"}.get(op, "found")
        return ["found"] * len(self.combine.types) if self.combine.flagged else [usual]

    def step(self, elements: LaneElements, index: tuple[Index, ...], rest: Iterator[Value]) -> list[Value]:
        """Add one element; returns what is carried on."""
        e = self.p.e
        new = [elements.at(v, index) for v in self.inst.operands]
        if self.combine.flagged:
            new.append(e.const(1))
        if self.kept == 1:
            return self.combine([next(rest) for _ in self.combine.types], new)
        places = [e.emit("addptr", array, self._kept_register()) for array in self.accumulators]
        merged = self.combine([e.emit("load", place) for place in places], new)
        for place, value in zip(places, merged, strict=True):
            e.inst("store", [place, value])
        return []

    def _kept_register(self) -> Value:
        """Which result a register of the loop belongs to: its bits off the axis."""
        columns, weight = [], 1
        for column in self.layout.register:
            is_kept = self._off_axis(column)
            columns.append(weight if is_kept else 0)
            weight *= 2 if is_kept else 1
        assert self.p.register is not None
        return self.p.e.sum(self.p.e.bits(self.p.register, columns), None)

    def _off_axis(self, column: int) -> bool:
        return any(c for k, c in enumerate(self.layout.coordinate(column)) if k != self.axis)

    def take(self, ends: Iterator[Value], vector: int) -> None:
        """What the loop carried; vectors are folded first."""
        if self.kept > 1:
            return
        self.accumulators = [next(ends) for _ in self.combine.types]
        if vector > 1:
            region = clone_region(self.inst.regions[0])
            self.accumulators = list(self.p.e.inst("hreduce", self.accumulators, {"lanes": vector}, [region]).outs)

    def _at(self, array: Value, register: Value | None) -> Value:
        return self.p.e.emit("addptr", array, register if register is not None else self.p.e.const(0))

    # --- across threads ---------------------------------------------------------------------------

    def finish(self) -> None:
        """Combine across lanes and simdgroups; afterwards every thread has its results."""
        on_axis = [self.layout.coordinate(c)[self.axis] for c in self.layout.thread]
        lanes = sorted((k for k in range(min(_LANE_BITS, len(on_axis))) if on_axis[k]), key=lambda k: on_axis[k])
        groups = [k for k in range(_LANE_BITS, len(on_axis)) if on_axis[k]]
        if not groups:
            self._each(lambda q, values: self._put(q, self._across_lanes(values, lanes)))
            return
        exchange = _Exchange(self, lanes, groups)
        self._each(lambda q, values: exchange.write(q, self._across_lanes(values, lanes)))
        def hear(register: Value | None) -> Sequence[Value]:
            self._put(register, exchange.read(register))
            return ()

        self.p.over_registers(self.kept, (), hear)

    def _each(self, body: Any) -> None:
        def one(register: Value | None) -> Sequence[Value]:
            values = self.accumulators
            if self.kept > 1:
                values = [self.p.e.emit("load", self._at(a, register)) for a in self.accumulators]
            body(register, values)
            return ()

        self.p.over_registers(self.kept, (), one)

    def _across_lanes(self, values: list[Value], lanes: Sequence[int]) -> list[Value]:
        e = self.p.e
        simple = _SIMD.get(self.inst.regions[0].body[0].op.name)
        if len(lanes) == _LANE_BITS and not self.combine.flagged and simple and not values[0].dtype.is_bool:
            return [e.emit(simple, values[0])]
        for k in lanes:
            mask = e.const(1 << k)
            others = [e.emit("simd_shuffle_xor", v, mask) for v in values]
            if not self.combine.flagged:
                values = self.combine(values, others)
                continue
            is_upper = e.emit("ne", e.emit("and", self.p.tid, mask), e.const(0))
            first = [e.emit("select", is_upper, o, v) for v, o in zip(values, others, strict=True)]
            second = [e.emit("select", is_upper, v, o) for v, o in zip(values, others, strict=True)]
            values = self.combine(first, second)
        return values

    def _put(self, register: Value | None, values: Sequence[Value]) -> None:
        """A final result, in every thread that shares it."""
        p = self.p
        if self.result is None:
            for outer, value in zip(self.outers, values, strict=False):
                if outer is not None:
                    p.scalars[outer] = value
            return
        from eas.schedule.lane_nests import write_element

        coordinates = p.coordinates(self.result, p.thread_parts(self.result), register)
        index = tuple(Index(c, axis=axis) for axis, c in enumerate(coordinates))
        inside = p.inside(self.result, coordinates)
        result = self.result

        def write() -> None:
            for slot, value in zip(self.slots, values, strict=False):
                if slot is not None:
                    write_element(p, p.elements(), slot, index, value, result)

        if inside is None or all(slot is None or slot.in_registers for slot in self.slots):
            write()
        else:
            p.when(inside, write)


class _Exchange:
    """Threadgroup memory through which simdgroups tell each other their parts."""

    def __init__(self, reduction: Reduction, lanes: Sequence[int], groups: Sequence[int]) -> None:
        self.r, self.p = reduction, reduction.p
        layout = reduction.layout
        width = len(layout.thread)
        others = [
            k for k in range(width) if layout.thread[k] and k not in lanes and k not in groups
        ]
        self.parts = 1 << len(groups)
        self.rows = 1 << len(others)
        self.row_columns = _placed(others, width)
        self.part_columns = _placed(sorted(groups, key=lambda k: layout.coordinate(layout.thread[k])[reduction.axis]), width)
        self.zeros = sum(1 << k for k in lanes) | layout.replicated_threads
        size = (reduction.kept * self.rows * self.parts,)
        self.memory = [self.p.memory(size, t.dtype, "parts") for t in reduction.combine.types]

    def _place(self, register: Value | None, part: Value | None) -> Value:
        e = self.p.e
        row = e.bits(self.p.tid, [c * self.parts for c in self.row_columns])
        if register is not None:
            row = e.sum(row, e.mul(register, self.rows * self.parts))
        return e.sum(row, part)

    def write(self, register: Value | None, values: Sequence[Value]) -> None:
        e = self.p.e
        place = self._place(register, e.bits(self.p.tid, self.part_columns))

        def body() -> None:
            for memory, value in zip(self.memory, values, strict=True):
                e.inst("store", [e.emit("addptr", memory, place), value])

        if self.zeros:
            self.p.when(self.p.threads_with(self.zeros), body)
        else:
            body()

    def read(self, register: Value | None) -> list[Value]:
        """Each thread combines all parts of its row, in order."""
        e = self.p.e

        def at(part: Value) -> list[Value]:
            place = self._place(register, part)
            return [e.emit("load", e.emit("addptr", memory, place)) for memory in self.memory]

        def step(part: Value, *before: Value) -> Sequence[Value]:
            return self.r.combine(before, at(part))

        first = at(e.const(0))
        region = e.region([I32, *(v.type for v in first)], step, ["part", *self.r.hints()])
        bounds = [e.const(1), e.const(self.parts)]
        return list(e.inst("loop", [*bounds, *first], {"lanes": 1, "unroll": True}, [region]).outs)


def _placed(bits: Sequence[int], width: int) -> list[int]:
    """Columns that make a dense number of some bits of the thread number."""
    columns = [0] * width
    for weight, k in enumerate(bits):
        columns[k] = 1 << weight
    return columns
