"""Move out of loops what is the same in every iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eas.analysis.effects import (
    Memory,
    free_of,
    is_load,
    is_movable,
    is_speculatable,
    own_insts,
)
from eas.ir import Inst, IRModule, Region, Trait, Value
from eas.ir.rewriting import Rewriter, rewrite
from eas.passes.fold_constants import trip_count


def hoist_invariants(module: IRModule) -> IRModule:
    """Pure instructions over outside values have left their loops, and so have safe loads.

    In textbooks: loop-invariant code motion.

        for %i { %a = mul %x, %y; store (%p + %i), %a }
        ->
        %a = mul %x, %y
        for %i { store (%p + %i), %a }
    """
    memory = Memory(module)

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if not inst.op.has(Trait.LOOP):
            return None
        everything = own_insts(inst.regions)

        def may_move(inner: Inst) -> bool:
            if not is_load(inner.op):
                return is_movable(inner.op)
            return not memory.is_written(
                memory.place(inner.operands[0], rw.producer), everything, rw.producer
            )

        # A load is never speculated: it leaves a region only if that runs at least once.
        runs = (bool(trip_count(inst, rw)),) if inst.op.name == "for" else (True, False)
        regions = tuple(
            [
                _hoist(region, may_move if ran else _may_speculate, rw)
                for region, ran in zip(inst.regions, runs, strict=True)
            ]
        )
        rw.append(inst if regions == inst.regions else replace(inst, regions=regions))
        return _settled(inst)

    return rewrite(module, rule, enter=_forward_unchanged)


def _hoist(region: Region, may_move: Callable[[Inst], bool], rw: Rewriter) -> Region:
    """Append what may move to the block around; returns the rest."""
    inside, kept = set(region.params), []
    for inst in region.body[:-1]:
        if may_move(inst) and free_of(inst, inside):
            rw.append(inst)
        else:
            kept.append(inst)
            inside.update(inst.outs)
    if len(kept) == len(region.body) - 1:
        return region
    return Region(region.params, (*kept, region.body[-1]))


def _may_speculate(inst: Inst) -> bool:
    return is_speculatable(inst.op)


def _carried(inst: Inst) -> tuple[tuple[Value, ...], list[tuple[Value, ...]]]:
    """The initial values of a loop, and per region the parameters that carry them."""
    if inst.op.name == "for":
        return inst.operands[3:], [inst.regions[0].params[1:]]
    return inst.operands, [r.params for r in inst.regions]


def _forward_unchanged(inst: Inst, rw: Rewriter) -> None:
    """A carried value that the body yields as it came is the initial one, inside and after."""
    if not inst.op.has(Trait.LOOP):
        return
    inits, params = _carried(inst)
    for i, (init, yielded) in enumerate(zip(inits, inst.regions[-1].yields, strict=True)):
        if yielded is init or yielded is params[-1][i]:
            for names in params:
                rw.replaced[names[i]] = rw.use(init)


def _settled(inst: Inst) -> list[Value]:
    """What stands for the results: the initial value where the body yields nothing else."""
    inits, _ = _carried(inst)
    return [
        init if y is init else out
        for out, init, y in zip(inst.outs, inits, inst.regions[-1].yields, strict=True)
    ]
