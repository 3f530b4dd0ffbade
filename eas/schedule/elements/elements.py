"""Evaluates one element (or one vector of lanes) of a block: the formulas behind it, as scalar IR."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from eas.analysis import constant_behind, source_of
from eas.analysis.motion import STILL, VIEWS, Move, Rules, Steps, source_place
from eas.base import dtypes
from eas.base.errors import Unsupported
from eas.base.trampoline import evaluate
from eas.base.types import Shape, Type
from eas.ir import Inst, Loc, Region, Trait, Value, make

I32 = Type(dtypes.i32)
I64 = Type(dtypes.i64)
TRUE = Type(dtypes.bool_)


class Emitter:
    """Appends instructions to the innermost open block."""

    def __init__(self) -> None:
        self.blocks: list[list[Inst]] = [[]]
        self.loc: Loc | None = None
        self.literals: dict[Value, Any] = {}

    def inst(
        self,
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        hints: Sequence[str] = (),
    ) -> Inst:
        inst = make(name, operands, attrs, regions, self.loc, hints)
        self.blocks[-1].append(inst)
        return inst

    def emit(self, name: str, *operands: Value, **attrs: Any) -> Value:
        return self.inst(name, operands, attrs).out

    def const(self, value: Any, type: Type = I32) -> Value:
        out = self.emit("const", value=value, type=type)
        self.literals[out] = value
        return out

    def add(self, a: Value, b: Value) -> Value:
        if self.literals.get(b) == 0:
            return a
        return b if self.literals.get(a) == 0 else self.emit("add", a, b)

    def mul(self, a: Value, factor: int) -> Value:
        if factor == 1:
            return a
        return self.const(0) if factor == 0 else self.emit("mul", a, self.const(factor, a.type))

    def inline(self, combine: Region, arguments: Sequence[Value]) -> list[Value]:
        """The instructions of a combine region on given values."""
        values = dict(zip(combine.params, arguments, strict=True))
        for inst in combine.body[:-1]:
            operands = [values.get(v, v) for v in inst.operands]
            values.update(zip(inst.outs, self.inst(inst.op.name, operands, dict(inst.attrs)).outs, strict=True))
        return [values.get(v, v) for v in combine.yields]

    def region(
        self, types: Sequence[Type], body: Callable[..., Sequence[Value]], hints: Sequence[str] = ()
    ) -> Region:
        """A region whose body is written by `body(*params)`, which returns the yields."""
        params = tuple(Value(t, hints[i] if i < len(hints) else "") for i, t in enumerate(types))
        self.blocks.append([])
        self.inst("yield", body(*params))
        return Region(params, tuple(self.blocks.pop()))


@dataclass(frozen=True, eq=False)
class Slot:
    """A block in scratch memory, row-major."""

    pointer: Value
    shape: Shape

    def strides(self) -> list[int]:
        strides, step = [], 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return strides[::-1]


@dataclass(frozen=True, eq=False)
class TransposedSlot(Slot):
    """A block in scratch memory whose neighbours are not those along the last axis."""

    steps: tuple[int, ...]

    def strides(self) -> list[int]:
        return list(self.steps)


@dataclass(frozen=True)
class Index:
    """Position along one axis: `base` (None is 0) plus the lane where `lanes` is set."""

    base: Value | None = None
    lanes: bool = False
    is_general: bool = False  # base varies from lane to lane in a way of its own
    axis: int = -1  # which axis of the nest this position walks, if one

    def first(self) -> Index:
        """The position of lane 0."""
        return replace(self, lanes=False)


ZERO = Index()
Place = tuple[Value, tuple["Index", ...]]  # a block, and which element of it
Made = Generator[Place, Value, Value]
Known = tuple[Value, tuple[int, ...]]  # a condition, and the nest axes it is asked about


@dataclass(frozen=True, eq=False)
class Line:
    """A block of the nest that is `start` at the beginning of a run, and 0 or 1 more per lane.

    `since` is how far the current vector is from there. Without a step, `lanes` are what the lanes hold.
    """

    start: Value
    step: int | None
    since: Value | None = None
    lanes: Value | None = None


def first_lane(index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The position of lane 0."""
    return tuple(ix.first() for ix in index)


def nothing(value: Value) -> object:
    """The 0 of a dtype."""
    return 0.0 if value.dtype.is_float else False if value.dtype.is_bool else 0


def has_lanes(index: tuple[Index, ...]) -> bool:
    """Whether elements at this position may differ from lane to lane."""
    return any(ix.lanes or ix.is_general for ix in index)


def axes(index: tuple[Index, ...]) -> tuple[int, ...]:
    return tuple(ix.axis for ix in index)


