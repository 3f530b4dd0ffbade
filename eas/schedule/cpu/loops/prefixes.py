"""Forward scans along the last axis as members of nests: what came before is carried in a register."""

from __future__ import annotations

from eas.analysis.combines import identity, may_reorder
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.ir.rewriting import clone_region
from eas.schedule.elements.elements import Elements, Emitter, Index


def is_in_order(inst: Inst) -> bool:
    """A histogram, or a scan whose prefixes a loop over the last axis can make as it goes."""
    if inst.op.name == "histogram":
        return True
    if inst.op.name != "scan" or len(inst.operands) != 1 or inst["reverse"]:
        return False
    rank = len(inst.operands[0].shape)
    return inst["axis"] % rank == rank - 1 and may_reorder(inst.regions[0])


def start(emitter: Emitter, inst: Inst) -> Value:
    """What came before the first element."""
    return emitter.const(identity(inst.regions[0]), Type(inst.out.dtype))


def step(elements: Elements, inst: Inst, index: tuple[Index, ...], before: Value) -> Value:
    """The prefixes of one iteration; returns the total so far, the same in all lanes."""
    new, combine = elements.at(inst.operands[0], index), inst.regions[0]
    if not any(ix.lanes for ix in index):
        (elements.local[inst.out],) = total = elements.e.inline(combine, [before, new])
        return total[0]
    attrs = {"reverse": False, "neutral": identity(combine)}
    made = elements.e.inst("vscan", [new, before], attrs, [clone_region(combine)])
    elements.local[inst.out], after = made.outs
    return after


def total_of(emitter: Emitter, lanes: Value, count: int) -> Value:
    """The scalar that all lanes of a carried total are."""
    first = emitter.region([lanes.type, lanes.type], lambda a, _: [a])
    return emitter.inst("hreduce", [lanes], {"lanes": count}, [first]).out
