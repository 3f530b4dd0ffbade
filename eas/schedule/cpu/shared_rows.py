"""What is the same in all rows of a tile: it is loaded once where several rows are computed together."""

from __future__ import annotations

from collections import ChainMap

from eas.analysis.motion import STILL, Direction, Motion, place
from eas.ir import Inst, Value, walk


class RowSharing:
    """Which blocks of a nest differ along an axis."""

    def __init__(self, members: list[Inst], formulas: dict[Value, Inst]) -> None:
        inner = [i for inst in members for i in (inst, *(w for r in inst.regions for w in walk(r)))]
        self.loads = [i for inst in members if inst.op.name == "for" for i in walk(inst.regions[0]) if i.op.name == "load" and i.out.shape]
        made = {out: inst for inst in inner if not inst.regions for out in inst.outs}
        self._motion = Motion(ChainMap(made, formulas)).along(Direction(through_loads=True))

    def is_shared(self, load: Inst, axis: int) -> bool:
        """Whether a load reads the same at all positions along an axis."""
        return not any(self.varies(v, axis) for v in load.operands)

    def varies(self, value: Value, axis: int) -> bool:
        """Whether the elements of a block may differ along an axis."""
        return not value.type.is_scalar and value.shape[axis] > 1 and self._motion.move(value, place(value, axis)) != STILL


__all__ = ["RowSharing"]
