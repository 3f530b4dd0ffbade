"""In which order programs run: a tile of a matrix is done row by row together with the tiles beside it.

A tile has short pieces of many rows, each on a page of its own. A thread that gets several tiles side
by side walks along their common rows instead, as a loop over the whole matrix would.
"""

from __future__ import annotations

from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.schedule.nests import FOLDS

_LONG_ROW = 1 << 12  # bytes: a row of a tile that is worth a run of its own
_VIEWS = ("broadcast", "expand_dims")
_PLAIN = ("cast", "multiple_of", "max_contiguous", "max_constancy")


def order_programs(module: IRModule) -> IRModule:
    """Note in a partitioned module of one plain nest that its rows go through neighbouring programs."""
    nests = [inst for inst in module.body.body if inst.op.name == "nest"]
    rest = [inst for inst in module.body.body[:-1] if inst.op.name != "nest"]
    if len(nests) != 1 or not all(inst.op.is_pure and not inst.regions for inst in rest):
        return module
    (nest,) = nests
    shape, members = nest["shape"], list(walk(nest.regions[0]))
    if len(shape) != 2 or shape[0] == 1 or nest.outs or not all(_is_plain(inst) for inst in members):
        return module
    columns = _Columns(module)
    pointers = {inst.operands[0] for inst in members if inst.op.name in ("load", "store")}
    if shape[1] * max(p.dtype.nbytes for p in pointers) >= _LONG_ROW:
        return module
    if any(p.shape != shape or columns.step(p, 1) not in (0, 1) for p in pointers):
        return module
    axes = columns.programs
    if axes not in ({0}, {1}):
        return module
    return module.with_attrs(rows=shape[0], **({"axis_1_first": True} if axes == {1} else {}))


def _is_plain(inst: Inst) -> bool:
    if inst.op.name in ("load", "store", "yield"):
        return True
    return inst.op.is_pure and not inst.regions and inst.op.name not in FOLDS and not inst.op.has(Trait.CONVERGENT)


class _Columns:
    """How addresses go on along the columns of a tile, and which program ids say where it starts."""

    def __init__(self, module: IRModule) -> None:
        self.makers = {out: inst for inst in walk(module.body) for out in inst.outs}
        self.programs: set[int] = set()

    def step(self, value: Value, axis: int) -> int | None:
        """The difference of neighbours along an axis; None if that is not one known number."""
        if value.type.is_scalar:
            return 0
        inst = self.makers.get(value)
        if inst is None:
            return None
        name = inst.op.name
        if name == "arange":
            return 1
        if name == "const":
            return 0
        if name in _VIEWS:
            return self._viewed(inst, axis)
        steps = [self.step(v, axis) for v in inst.operands]
        if name in ("add", "addptr", "sub") and steps[0] is not None and steps[1] is not None:
            self._note(inst, steps)
            return steps[0] - steps[1] if name == "sub" else steps[0] + steps[1]
        if name in _PLAIN:
            return steps[0]
        return 0 if all(s == 0 for s in steps) else None

    def _viewed(self, inst: Inst, axis: int) -> int | None:
        source, rank = inst.operands[0], len(inst.out.shape)
        if inst.op.name == "expand_dims":
            new = inst["axis"] % rank
            return 0 if axis == new else self.step(source, axis - (axis > new))
        inner = axis - (rank - len(source.shape))
        return 0 if inner < 0 or source.shape[inner] == 1 else self.step(source, inner)

    def _note(self, inst: Inst, steps: list[int | None]) -> None:
        """The program ids in the one number that is added to the columns of a tile."""
        if inst.op.name == "add" and 1 in steps:
            start = inst.operands[1 - steps.index(1)]
            seen = set(self.programs)  # looking along other axes is not to count
            is_one = all(self.step(start, axis) == 0 for axis in range(len(start.shape)))
            self.programs = seen | (self._ids(start) if is_one else set())

    def _ids(self, value: Value) -> set[int]:
        inst = self.makers.get(value)
        if inst is None or not inst.op.is_pure:
            return set()
        if inst.op.name == "program_id":
            return {inst["axis"]}
        return {axis for v in inst.operands for axis in self._ids(v)}
