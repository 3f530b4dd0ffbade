"""Masks that change with the counter of a loop inside a nest: they hold in all iterations if in the first and the last."""

from __future__ import annotations

from collections.abc import Iterator

from eas.analysis import mask_of
from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Inst, Region, Trait, Value
from eas.schedule.elements.elements import Elements, Index
from eas.schedule.elements.masks import Bounds

_EVEN = frozenset({"add", "sub", "neg", "mul", "broadcast", "expand_dims", "cast", "const", "arange"})
_JOINS = frozenset({"and", "broadcast", "expand_dims"})


def add_inner_masks(bounds: Bounds, elements: Elements, loop: Inst, index: tuple[Index, ...]) -> None:
    """Note where the masks of loads in a loop hold in every iteration."""
    loops = list(_loops(loop))
    inner = _Inner(loops)
    loads = [inst for each in loops for inst in each.regions[0].body if inst.op.name == "load"]
    masks = [m for i in loads if (m := mask_of(i)) is not None and m in inner.made and inner.is_even(m)]
    if not masks or any(elements.literal(each.operands[2]) != 1 or inner.moves_ends(each) for each in loops):
        return
    before = set(bounds.lanes)
    last = bounds.like()
    for found, is_last in ((bounds, False), (last, True)):
        there = _at_end(elements, loops, is_last)
        for mask in masks:
            found.add(there, mask, index)
    bounds.limits += last.limits
    bounds.starts += last.starts
    # How many lanes satisfy these depends on the iteration.
    bounds.lanes = {key: count for key, count in bounds.lanes.items() if key in before}


def _loops(loop: Inst) -> Iterator[Inst]:
    yield loop
    for inst in loop.regions[0].body:
        if inst.op.name == "for":
            yield from _loops(inst)


def _at_end(elements: Elements, loops: list[Inst], is_last: bool) -> Elements:
    """Elements as they are in the first or last iteration of every loop."""
    there = elements.nested()
    e, unknown = elements.e, set[Value]()  # what is carried or loaded, and all that follows from it
    for loop in loops:
        start, end = (there.at(v, ()) for v in loop.operands[:2])
        counter = loop.regions[0].params[0]
        there.scalars[counter] = e.emit("sub", end, e.const(1, end.type)) if is_last else start
        unknown.update(loop.regions[0].params[1:])
        _evaluate(there, unknown, loop.regions[0])
    return there


def _evaluate(there: Elements, unknown: set[Value], region: Region) -> None:
    for inst in region.body[:-1]:
        is_formula = inst.op.has(Trait.ELEMENTWISE) or inst.op.has(Trait.SHAPE) or inst.op.name == "const"
        if inst.regions or not inst.op.is_pure or not is_formula or not unknown.isdisjoint(inst.operands):
            unknown.update(inst.outs)
            continue
        if any(v.shape for v in (*inst.operands, *inst.outs)):
            there.formulas.update(dict.fromkeys(inst.outs, inst))
        elif all(not v.dtype.is_float and v.type.is_value for v in (*inst.operands, *inst.outs)):
            made = there.e.inst(inst.op.name, [there.at(v, ()) for v in inst.operands], dict(inst.attrs))
            there.scalars.update(zip(inst.outs, made.outs, strict=True))


class _Inner:
    """What loops make, and how it moves with their counters."""

    def __init__(self, loops: list[Inst]) -> None:
        self.made = {out: inst for each in loops for inst in each.regions[0].body for out in inst.outs}
        self.counters = {each.regions[0].params[0] for each in loops}
        self.carried = {p for each in loops for p in each.regions[0].params[1:]}

    def moves_ends(self, loop: Inst) -> bool:
        """Whether another of the loops decides where this one starts or ends."""
        return any(v in self.made or v in self.counters or v in self.carried for v in loop.operands[:2])

    def is_even(self, mask: Value) -> bool:
        """Whether a mask is made of comparisons whose sides move evenly with one counter each."""
        return evaluate(self._is_even, mask)

    def _is_even(self, mask: Value) -> Definition[Value, bool]:
        inst = self.made.get(mask)
        if inst is None:
            return mask not in self.carried
        if inst.op.name in ("lt", "le", "gt", "ge"):
            sides = [evaluate(self._counters, v) for v in inst.operands]
            known = [side for side in sides if side is not None]
            return len(known) == len(sides) and len(frozenset().union(*known)) <= 1
        return inst.op.name in _JOINS and all((yield from every(inst.operands)))

    def _counters(self, value: Value) -> Definition[Value, frozenset[Value] | None]:
        """The counters of which a number is an even function; None if it is not."""
        if value in self.counters:
            return frozenset({value})
        inst = self.made.get(value)
        if inst is None:
            return None if value in self.carried else frozenset()
        if inst.op.name not in _EVEN or not inst.out.dtype.is_signed or inst.out.dtype.bits < 32:
            return None  # unsigned and short numbers may wrap
        parts: list[frozenset[Value] | None] = yield from every(inst.operands)
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or (inst.op.name == "mul" and all(known)):
            return None
        return frozenset().union(*known)
