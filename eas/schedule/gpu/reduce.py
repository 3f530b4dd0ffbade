"""Reductions on threads: registers first, then the lanes of a simdgroup, then simdgroups through memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from eas.analysis.combines import indexed_extreme, neutrals, only_op
from eas.base.types import Type
from eas.ir import Inst, Region, Value
from eas.ir.rewriting import clone_region
from eas.schedule.elements.elements import I32, Index
from eas.schedule.gpu.arrays import LaneArrays, unrolled
from eas.schedule.gpu.lanes import LaneElements, Lanes, LaneSlot
from eas.schedule.gpu.layouts import Layout

_LANE_BITS = 5
# Combinations that the hardware has for all 32 lanes at once.
_SIMD = {"add": "simd_sum", "mul": "simd_product", "max": "simd_max", "min": "simd_min", "and": "simd_and", "or": "simd_or", "xor": "simd_xor"}  # fmt: skip


def commutes(combine: Region) -> bool:
    """Whether elements may be combined in any order."""
    return neutrals(combine) is not None


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
        known = neutrals(self.region)
        if known is None:
            known = [_zero(t) for t in self.types]
        return [self.p.e.const(value, t) for value, t in zip(known, self.types, strict=True)]

    def __call__(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        e = self.p.e
        if not self.flagged:
            return e.inline(self.region, [*a, *b])
        (*first, has_first), (*second, has_second) = a, b
        both = e.inline(self.region, [*first, *second])
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
    accumulators: list[Value] = field(default_factory=list)  # the carried values after the loop
    kept_values: LaneArrays | None = None  # instead, where a thread keeps several results

    def __post_init__(self) -> None:
        self.axis = self.inst["axis"] % len(self.layout.shape)
        self.result = self.layout.reduced(self.axis) if len(self.layout.shape) > 1 else None
        self.kept = self.result.num_registers if self.result is not None else 1
        region = self.inst.regions[0]
        self.is_ordered = not commutes(region)  # and starts from its first element, if all threads have one
        self.combine = Combiner(self.p, region, self.is_ordered and self.has_padding)
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
        arrays = self.kept_values = LaneArrays.of_thread(self.p, self.kept, self.combine.types, "partial")
        if not self._axis_registers() and not self.has_padding:
            return []  # each element is the first of its result

        def clear(register: Value | None) -> Sequence[Value]:
            arrays.put(register, self.combine.neutral())
            return ()

        self.p.over_registers(self.kept, (), clear)
        return []

    def hints(self) -> list[str]:
        """Names for what the loop carries."""
        op = only_op(self.inst.regions[0]) or ""
        usual = {"add": "total", "mul": "product", "max": "largest", "min": "smallest"}.get(op, "found")
        if len(self.combine.types) == 1:
            return [usual]
        return ["best", "best_at"] if indexed_extreme(self.inst.regions[0]) else ["found"] * len(self.combine.types)

    def step(self, elements: LaneElements, index: tuple[Index, ...], rest: Iterator[Value]) -> list[Value]:
        """Add one element; returns what is carried on."""
        e = self.p.e
        new = [elements.at(v, index) for v in self.inst.operands]
        if self.combine.flagged:
            new.append(e.const(1))
        if self.kept_values is None:
            return self._merged([next(rest) for _ in self.combine.types], new)
        at, vector = self._kept_register(), self.p.vector > 1
        if self._axis_registers():
            new = self._merged(self.kept_values.get(at, vector=vector), new)
        self.kept_values.put(at, new, vector=vector)
        return []

    def _axis_registers(self) -> int:
        """The bits of the register number that go along the axis."""
        return sum(1 << k for k, column in enumerate(self.layout.register) if not self._off_axis(column))

    def _merged(self, before: list[Value], new: list[Value]) -> list[Value]:
        """One more element; what has no neutral element starts from the first."""
        e, register = self.p.e, self.p.register
        on_axis = self._axis_registers()
        if register is None or not on_axis or (self.kept == 1 and on_axis < self.p.vector):
            return new  # the first and only one
        merged = self.combine(before, new)
        if not self.is_ordered or self.combine.flagged:
            return merged
        here = register if self.kept == 1 else e.emit("and", register, e.const(on_axis))
        is_first = e.emit("eq", here, e.const(0))
        return [e.emit("select", is_first, a, b) for a, b in zip(new, merged, strict=True)]

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
            for value, name in zip(self.accumulators, self.hints(), strict=True):
                value.hint = value.hint or name
            region = clone_region(self.inst.regions[0])
            folded = self.p.e.inst("hreduce", self.accumulators, {"lanes": vector}, [region])
            self.accumulators = list(folded.outs)

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
            body(register, self.accumulators if self.kept_values is None else self.kept_values.get(register))
            return ()

        self.p.over_registers(self.kept, (), one)

    def _across_lanes(self, values: list[Value], lanes: Sequence[int]) -> list[Value]:
        e = self.p.e
        simple = _SIMD.get(only_op(self.inst.regions[0]) or "")
        is_whole = len(lanes) == _LANE_BITS and not values[0].dtype.is_bool
        if is_whole and len(values) == 1 and not self.is_ordered and simple:
            return [e.emit(simple, values[0])]
        kind = indexed_extreme(self.inst.regions[0])
        if is_whole and kind is not None:
            return self._extreme_lane(kind, *values)
        if len(values) > 1 and len(lanes) > 2 and list(lanes) == list(range(lanes[0], lanes[-1] + 1)):
            return self._halved(values, lanes)
        for k in lanes:
            values = self._exchanged(values, e.const(1 << k))
        return values

    def _exchanged(self, values: Sequence[Value], mask: Value) -> list[Value]:
        """Combined with the lane that differs in one bit, the lower one first."""
        e = self.p.e
        others = [e.emit("simd_shuffle_xor", v, mask) for v in values]
        if not self.is_ordered:
            return self.combine(values, others)
        is_upper = e.emit("ne", e.emit("and", self.p.tid, mask), e.const(0))
        first = [e.emit("select", is_upper, o, v) for v, o in zip(values, others, strict=True)]
        second = [e.emit("select", is_upper, v, o) for v, o in zip(values, others, strict=True)]
        return self.combine(first, second)

    def _halved(self, values: Sequence[Value], lanes: Sequence[int]) -> list[Value]:
        """The exchanges of several values as a loop, which the compiler unrolls."""
        e = self.p.e

        def step(k: Value, *before: Value) -> Sequence[Value]:
            return self._exchanged(before, e.emit("shl", e.const(1), k))

        return unrolled(self.p, (lanes[0], lanes[-1] + 1), values, step, "bit", self.hints())

    def _extreme_lane(self, kind: str, value: Value, index: Value) -> list[Value]:
        """The best value of all lanes, and the lowest index of those that have it."""
        e = self.p.e
        best = e.emit(_SIMD[kind], value)
        has_it = e.emit("eq", value, best)
        if value.dtype.is_float:  # a NaN is the best, and equals nothing
            has_it = e.emit("or", has_it, e.emit("isnan", value))
        at = e.emit("select", has_it, index, e.const(index.dtype.max, index.type))
        return [best, e.emit("simd_min", at)]

    def _put(self, register: Value | None, values: Sequence[Value]) -> None:
        """A final result, in every thread that shares it."""
        p = self.p
        if self.result is None:
            for outer, value in zip(self.outers, values, strict=False):
                if outer is not None:
                    p.scalars[outer] = value
            return
        coordinates = p.coordinates(self.result, p.thread_parts(self.result), register)
        index = tuple(Index(c, axis=axis) for axis, c in enumerate(coordinates))
        inside = p.inside(self.result, coordinates)
        result = self.result

        def write() -> None:
            for slot, value in zip(self.slots, values, strict=False):
                if slot is not None:
                    p.elements().write(slot, index, value, result)

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
        names = [f"{name}_parts" for name in (*reduction.hints(), "has")]
        types = reduction.combine.types
        self.memory = LaneArrays.of_group(self.p, reduction.kept * self.rows * self.parts, types, names[: len(types)])

    def _place(self, register: Value | None, part: Value | None) -> Value:
        e = self.p.e
        row = e.bits(self.p.tid, [c * self.parts for c in self.row_columns])
        if register is not None:
            row = e.sum(row, e.mul(register, self.rows * self.parts))
        return e.sum(row, part)

    def write(self, register: Value | None, values: Sequence[Value]) -> None:
        e = self.p.e
        place = self._place(register, e.bits(self.p.tid, self.part_columns))

        if self.zeros:
            self.p.when(self.p.threads_with(self.zeros), lambda: self.memory.put(place, values))
        else:
            self.memory.put(place, values)

    def read(self, register: Value | None) -> list[Value]:
        """Each thread combines all parts of its row, in order."""
        def at(part: Value) -> list[Value]:
            return self.memory.get(self._place(register, part))

        def step(part: Value, *before: Value) -> Sequence[Value]:
            return self.r.combine(before, at(part))

        first = at(self.p.e.const(0))
        for value, name in zip(first, self.r.hints(), strict=False):
            value.hint = value.hint or name
        return unrolled(self.p, (1, self.parts), first, step, "part", self.r.hints())


def _placed(bits: Sequence[int], width: int) -> list[int]:
    """Columns that make a dense number of some bits of the thread number."""
    columns = [0] * width
    for weight, k in enumerate(bits):
        columns[k] = 1 << weight
    return columns
