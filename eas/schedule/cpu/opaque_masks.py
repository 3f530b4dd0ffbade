"""Masks of loads in a loop that is inside a nest: what all lanes agree on is a branch, the rest is made before the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eas.base.types import Type
from eas.ir import Inst, Value, walk
from eas.schedule.elements.addresses import first_address
from eas.schedule.elements.elements import Elements, Index, Known, axes, nothing
from eas.schedule.elements.masks import I64, Conjunct, conjuncts
from eas.schedule.elements.members import takes_masks
from eas.schedule.target import CpuTarget


class OpaqueMasks:
    """The masks that one body of a nest has made so far, by their conditions."""

    def __init__(
        self, target: CpuTarget, middle: tuple[int, int] | None = None, inside: frozenset[Known] = frozenset()
    ) -> None:
        self.middle, self.inside = middle, inside  # lanes between which these conditions hold
        # Else a mask has registers of its own, and is not made again and again; or loads have none.
        self.needs_words = target.has_cheap_masks and not target.has_mask_registers
        self.held: dict[frozenset[Known], Value] = {}
        self.any_lane: dict[frozenset[Known], Value] = {}

    def load(self, elements: Elements, inst: Inst, index: tuple[Index, ...]) -> Value | None:
        """A load with a mask, of neighbours or of one element for all lanes; None if it is another."""
        pointer = inst.operands[0]
        if len(inst.operands) > 1 and takes_masks(elements, pointer, index):
            return self._load_vector(elements, inst, index)
        if len(inst.operands) == 2 and elements.step(pointer, index) == 0:
            return self._load_shared(elements, inst, index)
        return None

    def hold(self, elements: Elements, loop: Inst, index: tuple[Index, ...]) -> None:
        """Make the masks that a loop does not change."""
        if not self.needs_words:
            return
        inside = {v: i for r in loop.regions for i in walk(r) for v in i.outs}
        for inst in (i for r in loop.regions for i in walk(r)):
            if inst.op.name != "load" or len(inst.operands) < 2:
                continue
            for part in _parts(inst.operands[1], inside):
                _, lanes = _split(elements, part, index)
                if lanes and _key(lanes) not in self.held:
                    self.held[_key(lanes)] = self._words(elements, lanes)
            if inst.operands[1] not in inside and _is_shared(inst.operands[0], inside):
                _, lanes = _split(elements, inst.operands[1], index)
                if lanes and _key(lanes) not in self.any_lane:
                    self.any_lane[_key(lanes)] = self.some(elements, lanes)

    def mask(self, elements: Elements, lanes: Sequence[Conjunct]) -> Value:
        """The mask of some conditions, as a held one if there is one."""
        if not self.needs_words:
            return _all(elements, lanes)
        found, left = list[Value](), list(lanes)
        for key in sorted(self.held, key=len, reverse=True):
            if key <= _key(left):
                found.append(self.held[key])
                left = [c for c in left if _key([c]).isdisjoint(key)]
        return _joined(elements, [*found, *([self._words(elements, left)] if left else [])])

    def is_on(self, elements: Elements, lanes: Sequence[Conjunct]) -> Value:
        """As a condition of each lane."""
        mask = self.mask(elements, lanes)
        return elements.e.emit("lt", mask, elements.e.const(0)) if self.needs_words else mask

    def some(self, elements: Elements, lanes: Sequence[Conjunct]) -> Value:
        """Whether the conditions hold in some lane."""
        return self.any_lane.get(_key(lanes)) or elements.e.emit("vany", self.is_on(elements, lanes))

    def _words(self, elements: Elements, lanes: Sequence[Conjunct]) -> Value:
        return _joined(elements, [elements.e.emit("opaque", elements.at(condition, where)) for condition, where in lanes])

    def _load_vector(self, elements: Elements, inst: Inst, index: tuple[Index, ...]) -> Value:
        """A masked load of neighbours, or of every second to fourth of them: nothing is read where a condition is false for all lanes."""
        e, (pointer, mask, *other) = elements.e, inst.operands
        whole, lanes = _split(elements, mask, index)

        def read() -> Sequence[Value]:
            inner = elements.nested()
            extra = [self.mask(inner, lanes)] if lanes else []
            if extra and other:
                extra.append(inner.at(other[0], index))
            attrs: dict[str, Any] = {"sure": True} if extra else {}
            if extra and self.middle is not None and _key(lanes) <= self.inside:
                attrs["middle"] = self.middle
            at, step = first_address(inner, pointer, index), elements.step(pointer, index)
            if step == 1:
                return e.inst("vload", [at, *extra], attrs).outs
            return e.inst("stride_load", [at, e.const(step, I64), *extra], attrs).outs

        if not whole:
            return read()[0]
        condition = _all(elements, [(c, tuple(ix.first() for ix in where)) for c, where in whole])
        zero = [elements.at(other[0], index)] if other else [e.const(nothing(inst.out), Type(inst.out.dtype))]
        return e.inst("if", [condition], {}, [e.region([], read), e.region([], lambda: zero)]).out

    def _load_shared(self, elements: Elements, inst: Inst, index: tuple[Index, ...]) -> Value:
        """A masked load of one element for all lanes: it is read if some lane is on, and 0 in the others."""
        e, (pointer, mask) = elements.e, inst.operands
        whole, lanes = _split(elements, mask, index)
        first = [(c, tuple(ix.first() for ix in where)) for c, where in whole]
        guards = [_all(elements, first)] if first else []
        guards += [self.some(elements, lanes)] if lanes else []
        if not guards:
            return e.emit("load", elements.at(pointer, tuple(ix.first() for ix in index)))
        guard = guards[0] if len(guards) == 1 else e.emit("and", *guards)
        value = e.emit("load", elements.at(pointer, tuple(ix.first() for ix in index)), guard)
        if not lanes:
            return value
        return e.emit("select", self.is_on(elements, lanes), value, e.const(nothing(inst.out), value.type))


def _parts(mask: Value, inside: Mapping[Value, Inst]) -> Iterator[Value]:
    """The largest conditions of a mask that a loop does not change."""
    left = [mask]
    while left:
        mask = left.pop()
        if mask not in inside:
            yield mask
        elif inside[mask].op.name == "and":
            left += reversed(inside[mask].operands)


def _is_shared(pointer: Value, inside: Mapping[Value, Inst]) -> bool:
    """Whether an address that a loop makes is one for all lanes."""
    return pointer in inside and inside[pointer].op.name == "broadcast" and inside[pointer].operands[0].type.is_scalar


def _split(elements: Elements, mask: Value, index: tuple[Index, ...]) -> tuple[list[Conjunct], list[Conjunct]]:
    """The conditions of a mask that are not known to hold: those that all lanes agree on, and the others."""
    whole: list[Conjunct] = []
    lanes: list[Conjunct] = []
    for condition, where in conjuncts(elements, mask, index):
        if (condition, axes(where)) in elements.context.known_true:
            continue
        is_one = condition.type.is_scalar or elements.step(condition, where) == 0
        (whole if is_one else lanes).append((condition, where))
    return whole, lanes


def _key(lanes: Sequence[Conjunct]) -> frozenset[Known]:
    return frozenset((condition, axes(where)) for condition, where in lanes)


def _all(elements: Elements, conditions: Sequence[Conjunct]) -> Value:
    return _joined(elements, [elements.at(condition, where) for condition, where in conditions])


def _joined(elements: Elements, values: Sequence[Value]) -> Value:
    first, *rest = values
    for value in rest:
        first = elements.e.emit("and", first, value)
    return first
