"""Read a block from memory again instead of keeping a copy in scratch across a reduction of it."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from eas.analysis import made_by, producers, users_of, with_inner
from eas.analysis.effects import Memory
from eas.analysis.indexing import analyse
from eas.ir import Inst, IRModule, Region, Trait, Value, walk


def reload_blocks(module: IRModule) -> tuple[IRModule, dict[Inst, Inst]]:
    """Each use of a loaded block that waits for a reduction of the same block has a load of its own.

    Also which load each of these repeats, so that the partition keeps them apart. The row is in the cache either way; a copy would be written, read and take as much of it again.
    Only for whole words in memory that nobody writes, read in runs.

    In textbooks: rematerialisation of a load.

        %x = load %p; %m = reduce max %x; %d = sub %x, %m
        ->
        %x = load %p; %m = reduce max %x
        %x2 = load %p {again}; %d = sub %x2, %m
    """
    users = users_of(module)
    if not any(_is_block_of_words(inst, users) for inst in walk(module.body)):
        return module, {}
    facts = LoadFacts(module, users)
    copies: dict[Inst, Inst] = {}
    return module.with_body(repeated(module.body, facts, copies, _load, reread=True)), copies


def _load(inst: Inst, made: Mapping[Value, Inst], facts: LoadFacts) -> list[Inst] | None:
    return [inst] if facts.may_repeat(inst) else None


class LoadFacts:
    """What is known of the loads of a module."""

    def __init__(self, module: IRModule, users: dict[Value, list[Inst]]) -> None:
        self.users = users
        self._memory, self._accesses = Memory(module), analyse(module)
        self.producer = producers(module)

    def may_repeat(self, load: Inst) -> bool:
        """Whether neighbours in memory are read, which nobody writes, and nobody needs more than one of them at a time."""
        if not _is_block_of_words(load, self.users):
            return False
        (access,) = self._accesses.of(load)
        is_run = access.is_affine and access.contiguous_axis == len(load.out.shape) - 1
        return is_run and self._memory.is_stable(self._memory.place(load.operands[0], self.producer))


def repeated(region: Region, facts: LoadFacts, copies: dict[Inst, Inst], formula_of: FormulaOf, **marks: object) -> Region:
    """The region and those inside it, with formulas repeated in front of users that wait; `copies` learns which loads repeat which."""
    body, made = Body(region.body), made_by(region.body)
    wanted: dict[Inst, list[list[Inst]]] = {}
    for inst in region.body:
        formula = formula_of(inst, made, facts)
        if formula is not None:
            for user in body.waiting(inst, facts.users.get(inst.out, [])):
                wanted.setdefault(user, []).append(formula)
    new: list[Inst] = []
    for inst in region.body:
        for formula in wanted.get(inst, ()):
            again = list(_clones(formula, copies, marks))
            new += again
            inst = replace(inst, operands=tuple(again[-1].out if v is formula[-1].out else v for v in inst.operands))
        if inst.op.has(Trait.CONTROL):
            inst = replace(inst, regions=tuple(repeated(r, facts, copies, formula_of, **marks) for r in inst.regions))
        new.append(inst)
    return replace(region, body=tuple(new))


def _clones(formula: list[Inst], copies: dict[Inst, Inst], marks: Mapping[str, object]) -> Iterator[Inst]:
    """The same instructions with results of their own; loads are marked."""
    new: dict[Value, Value] = {}
    for inst in formula:
        clone = replace(inst, operands=tuple(new.get(v, v) for v in inst.operands), outs=(Value(inst.out.type, inst.out.hint),))
        if inst.op.name == "load":
            clone = clone.with_attrs(**marks)
            copies[clone] = inst
        new[inst.out] = clone.out
        yield clone


def _is_block_of_words(inst: Inst, users: dict[Value, list[Inst]]) -> bool:
    """A block of words of which nobody needs more than one element at a time."""
    if inst.op.name != "load" or not inst.out.shape or inst.out.dtype.nbytes < 4:
        return False
    return all(u.op.name == "reduce" or u.op.has(Trait.ELEMENTWISE) for u in users.get(inst.out, ()))


FormulaOf = Callable[[Inst, Mapping[Value, Inst], LoadFacts], list[Inst] | None]
"""The instructions that make a block again, a load first; None for a block that is kept."""


class Body:
    """The instructions of a region, each with what it needs."""

    def __init__(self, body: tuple[Inst, ...]) -> None:
        self.insts, self.place = body, {inst: at for at, inst in enumerate(body)}
        self.needed = [{v for part in with_inner(inst) for v in part.operands} for inst in body]
        self.reductions = [at for at, inst in enumerate(body) if inst.op.name == "reduce"]

    def waiting(self, load: Inst, users: list[Inst]) -> list[Inst]:
        """The users that need the result of a reduction which needs the block; none if a user stands further inside."""
        plain = [u for u in users if u.op.name != "reduce"]
        if not plain or not all(u in self.place for u in plain):
            return []
        first, last = self.place[load], max(self.place[u] for u in plain)
        if bisect(self.reductions, first) == bisect(self.reductions, last):
            return []
        near: set[Value] = set(load.outs)
        after: set[Value] = set()
        for inst, needed in zip(self.insts[first:last], self.needed[first:last], strict=True):
            if needed & after or (inst.op.name == "reduce" and needed & near):
                after.update(inst.outs)
            elif needed & near:
                near.update(inst.outs)
        return [u for u in plain if any(v in after for v in u.operands)]
