"""Loops and branches that carry a pointer carry its distance from its buffer instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from eas.base import dtypes
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter

_OFFSET = Type(dtypes.i64)
Roots = dict[Value, Value | None]


def carry_offsets(module: IRModule, blocks: bool = False) -> IRModule:
    """No loop or branch yields a scalar pointer (or, if asked, a block of them), unless it may point into several buffers.

    In textbooks: strength reduction, undone for pointers.

        for %p = %start (%i, %q: ptr) { ...; yield addptr(%q, %step) }
        ->
        for %o = 0 (%i, %d: i64) { %q = addptr %start, %d
                                   ...; yield (%d + %step) }
    """
    roots = _roots(module)
    carried = {
        out
        for inst in walk(module.body)
        if inst.op.has(Trait.CONTROL)
        for out in inst.outs
        if roots.get(out) is not None and bool(out.shape) is blocks
    }
    if not carried:
        return module
    return module.with_body(_Carrier(roots, carried).region_of(module.body, (), 0))


class _Slot(NamedTuple):
    """One result of a loop or branch, and everything that flows into it."""

    out: Value
    params: tuple[Value, ...]
    sources: tuple[Value, ...]


def _slots(inst: Inst) -> Iterator[_Slot]:
    n = len(inst.outs)
    inits = () if inst.op.name == "if" else inst.operands[len(inst.operands) - n :]
    for i, out in enumerate(inst.outs):
        params = tuple(r.params[len(r.params) - n + i] for r in inst.regions if r.params)
        yields = tuple(r.yields[i] for r in _yielding(inst))
        yield _Slot(out, params, (*inits[i : i + 1], *yields))


def _yielding(inst: Inst) -> tuple[Region, ...]:
    """The regions that yield the results: not the test of a `while`."""
    return inst.regions[-1:] if inst.op.name == "while" else inst.regions


def _roots(module: IRModule) -> Roots:
    """The argument or allocation that each pointer points into; None for one of several."""
    roots: Roots = {a.value: a.value for a in module.args if a.is_buffer}
    before: Roots | None = None
    while before != roots:
        before = dict(roots)
        for inst in walk(module.body):
            _update_roots(inst, roots)
    return roots


def _update_roots(inst: Inst, roots: Roots) -> None:
    if inst.op.has(Trait.CONTROL):
        for slot in _slots(inst):
            found = {roots[v] for v in slot.sources if v in roots}
            for value in (slot.out, *slot.params) if found else ():
                roots[value] = found.copy().pop() if len(found) == 1 else None
        return
    for out in inst.outs:
        if out.type.is_pointer and not inst.operands:
            roots[out] = out
        elif out.type.is_pointer:
            found = {roots[v] for v in inst.operands if v in roots}
            if found:
                roots[out] = found.pop() if len(found) == 1 else None


class _Carrier(Rewriter):
    def __init__(self, roots: Roots, carried: Collection[Value]) -> None:
        super().__init__()
        self.roots = roots
        self.carried = carried
        self.distance: dict[Value, Value] = {}

    def visit(self, inst: Inst) -> None:
        self.loc = inst.loc
        operands = [self.use(v) for v in inst.operands]
        if not inst.op.has(Trait.CONTROL):
            self.append(replace(inst, operands=tuple(operands)))
            return
        n = len(inst.outs)
        moved = {i for i, out in enumerate(inst.outs) if out in self.carried}
        for i in moved if inst.op.name != "if" else ():
            at = len(operands) - n + i
            operands[at] = self.offset(operands[at])
        yielding = _yielding(inst)
        regions = [self.region_of(r, moved, n, r in yielding) for r in inst.regions]
        self.loc = inst.loc
        new = self.append(
            make(
                inst.op.name,
                operands,
                dict(inst.attrs),
                regions,
                inst.loc,
                [v.hint for v in inst.outs],
            )
        )
        for i, (old, out) in enumerate(zip(inst.outs, new.outs, strict=True)):
            self.replaced[old] = self.pointer(old, out) if i in moved else out

    def region_of(
        self, region: Region, moved: Collection[int], n: int, yields_slots: bool = True
    ) -> Region:
        """The region with offsets for those of its last `n` parameters and yields that moved."""
        self._blocks.append([])
        params = list(region.params)
        for i in moved if params else ():
            at = len(params) - n + i
            params[at] = Value(_OFFSET.with_shape(region.params[at].shape), region.params[at].hint)
            self.replaced[region.params[at]] = self.pointer(region.params[at], params[at])
        for inst in region.body[:-1]:
            self.visit(inst)
        self.loc = region.body[-1].loc
        yields = [self.use(v) for v in region.yields]
        for i in moved if yields_slots else ():
            yields[i] = self.offset(yields[i])
        self.append(make("yield", yields, loc=self.loc))
        return Region(tuple(params), tuple(self._blocks.pop()))

    def pointer(self, old: Value, offset: Value) -> Value:
        """What stands for the pointer `old`, of which only the distance is carried."""
        root = self.roots[old]
        assert root is not None
        base = self.emit("broadcast", root, shape=offset.shape) if offset.shape else root
        pointer = self.emit("addptr", base, offset, hints=[old.hint])
        self.distance[pointer] = offset
        return pointer

    def offset(self, pointer: Value) -> Value:
        """How far `pointer` is from its root, in elements; of a block, how far each is."""
        return evaluate(self._offset, pointer)

    def _offset(self, pointer: Value) -> Definition[Value, Value]:
        if pointer in self.distance:
            return self.distance[pointer]
        inst = self.producer.get(pointer)
        if inst is None or not inst.operands:
            return self.const(0, _OFFSET)
        before = yield inst.operands[0]
        if inst.op.name == "addptr":
            wide = _OFFSET.with_shape(pointer.shape)
            return self.emit("add", before, self.emit("cast", inst.operands[1], type=wide))
        if inst.op.has(Trait.SHAPE):
            moved = [before, *(yield from every(inst.operands[1:]))]
            made = self.append(make(inst.op.name, moved, dict(inst.attrs), loc=self.loc))
            return made.outs[inst.outs.index(pointer)]
        return before  # a hint
