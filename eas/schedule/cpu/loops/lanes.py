"""How many elements one step of a nest does."""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis import with_inner
from eas.analysis.combines import neutrals
from eas.base.types import Shape
from eas.ir import Inst, Trait, walk
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.shared_rows import RowSharing
from eas.schedule.target import MOST_UPDATES, SUMS, CpuTarget

_FEW_COUNTERS = 1024  # up to which wide loops are as fast, or faster
_MANY_LOADS = 4  # of which the processor finds enough to do at once without more lanes
_ROWS = 4  # of a tile: with two vectors of each, as many loads as the arithmetic has time for


def choose_lanes(p: Lowering, members: Sequence[Inst], shape: Shape, extent: int, sums: RowSharing | None) -> int:
    """Elements per step: several registers for light work, fewer where a function needs many or much is read.

    `sums`: of a nest around a loop that adds up what it reads, which loads its rows share.
    """
    if any(_is_ordered(inst, len(shape)) for inst in members if inst.op.name == "reduce"):
        return 1
    if sums is not None:
        return _lanes_of_sums(p.target, members, shape, extent, sums)
    loads = sum(inst.op.name == "load" for inst in members)
    is_much = loads > _MANY_LOADS or any(part.op.has(Trait.REGISTERS) for inst in members for part in with_inner(inst))
    registers = 1 if p.facts.is_very_long else 2 if is_much else 4
    one = p.target.vector_nbytes // widest(members)
    lanes = p.target.vector_nbytes * registers // widest(members)
    if any(map(_updates_much, members)):
        lanes = min(lanes, MOST_UPDATES)
    while lanes > extent or (lanes > one and extent % lanes and p.facts.walk == 1):
        lanes //= 2  # what fills no vector is done element by element
    return lanes if lanes >= 4 else 1


def widest(members: Sequence[Inst]) -> int:
    """Bytes of the largest element, of at least a word."""
    values = [v for inst in members for part in with_inner(inst) for v in (*part.operands, *part.outs)]
    return max(4, *(v.dtype.nbytes for v in values if not v.type.is_pointer), 0)


def _is_ordered(inst: Inst, rank: int) -> bool:
    """A combine function that is not known to commute needs its elements in order."""
    return inst["axis"] % rank == rank - 1 and neutrals(inst.regions[0]) is None


def _updates_much(inst: Inst) -> bool:
    """Whether each lane reads and writes memory of its own; few counters have copies for lanes side by side."""
    return inst.op.has(Trait.ATOMIC) or (inst.op.name == "histogram" and inst.out.shape[0] > _FEW_COUNTERS)


# --- sums -----------------------------------------------------------------------------------------


def is_sum(members: Sequence[Inst]) -> bool:
    """Whether a nest is of loops that read blocks and carry one each, with loads, stores and arithmetic around it."""
    loops = [inst for inst in members if inst.op.name == "for"]
    if not loops or any(len(loop.outs) != 1 for loop in loops):
        return False
    inner = [inst for loop in loops for inst in walk(loop.regions[0])]
    rest = [inst for inst in (*members, *inner) if inst.op.name not in ("for", "load", "store", "yield")]
    reads = any(inst.op.name == "load" and inst.out.shape for inst in inner)
    return reads and all(inst.op.is_pure and not inst.regions and not inst.op.has(Trait.CUT) and not inst.op.has(Trait.FOLD) for inst in rest)


def _lanes_of_sums(target: CpuTarget, members: Sequence[Inst], shape: Shape, extent: int, sharing: RowSharing) -> int:
    """As many vectors as there are sums, or fewer where rows share what they read."""
    one = target.vector_nbytes // widest(members)
    lanes = SUMS // _shared_rows(shape, sharing) * one
    while lanes > extent or (lanes > one and extent % lanes):
        lanes //= 2
    return lanes if lanes >= 4 else 1


def _shared_rows(shape: Shape, sharing: RowSharing) -> int:
    """How many rows to compute together so that they share loads: each vector that is read then serves all of them."""
    if len(shape) < 2:
        return 1
    last = len(shape) - 1
    is_across = any(sharing.is_shared(i, last - 1) and sharing.varies(i.operands[0], last) for i in sharing.loads)
    return next(n for n in (_ROWS, 2, 1) if shape[-2] % n == 0) if is_across else 1
