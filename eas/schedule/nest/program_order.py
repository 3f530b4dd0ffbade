"""In which order elements and programs run: along the axis on which neighbours are neighbours in memory.

A tile of a matrix has short pieces of many rows, each on a page of its own. A thread that gets several tiles
side by side walks along their common rows instead, as a loop over the whole matrix would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from eas.analysis.motion import Motion, motion_of
from eas.base.trampoline import reached
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.schedule.nest.one_walk import is_one_walk

_LONG_ROW = 1 << 12  # bytes: a row of a tile that is worth a run of its own
_LONGEST_WALK = 1 << 16  # elements of a row that goes on through tiles
_NEAR = (0, 1, 2, 3, 4)  # steps of a row that goes through whole lines of the cache, or nearly so


def order_nests(module: IRModule) -> IRModule:
    """Note in each plain nest of a partitioned module the order of its axes, where it is not that of its shape.

    In textbooks: loop interchange; in Halide: reorder.

        nest {shape=(64, 4)} { load %p }   with neighbours of %p along axis 0
        ->
        nest {shape=(64, 4), order=(1, 0)} { load %p }
    """
    motion = motion_of(module)
    body = tuple(_ordered(inst, motion) if inst.op.name == "nest" else inst for inst in module.body.body)
    return module.with_body(replace(module.body, body=body))


def _ordered(nest: Inst, motion: Motion) -> Inst:
    """The nest with the axis last along which most of its memory has neighbours."""
    rank, pointers = len(nest["shape"]), _pointers(nest)
    if rank < 2 or not pointers or not _is_plain_nest(nest) or _reads_scratch(nest, motion):
        return nest
    written = {inst.operands[0] for inst in nest.regions[0].body if inst.op.name == "store"}

    def count(axis: int) -> int:
        return sum(motion.step(p, axis) == 1 for p in pointers)

    best = max(range(rank), key=lambda axis: (count(axis), axis))
    if count(best) == count(rank - 1) or any(motion.step(p, best) != 1 for p in written):
        return nest
    order = (*(axis for axis in range(rank) if axis != best), best)
    return nest.with_attrs(order=order)


def order_programs(module: IRModule) -> IRModule:
    """Note in a partitioned module of one plain nest that its rows go through neighbouring programs.

    In textbooks: loop coalescing over the grid.

        program (r, c) does row pieces [64 x 64] one tile after the other
        ->
        module attributes rows=64, walk=16: a thread goes along a row through
        16 tiles side by side, then to the next row
    """
    nests = [inst for inst in module.body.body if inst.op.name == "nest"]
    rest = [inst for inst in module.body.body[:-1] if inst.op.name != "nest"]
    if len(nests) != 1 or not all(inst.op.is_pure and not inst.regions for inst in rest):
        return module
    (nest,) = nests
    shape = nest["shape"]
    if len(shape) > 2 or not _is_plain_nest(nest):
        return module
    *first, last = axes_of(nest)
    rows = math.prod(shape[axis] for axis in first)
    motion, pointers = motion_of(module), _pointers(nest)
    longest = _LONG_ROW if rows > 1 else _LONGEST_WALK
    if not pointers or shape[last] * max(p.dtype.nbytes for p in pointers) >= longest:
        return module
    if any(p.shape != shape or motion.step(p, last) not in _NEAR for p in pointers):
        return module
    walks = [axis for axis in (0, 1) if is_one_walk(nest, motion, axis, last)]
    programs = walks or {axis for p in pointers for axis in _programs(p, last, motion)}
    if len(programs) != 1 or (rows == 1 and not walks):
        return module
    (program,) = programs
    if program > 1:
        return module
    side_by_side = _LONGEST_WALK // shape[last] if walks else 1
    return module.with_attrs(rows=rows, walk=side_by_side, **({"axis_1_first": True} if program == 1 else {}))


def axes_of(nest: Inst) -> tuple[int, ...]:
    """The axes of a nest from the outermost loop to the lanes."""
    return tuple(nest["order"] or range(len(nest["shape"])))


def _pointers(nest: Inst) -> set[Value]:
    return {inst.operands[0] for inst in walk(nest.regions[0]) if inst.op.name in ("load", "store")}


def _is_plain_nest(nest: Inst) -> bool:
    return not nest.outs and all(_is_plain(inst) for inst in walk(nest.regions[0]))


def _is_plain(inst: Inst) -> bool:
    if inst.op.name in ("load", "store", "yield"):
        return True
    return inst.op.is_pure and not inst.regions and not inst.op.has(Trait.FOLD) and not inst.op.has(Trait.CONVERGENT)


def _reads_scratch(nest: Inst, motion: Motion) -> bool:
    """Whether blocks of other nests are read, which lie along their last axis."""
    inside = {out for inst in walk(nest.regions[0]) for out in inst.outs}

    def outer(values: Sequence[Value]) -> list[Value]:
        return [v for v in values if v not in inside and v.shape]

    def behind(value: Value) -> list[Value]:
        maker = motion.made.get(value)
        return outer(maker.operands) if maker is not None and maker.op.is_pure else []

    used = outer([v for inst in walk(nest.regions[0]) for v in inst.operands])
    return any(v not in motion.made or not motion.made[v].op.is_pure for v in reached(used, behind))


def _programs(value: Value, axis: int, motion: Motion) -> set[int]:
    """The program ids in the numbers that are added to positions along an axis."""
    starts: list[Value] = []

    def behind(place: tuple[Value, int]) -> list[tuple[Value, int]]:
        value, axis = place
        inst = motion.made.get(value)
        if inst is None or not inst.op.is_pure or motion.step(value, axis) == 0:
            return []
        if inst.op.name == "broadcast":
            return [(inst.operands[0], axis - (len(value.shape) - len(inst.operands[0].shape)))]
        if inst.op.name == "expand_dims":
            return [(inst.operands[0], axis - (axis > inst["axis"] % len(value.shape)))]
        if inst.op.name == "add":
            for start, moving in (inst.operands, inst.operands[::-1]):
                if motion.step(moving, axis) == 1 and motion.is_uniform(start):
                    starts.append(start)
                    return [(moving, axis)]
        return [(v, axis) for v in inst.operands]

    for _ in reached([(value, axis)], behind):
        pass
    return _ids(starts, motion)


def _ids(values: Sequence[Value], motion: Motion) -> set[int]:
    """The program ids that values are computed from."""
    pure = {v: inst for v, inst in motion.made.items() if inst.op.is_pure}
    found = [pure[v] for v in reached(values, lambda v: pure[v].operands if v in pure else ()) if v in pure]
    return {inst["axis"] for inst in found if inst.op.name == "program_id"}
