"""Compute a block again from a row in memory instead of keeping it in scratch across a reduction of it (rematerialise)."""

from __future__ import annotations

from collections.abc import Mapping

from eas.analysis import users_of
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.schedule.rewrite.reload_blocks import LoadFacts, repeated

_MOST = 3  # such instructions: a vector of them takes no longer than to store and load it


def recompute_blocks(module: IRModule, copies: dict[Inst, Inst]) -> tuple[IRModule, dict[Inst, Inst]]:
    """Each use of a block that waits for a reduction of it has a short formula of its own, with a load of its own.

    `copies` says which load each load repeats, so that the partition keeps them apart; the result has these loads too.
    Without the copy of `x - mean` a layer norm stores each row once instead of twice.

    In textbooks: rematerialisation.

        %d = sub %x, %mean; %v = reduce (%d * %d); %y = mul %d, %v
        ->
        ... ; %x2 = load %p {again}; %d2 = sub %x2, %mean
        %y = mul %d2, %v
    """
    if not any(inst.op.name == "reduce" for inst in walk(module.body)):
        return module, copies
    facts = LoadFacts(module, users_of(module))
    copies = dict(copies)
    return module.with_body(repeated(module.body, facts, copies, _formula, reread=True, prefetched=True)), copies


def _formula(inst: Inst, made: Mapping[Value, Inst], facts: LoadFacts) -> list[Inst] | None:
    """The load and the few cheap instructions that lead from it to this one, in order; None where there is more to it."""
    if not _is_cheap(inst):
        return None
    steps = [inst]
    while len(steps) <= _MOST:
        blocks = [made.get(v) for v in dict.fromkeys(steps[-1].operands) if not _is_free(v, facts)]
        if len(blocks) != 1 or blocks[0] is None:
            return None
        steps.append(blocks[0])
        if blocks[0].op.name == "load":
            return steps[::-1] if facts.may_repeat(blocks[0]) else None
        if not _is_cheap(blocks[0]):
            return None
    return None


def _is_cheap(inst: Inst) -> bool:
    """Whether a block of numbers is made by one or two instructions per vector."""
    return inst.op.is_pure and inst.op.has(Trait.ELEMENTWISE) and inst.op.cost <= 2 and bool(inst.out.shape) and inst.out.type.is_value and inst.out.dtype is inst.operands[-1].dtype


def _is_free(value: Value, facts: LoadFacts) -> bool:
    """Whether an element costs nothing that is kept: scalars, numbers, positions, and masks made of them."""
    inst = facts.producer.get(value)
    if not value.shape:
        return True
    if inst is None or inst.regions or not inst.op.is_pure:
        return False
    is_plain = inst.op.has(Trait.CHEAP) or inst.op.has(Trait.SHAPE) or (inst.op.has(Trait.ELEMENTWISE) and value.dtype.is_bool)
    return is_plain and all(_is_free(v, facts) for v in inst.operands)
