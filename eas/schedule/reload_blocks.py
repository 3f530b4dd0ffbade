"""Read a block from memory again instead of keeping a copy in scratch across a reduction of it."""

from __future__ import annotations

from dataclasses import replace

from eas.indexing import analyse
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.passes.effects import Memory


def reload_blocks(module: IRModule) -> tuple[IRModule, dict[Inst, Inst]]:
    """Each use of a loaded block that waits for a reduction of the same block has a load of its own.

    Also which load each of these repeats, so that the partition keeps them apart. The row is in the cache either way; a copy would be written, read and take as much of it again.
    Only for whole words in memory that nobody writes, read in runs.
    """
    body = module.body.body
    users: dict[Value, list[Inst]] = {}
    for inst in walk(module.body):
        for operand in inst.operands:
            users.setdefault(operand, []).append(inst)
    producer = {out: inst for inst in body for out in inst.outs}
    loads = [i for i in body if i.op.name == "load" and _may_repeat(i, users.get(i.out, []), body)]
    if not loads:
        return module, {}
    memory, accesses = Memory(module), analyse(module)
    wanted: dict[Inst, list[Inst]] = {}
    for load in loads:
        (access,) = accesses.of(load)
        is_run = access.is_affine and access.contiguous_axis == len(load.out.shape) - 1
        if is_run and memory.is_stable(memory.place(load.operands[0], producer)):
            for user in _waiting(load, users[load.out], body):
                wanted.setdefault(user, []).append(load)
    made, copies = _with_copies(body, wanted)
    return module.with_body(Region(module.body.params, made)), copies


def _may_repeat(load: Inst, users: list[Inst], body: tuple[Inst, ...]) -> bool:
    """A block of words of which nobody needs more than one element at a time."""
    if not load.out.shape or load.out.dtype.nbytes < 4:
        return False
    return all(u.op.name == "reduce" or (u.op.has(Trait.ELEMENTWISE) and u in body) for u in users)


def _waiting(load: Inst, users: list[Inst], body: tuple[Inst, ...]) -> list[Inst]:
    """The users that need the result of a reduction which needs the block."""
    near: set[Value] = set(load.outs)
    after: set[Value] = set()
    for inst in body:
        needed = {v for part in walk(Region((), (inst,))) for v in part.operands}
        if needed & after or (inst.op.name == "reduce" and needed & near):
            after.update(inst.outs)
        elif needed & near:
            near.update(inst.outs)
    return [u for u in users if u.op.name != "reduce" and any(v in after for v in u.operands)]


def _with_copies(
    body: tuple[Inst, ...], wanted: dict[Inst, list[Inst]]
) -> tuple[tuple[Inst, ...], dict[Inst, Inst]]:
    made: list[Inst] = []
    copies: dict[Inst, Inst] = {}
    for inst in body:
        for load in wanted.get(inst, ()):
            again = replace(load, outs=(Value(load.out.type, load.out.hint),))
            copies[again] = load
            made.append(again)
            inst = replace(inst, operands=tuple(again.out if v is load.out else v for v in inst.operands))
        made.append(inst)
    return tuple(made), copies
