"""Tiles that are read along one axis of memory and written along the other: what is stored is transposed in registers.

`store(y + c[None, :] * n + r[:, None], load(x + r[:, None] * m + c[None, :]))` has no axis along which both are neighbours.
The same store of permuted blocks has: its nest runs along memory, and the one before transposes what it has read.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis.motion import Motion, motion_of
from eas.ir import Inst, IRModule, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite

_LEAST = 16  # elements along both axes: a register of any target


def transpose_stores(module: IRModule) -> IRModule:
    """Permute the operands of stores whose neighbours in memory are along the first of two axes, and of loads along the last.

    In textbooks: loop interchange by an in-register transpose.

        store (%y + %c[None, :] * n + %r[:, None]), %tile
        ->
        %p = permute %pointers {order=(1, 0)}; %t = permute %tile {order=(1, 0)}
        store %p, %t
    """
    stores = [inst for inst in walk(module.body) if inst.op.name == "store" and _is_tile(inst.operands[0])]
    if not stores:
        return module
    motion = motion_of(module)
    turned = {inst.operands for inst in stores if _runs_along(motion, inst.operands[0], 0) and _reads_across(motion, inst.operands[1])}

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "store" or inst.operands not in turned:
            return None
        operands = [rw.emit("permute", rw.use(v), order=(1, 0)) if v.shape else rw.use(v) for v in inst.operands]
        return rw.append(make("store", operands, dict(inst.attrs), (), inst.loc)).outs

    return rewrite(module, rule) if turned else module


def _is_tile(pointer: Value) -> bool:
    return len(pointer.shape) == 2 and min(pointer.shape) >= _LEAST


def _runs_along(motion: Motion, pointer: Value, axis: int) -> bool:
    """Whether neighbours along this axis are neighbours in memory, and those along the other are not."""
    return motion.step(pointer, axis) == 1 and motion.step(pointer, 1 - axis) not in (0, 1)


def _reads_across(motion: Motion, value: Value) -> bool:
    """Whether a block is made of loads and arithmetic, and tiles are loaded along the last axis, none along the first."""
    seen, work, found = {value}, [value], False
    while work:
        inst = motion.made.get(work.pop())
        if inst is not None and inst.op.name == "load":
            if motion.step(inst.operands[0], 0) == 1 and len(inst.out.shape) == 2:
                return False
            found |= _is_tile(inst.operands[0]) and _runs_along(motion, inst.operands[0], 1)
        elif inst is None or not _is_arithmetic(inst):
            return False
        else:
            work += [v for v in inst.operands if v.shape and v not in seen]
            seen.update(inst.operands)
    return found


def _is_arithmetic(inst: Inst) -> bool:
    is_known = inst.op.has(Trait.ELEMENTWISE) or inst.op.has(Trait.SHAPE) or inst.op.name in ("const", "arange")
    return inst.op.is_pure and not inst.regions and is_known
