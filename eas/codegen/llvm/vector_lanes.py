"""Which values of lane IR are vectors, and of how many lanes."""

from __future__ import annotations

from collections.abc import Iterable

from eas.ir import Inst, IRModule, Region, Value

_SOURCES = ("lane", "vload", "vgather")


def vector_lanes(module: IRModule) -> dict[Value, int]:
    """The lanes of every vector: what depends on `lane` or a vector in memory, also through what loops carry."""
    sweep = _Sweep()
    while sweep.changed:
        sweep.changed = False
        sweep.region(module.body, 1)
    return sweep.lanes


class _Sweep:
    def __init__(self) -> None:
        self.lanes: dict[Value, int] = {}
        self.changed = True

    def region(self, region: Region, around: int) -> None:
        for inst in region.body:
            self.inst(inst, around)

    def inst(self, inst: Inst, around: int) -> None:
        name = inst.op.name
        if name in ("for", "while", "if", "loop"):
            for region in inst.regions:
                self.region(region, inst["lanes"] if name == "loop" else around)
            self._control(inst, inst["lanes"] if name == "loop" else 1)
        elif name in _SOURCES:
            self._lift(inst.outs, inst["lanes"] or around)
        elif name not in ("hreduce", "vextract"):
            self._lift(inst.outs, self._most(inst.operands))

    def _control(self, inst: Inst, least: int) -> None:
        """What goes around a loop is as wide as its widest part; carried values of a laned loop are per lane."""
        count = len(inst.outs)
        inits = () if inst.op.name == "if" else inst.operands[len(inst.operands) - count :]
        for i, out in enumerate(inst.outs):
            params = [r.params[len(r.params) - count + i] for r in inst.regions if r.params and inits]
            yields = [r.yields[i] for r in inst.regions if len(r.yields) == count and not (inst.op.name == "while" and r is inst.regions[0])]
            together = [out, *params, *yields, *inits[i : i + 1]]
            self._lift([out, *params], max(least, self._most(together)))

    def _most(self, values: Iterable[Value]) -> int:
        return max((self.lanes.get(v, 1) for v in values), default=1)

    def _lift(self, values: Iterable[Value], lanes: int) -> None:
        for value in values:
            if lanes > self.lanes.get(value, 1) and value.type.is_value:
                self.lanes[value] = lanes
                self.changed = True
