"""The place of the extreme of a row: first the extreme alone, then the first element that equals it.

Positions cost as much as elements, or several times that where elements are narrow; the extreme alone takes one instruction
per vector, and its place is the first bit of a comparison. Of a long row only the step that has the extreme is read again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eas.analysis import mask_of
from eas.analysis.combines import IDENTITIES
from eas.base.types import Type
from eas.ir import Value
from eas.schedule.cpu.loops.ends import end_with_tail, has_one_tail
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.loops.reductions import cast
from eas.schedule.cpu.loops.row_parts import Row, TailPlan
from eas.schedule.cpu.streams import is_light
from eas.schedule.elements.elements import I32, I64, TRUE, Place, Slot, axes, first_lane
from eas.schedule.elements.masks import conjuncts
from eas.schedule.elements.members import member

_LEAST = 4  # lanes of a vector
_WORD = 64  # bits: the lanes that are compared before a branch
_STEPS = 4  # vectors of a step of a loop along a row
_NARROW_STEPS = 8  # the same of a long row whose elements are narrower than positions: of each step one position is kept
_LONG = 8  # steps of a row of which only the one that has the extreme is read again
_ROUNDED = frozenset({"add", "sub", "mul", "fma"})
"""Of floats: two of them may become one instruction in one loop, with another result than in the next."""


def plan_search(nest: NestLoops, row: Row) -> Callable[[], None] | None:
    """Where all that the nest does is to look for the place of an extreme among neighbours, up to a bound."""
    is_plain = nest.lanes > 1 and not (nest.runs.modes or row.bounds.starts or row.bounds.span or (row.tail and row.tail.read))
    if not is_plain or not _is_search(nest, row):
        return None
    search = Search(nest, row)
    if not row.has_masks:
        return lambda: nest.put(row.bases, search.of(nest.e.const(nest.extent)))
    tail = search.tail()
    return None if tail is None else lambda: nest.put(row.bases, search.up_to(tail))


def _is_search(nest: NestLoops, row: Row) -> bool:
    """Whether the nest is one argmax or argmin whose elements may cheaply be read twice, with the same result."""
    reduction = nest.reductions[0] if nest.may_repeat() and len(nest.reductions) == 1 else None
    if reduction is None or reduction.extreme is None or not reduction.is_ascending:
        return False
    value, others = reduction.inst.operands[0], [i for i in nest.members if i is not reduction.inst]
    if not any(value in i.outs for i in others) and type(nest.p.slots.get(value)) is not Slot:
        return False
    is_exact = not any(i.op.name in _ROUNDED and i.out.dtype.is_float for i in others)
    loads = [i.operands[0] for i in others if i.op.name == "load"]
    return is_exact and is_light(others) and all(row.elements.step_inside(p, row.start) == 1 for p in loads)


@dataclass(eq=False)
class Search:
    """The loops over one row."""

    nest: NestLoops
    row: Row

    def __post_init__(self) -> None:
        self.e, self.reduction = self.nest.e, self.nest.reductions[0]
        target, dtype = self.nest.p.target, self.reduction.inst.operands[0].dtype
        self.is_biased = dtype.nbytes == I64.dtype.nbytes and not (dtype.is_float or dtype.is_signed or target.has_unsigned_compares)
        self.dtype = I64.dtype if self.is_biased else dtype
        self.lanes = max(_LEAST, target.vector_nbytes // self.dtype.nbytes)
        self.word = min(_WORD, target.most_lanes, _STEPS * self.lanes)
        steps = _NARROW_STEPS if self.dtype.is_int and self.dtype.nbytes < I32.dtype.nbytes else _STEPS
        self.is_long = self.nest.extent >= _LONG * steps * self.lanes
        self.steps = steps if self.is_long else _STEPS

    # --- how many elements there are ----------------------------------------------------------

    def tail(self) -> TailPlan | None:
        """What is behind the bound of the one mask of the row, if that is the bound of all of its conditions."""
        nest, bounds = self.nest, self.row.bounds
        known = {(c, axes(at)) for c, at in self._conditions()}
        if len({mask_of(inst) for inst in nest.insts()} - {None}) != 1 or not known <= bounds.known & (bounds.whole | bounds.lanes.keys()):
            return None
        if bounds.whole and len(nest.members) > 2:  # of a row that is off as a whole, other conditions may still hold
            return None
        plan = TailPlan(frozenset(known), self.row.start, {})
        return plan if has_one_tail(nest, plan) else None

    def up_to(self, tail: TailPlan) -> list[Value]:
        """The extreme of a row and its place, with what is behind the bound of its mask."""
        bounds, extent = self.row.bounds, self.nest.extent
        if not bounds.whole or len(bounds.lanes) > 1:
            return self._with_tail(tail, bounds.end(extent, 1))
        # Rows that are on as a whole have one length, which is not computed for each of them.
        on = [self.row.elements.at(c, first_lane(at)) for c, at in self._conditions() if (c, axes(at)) in bounds.whole]
        is_on = functools.reduce(lambda a, b: self.e.emit("and", a, b), on)
        count, none = bounds.stop(extent), self.e.const(0)
        regions = [self.e.region([], lambda: self._with_tail(tail, count)), self.e.region([], lambda: self._with_tail(tail, none))]
        return list(self.e.inst("if", [is_on], {}, regions).outs)

    def _conditions(self) -> list[Place]:
        """What the mask of the row asks for."""
        masks = {m for inst in self.nest.insts() if (m := mask_of(inst)) is not None}
        return [c for m in masks for c in conjuncts(self.row.elements, m, self.row.start)]

    def _with_tail(self, tail: TailPlan, count: Value) -> list[Value]:
        tail.stop = count
        return end_with_tail(self.nest, self.row.bases, tail, self.of(count))

    def of(self, count: Value) -> list[Value]:
        """The extreme of the first `count` elements and its place."""
        if self.e.literals.get(count) == 0:
            return self._singly(count)
        if self.nest.extent <= self.word:
            return self._few(count, self.lanes, self.word)
        return self._choose(count, self.word + 1, lambda: self._many(count), lambda: self._few(count, self.lanes, self.word))

    def _choose(self, count: Value, least: int, enough: Callable[[], list[Value]], fewer: Callable[[], list[Value]]) -> list[Value]:
        if self.e.literals.get(count, 0) >= least:
            return enough()
        is_enough = self.e.emit("ge", count, self.e.const(least))
        return list(self.e.inst("if", [is_enough], {}, [self.e.region([], enough), self.e.region([], fewer)]).outs)

    def _few(self, count: Value, lanes: int, most: int) -> list[Value]:
        """At most `most` elements: vectors that all overlap the next, of fewer lanes if there are fewer elements."""
        if lanes > self.nest.extent:
            return self._few(count, lanes // 2, lanes)
        if lanes < _LEAST:
            return self._singly(count)
        vectors = -(-min(most, self.nest.extent) // lanes)
        return self._choose(count, lanes, lambda: self._in_word(count, lanes, vectors), lambda: self._few(count, lanes // 2, lanes))

    def _singly(self, count: Value) -> list[Value]:
        """One element after the other."""
        nest, e = self.nest, self.e
        start = self.reduction.start(nest.p.elements(), nest.index(self.row.bases, e.const(0), 1), has_lanes=False)
        return nest.part(self.row.bases, e.const(0), count, 1, self.row.known, start)

    # --- the extreme --------------------------------------------------------------------------

    def _vector(self, first: Value, lanes: int, is_again: bool = False) -> Value:
        """The elements of a vector, of which the extreme is asked for."""
        context, index = self.nest.context(self.row.known), self.nest.index(self.row.bases, first, lanes)
        elements = self.nest.p.within(replace(context, prefetch=None) if is_again else context)
        for inst in self.nest.members:
            self.e.loc = inst.loc
            if inst is not self.reduction.inst:
                member(elements, inst, index)
        value = elements.at(self.reduction.inst.operands[0], index)
        return self._biased(cast(self.e, value, I64)) if self.is_biased and not is_again else value

    def _biased(self, value: Value) -> Value:
        """The signed number that is to others as the unsigned one of these bits is, and back."""
        return self.e.emit("xor", value, self.e.const(I64.dtype.min, I64))

    def _unbiased(self, best: Value) -> Value:
        """The extreme, as the row has it."""
        return cast(self.e, self._biased(best), Type(self.reduction.inst.operands[0].dtype)) if self.is_biased else best

    def _better(self, a: Value, b: Value) -> Value:
        """The extreme of two values without NaN: of floats one instruction that does not care for it."""
        assert self.reduction.extreme is not None
        if not self.dtype.is_float:
            return self.e.emit(self.reduction.extreme, a, b)
        return self.e.emit("select", self._is_better(a, b), a, b)

    def _is_better(self, a: Value, b: Value) -> Value:
        return self.e.emit("gt" if self.reduction.extreme == "max" else "lt", a, b)

    def _start(self) -> list[Value]:
        """What is carried: the extreme, NaN where one was seen, and of a long row where the step of the extreme starts."""
        assert self.reduction.extreme is not None
        start = [self.e.const(IDENTITIES[self.reduction.extreme](self.dtype), Type(self.dtype))]
        if self.dtype.is_float:
            start.append(self.e.const(0.0, Type(self.dtype)))
        place = I64 if self.dtype.nbytes == I64.dtype.nbytes else I32  # a choice is cheapest among what has one width
        return [*start, self.e.const(0, place)] if self.is_long else start

    def _together(self, vectors: Sequence[Value]) -> tuple[Value, list[Value]]:
        """The extreme of some vectors, lane by lane; and of floats whether one of them is NaN."""
        e = self.e
        best = _in_pairs(self._better, vectors)
        # In pairs, because one instruction asks two vectors for NaN.
        nan = [_in_pairs(lambda a, b: e.emit("or", a, b), [e.emit("isnan", v) for v in vectors])] if self.dtype.is_float else []
        return best, nan

    def _step(self, carried: Sequence[Value], vectors: Sequence[Value], first: Value | None) -> list[Value]:
        """Some vectors more, which start at `first` where that is asked for."""
        e, (here, flags) = self.e, self._together(vectors)
        nan = [e.emit("select", flag, e.const(float("nan"), Type(self.dtype)), carried[1]) for flag in flags]
        if first is None:
            return [self._better(here, carried[0]), *nan]
        wins = self._is_better(here, carried[0])
        place = e.emit("select", wins, cast(e, first, carried[-1].type), carried[-1])
        return [e.emit("select", wins, here, carried[0]), *nan, place]

    def _once(self, carried: Sequence[Value], lanes: int, body: Callable[[Sequence[Value]], Sequence[Value]]) -> list[Value]:
        region = self.e.region([I32, *(v.type for v in carried)], lambda _, *values: body(values), ["i"])
        zero = self.e.const(0)
        return list(self.e.inst("loop", [zero, zero, *carried], {"lanes": lanes, "once": True}, [region]).outs)

    def _fold(self, value: Value, lanes: int) -> Value:
        """The extreme of all lanes."""
        region = self.e.region([value.type, value.type], lambda a, b: [self._better(a, b)])
        return self.e.inst("hreduce", [value], {"lanes": lanes}, [region]).out

    # --- its place ----------------------------------------------------------------------------

    def _unless_nan(self, has_nan: Value | None, place: Callable[[], Value], place_of_nan: Callable[[], Value]) -> list[Value]:
        """What is at the one place, or at the other one in a row with NaN."""
        if has_nan is None:
            return self._at(place())
        regions = [self.e.region([], lambda: [place_of_nan()]), self.e.region([], lambda: [place()])]
        return self._at(self.e.inst("if", [has_nan], {}, regions).out)

    def _at(self, place: Value) -> list[Value]:
        """The element at a position of the row, and what counts the positions there."""
        nest, index = self.nest, self.nest.index(self.row.bases, place, 1)
        elements = nest.p.within(replace(nest.p.context(self.row.known), prefetch=None))
        for inst in nest.members:
            if inst is not self.reduction.inst:
                member(elements, inst, index)
        return [elements.at(v, index) for v in self.reduction.inst.operands]

    def _in_word(self, count: Value, lanes: int, vectors: int) -> list[Value]:
        """The extreme of at least `lanes` elements, without a branch: all vectors twice, the comparisons as bits of one word."""
        e = self.e
        last = e.emit("sub", count, e.const(lanes))
        firsts = [e.emit("min", e.const(k * lanes), last) if k else e.const(0) for k in range(vectors)]
        off = e.const(False, TRUE)

        def extreme(_: Sequence[Value]) -> Sequence[Value]:
            here, flags = self._together([self._vector(f, lanes) for f in firsts])
            return [here, *flags]

        value, *nan = self._once([e.const(0, Type(self.dtype)), *[off] * self.dtype.is_float], lanes, extreme)
        best, has_nan = self._unbiased(self._fold(value, lanes)), e.emit("vany", nan[0]) if nan else None

        def place(is_found: Callable[[Value], Value]) -> Value:
            hits = self._once([off] * vectors, lanes, lambda _: [is_found(self._vector(f, lanes, is_again=True)) for f in firsts])
            word = e.const(0, I64)
            for first, hit in zip(firsts, hits, strict=True):
                word = e.emit("or", word, e.emit("lane_bits", hit, first))
            return e.emit("min", cast(e, e.emit("ctz", word), I32), e.emit("sub", count, e.const(1)))

        return self._unless_nan(has_nan, lambda: place(lambda v: e.emit("eq", v, best)), lambda: place(self._is_nan))

    def _many(self, count: Value) -> list[Value]:
        """The extreme of more elements than a word has bits: steps of some vectors, the last of which ends with the row."""
        e, lanes, steps = self.e, self.lanes, self.steps
        size = steps * lanes
        whole = e.emit("and", e.emit("sub", count, e.const(1)), e.const(-size))

        def body(i: Value, *values: Value) -> Sequence[Value]:
            first = e.mul(i, steps)
            vectors = [self._vector(e.add(first, e.const(k * lanes)), lanes) for k in range(steps)]
            if not self.is_long:
                return self._step(values, vectors, None)
            *carried, here = values
            return [*self._step(carried, vectors, here), e.add(here, e.const(size, here.type))]

        def end(carried: Sequence[Value]) -> Sequence[Value]:
            first = e.emit("sub", count, e.const(size))
            if size <= self.word:
                vectors = [self._vector(e.add(first, e.const(k * lanes)), lanes) for k in range(steps)]
            else:  # there may be fewer
                first, last = e.emit("max", first, e.const(0)), e.emit("sub", count, e.const(lanes))
                vectors = [self._vector(e.emit("min", e.add(first, e.const(k * lanes)), last), lanes) for k in range(steps)]
            return self._step(carried, vectors, first if self.is_long else None)

        start = self._start()
        counted = [*start, self.e.const(0, start[-1].type)] if self.is_long else start
        region = e.region([I32, *(a.type for a in counted)], body, ["i"])
        ends = [e.const(0), e.emit("truncdiv", whole, e.const(steps))]
        steps_done = e.inst("loop", [*ends, *counted], {"lanes": lanes}, [region]).outs
        values = self._once(steps_done[: len(start)], lanes, end)
        best = self._fold(values[0], lanes)
        has_nan = e.emit("vany", self._is_nan(values[1])) if self.dtype.is_float else None
        step = self._step_of(values, best) if self.is_long else e.const(0)
        best = self._unbiased(best)

        def place() -> Value:
            is_best = lambda v: e.emit("eq", v, best)  # noqa: E731
            if self.is_long and size <= self.word:
                return self._find_bit(step, is_best)
            return self._find(step, e.emit("min", e.emit("add", step, e.const(size)), count) if self.is_long else count, is_best)

        return self._unless_nan(has_nan, place, lambda: self._find(e.const(0), count, self._is_nan))

    def _is_nan(self, value: Value) -> Value:
        return self.e.emit("isnan", value)

    def _step_of(self, values: Sequence[Value], best: Value) -> Value:
        """Where the first step that has the extreme starts, unless NaN hides it."""
        e, places = self.e, values[-1]
        others = e.const(places.dtype.max, places.type)
        region = e.region([places.type, places.type], lambda a, b: [e.emit("min", a, b)])
        mine = e.emit("select", e.emit("eq", values[0], best), places, others)
        return cast(e, e.inst("hreduce", [mine], {"lanes": self.lanes}, [region]).out, I32)

    def _find_bit(self, base: Value, is_found: Callable[[Value], Value]) -> Value:
        """The first position in a step for which a condition holds; it has no more elements than a word has bits, and there is one."""
        e, off = self.e, self.e.const(False, TRUE)
        firsts = [e.add(base, e.const(k * self.lanes)) for k in range(self.steps)]
        hits = self._once([off] * self.steps, self.lanes, lambda _: [is_found(self._vector(f, self.lanes, is_again=True)) for f in firsts])
        word = e.const(0, I64)
        for k, hit in enumerate(hits):
            word = e.emit("or", word, e.emit("lane_bits", hit, e.const(k * self.lanes)))
        return e.add(base, cast(e, e.emit("ctz", word), I32))

    def _find(self, first: Value, stop: Value, is_found: Callable[[Value], Value]) -> Value:
        """The first position between two for which a condition holds."""
        region = self.e.region([I32], lambda i: [is_found(self._vector(i, self.word, is_again=True))], ["i"])
        place = self.e.inst("find", [first, stop], {"lanes": self.word}, [region]).out
        return self.e.emit("min", place, self.e.emit("sub", stop, self.e.const(1)))


def _in_pairs(combine: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
    """Values combined as a tree."""
    while len(values) > 1:
        values = [*(combine(a, b) for a, b in zip(values[::2], values[1::2], strict=False)), *values[len(values) & ~1 :]]
    return values[0]
