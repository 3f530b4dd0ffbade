"""Compute a block again from a row in memory instead of keeping it in scratch across a reduction of it (rematerialise)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eas.analysis import made_by, users_of
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.schedule.rewrite.reload_blocks import Body, LoadFacts

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
    return module.with_body(_recomputed(module.body, facts, copies)), copies


def _recomputed(region: Region, facts: LoadFacts, copies: dict[Inst, Inst]) -> Region:
    body, made = Body(region.body), made_by(region.body)
    wanted: dict[Inst, list[list[Inst]]] = {}
    for inst in region.body:
        formula = _formula(inst, made, facts) if _is_cheap(inst) else None
        if formula is not None:
            for user in body.waiting(inst, facts.users.get(inst.out, [])):
                wanted.setdefault(user, []).append(formula)
    new: list[Inst] = []
    for inst in region.body:
        for formula in wanted.get(inst, ()):
            again = list(_clones(formula, copies))
            new += again
            inst = replace(inst, operands=tuple(again[-1].out if v is formula[-1].out else v for v in inst.operands))
        if inst.op.has(Trait.CONTROL):
            inst = replace(inst, regions=tuple(_recomputed(r, facts, copies) for r in inst.regions))
        new.append(inst)
    return replace(region, body=tuple(new))


def _formula(inst: Inst, made: dict[Value, Inst], facts: LoadFacts) -> list[Inst] | None:
    """The load and the few cheap instructions that lead from it to this one, in order; None where there is more to it."""
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


def _clones(formula: list[Inst], copies: dict[Inst, Inst]) -> Iterator[Inst]:
    """The same instructions with results of their own; the row has been asked for by the load that they repeat."""
    new: dict[Value, Value] = {}
    for inst in formula:
        clone = replace(inst, operands=tuple(new.get(v, v) for v in inst.operands), outs=(Value(inst.out.type, inst.out.hint),))
        if inst.op.name == "load":
            clone = clone.with_attrs(again=True, asked=True)
            copies[clone] = inst
        new[inst.out] = clone.out
        yield clone
