"""Histograms as members of nests: every iteration increments counters in scratch, which are summed at the end."""

from __future__ import annotations

import math

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value, make
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.elements import Elements, Index, Slot

# Copies of the counters, so that equal neighbours do not wait for each other, and the keys per counter that pay for them.
_COPIES = ((16, 8), (8, 8), (4, 1), (2, 1))


class Counters:
    """The counters of one histogram of a nest."""

    def __init__(self, p: Lowering, inst: Inst) -> None:
        self.p, self.inst, self.bins = p, inst, inst["bins"]
        # One more than there are bins, for what does not count.
        line = p.target.caches.line // dtypes.i32.nbytes
        self.stride = (self.bins + line) // line * line
        self.copies = self._copies(math.prod(inst.operands[0].shape))
        self.slot = p.new_slot((self.copies, self.stride), dtypes.i32)

    def _copies(self, keys: int) -> int:
        """As many as stay in L1 beside the keys: less than half of it."""
        fit = self.p.target.caches.l1 * 3 // 8 // (self.stride * dtypes.i32.nbytes)
        return next((n for n, least in _COPIES if n <= fit and n * self.bins * least <= keys), 1)

    def clear(self) -> None:
        zeros = make("const", (), {"value": 0, "type": Type(dtypes.i32, self.slot.shape)})
        self.p.formulas[zeros.out] = zeros
        self.p.fill(self.slot, zeros.out)

    def step(self, elements: Elements, index: tuple[Index, ...], mask: Value | None) -> None:
        """Count the elements of one iteration; `mask` is what is left of the histogram's own."""
        e = elements.e
        number = self._number(elements, elements.at(self.inst.operands[0], index))
        if mask is not None:
            number = e.emit("select", mask, number, e.const(self.bins))
        attrs = {"copies": self.copies, "stride": self.stride}
        e.inst("count", [self.slot.pointer, number], attrs)

    def _number(self, elements: Elements, key: Value) -> Value:
        """Which counter a key increments: negative keys are large ones without a sign."""
        e = elements.e
        if key.dtype.min < 0 or key.dtype.max >= self.bins:
            kind = Type(dtypes.u64 if key.dtype.bits == 64 else dtypes.u32)
            key = e.emit("cast", key, type=kind) if key.type != kind else key
            key = e.emit("min", key, e.const(self.bins, kind))
        return key if key.dtype == dtypes.i32 else e.emit("cast", key, type=Type(dtypes.i32))

    def finish(self, target: Slot) -> None:
        """The sums of the copies, without the counter of what does not count."""
        p, lanes = self.p, self.p.target.vector_nbytes // 4

        def part(first: int, end: int, width: int) -> None:
            def body(j: Value) -> tuple[Value, ...]:
                elements, at = p.elements(), Index(j, lanes=width > 1)
                total = elements.read(self.slot, (Index(), at))
                for k in range(1, self.copies):
                    more = elements.read(self.slot, (Index(p.e.const(k)), at))
                    total = p.e.emit("add", total, more)
                address = elements.address(target, (at,))[0]
                p.e.inst("vstore" if width > 1 else "store", [address, total])
                return ()

            region = p.e.region([Type(dtypes.i32)], body)
            p.e.inst("loop", [p.e.const(first), p.e.const(end)], {"lanes": width}, [region])

        whole = self.bins // lanes * lanes
        if whole:
            part(0, whole, lanes)
        if whole < self.bins:
            part(whole, self.bins, 1)
