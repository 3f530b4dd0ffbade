"""Loops whose only work is `acc = dot(load, load, acc)` become one contraction over all of k.

Operands are then read where they are, without a copy per step, and the masks of their edges are the
numbers m, n and k: a row or column that no store will look at is not computed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from eas.analysis import PointerBases, made_by, writes
from eas.analysis.indexing import Affine, Bound, Box, Boxes, Forms, Linear, Symbol, Term
from eas.analysis.indexing.linear import ONE, ZERO
from eas.base import dtypes
from eas.base.types import Space, Type
from eas.ir import Arg, Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite
from eas.schedule.target import CpuTarget

_I64 = Type(dtypes.i64)
_ROWS = 4  # a tile of c has a multiple of this many rows, so that blocks of 6 and 4 fill it


def contract_loops(module: IRModule, target: CpuTarget) -> IRModule:
    """Products summed over a loop are `contraction`s wherever loads and masks are understood.

    In textbooks: tensorisation (in TVM), a BLIS micro-kernel.

        for %k, %acc { %a = load ...; %b = load ...; yield dot(%a, %b, %acc) }
        ->
        %c = contraction %pa, %pb, %acc, %k, %m, %n, ...
    """
    if not any(_body_dot(inst) for inst in walk(module.body) if inst.op.name == "for"):
        return module
    contractions = _Contractions(module, target)
    module = rewrite(module, contractions.rule)
    # Neighbours along axis 1 meet the panels of b that the last program packed.
    return module.with_attrs(axis_1_first=True) if contractions.turned else module


def _body_dot(loop: Inst) -> Inst | None:
    """The `dot` whose result is all that a loop carries."""
    region = loop.regions[0]
    if len(loop.outs) != 1:
        return None
    made = made_by(region.body)
    dot = made.get(region.yields[0])
    is_sum = dot is not None and dot.op.name == "dot" and dot.operands[2] is region.params[1]
    return dot if is_sum else None


@dataclass(frozen=True)
class _Loop:
    """How far one iteration moves, and what its counter starts from."""

    inst: Inst
    counters: Mapping[Symbol, tuple[int, Linear]]  # (what an iteration adds, first value)
    inside: frozenset[Value]

    def at_start(self, linear: Linear) -> tuple[Linear, Linear] | None:
        """(its value in the first iteration, what an iteration adds); None if that is not constant."""
        first, step = ZERO, ZERO
        for monomial, c in linear.items():
            found = [s for s in monomial if s in self.counters]
            part = Linear.of({tuple(s for s in monomial if s not in self.counters): c})
            if len(found) > 1:
                return None
            if found:
                pace, start = self.counters[found[0]]
                first, step = first + part * start, step + part * Linear(pace)
            else:
                first = first + part
        return first, step


@dataclass(frozen=True)
class _Wrapped:
    """factor * x: where a row or column starts, whose `x % n` is x as long as x is not negative."""

    factor: Linear
    x: Linear
    is_sure: bool  # that x is not negative


@dataclass(frozen=True)
class _Side:
    """One operand: where it starts, the distances of its neighbours, and where it ends."""

    base: Value
    offset: Linear
    wrapped: tuple[_Wrapped, ...]
    across: Linear  # between rows of a, columns of b
    along: Linear  # between steps of k
    k_end: Linear | None


class _Contractions:
    def __init__(self, module: IRModule, target: CpuTarget) -> None:
        self.forms = Forms(module)
        self.boxes = Boxes(self.forms)
        self.bases = PointerBases(module)
        self.target = target
        self.module = module
        self.turned = False  # whether programs should run down the columns of the grid
        self.loops: dict[Inst, Inst] = {}  # of the yields of `for`s
        self.users: dict[Value, list[Inst]] = {}
        for inst in walk(module.body):
            if inst.op.name == "for":
                self.loops[inst.regions[0].body[-1]] = inst
            for operand in dict.fromkeys(inst.operands):
                self.users.setdefault(operand, []).append(inst)

    def rule(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        dot = _body_dot(inst) if inst.op.name == "for" else None
        if dot is None or not self._fits(inst, dot):
            return None
        loop = self._loop(inst)
        if loop is None:
            return None
        ends = [self._end(loop, inst.outs[0], axis) for axis in (0, 1)]
        sides = [self._side(loop, dot.operands[i], i, ends[i]) for i in (0, 1)]
        a, b = sides
        if a is None or b is None or a.k_end != b.k_end:
            return None
        return [self._emit(rw, loop, dot, (a, b), ends)]

    def _fits(self, inst: Inst, dot: Inst) -> bool:
        """A loop of nothing but addresses, two loads and a product of whole vectors."""
        out = dot.out
        if len(out.shape) != 2 or out.shape[0] % _ROWS or out.dtype.nbytes < 4:
            return False
        if out.shape[1] % (self.target.vector_nbytes // out.dtype.nbytes):
            return False
        body = inst.regions[0].body[:-1]
        return all(i.op.is_pure or i.op.name == "load" for i in body) and not any(
            i.regions for i in body
        )

    def _loop(self, inst: Inst) -> _Loop | None:
        counter = inst.regions[0].params[0]
        start, step = (self.forms.of(inst.operands[i]) for i in (0, 2))
        pace = step.offset.literal if step is not None and step.is_uniform else None
        if start is None or not start.is_uniform or pace is None or pace < 1:
            return None
        counters = {
            self.forms.symbol(counter): (pace, start.offset),
            self.forms.symbol(counter, "iteration"): (1, ZERO),
        }
        inside = frozenset(_defined(inst.regions[0]))
        loop = _Loop(inst, counters, inside)
        return loop if self._is_known(loop, start.offset) else None

    # --- what is read -------------------------------------------------------------------------

    def _side(self, loop: _Loop, value: Value, which: int, end: Linear | None) -> _Side | None:
        """An operand of the product; `which` of its axes is k for b, the other one for a."""
        load, swapped = self._load(value)
        if load is None or load.out not in loop.inside or not _reads_zero(load, self.forms):
            return None
        if load.operands[0].type.space is not Space.DEVICE:
            return None
        k_axis = (1 - which) ^ swapped
        form = self.forms.of(load.operands[0])
        box = self.boxes.of(load.operands[1]) if len(load.operands) > 1 else Box()
        extents = load.out.shape
        found = form and self._unwrapped(form, 1 - k_axis, end)
        if not found or box.residuals or box.guards:
            return None
        form, wrapped = found
        across, along = form.stride(1 - k_axis), form.stride(k_axis)
        moved = loop.at_start(form.offset)
        k_end = self._k_end(loop, box, k_axis, extents[k_axis])
        if across is None or along is None or moved is None or k_end is False:
            return None
        offset, step = moved
        if step != along * Linear(extents[k_axis]):
            return None
        bounds = [b for b in box.bounds if b.axis != k_axis]
        if any(not b.is_upper or b.divisor != 1 or b.limit != end for b in bounds):
            return None
        base = self.bases[load.operands[0]]
        if isinstance(base, Value) and base in loop.inside:
            return None
        pointer = base.value if isinstance(base, Arg) else base
        parts = (offset, across, along, *(x for w in wrapped for x in (w.factor, w.x)))
        if not all(self._is_known(loop, x) for x in (*parts, *([k_end] if k_end else ()))):
            return None
        return _Side(pointer, offset, wrapped, across, along, k_end or None)

    def _load(self, value: Value) -> tuple[Inst | None, int]:
        """The load behind an operand, and whether it is seen transposed."""
        inst, swapped = self.forms.origin.get(value), 0
        if inst is not None and inst.op.name == "permute" and inst["order"] == (1, 0):
            inst, swapped = self.forms.origin.get(inst.operands[0]), 1
        return (inst, swapped) if inst is not None and inst.op.name == "load" else (None, 0)

    def _unwrapped(
        self, form: Affine, axis: int, end: Linear | None
    ) -> tuple[Affine, tuple[_Wrapped, ...]] | None:
        """The formula without `x % n` along an axis of which only what is below n will be seen.

        Only its end can wrap around if x does not start below 0, which the contraction asks for.
        """
        terms: list[Term] = []
        wrapped: list[_Wrapped] = []
        for term in form.terms:
            if term.vector is None:
                terms.append(term)
                continue
            inst = self.forms.origin.get(term.vector.value)
            if inst is None or inst.op.name != "mod" or term.axis != axis or end is None:
                return None
            x, n = (self.forms.of(v) for v in inst.operands)
            if x is None or n is None or not n.is_uniform or x.stride(term.along) != ONE:
                return None
            if x.axes != (term.along,) or n.offset - x.offset != end:
                return None
            terms.append(replace(term, vector=None, along=0))
            is_sure = self.forms.ranges[inst.operands[0]].lo >= 0
            wrapped.append(_Wrapped(term.stride, x.offset, is_sure))
        return Affine.of(form.offset, terms), tuple(wrapped)

    def _k_end(self, loop: _Loop, box: Box, axis: int, extent: int) -> Linear | Literal[False] | None:
        """How many steps of k are not masked off; False if that is not one number for the loop."""
        bounds = [b for b in box.bounds if b.axis == axis]
        if not bounds:
            return None
        if len(bounds) > 1 or not bounds[0].is_upper or bounds[0].divisor != 1:
            return False
        moved = loop.at_start(bounds[0].limit)
        if moved is None or moved[1] != Linear(-extent):
            return False
        return moved[0]

    # --- what is needed -----------------------------------------------------------------------

    def _end(self, loop: _Loop, value: Value, axis: int) -> Linear | None:
        """The bound along an axis behind which nobody looks at the result."""
        ends = [b.limit for b in self._bounds(value) if b.axis == axis]
        return ends[0] if len(ends) == 1 and self._is_known(loop, ends[0]) else None

    def _bounds(self, value: Value) -> frozenset[Bound]:
        """What the masks of all stores that a value flows into, element by element, have in common."""
        common: frozenset[Bound] | None = None
        open_ = [(value, False)]  # and whether it is seen transposed
        seen = set(open_)
        while open_:
            value, turned = open_.pop()
            for user in self.users.get(value, ()):
                found = self._stored_bounds(user, value, turned)
                if found is not None:
                    common = found if common is None else common & found
                    continue
                flows = self._flows(user, value)
                if flows is None:
                    return frozenset()
                is_turn = user.op.name == "permute"
                new = [(v, turned != is_turn) for v in flows]
                open_ += [v for v in new if v not in seen]
                seen.update(new)
        return common if common is not None else frozenset()

    def _stored_bounds(self, user: Inst, value: Value, turned: bool) -> frozenset[Bound] | None:
        """The upper bounds of the mask along the axes of the product, where an instruction stores the value."""
        if user.op.name != "store" or user.operands.index(value) != 1:
            return None
        box = self.boxes.of(user.operands[2]) if len(user.operands) > 2 else Box()
        bounds = [b for b in box.bounds if b.is_upper and b.divisor == 1]
        return frozenset(replace(b, axis=1 - b.axis) if turned else b for b in bounds)

    def _flows(self, user: Inst, value: Value) -> list[Value] | None:
        """Blocks whose elements an instruction computes from the same elements of a value; None if it does more."""
        places = [i for i, v in enumerate(user.operands) if v is value]
        loop = self.loops.get(user)
        if loop is not None:  # the yield of a loop
            return [v for i in places for v in (loop.outs[i], loop.regions[0].params[1 + i])]
        if user.op.name == "for" and places[0] >= 3:
            return [v for i in places for v in (user.outs[i - 3], user.regions[0].params[i - 2])]
        if user.op.name == "permute" and user["order"] == (1, 0):
            return list(user.outs)
        is_sum = user.op.name == "dot" and places == [2]
        if is_sum or (user.op.is_pure and user.op.has(Trait.ELEMENTWISE) and not user.regions):
            return list(user.outs)
        return None

    def _is_known(self, loop: _Loop, linear: Linear) -> bool:
        """Whether a formula can be computed from scalars in front of the loop."""
        return all(
            s.kind == "value" and s.value.type.is_scalar and s.value not in loop.inside
            for s in linear.symbols()
        )

    # --- what is said instead -----------------------------------------------------------------

    def _emit(
        self, rw: Rewriter, loop: _Loop, dot: Inst, sides: tuple[_Side, _Side], ends: Sequence[Linear | None]
    ) -> Value:
        numbers = _Numbers(rw)
        k = self._trips(numbers, loop, dot.operands[0].shape[1])
        if sides[0].k_end is not None:
            k = rw.emit("min", k, numbers.of(sides[0].k_end))
        zero = numbers.const(0)
        k = rw.emit("max", k, zero)
        sizes = []
        for extent, end in zip(dot.out.shape, ends, strict=True):
            size = numbers.const(extent)
            if end is not None:
                size = rw.emit("max", rw.emit("min", size, numbers.of(end)), zero)
            sizes.append(size)
        pointers = [numbers.pointer(side) for side in sides]
        a, b = sides
        strides = [numbers.of(x) for x in (a.across, a.along, b.along, b.across)]
        init = loop.inst.operands[3]
        is_kept = self._is_kept(b.base)
        self.turned |= is_kept and self._takes_turns(self._program_axes(a, ends[0]), self._program_axes(b, ends[1]))
        operands = [*pointers, init, k, *sizes, *strides]
        unsure = [w.x for side in sides for w in side.wrapped if not w.is_sure]
        if not unsure:
            return rw.emit("contraction", *operands, is_kept=is_kept)
        fits = rw.emit("ge", numbers.least(unsure), zero)
        product = make("contraction", operands, {"is_kept": is_kept}, loc=rw.loc)
        choices = [Region((), (i, make("yield", i.outs))) for i in (product, loop.inst)]
        return rw.append(make("if", [fits], {}, choices, rw.loc)).out

    @staticmethod
    def _takes_turns(a: set[int], b: set[int]) -> bool:
        """Whether neighbours along axis 1 have another left side, but the same right side."""
        return 1 in a and 0 in b and 1 not in b

    def _is_kept(self, base: Value) -> bool:
        """Whether no program of the launch writes into a buffer."""
        written = [a for a in self.module.args if a.name in writes(self.module)]
        if any(inst.op.name == "int_to_ptr" for inst in walk(self.module.body)):
            return False
        return all(a.value is not base and a.attr("noalias") for a in written)

    def _program_axes(self, side: _Side, end: Linear | None) -> set[int]:
        """The grid axes that an operand moves with."""
        formulas = [side.offset, *(w.x for w in side.wrapped), *([end] if end else [])]
        found: set[int] = set()
        seen = [s.value for f in formulas for s in f.symbols()]
        while seen:
            inst = self.forms.origin.get(seen.pop())
            if inst is not None and inst.op.name == "program_id":
                found.add(inst["axis"])
            elif inst is not None:
                seen += inst.operands
        return found

    def _trips(self, numbers: _Numbers, loop: _Loop, extent: int) -> Value:
        """Steps of k of all iterations."""
        rw, (start, end, _) = numbers.rw, loop.inst.operands[:3]
        pace = next(iter(loop.counters.values()))[0]
        first, last = (numbers.wide(rw.use(v)) for v in (start, end))
        span = rw.emit("add", rw.emit("sub", last, first), numbers.const(pace - 1))
        trips = rw.emit("floordiv", span, numbers.const(pace)) if pace > 1 else span
        return rw.emit("mul", trips, numbers.const(extent))


def _defined(region: Region) -> Iterator[Value]:
    yield from region.params
    for inst in region.body:
        yield from inst.outs
        for inner in inst.regions:
            yield from _defined(inner)


def _reads_zero(load: Inst, forms: Forms) -> bool:
    """Whether lanes that are masked off are 0."""
    if len(load.operands) < 3:
        return True
    other = forms.origin.get(load.operands[2])
    return other is not None and other.op.name == "const" and other["value"] == 0


class _Numbers:
    """Formulas as scalar instructions in 64 bits."""

    def __init__(self, rw: Rewriter) -> None:
        self.rw = rw

    def const(self, value: int) -> Value:
        return self.rw.const(value, _I64)

    def wide(self, value: Value) -> Value:
        return value if value.type == _I64 else self.rw.emit("cast", value, type=_I64)

    def of(self, linear: Linear) -> Value:
        total: Value | None = None
        for monomial, c in linear.terms:
            product: Value | None = None if c == 1 else self.const(c)
            for symbol in monomial:
                factor = self.wide(self.rw.use(symbol.value))
                product = factor if product is None else self.rw.emit("mul", product, factor)
            assert product is not None, "a monomial of a term is not empty"
            total = product if total is None else self.rw.emit("add", total, product)
        if total is None:
            return self.const(linear.const)
        return self.rw.emit("add", total, self.const(linear.const)) if linear.const else total

    def least(self, formulas: Sequence[Linear]) -> Value:
        return functools.reduce(lambda a, b: self.rw.emit("min", a, b), map(self.of, formulas))

    def pointer(self, side: _Side) -> Value:
        offset = self.of(side.offset)
        for w in side.wrapped:
            offset = self.rw.emit("add", offset, self.of(w.x * w.factor))
        return self.rw.emit("addptr", self.rw.use(side.base), offset)
