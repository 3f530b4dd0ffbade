"""Values of a thread that reductions and scans keep: one set per register, and sets of other simdgroups in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eas.base.types import Type
from eas.ir import Value
from eas.schedule.elements.elements import I32
from eas.schedule.gpu.lanes import Lanes


@dataclass(frozen=True)
class LaneArrays:
    """Arrays side by side, one per value of a set; `at` is a place in them, None the first one."""

    p: Lanes
    pointers: Sequence[Value]

    @staticmethod
    def of_thread(p: Lanes, count: int, types: Sequence[Type], hint: str) -> LaneArrays:
        """Arrays of the thread's own."""
        return LaneArrays(p, [p.array(count, t.dtype, hint) for t in types])

    @staticmethod
    def of_group(p: Lanes, count: int, types: Sequence[Type], hints: Sequence[str]) -> LaneArrays:
        """Arrays in threadgroup memory."""
        return LaneArrays(p, [p.memory((count,), t.dtype, hint) for t, hint in zip(types, hints, strict=True)])

    def _places(self, at: Value | None) -> list[Value]:
        where = at if at is not None else self.p.e.const(0)
        return [self.p.e.emit("addptr", pointer, where) for pointer in self.pointers]

    def get(self, at: Value | None, *, vector: bool = False) -> list[Value]:
        return [self.p.e.emit("vload" if vector else "load", place) for place in self._places(at)]

    def put(self, at: Value | None, values: Sequence[Value], *, vector: bool = False) -> None:
        for place, value in zip(self._places(at), values, strict=True):
            self.p.e.inst("vstore" if vector else "store", [place, value])


def unrolled(
    p: Lanes,
    span: tuple[int, int],
    start: Sequence[Value],
    step: Callable[..., Sequence[Value]],
    counter: str,
    hints: Sequence[str],
) -> list[Value]:
    """start, then step(i, *before) for i in the span: a loop that the compiler unrolls."""
    e = p.e
    region = e.region([I32, *(v.type for v in start)], step, [counter, *hints])
    bounds = [e.const(i) for i in span]
    return list(e.inst("loop", [*bounds, *start], {"lanes": 1, "unroll": True}, [region]).outs)
