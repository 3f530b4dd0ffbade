"""Where all masks of a nest are off: the lanes behind a bound hold one value, which is computed once.

A block may be far longer than the row it covers. Behind the bound of its box masks a load gives its
`other`, a store or a histogram does nothing, and what follows from that is the same in all lanes. So the loops end
at the bound; a reduction gets the constant as often as there are lanes left, and a block that later
nests read keeps the constant beside its slot, which is not filled to the end. So does a block that a
loop carries: the loop carries beside it how far its slot is filled, and the constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from eas.analysis import made_by
from eas.analysis.combines import is_idempotent, only_op
from eas.base.trampoline import Definition, evaluate
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.schedule.elements.elements import (
    TRUE,
    Elements,
    Emitter,
    Index,
    Known,
    Place,
    Slot,
    nothing,
    source_index,
)
from eas.schedule.elements.masks import Bounds, conjuncts
from eas.schedule.target import CpuTarget

_MASKS = {"store": 2, "histogram": 1}  # the operand without which nothing is written or counted


@dataclass(frozen=True, eq=False)
class Tail:
    """A slot is filled up to `stop`; behind it every element is `value`."""

    key: frozenset[Known]
    stop: Value
    value: Value


def readers_know_tails(module: IRModule) -> tuple[set[Value], set[tuple[Inst, int]]]:
    """Blocks that only nests beside them read, position by position; and which blocks loops carry so.

    The first are results of nests and of loops, and what a loop carries inside of it.
    """
    uses: dict[Value, int] = {}
    for inst in walk(module.body):
        for v in inst.operands:
            uses[v] = uses.get(v, 0) + 1
    found: set[Value] = set()
    carried: set[tuple[Inst, int]] = set()
    for region in _regions(module.body):
        found.update(_read_beside(region, uses))
        for loop in region.body:
            if loop.op.name in ("for", "while"):
                for i in _carried_beside(loop, uses):
                    carried.add((loop, i))
                    body = loop.regions[-1]
                    found.update((body.yields[i], *(r.params[len(r.params) - len(loop.outs) + i] for r in loop.regions)))
    return found, carried


def _carried_beside(loop: Inst, uses: dict[Value, int]) -> Iterator[int]:
    """The carried blocks that nests make, and that only nests and the next iteration read."""
    body = loop.regions[-1]
    beside = [_beside(r) for r in loop.regions]
    made = {v: nest["shape"] for nest in body.body if nest.op.name == "nest" for v in nest.outs}
    for i, value in enumerate(body.yields):
        shape = loop.outs[i].shape
        if len(shape) != 1 or made.get(value) != shape:
            continue
        params = [r.params[len(r.params) - len(loop.outs) + i] for r in loop.regions]
        if beside[-1][value] + 1 == uses.get(value, 0) and all(reads[p] == uses.get(p, 0) for reads, p in zip(beside, params, strict=True)):
            yield i


def _beside(region: Region) -> Counter[Value]:
    """How often the nests of a region read each block position by position."""
    return Counter(
        v
        for nest in region.body
        if nest.op.name == "nest"
        for inst in nest.regions[0].body[:-1]
        if inst.op.has(Trait.ELEMENTWISE) or inst.op.name in ("reduce", "store")
        for v in inst.operands
        if v.shape == nest["shape"]
    )


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for inst in region.body:
        if inst.op.name != "nest":
            for inner in inst.regions:
                yield from _regions(inner)


def _read_beside(region: Region, uses: dict[Value, int]) -> Iterator[Value]:
    beside = _beside(region)
    for inst in region.body:
        if inst.op.name in ("nest", "for", "while"):
            yield from (v for v in inst.outs if len(v.shape) == 1 and beside[v] == uses.get(v, 0))


def can_end_early(extent: int, target: CpuTarget) -> bool:
    """Whether a slot is made of more than one step of the widest loop."""
    return extent % target.vector_nbytes == 0 and extent > target.vector_nbytes


def stop_of(e: Emitter, bounds: Bounds, extent: int, step: int) -> Value:
    """The first position, a multiple of `step`, from which on every condition on lanes is false."""
    up = e.emit("add", bounds.stop(extent), e.const(step - 1))
    return e.emit("and", up, e.const(-step))


class TailValues:
    """The elements of a nest behind the bound; None where they are not one value."""

    def __init__(
        self,
        elements: Elements,
        members: Sequence[Inst],
        index: tuple[Index, ...],
        key: frozenset[Known],
        tails: dict[Value, Tail],
    ) -> None:
        self.elements, self.e = elements, elements.e
        self.index, self.key, self.tails = index, key, tails
        self.made = made_by(members)
        self.memo: dict[tuple[Value, tuple[Index, ...]], Value | None] = {}

    def is_off(self, mask: Value, index: tuple[Index, ...] | None = None) -> bool:
        where = self.index if index is None else index
        return any(
            (c, tuple(ix.axis for ix in at)) in self.key
            for c, at in conjuncts(self.elements, mask, where)
        )

    def at(self, value: Value, index: tuple[Index, ...] | None = None) -> Value | None:
        """The one value of a block behind the bound."""
        return evaluate(self._compute, (value, self.index if index is None else index), self.memo)

    def _compute(self, place: Place) -> Definition[Place, Value | None]:
        elements, (value, index) = self.elements, place
        if value.type.is_scalar:
            return elements.at(value, ())
        if value in self.tails:
            return self.tails[value].value
        if value in elements.slots or value.type.is_pointer:
            return None
        if value.dtype.is_bool and self.is_off(value, index):
            return self.e.const(False, TRUE)
        inst = self.made.get(value)
        if inst is not None and inst.op.name == "load":
            return (yield from self._loaded(inst))
        inst = inst or elements.formulas.get(value)
        if inst is None:
            return None
        source = source_index(inst, index)
        if source is not None:
            return (yield inst.operands[0], source)
        if inst.op.name == "const":
            return self.e.const(inst["value"], value.type.with_shape(()))
        return (yield from self._applied(inst, value, index)) if inst.op.has(Trait.ELEMENTWISE) else None

    def _loaded(self, inst: Inst) -> Definition[Place, Value | None]:
        if len(inst.operands) < 2 or not self.is_off(inst.operands[1]):
            return None
        if len(inst.operands) > 2:
            return (yield inst.operands[2], self.index)
        return self.e.const(nothing(inst.out), Type(inst.out.dtype))

    def _applied(self, inst: Inst, value: Value, index: tuple[Index, ...]) -> Definition[Place, Value | None]:
        if inst.op.name == "select":
            condition = yield inst.operands[0], index
            chosen = self.e.literals.get(condition) if condition is not None else None
            if chosen is not None:
                return (yield inst.operands[1 if chosen else 2], index)
        operands = []
        for v in inst.operands:
            found = yield v, index
            if found is None:
                return None
            operands.append(found)
        attrs = dict(inst.attrs)
        if "type" in attrs:
            attrs["type"] = attrs["type"].with_shape(())
        return self.e.inst(inst.op.name, operands, attrs).outs[inst.outs.index(value)]


def tail_of(
    values: TailValues, members: Iterable[Inst], outs: Iterable[Value], extremes: Container[Inst]
) -> tuple[list[Value], list[Value]] | None:
    """What reductions combine and what crosses the nest behind the bound; None where lanes differ.

    `extremes`: reductions to the first position of the best value. Of equal values that is the first behind the bound.
    """
    combined: list[Value] = []
    for inst in members:
        name = inst.op.name
        mask = inst.operands[_MASKS[name] :] if name in _MASKS else ()
        if mask and values.is_off(mask[0]):
            continue
        if name == "reduce" and (len(inst.operands) == 1 or inst in extremes):
            found = values.at(inst.operands[0])
            if found is None or not (inst in extremes or _can_repeat(inst, found, values.e)):
                return None
            combined.append(found)
        elif name not in ("load", "scan") and not (inst.op.has(Trait.ELEMENTWISE) and inst.op.is_pure):
            return None
    crossing = [values.at(v) for v in outs]
    if any(v is None for v in crossing):
        return None
    return combined, [v for v in crossing if v is not None]


def _can_repeat(reduce: Inst, value: Value, e: Emitter) -> bool:
    combine = reduce.regions[0]
    if is_idempotent(combine):
        return True
    wide = not value.dtype.is_bool and (value.dtype.nbytes >= 4 or e.literals.get(value) == 0)
    return only_op(combine) == "add" and wide


def repeated(e: Emitter, reduce: Inst, value: Value, count: Value) -> Value:
    """`value` combined with itself `count` times."""
    if is_idempotent(reduce.regions[0]) or e.literals.get(value) == 0:
        return value
    many = count if count.type == value.type else e.emit("cast", count, type=value.type)
    return e.emit("mul", value, many)


def fill_tail(
    e: Emitter, elements: Callable[[], Elements], slot: Slot, outer: Sequence[Index], lanes: int, ends: tuple[Value, Value], value: Value
) -> None:
    """Write `value` to the elements of a row of a slot from one position to another."""

    def body(i: Value) -> Sequence[Value]:
        address, _, _ = elements().address(slot, (*outer, Index(i, lanes=lanes > 1)))
        e.inst("vstore" if lanes > 1 else "store", [address, value])
        return ()

    region = e.region([ends[0].type], body, ["i"])
    e.inst("loop", ends, {"lanes": lanes}, [region])
