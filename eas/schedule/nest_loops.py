"""One nest as loops: a vector loop over the last axis, counted loops around it.

The vector loop comes in parts: the part where every mask is known to hold, a general part that
evaluates masks per lane, and single elements at the end when the extent is no multiple of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eas.ir import Inst, Region, Trait, Value, walk
from eas.passes.rewriting import clone_region
from eas.schedule.elements import I32, Elements, Emitter, Index, Slot
from eas.schedule.loops import Program, identity
from eas.schedule.masks import conjuncts
from eas.schedule.relayout import contiguous, moved_into
from eas.types import Shape, Type

_HEAVY = frozenset(
    {
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "erfc",
        "pow",
        "sigmoid",
        "philox",
        "atan2",
    }
)


def lower_nest(program: Program, nest: Inst) -> None:
    """Emit the loops of a nest; what it yields is in slots (or scalars) afterwards."""
    with contiguous(program, (v for inst in walk(nest.regions[0]) for v in inst.operands)):
        _NestLoops(
            program,
            nest["shape"],
            nest.regions[0].body[:-1],
            tuple(zip(nest.regions[0].yields, nest.outs, strict=True)),
        ).emit()


def copy_loops(program: Program, slot: Slot, value: Value) -> None:
    """Write every element of `value` into `slot`."""
    if moved_into(program, slot, value):
        return
    with contiguous(program, [value]):
        _NestLoops(program, value.shape, (), ((value, value),), {value: slot}).emit()


@dataclass(eq=False)
class _Reduction:
    """A reduction of the nest: per lane along the vector axis, or element by element into a slot."""

    inst: Inst
    is_last: bool
    slots: list[Slot]
    neutral: object


class _NestLoops:
    def __init__(
        self,
        program: Program,
        shape: Shape,
        members: Sequence[Inst],
        yields: Sequence[tuple[Value, Value]],
        into: dict[Value, Slot] | None = None,
    ) -> None:
        self.p = program
        self.e = program.e
        self.shape = shape
        self.members = members
        reduced = {out for inst in members if inst.op.name == "reduce" for out in inst.outs}
        self.outs = [(inner, outer) for inner, outer in yields if inner not in reduced]
        self.outer_of = dict(yields)
        self.into = into or {}
        self.rank = len(shape)
        self.extent = shape[-1]
        self.lanes = self._choose_lanes()
        self.reductions: list[_Reduction] = []
        self.stores: list[tuple[Value, Slot]] = []

    def emit(self) -> None:
        self.stores = [
            (inner, self.into.get(inner) or self.p.slot_for(outer)) for inner, outer in self.outs
        ]
        self.reductions = [
            self._reduction(inst) for inst in self.members if inst.op.name == "reduce"
        ]
        for reduction in self.reductions:
            if not reduction.is_last and reduction.neutral is not None:
                self._clear(reduction)
        self._outer(0, ())

    # --- decisions --------------------------------------------------------------------------

    def _choose_lanes(self) -> int:
        """Elements per step: several registers for light work, fewer where a function needs many."""
        if any(self._is_ordered(inst) for inst in self.members if inst.op.name == "reduce"):
            return 1
        widest, heavy = 4, False
        for inst in self._insts():
            for value in (*inst.operands, *inst.outs):
                if not value.type.is_pointer:
                    widest = max(widest, value.dtype.nbytes)
            heavy |= inst.op.name in _HEAVY
        registers = 2 if heavy else 4
        lanes = self.p.target.vector_nbytes * registers // widest
        one = self.p.target.vector_nbytes // widest
        while lanes > self.extent or (lanes > one and self.extent % lanes):
            lanes //= 2  # what fills no vector is done element by element
        return lanes if lanes >= 4 else 1

    def _is_ordered(self, inst: Inst) -> bool:
        """A combine function of the user's own may need its elements in order."""
        return inst["axis"] % self.rank == self.rank - 1 and identity(inst.regions[0]) is None

    def _insts(self) -> list[Inst]:
        return [
            part
            for inst in self.members
            for part in (inst, *(w for r in inst.regions for w in walk(r)))
        ]

    def _masks_are_slow(self) -> bool:
        """Masked accesses of 8 and 16 bits are a branch per lane; single elements are better."""
        return (
            any(
                inst.operands[0].dtype.nbytes < 4
                for inst in self._insts()
                if inst.op.name in ("load", "store")
                and len(inst.operands) > (1 if inst.op.name == "load" else 2)
            )
            or not self.p.target.has_cheap_masks
        )

    def _reduction(self, inst: Inst) -> _Reduction:
        axis = inst["axis"] % self.rank
        is_last = axis == self.rank - 1
        slots: list[Slot] = []
        if not (is_last and self.rank == 1):
            for out in inst.outs:
                outer = self.outer_of.get(out)
                shape = self.shape[:axis] + self.shape[axis + 1 :]
                slots.append(
                    self.p.slot_for(outer)
                    if outer is not None
                    else self.p.new_slot(shape, out.dtype)
                )
        return _Reduction(inst, is_last, slots, identity(inst.regions[0]))

    # --- loops ------------------------------------------------------------------------------

    def _clear(self, reduction: _Reduction) -> None:
        """A reduction over an outer axis starts from its neutral element."""
        (out,) = reduction.inst.outs
        slot = reduction.slots[0]
        self.e.blocks.append([])
        neutral = self.e.inst(
            "const", (), {"value": reduction.neutral, "type": Type(out.dtype, slot.shape)}
        )
        self.e.blocks.pop()
        self.p.formulas[neutral.out] = neutral
        copy_loops(self.p, slot, neutral.out)

    def _outer(self, axis: int, bases: tuple[Value, ...]) -> None:
        if axis == self.rank - 1:
            self._inner(bases)
            return
        self.p.counted(self.shape[axis], lambda i: self._outer(axis + 1, (*bases, i)), f"i{axis}")

    def _index(self, bases: tuple[Value, ...], last: Value, lanes: int) -> tuple[Index, ...]:
        outer = [Index(base, axis=k) for k, base in enumerate(bases)]
        return (*outer, Index(last, lanes=lanes > 1, axis=self.rank - 1))

    def _inner(self, bases: tuple[Value, ...]) -> None:
        """The vector loop and its parts, carrying the reductions along the last axis."""
        accumulators = self._start()
        bounds = self.p.bounds()
        start = self._index(bases, self.e.const(0), 2)
        elements = self.p.elements()
        has_masks = False
        for inst in self._insts():
            mask = _mask_of(inst)
            if mask is not None:
                has_masks = True
                bounds.add(elements, mask, start)
        known = frozenset(bounds.known)
        whole = self.extent // self.lanes * self.lanes
        zero, end = self.e.const(0), self.e.const(self.extent)
        if not has_masks:
            accumulators = self._full(bases, self.e.const(whole), known, accumulators)
        else:
            full = bounds.end(whole, self.lanes) if known else zero
            if known:
                accumulators = self._full(bases, full, known, accumulators)
            if self._masks_are_slow():
                self._finish(bases, full, end, accumulators)
                return
            accumulators = self._part(
                bases, full, self.e.const(whole), self.lanes, frozenset(), accumulators
            )
        self._finish(bases, self.e.const(whole), end if whole < self.extent else None, accumulators)

    def _start(self) -> list[Value]:
        values = []
        for r in self.reductions:
            if r.is_last:
                values += [
                    self.e.const(
                        r.neutral if r.neutral is not None else _nothing(out), Type(out.dtype)
                    )
                    for out in r.inst.outs
                ]
        return values

    def _full(
        self,
        bases: tuple[Value, ...],
        end: Value,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
    ) -> list[Value]:
        """The part where all masks hold; large outputs that nobody reads bypass the cache."""
        zero = self.e.const(0)
        first = self._index(bases, zero, 2)
        elements = self.p.elements()
        streams = [inst for inst in self.members if self._is_stream(inst, elements, first)]
        if not streams:
            return self._part(bases, zero, end, self.lanes, known, accumulators)
        starts = [elements.at(s.operands[0], tuple(ix.first() for ix in first)) for s in streams]
        allowed = self.e.emit("can_stream", starts[0])
        for start in starts[1:]:
            allowed = self.e.emit("and", allowed, self.e.emit("can_stream", start))

        def side(chosen: frozenset[Inst]) -> Region:
            def body() -> Sequence[Value]:
                return self._part(
                    bases, self.e.const(0), end, self.lanes, known, accumulators, chosen
                )

            return self.e.region([], body)

        regions = [side(frozenset(streams)), side(frozenset())]
        return list(self.e.inst("if", [allowed], {}, regions).outs)

    def _is_stream(self, inst: Inst, elements: Elements, index: tuple[Index, ...]) -> bool:
        """A store of neighbouring words to a buffer that the kernel never reads."""
        if inst.op.name != "store" or self.lanes < 4 or inst.operands[0].dtype.nbytes < 4:
            return False
        is_unit = elements.step(inst.operands[0], index) == 1
        return is_unit and self.p.base_of(inst.operands[0]) in self.p.unread

    def _part(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value,
        lanes: int,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
        streams: frozenset[Inst] = frozenset(),
    ) -> list[Value]:
        if self.e.literals.get(start, -1) == self.e.literals.get(end, -2):
            return accumulators

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            elements = self.p.elements(known)
            elements.streams = streams
            return self._body(elements, self._index(bases, i, lanes), list(carried))

        region = self.e.region([start.type, *(a.type for a in accumulators)], body, ["i"])
        return list(
            self.e.inst("loop", [start, end, *accumulators], {"lanes": lanes}, [region]).outs
        )

    def _finish(
        self, bases: tuple[Value, ...], start: Value, end: Value | None, accumulators: list[Value]
    ) -> None:
        """Fold the lanes, add the elements that fill no vector, and put the results where they belong."""
        if self.lanes > 1:
            accumulators = self._fold(accumulators)
        if end is not None:
            accumulators = self._part(bases, start, end, 1, frozenset(), accumulators)
        rest = iter(accumulators)
        for r in self.reductions:
            if not r.is_last:
                continue
            for k, out in enumerate(r.inst.outs):
                result = next(rest)
                if r.slots:
                    index = tuple(Index(b) for b in bases)
                    address, _, _ = self.p.elements().address(r.slots[k], index)
                    self.e.inst("store", [address, result])
                elif out in self.outer_of:
                    self.p.scalars[self.outer_of[out]] = result

    def _fold(self, accumulators: list[Value]) -> list[Value]:
        folded: list[Value] = []
        rest = iter(accumulators)
        for r in self.reductions:
            if r.is_last:
                lanes = [next(rest) for _ in r.inst.outs]
                folded += self.e.inst(
                    "hreduce", lanes, {"lanes": self.lanes}, [clone_region(r.inst.regions[0])]
                ).outs
        return folded

    # --- one iteration ----------------------------------------------------------------------

    def _body(
        self, elements: Elements, index: tuple[Index, ...], accumulators: list[Value]
    ) -> list[Value]:
        rest = iter(accumulators)
        updated: list[Value] = []
        reductions = iter(self.reductions)
        for inst in self.members:
            self.e.loc = inst.loc
            if inst.op.name == "reduce":
                updated += self._reduce(elements, index, next(reductions), rest)
            else:
                member(elements, inst, index)
        for value, slot in self.stores:
            element = elements.at(value, index)
            address, is_unit, varies = elements.address(slot, index)
            self.e.inst("vstore" if is_unit and varies else "store", [address, element])
        return updated

    def _reduce(
        self, elements: Elements, index: tuple[Index, ...], reduction: _Reduction, rest: object
    ) -> list[Value]:
        inst, combine = reduction.inst, reduction.inst.regions[0]
        new = [elements.at(v, index) for v in inst.operands]
        axis = inst["axis"] % self.rank
        if reduction.is_last:
            old = [next(rest) for _ in inst.outs]  # type: ignore[call-overload]
            merged = inline(self.e, combine, [*old, *new])
            return self._first(reduction, index[axis], new, merged)
        kept = index[:axis] + index[axis + 1 :]
        places = [elements.address(slot, kept) for slot in reduction.slots]
        old = [
            self.e.emit("vload" if unit and varies else "load", address)
            for address, unit, varies in places
        ]
        merged = self._first(reduction, index[axis], new, inline(self.e, combine, [*old, *new]))
        for (address, unit, varies), value in zip(places, merged, strict=True):
            self.e.inst("vstore" if unit and varies else "store", [address, value])
        return []

    def _first(
        self, reduction: _Reduction, position: Index, new: list[Value], merged: list[Value]
    ) -> list[Value]:
        """Without a neutral element the first elements stand for themselves."""
        if reduction.neutral is not None:
            return merged
        base = position.base if position.base is not None else self.e.const(0)
        is_first = self.e.emit("eq", base, self.e.const(0))
        return [self.e.emit("select", is_first, a, b) for a, b in zip(new, merged, strict=True)]