@dataclass(frozen=True, eq=False)
class Context:
    """What one body of a nest is told: the same for all elements that it computes."""

    known_true: frozenset[Known] = frozenset()
    made: Mapping[Value, Inst] = field(default_factory=dict)  # arithmetic of the nest, where lanes differ
    lines: Mapping[Value, Line] = field(default_factory=dict)
    streams: frozenset[Inst] = frozenset()  # stores that bypass the cache
    past: Value | None = None  # whether those with a mask do, in this launch
    some: Value | None = None  # the lanes that they store, one by one
    load: Callable[[Elements, Inst, tuple[Index, ...]], Value | None] | None = None  # in loops inside the nest: how, if in a special way
    divide: Callable[[Elements, Inst, tuple[Index, ...]], Value | None] | None = None  # likewise
    prefetch: Callable[[Elements, Inst, Value], None] | None = None  # what the next program will load
    is_slow: bool = False  # whether there is much to do for each vector
    permutes: bool = False  # whether the target permutes registers of elements of four bytes by a register
    loads_strides: bool = True  # whether the target knows elements at equal distances, and adds to addresses for free

    def of_region(self) -> Context:
        """For a region inside of the body: what is stored past the cache or asked for ahead is not there."""
        return replace(self, streams=frozenset(), past=None, some=None, prefetch=None, is_slow=False)


