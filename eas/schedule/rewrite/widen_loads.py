"""Rows and columns that a tile is combined with are loaded for each of its elements, not kept in scratch.

A tile and a bias are then one nest, and tiles side by side are one walk along the rows of the matrix. What is
loaded again comes from the cache, where a copy would have been as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eas.analysis import made_by, users_of
from eas.analysis.effects import Memory
from eas.analysis.indexing import analyse
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.ir.rewriting import Rewriter, rewrite

_WIDENS = ("expand_dims", "broadcast")


def widen_loads(module: IRModule, loops: Collection[Inst] = ()) -> IRModule:
    """Replace `broadcast(load(p))` by `load(broadcast(p))` in kernels that only combine tiles element by element, and in some loops.

    In textbooks: rematerialisation of a broadcast operand.

        %b = load %p : f32[64]; %t = broadcast %b : f32[16, 64]
        ->
        %q = broadcast %p : ptr<f32>[16, 64]
        %t = load %q : f32[16, 64]
    """
    insts = list(walk(module.body))
    plain = insts if all(_is_plain(i) for i in insts) else [i for loop in loops if _is_tile_sum(loop) for i in loop.regions[0].body]
    if not any(inst.op.name == "load" and inst.out.shape for inst in plain):
        return module
    users = users_of(module)
    made = made_by(insts)
    memory = Memory(module)
    narrow = [i for i in plain if i.op.name == "load" and i.out.shape and _is_only_widened(i.out, users)]
    if not narrow:
        return module
    accesses = analyse(module)
    chosen: dict[Value, Inst] = {}
    for load in narrow:
        (access,) = accesses.of(load)
        if access.is_affine and memory.is_stable(memory.place(load.operands[0], made)):
            chosen[load.out] = load

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "broadcast":
            return None
        views, source = [inst], made.get(inst.operands[0])
        while source is not None and source.op.name in _WIDENS:
            views.append(source)
            source = made.get(source.operands[0])
        if source is None or source.outs[0] not in chosen:
            return None
        operands = [_viewed(rw, rw.use(v), views[::-1]) for v in source.operands]
        return (rw.emit("load", *operands, **dict(source.attrs)),)

    return rewrite(module, rule) if chosen else module


def _viewed(rw: Rewriter, value: Value, views: Sequence[Inst]) -> Value:
    for view in views:
        value = rw.emit(view.op.name, value, **dict(view.attrs))
    return value


def _is_tile_sum(loop: Inst) -> bool:
    """Whether a loop carries one tile, and only combines what it reads element by element, in loops inside of it too."""
    inner = [i for i in walk(loop.regions[0]) if i.op.name != "for"]
    return len(loop.outs) == 1 and len(loop.outs[0].shape) > 1 and all(i.op.name != "store" and _is_plain(i) for i in inner)


def _is_plain(inst: Inst) -> bool:
    if inst.op.name in ("load", "store", "yield"):
        return True
    return inst.op.is_pure and not inst.regions and not any(map(inst.op.has, (Trait.FOLD, Trait.CUT, Trait.CONVERGENT)))


def _is_only_widened(value: Value, users: dict[Value, list[Inst]]) -> bool:
    """Whether a block is only looked at as part of a larger one."""
    left = [value]
    while left:
        found = users.get(left.pop(), [])
        if not found or any(inst.op.name not in ("broadcast", "expand_dims") for inst in found):
            return False
        left += [inst.out for inst in found if inst.op.name == "expand_dims"]
    return True


__all__ = ["widen_loads"]
