"""Tiles side by side as one: where position k + BLOCK of a program is position k of the next, rows need not end between them."""

from __future__ import annotations

from eas.analysis.motion import STILL, Direction, Motion, place
from eas.ir import Inst, Trait, Value, walk


def is_one_walk(nest: Inst, motion: Motion, program: int, axis: int) -> bool:
    """Whether a nest does the same for the first position of a program as for the one behind the last of the program before."""
    insts = list(walk(nest.regions[0]))
    if any(inst.op.has(Trait.DIVISION) for inst in insts) or any(i.op.has(Trait.DIVISION) and i.out.shape for i in motion.made.values()):
        return False
    behind = motion.along(Direction(motion.programs(program), through_loads=True, is_exact=True))
    block = nest["shape"][axis]

    def stays(value: Value) -> bool:
        """Whether a value is the same a program further and a block of positions back."""
        return behind.move(value, place(value, axis, -block)) == STILL

    stores = [inst for inst in insts if inst.op.name == "store"]
    return all(motion.step(inst.operands[0], axis) != 0 and all(map(stays, inst.operands)) for inst in stores)


__all__ = ["is_one_walk"]