class Elements:
    """One body instance of a nest: what it is told, and the memo of elements already computed."""

    def __init__(
        self,
        emitter: Emitter,
        formulas: dict[Value, Inst],
        slots: Mapping[Value, Slot],
        scalars: dict[Value, Value],
        context: Context,
    ) -> None:
        self.e = emitter
        self.formulas = formulas
        self.slots = slots
        self.scalars = scalars
        self.context = context
        self.local: dict[Value, Value] = {}
        self.shared: set[Value] = set()  # results of loads that are one element for all lanes
        self.memo: dict[tuple[Value, tuple[Index, ...]], Value] = {}
        self.quotients: dict[tuple[Value, Value, tuple[Index, ...]], tuple[Value, Value]] = {}
        self._lane: Value | None = None

    def nested(self) -> Self:
        """For a region: knows all that is known here, and what it learns stays there."""
        inner = self.within(self.context.of_region())
        inner.formulas, inner.scalars, inner.local = dict(self.formulas), dict(self.scalars), dict(self.local)
        inner.shared, inner.memo, inner.quotients = set(self.shared), dict(self.memo), dict(self.quotients)
        inner._lane = None
        return inner

    def within(self, context: Context) -> Self:
        """The same elements where something else is told; both share what they compute from now on."""
        other = copy(self)
        other.context = context
        return other

    # --- positions --------------------------------------------------------------------------

    def position(self, index: Index) -> Value:
        base = index.base if index.base is not None else self.e.const(0)
        return self.e.add(base, self.lane()) if index.lanes else base

    def lane(self) -> Value:
        if self._lane is None:
            self._lane = self.e.emit("lane")
        return self._lane

    # --- elements ---------------------------------------------------------------------------

    def at(self, value: Value, index: tuple[Index, ...]) -> Value:
        """The element of `value` at `index`."""
        found = self._at_hand(value, index)
        return evaluate(self._compute, (value, index), self.memo) if found is None else found

    def part(self, value: Value, index: tuple[Index, ...]) -> Made:
        """The same where another element is computed from it: `yield from elements.part(value, index)`."""
        found = self._at_hand(value, index)
        return (yield value, index) if found is None else found

    def computed(self, value: Value, index: tuple[Index, ...]) -> Value:
        """The element, made once more."""
        return evaluate(self._compute, (value, index))

    def _at_hand(self, value: Value, index: tuple[Index, ...]) -> Value | None:
        if value.type.is_scalar:
            return self.scalars.get(value, value)
        if value in self.context.lines:
            return self._on_line(self.context.lines[value], index)
        if value in self.local and (value not in self.context.made or has_lanes(index)):
            return self.local[value]
        return None

    def _compute(self, place: Place) -> Made:
        value, index = place
        if value in self.slots:
            return self.read(self.slots[value], index)
        inst = self.definition(value)
        if inst is None:
            raise Unsupported(f"no element of {value!r} is known here")
        if (value, axes(index)) in self.context.known_true:
            return self.e.const(True, TRUE)
        if inst.op.name in _SOURCES:
            return _SOURCES[inst.op.name](self, inst, value, index)
        if inst.op.name in _VIEWS:
            return (yield from _VIEWS[inst.op.name](self, inst, value, index))
        return (yield from self._applied(inst, index))[inst.outs.index(value)]

    def definition(self, value: Value) -> Inst | None:
        """What an element of a block is computed from: a formula, or arithmetic of the nest itself."""
        return self.context.made.get(value) or self.formulas.get(value)

    def _on_line(self, line: Line, index: tuple[Index, ...]) -> Value:
        if line.lanes is not None and has_lanes(index):
            return line.lanes
        if not line.step:
            return line.start
        first = self.e.add(line.start, line.since) if line.since is not None else line.start
        if not has_lanes(index):
            return first
        lane = self.lane() if first.type == I32 else self.e.emit("cast", self.lane(), type=first.type)
        return self.e.add(first, lane)

    def apply(self, inst: Inst, index: tuple[Index, ...]) -> tuple[Value, ...]:
        """An elementwise instruction at one position."""
        return self._divided(inst, index) or self._emitted(inst, [self.at(v, index) for v in inst.operands])

    def _applied(self, inst: Inst, index: tuple[Index, ...]) -> Generator[Place, Value, tuple[Value, ...]]:
        divided = self._divided(inst, index)
        if divided is not None:
            return divided
        operands = []
        for v in inst.operands:
            operands.append((yield from self.part(v, index)))
        return self._emitted(inst, operands)

    def _divided(self, inst: Inst, index: tuple[Index, ...]) -> tuple[Value] | None:
        if self.context.divide is None or inst.op.name not in ("floordiv", "mod"):
            return None
        quotient = self.context.divide(self, inst, index)
        return None if quotient is None else (quotient,)

    def _emitted(self, inst: Inst, operands: Sequence[Value]) -> tuple[Value, ...]:
        attrs = dict(inst.attrs)
        if "type" in attrs:
            attrs["type"] = attrs["type"].with_shape(())
        return self.e.inst(inst.op.name, operands, attrs).outs

    def read(self, slot: Slot, index: tuple[Index, ...]) -> Value:
        """A value in scratch."""
        address, is_unit, varies = self.address(slot, index)
        if varies and is_unit:
            return self.e.emit("vload", address)
        return self.e.emit("load", address)

    def address(self, slot: Slot, index: tuple[Index, ...]) -> tuple[Value, bool, bool]:
        """(pointer, whether lanes are neighbours, whether lanes differ); a unit pointer is lane 0's."""
        steps = list(zip(slot.strides(), index, strict=True))
        with_lanes = [(step, ix) for step, ix in steps if ix.lanes]
        general = any(ix.is_general for ix in index)
        unit = not general and len(with_lanes) == 1 and with_lanes[0][0] == 1
        offset = self.e.const(0)
        for step, ix in steps:
            part = ix.first() if unit else ix
            if part.base is not None or part.lanes:
                offset = self.e.add(offset, self.e.mul(self.position(part), step))
        return self.e.emit("addptr", slot.pointer, offset), unit, bool(with_lanes) or general

    # --- how an integer or pointer moves from lane to lane --------------------------------------

    def step(self, value: Value, index: tuple[Index, ...]) -> int | None:
        """The difference between neighbouring lanes, None if it is not one known number."""
        stride = self.stride(value, index)
        return None if stride is None or stride.wraps else stride.number

    def step_inside(self, pointer: Value, index: tuple[Index, ...]) -> int | None:
        """The same of addresses that are all inside of a buffer: an offset does not go through 0 there."""
        stride = self.stride(pointer, index)
        return None if stride is None else stride.number

    def stride(self, value: Value, index: tuple[Index, ...]) -> Move | None:
        """The difference between neighbouring lanes where it is the same for all of them, as one product."""
        move = LaneMotion(self).move(value, index)
        return None if move is None or len(move.terms) > 1 else move

    def number(self, stride: Move) -> Value:
        """A stride as one scalar."""
        ((factor, times),) = [(t.number, t.times) for t in stride.terms] or [(0, ())]
        total = self.e.const(factor, I64)
        for value, index in times:
            factor_at = self.at(value, first_lane(index))
            wide = factor_at if factor_at.type == I64 else self.e.emit("cast", factor_at, type=I64)
            total = wide if self.e.literals.get(total) == 1 else self.e.emit("mul", total, wide)
        return total

    def literal(self, value: Value) -> Any:
        """The number behind a constant, also through broadcasts."""
        number = constant_behind(value, self.formulas)
        return self.e.literals.get(source_of(value, self.formulas)) if number is None else number