def member(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    """One instruction of a nest at one position."""
    special = _MEMBERS.get(inst.op.name)
    if special is not None:
        special(elements, inst, index)
    elif inst.op.has(Trait.ATOMIC):
        _atomic(elements, inst, index)
    else:
        elements.local.update(zip(inst.outs, elements.apply(inst, index), strict=True))


def _mask_of(inst: Inst) -> Value | None:
    if inst.op.name == "load":
        return inst.operands[1] if len(inst.operands) > 1 else None
    if inst.op.name == "store" or (inst.op.has(Trait.ATOMIC) and inst.op.name != "atomic_cas"):
        return inst.operands[2] if len(inst.operands) > 2 else None
    return None


def mask_at(elements: Elements, mask: Value | None, index: tuple[Index, ...]) -> Value | None:
    """What is left of a mask here, None when it surely holds."""
    if mask is None:
        return None
    left: Value | None = None
    for condition, where in conjuncts(elements, mask, index):
        if (condition, tuple(ix.axis for ix in where)) in elements.known_true:
            continue
        value = elements.at(condition, where)
        left = value if left is None else elements.e.emit("and", left, value)
    return left


def _first_lane(index: tuple[Index, ...]) -> tuple[Index, ...]:
    return tuple(ix.first() for ix in index)


def _load(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    pointer = inst.operands[0]
    mask = mask_at(elements, inst.operands[1] if len(inst.operands) > 1 else None, index)
    extra = [] if mask is None else [mask]
    if mask is not None and len(inst.operands) > 2:
        extra.append(elements.at(inst.operands[2], index))
    step = elements.step(pointer, index)
    has_lanes = any(ix.lanes for ix in index)
    if has_lanes and step == 1:
        value = elements.e.emit("vload", elements.at(pointer, _first_lane(index)), *extra)
    elif has_lanes and step == 0 and mask is None:
        value = elements.e.emit("load", elements.at(pointer, _first_lane(index)))
    else:
        value = elements.e.emit("load", elements.at(pointer, index), *extra)
    elements.local[inst.out] = value


def _store(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    pointer, value = inst.operands[:2]
    mask = mask_at(elements, inst.operands[2] if len(inst.operands) > 2 else None, index)
    extra = [] if mask is None else [mask]
    stored = elements.at(value, index)
    if any(ix.lanes for ix in index) and elements.step(pointer, index) == 1:
        attrs = {"stream": True} if inst in elements.streams else {}
        address = elements.at(pointer, _first_lane(index))
        elements.e.inst("vstore", [address, stored, *extra], attrs)
    else:
        elements.e.inst("store", [elements.at(pointer, index), stored, *extra])


def _atomic(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    count = 3 if inst.op.name == "atomic_cas" else 2
    operands = [elements.at(v, index) for v in inst.operands[:count]]
    mask = mask_at(elements, inst.operands[count] if len(inst.operands) > count else None, index)
    extra = [] if mask is None else [mask]
    elements.local.update(
        zip(inst.outs, elements.e.inst(inst.op.name, [*operands, *extra]).outs, strict=True)
    )


def _gather(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    source, where = inst.operands
    axis = inst["axis"] % len(index)
    position = elements.at(where, index)
    if position.type.dtype.name != "i32":
        position = elements.e.emit("cast", position, type=I32)
    taken = Index(position, is_general=True)
    elements.local[inst.out] = elements.at(source, (*index[:axis], taken, *index[axis + 1 :]))


def _control(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    """Control flow inside a nest: carried blocks are carried elements, in registers."""
    n = len(inst.outs)
    head = inst.operands if inst.op.name == "if" else inst.operands[: len(inst.operands) - n]
    inits = () if inst.op.name == "if" else inst.operands[len(inst.operands) - n :]
    operands = [elements.at(v, index) for v in (*head, *inits)]
    regions = [_element_region(elements, region, index) for region in inst.regions]
    new = elements.e.inst(inst.op.name, operands, dict(inst.attrs), regions)
    for old, out in zip(inst.outs, new.outs, strict=True):
        elements.local[old] = out


def _element_region(elements: Elements, region: Region, index: tuple[Index, ...]) -> Region:
    inner = Elements(
        elements.e, {**elements.formulas}, elements.slots, {**elements.scalars}, elements.known_true
    )
    inner.local = dict(elements.local)
    inner.memo = dict(elements.memo)

    def body(*params: Value) -> Sequence[Value]:
        for old, new in zip(region.params, params, strict=True):
            (inner.local if old.shape else inner.scalars)[old] = new  # type: ignore[index]
        for inst in region.body[:-1]:
            if not any(v.shape for v in (*inst.operands, *inst.outs)):
                made = elements.e.inst(
                    inst.op.name, [inner.at(v, ()) for v in inst.operands], dict(inst.attrs)
                )
                inner.scalars.update(zip(inst.outs, made.outs, strict=True))  # type: ignore[attr-defined]
            elif inst.op.is_pure and not inst.regions:
                inner.formulas.update(dict.fromkeys(inst.outs, inst))  # type: ignore[attr-defined]
            else:
                member(inner, inst, index)
        return [inner.at(v, index if v.shape else ()) for v in region.yields]

    return elements.e.region(
        [Type(p.dtype) for p in region.params], body, [p.hint for p in region.params]
    )


def inline(emitter: Emitter, combine: Region, arguments: Sequence[Value]) -> list[Value]:
    """The instructions of a combine region on given values."""
    values = dict(zip(combine.params, arguments, strict=True))
    for inst in combine.body[:-1]:
        operands = [values.get(v, v) for v in inst.operands]
        values.update(
            zip(inst.outs, emitter.inst(inst.op.name, operands, dict(inst.attrs)).outs, strict=True)
        )
    return [values.get(v, v) for v in combine.yields]


def _nothing(value: Value) -> object:
    return 0.0 if value.dtype.is_float else False if value.dtype.is_bool else 0


_MEMBERS = {
    "load": _load,
    "store": _store,
    "gather": _gather,
    "for": _control,
    "while": _control,
    "if": _control,
}
__all__ = ["copy_loops", "inline", "lower_nest", "mask_at"]
