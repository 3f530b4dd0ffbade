"""Scans on threads: a run of registers each, then prefixes over lanes, then over simdgroups."""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis.combines import only_op
from eas.ir import Inst, Value
from eas.schedule.elements.elements import Index
from eas.schedule.gpu.arrays import LaneArrays, unrolled
from eas.schedule.gpu.lanes import Lanes, LaneSlot
from eas.schedule.gpu.layouts import Layout, contiguous
from eas.schedule.gpu.reduce import Combiner, commutes

_LANE_BITS = 5


def scan(p: Lanes, inst: Inst) -> None:
    """Inclusive prefixes along an axis, in order, from the end where `reverse`."""
    _Scan(p, inst).emit()


class _Scan:
    def __init__(self, p: Lanes, inst: Inst) -> None:
        self.p, self.inst, self.e = p, inst, p.e
        shape = inst.operands[0].shape
        self.axis = inst["axis"] % len(shape)
        self.extent = shape[self.axis]
        self.layout: Layout = contiguous(shape, p.threads, self.axis)
        region = inst.regions[0]
        self.combine = Combiner(p, region, not commutes(region))
        weights = [self.layout.coordinate(c)[self.axis] for c in self.layout.thread]
        self.lane_bits = sum(1 for w in weights[:_LANE_BITS] if w)
        self.group_bits = sum(1 for w in weights[_LANE_BITS:] if w)
        self.run_bits = sum(1 for c in self.layout.register if self.layout.coordinate(c)[self.axis])
        self.kept = self.layout.num_registers >> self.run_bits
        self.has_padding = not bool(self.layout.is_inside().all())

    def emit(self) -> None:
        p = self.p
        types = self.combine.types
        self.local = LaneArrays.of_thread(p, self.layout.num_registers, types, "prefix")
        self.totals = LaneArrays.of_thread(p, self.kept, types, "total")
        slots = [p.slot_for(out, self.layout) for out in self.inst.outs]
        self._runs()
        befores = LaneArrays.of_thread(p, self.kept, types, "before") if self.lane_bits else None
        if befores is not None:
            p.over_registers(self.kept, (), lambda q: self._lanes(q, befores))
            if self.group_bits:
                self._groups(befores)
        self._write(slots, befores)

    # --- one thread's run -------------------------------------------------------------------------

    def _index(self, register: Value | None) -> tuple[Index, ...]:
        p = self.p
        coordinates = p.coordinates(self.layout, p.thread_parts(self.layout), register)
        if self.inst["reverse"]:
            last = self.e.const(self.extent - 1)
            coordinates[self.axis] = self.e.emit("sub", last, coordinates[self.axis])
        return tuple(Index(c, axis=axis) for axis, c in enumerate(coordinates))

    def _inside(self, register: Value | None) -> Value | None:
        if not self.has_padding:
            return None
        coordinates = self.p.coordinates(self.layout, self.p.thread_parts(self.layout), register)
        return self.p.inside(self.layout, coordinates)

    def _read(self, register: Value | None) -> list[Value]:
        """The elements at a register; past the end of the block there is nothing."""
        inside, index = self._inside(register), self._index(register)

        def here() -> list[Value]:
            elements = self.p.elements()
            values = [elements.at(v, index) for v in self.inst.operands]
            return [*values, self.e.const(1)] if self.combine.flagged else values

        if inside is None:
            return here()
        regions = [self.e.region([], here), self.e.region([], self.combine.neutral)]
        return list(self.e.inst("if", [inside], {}, regions).outs)

    def _runs(self) -> None:
        e, run = self.e, 1 << self.run_bits

        def step(register: Value | None, *before: Value) -> Sequence[Value]:
            new = self._read(register)
            if register is not None and self.run_bits:
                merged = self.combine(before, new)
                if self.kept > 1:
                    start = e.emit("eq", e.emit("and", register, e.const(run - 1)), e.const(0))
                    new = [e.emit("select", start, a, b) for a, b in zip(new, merged, strict=True)]
                else:
                    new = merged
            self.local.put(register, new)
            if self.kept > 1 and register is not None:
                self.totals.put(self._group(register), new)
            return new

        ends = self.p.over_registers(self.layout.num_registers, self.combine.neutral(), step, 1, ["total"] * len(self.combine.types))
        if self.kept == 1:
            self.totals.put(None, ends)

    def _group(self, register: Value) -> Value | None:
        if self.kept == 1:
            return None
        return self.e.emit("shr", register, self.e.const(self.run_bits)) if self.run_bits else register

    # --- across threads ---------------------------------------------------------------------------

    def _lanes(self, q: Value | None, befores: LaneArrays) -> Sequence[Value]:
        """What the lanes before this one have; `totals` becomes that with the own part."""
        e, own = self.e, self.totals.get(q)
        position = self._lane_position()
        if self._is_sum() and self.lane_bits == _LANE_BITS:
            before = [e.emit("simd_prefix_exclusive_sum", own[0])]
            befores.put(q, before)
            self.totals.put(q, self.combine(before, own))
            return ()
        values = own
        for k in range(self.lane_bits):
            distance = e.const(1 << k)
            others = [e.emit("simd_shuffle_up", v, distance) for v in values]
            is_there = e.emit("ge", position, distance)
            merged = self.combine(others, values)
            values = [e.emit("select", is_there, m, v) for m, v in zip(merged, values, strict=True)]
        self.totals.put(q, values)
        shifted = [e.emit("simd_shuffle_up", v, e.const(1)) for v in values]
        has_before = e.emit("gt", position, e.const(0))
        nothing = self.combine.neutral()
        before = [e.emit("select", has_before, s, n) for s, n in zip(shifted, nothing, strict=True)]
        befores.put(q, before)
        return ()

    def _is_sum(self) -> bool:
        return not self.combine.flagged and only_op(self.inst.regions[0]) == "add" and self.inst.out.dtype.bits == 32

    def _lane_position(self) -> Value:
        """The position along the axis among the lanes of the simdgroup."""
        mask = (1 << self.lane_bits) - 1
        return self.p.tid if mask == self.p.threads - 1 else self.e.emit("and", self.p.tid, self.e.const(mask))

    def _groups(self, befores: LaneArrays) -> None:
        """The last lane of each simdgroup tells its total; each thread adds up those before its own."""
        p, e = self.p, self.e
        groups = 1 << self.group_bits
        rows = p.threads >> (_LANE_BITS + self.group_bits)
        types = self.combine.types
        memory = LaneArrays.of_group(p, self.kept * rows * groups, types, ["totals"] * len(types))
        number = e.emit("shr", p.tid, e.const(_LANE_BITS))
        mine = e.emit("and", number, e.const(groups - 1)) if rows > 1 else number
        row = e.mul(e.emit("shr", number, e.const(self.group_bits)), groups) if rows > 1 else None

        def place(q: Value | None, group: Value) -> Value:
            start = e.sum(row, e.mul(q, rows * groups) if q is not None else None)
            return e.add(start, group)

        def tell(q: Value | None) -> Sequence[Value]:
            values = self.totals.get(q)
            where = place(q, mine)
            last = e.emit("eq", e.emit("and", p.tid, e.const(31)), e.const(31))
            p.when(last, lambda: memory.put(where, values))
            return ()

        def hear(q: Value | None) -> Sequence[Value]:
            def step(group: Value, *before: Value) -> Sequence[Value]:
                merged = self.combine(before, memory.get(place(q, group)))
                is_before = e.emit("lt", group, mine)
                return [e.emit("select", is_before, m, b) for m, b in zip(merged, before, strict=True)]

            others = unrolled(p, (0, groups), self.combine.neutral(), step, "group", ["before"] * len(types))
            befores.put(q, self.combine(others, befores.get(q)))
            return ()

        p.over_registers(self.kept, (), tell)
        p.over_registers(self.kept, (), hear)

    def _write(self, slots: Sequence[LaneSlot], befores: LaneArrays | None) -> None:
        """The prefixes of the own run, behind what other threads have."""

        def step(register: Value | None) -> Sequence[Value]:
            index, inside = self._index(register), self._inside(register)
            values = self.local.get(register)
            if befores is not None:
                group = None if register is None else self._group(register)
                values = self.combine(befores.get(group), values)

            def body() -> None:
                for slot, value in zip(slots, values, strict=False):
                    self.p.elements().write(slot, index, value, self.layout)

            if inside is None:
                body()
            else:
                self.p.when(inside, body)
            return ()

        self.p.over_registers(self.layout.num_registers, (), step)
