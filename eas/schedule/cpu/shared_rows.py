"""What is the same in all rows of a tile: it is loaded once where several rows are computed together."""

from __future__ import annotations

from collections.abc import Mapping

from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Inst, Trait, Value, walk


class RowSharing:
    """Which blocks of a nest differ along an axis."""

    def __init__(self, members: list[Inst], formulas: Mapping[Value, Inst]) -> None:
        inner = [i for inst in members for i in (inst, *(w for r in inst.regions for w in walk(r)))]
        self.loads = [i for inst in members if inst.op.name == "for" for i in walk(inst.regions[0]) if i.op.name == "load" and i.out.shape]
        self.formulas = formulas
        self.made = {out: inst for inst in inner if not inst.regions for out in inst.outs}
        self._found: dict[tuple[Value, int], bool] = {}

    def is_shared(self, load: Inst, axis: int) -> bool:
        """Whether a load reads the same at all positions along an axis."""
        return not any(self.varies(v, axis) for v in load.operands)

    def varies(self, value: Value, axis: int) -> bool:
        """Whether the elements of a block may differ along an axis."""
        return evaluate(self._compute, (value, axis), self._found)

    def _compute(self, key: tuple[Value, int]) -> Definition[tuple[Value, int], bool]:
        value, axis = key
        if value.type.is_scalar or value.shape[axis] == 1:
            return False
        inst = self.made.get(value) or self.formulas.get(value)
        if inst is None or not (inst.op.is_pure or inst.op.name == "load"):
            return True
        name = inst.op.name
        if name == "const":
            return False
        source = inst.operands[0] if inst.operands else value
        if name == "broadcast":
            at = axis - (len(value.shape) - len(source.shape))
            return at >= 0 and (yield source, at)
        if name == "expand_dims":
            return (yield source, axis - (axis > inst["axis"] % len(value.shape)))
        if name == "load" or inst.op.has(Trait.ELEMENTWISE):
            return any((yield from every([(v, axis) for v in inst.operands])))
        return True


__all__ = ["RowSharing"]