class LaneMotion(Rules[Index]):
    """How values move from lane to lane, as far as they are computed here and not read from memory."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements

    def move(self, value: Value, index: tuple[Index, ...]) -> Move | None:
        return evaluate(self._compute, (value, index))

    def literal(self, value: Value) -> int | None:
        number = self.elements.literal(value)
        return None if number is None else int(number)

    def _compute(self, key: Place) -> Steps[Index]:
        (value, index), of = key, self.elements
        if value.type.is_scalar or (value in of.shared and of.context.loads_strides and value not in of.context.lines):
            return STILL
        if value in of.context.lines:
            step = of.context.lines[value].step if has_lanes(index) else 0
            return None if step is None else Move.by(step)
        inst = None if value not in of.context.made and (value in of.local or value in of.slots) else of.definition(value)
        if inst is None:  # in memory, or made by the nest itself
            return None if has_lanes(index) else STILL
        if inst.op.name == "arange":
            return None if index[0].is_general else Move.by(int(index[0].lanes))
        if inst.op.name in VIEWS:
            return (yield inst.operands[0], source_place(inst, index, ZERO))
        if is_view(inst) or inst.op.name == "const":
            return None if has_lanes(index) and inst.op.name != "const" else STILL
        return (yield from self.combined(inst, index))


# --- views: where an element of a formula comes from ----------------------------------------------


def source_index(inst: Inst, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
    """Where an element of a view comes from, if that is a position of its own along each axis."""
    return source_place(inst, index, ZERO) if inst.op.name in VIEWS else None


def _mapped(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    return (yield from elements.part(inst.operands[0], source_place(inst, index, ZERO)))


def _arange(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Value:
    return elements.e.add(elements.position(index[0]), elements.e.const(inst["start"]))


def _const(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Value:
    return elements.e.const(inst["value"], value.type.with_shape(()))


def _linear(elements: Elements, shape: Shape, index: tuple[Index, ...]) -> Value:
    total, step = elements.e.const(0), 1
    for extent, ix in reversed(list(zip(shape, index, strict=True))):
        total = elements.e.add(total, elements.e.mul(elements.position(ix), step))
        step *= extent
    return total


def _reshape(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    """The same linear position in the source; axes of extent 1 come and go for free."""
    source = inst.operands[0]
    ones_only = [n for n in source.shape if n != 1] == [n for n in value.shape if n != 1]
    if ones_only:
        rest = iter(ix for ix, n in zip(index, value.shape, strict=True) if n != 1)
        return (yield from elements.part(source, tuple(ZERO if n == 1 else next(rest) for n in source.shape)))
    e = elements.e
    if (
        source in elements.slots
        and all(not ix.is_general for ix in index)
        and index[-1].lanes
        and not any(ix.lanes for ix in index[:-1])
    ):
        flat = Slot(elements.slots[source].pointer, value.shape)
        return elements.read(flat, index)
    linear = _linear(elements, value.shape, index)
    parts: list[Index] = []
    for extent in reversed(source.shape):
        size = e.const(extent)
        parts.append(Index(e.emit("mod", linear, size), is_general=True))
        linear = e.emit("floordiv", linear, size)
    return (yield from elements.part(source, tuple(parts[::-1])))


def _flip(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    axis = inst["axis"] % len(index)
    last = elements.e.const(value.shape[axis] - 1)
    mirrored = Index(elements.e.emit("sub", last, elements.position(index[axis])), is_general=True)
    return (yield from elements.part(inst.operands[0], (*index[:axis], mirrored, *index[axis + 1 :])))


def _join(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    is_second = elements.e.emit("ne", elements.position(index[-1]), elements.e.const(0))
    a = yield from elements.part(inst.operands[0], index[:-1])
    b = yield from elements.part(inst.operands[1], index[:-1])
    return elements.e.emit("select", is_second, b, a)


def _split(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    which = elements.e.const(inst.outs.index(value))
    return (yield from elements.part(inst.operands[0], (*index, Index(which))))


def _cat(elements: Elements, inst: Inst, value: Value, index: tuple[Index, ...]) -> Made:
    e, axis = elements.e, inst["axis"] % len(index)
    a, b = inst.operands
    position, length = elements.position(index[axis]), e.const(a.shape[axis])
    in_a = e.emit("lt", position, length)
    zero = e.const(0)
    at_a = Index(e.emit("select", in_a, position, zero), is_general=True)
    at_b = Index(e.emit("select", in_a, zero, e.emit("sub", position, length)), is_general=True)
    left = yield from elements.part(a, (*index[:axis], at_a, *index[axis + 1 :]))
    right = yield from elements.part(b, (*index[:axis], at_b, *index[axis + 1 :]))
    return e.emit("select", in_a, left, right)


_SOURCES: dict[str, Callable[[Elements, Inst, Value, tuple[Index, ...]], Value]] = {"arange": _arange, "const": _const}
_VIEWS: dict[str, Callable[[Elements, Inst, Value, tuple[Index, ...]], Made]] = {
    "broadcast": _mapped, "expand_dims": _mapped, "permute": _mapped,
    "reshape": _reshape, "flip": _flip, "join": _join, "split": _split, "cat": _cat,
}  # fmt: skip


def is_view(inst: Inst) -> bool:
    return inst.op.has(Trait.SHAPE)
