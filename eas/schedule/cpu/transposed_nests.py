"""Nests whose results are read along another axis: squares of elements are transposed in registers as they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis import mask_of, users_of
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.elements import Index, Slot, TransposedSlot
from eas.schedule.elements.masks import Bounds
from eas.schedule.elements.members import masks_are_slow, member
from eas.schedule.target import CpuTarget


def transposed_nests(module: IRModule, target: CpuTarget) -> dict[Inst, int]:
    """Nests of which everybody sees a permutation only, and the axis that is the last one there."""
    users, nests = users_of(module), [inst for inst in walk(module.body) if inst.op.name == "nest"]
    inside = {id(part) for nest in nests for part in walk(nest.regions[0])}
    found = {}
    for nest in nests:
        axes = {_axis_read(out, users, inside) for out in nest.outs}
        axis = axes.pop() if len(axes) == 1 else None
        if axis is not None and _can_turn(nest, axis, target):
            found[nest] = axis
    return found


def _axis_read(value: Value, users: dict[Value, list[Inst]], inside: set[int]) -> int | None:
    """The axis that permutations of a block make their last one, if members of nests read only these."""
    rank, axes = len(value.shape), set()
    for user in users.get(value, ()):
        if user.op.name != "permute" or any(id(u) not in inside for u in users.get(user.out, ())):
            return None
        axes.add(user["order"][-1] % rank)
    return axes.pop() if len(axes) == 1 and rank - 1 not in axes else None


def _can_turn(nest: Inst, axis: int, target: CpuTarget) -> bool:
    """Whole squares of numbers, of nothing but loads and arithmetic."""
    size = _size(nest, target)
    if any(nest["shape"][k] % size for k in (axis, -1)) or any(out.dtype.is_bool for out in nest.outs):
        return False
    return all(
        inst.op.name == "load" or (inst.op.is_pure and inst.op.has(Trait.ELEMENTWISE) and not inst.regions)
        for inst in nest.regions[0].body[:-1]
    )


def _size(nest: Inst, target: CpuTarget) -> int:
    """The edge of a square: the lanes of a register of the widest element."""
    widest = max((v.dtype.nbytes for i in nest.regions[0].body for v in i.outs), default=4)
    return target.vector_nbytes // max(4, widest)


def lower_turned_nest(p: Lowering, nest: Inst, axis: int) -> None:
    """Emit the loops of such a nest; its results are in slots whose neighbours are those along `axis`."""
    region = nest.regions[0]
    for out in nest.outs:
        p.slots[out] = turned_slot(p, out, axis)
    slots = [p.slots[out] for out in nest.outs]
    _Squares(p, nest["shape"], axis, region, slots, _size(nest, p.target)).emit()


def turned_slot(p: Lowering, value: Value, axis: int) -> Slot:
    """A slot with `axis` innermost, its rows one line further apart than they are long.

    Rows of a power of two would all meet in a few sets of the cache.
    """
    shape, rank = value.shape, len(value.shape)
    strides, step = [0] * rank, 1
    for k in (axis, *(k for k in reversed(range(rank)) if k != axis)):
        strides[k] = step
        step *= shape[k] + (p.target.caches.line // max(4, value.dtype.nbytes) if k == axis else 0)
    flat = p.new_slot((step,), value.dtype, value.hint)
    return TransposedSlot(flat.pointer, shape, tuple(strides))


class _Squares:
    """Loops over squares of `size` positions along `axis` and the last axis."""

    def __init__(self, p: Lowering, shape: tuple[int, ...], axis: int, region: Region, slots: list[Slot], size: int) -> None:
        self.p, self.e = p, p.e
        self.shape, self.axis, self.region, self.slots, self.size = shape, axis, region, slots, size

    def emit(self) -> None:
        self._outer([k for k in range(len(self.shape) - 1) if k != self.axis], {})

    def _outer(self, axes: Sequence[int], at: dict[int, Value]) -> None:
        if axes:
            self.p.counted(self.shape[axes[0]], lambda i: self._outer(axes[1:], {**at, axes[0]: i}), f"i{axes[0]}")
            return

        def rows(i: Value) -> Sequence[Value]:
            self._strip({**at, self.axis: i})
            return ()

        self._loop(self.e.const(0), self.e.const(self.shape[self.axis]), rows)

    def _loop(self, start: Value, end: Value, body: Callable[[Value], Sequence[Value]]) -> None:
        region = self.e.region([start.type], body, ["i"])
        self.e.inst("loop", [start, end], {"lanes": self.size}, [region])

    def _index(self, at: dict[int, Value], row: int, last: Value) -> tuple[Index, ...]:
        places = {**at, self.axis: self.e.add(at[self.axis], self.e.const(row))}
        outer = [Index(places[k], axis=k) for k in range(len(self.shape) - 1)]
        return (*outer, Index(last, lanes=True, axis=len(self.shape) - 1))

    def _strip(self, at: dict[int, Value]) -> None:
        """`size` rows: the squares where all masks hold in each of them, then those left."""
        masks = [m for inst in self.region.body if (m := mask_of(inst)) is not None]
        bounds = self.p.bounds()
        for row in range(self.size if masks else 0):
            mine = self.p.bounds()
            for mask in masks:
                mine.add(self.p.elements(), mask, self._index(at, row, self.e.const(0)))
            bounds.known |= mine.known
            bounds.limits += mine.limits
        end = self.e.const(self.shape[-1])
        full = bounds.end(self.shape[-1], self.size) if masks else end
        self._part(at, self.e.const(0), full, bounds)
        if masks and masks_are_slow(self.region.body, self.p.target):
            for row in range(self.size):
                self._elements(at, row, full, end)
        elif masks:
            self._part(at, full, end, self.p.bounds())

    def _part(self, at: dict[int, Value], start: Value, end: Value, bounds: Bounds) -> None:
        def square(i: Value) -> Sequence[Value]:
            rows = [self._values(self._index(at, row, i), bounds) for row in range(self.size)]
            for slot, lines in zip(self.slots, zip(*rows, strict=True), strict=True):
                for column, line in enumerate(self.e.inst("vtranspose", lines).outs):
                    index = list(self._index(at, 0, self.e.add(i, self.e.const(column))))
                    index[self.axis] = Index(at[self.axis], lanes=True)
                    index[-1] = index[-1].first()
                    address, is_unit, _ = self.p.elements().address(slot, tuple(index))
                    assert is_unit, "neighbours along the axis are neighbours in the slot"
                    self.e.inst("vstore", [address, line])
            return ()

        self._loop(start, end, square)

    def _elements(self, at: dict[int, Value], row: int, start: Value, end: Value) -> None:
        """One after the other."""

        def element(i: Value) -> Sequence[Value]:
            index = tuple(ix.first() for ix in self._index(at, row, i))
            for slot, value in zip(self.slots, self._values(index, self.p.bounds()), strict=True):
                self.e.inst("store", [self.p.elements().address(slot, index)[0], value])
            return ()

        region = self.e.region([start.type], element, ["i"])
        self.e.inst("loop", [start, end], {"lanes": 1}, [region])

    def _values(self, index: tuple[Index, ...], bounds: Bounds) -> list[Value]:
        """What the nest yields at one position."""
        elements = self.p.elements(frozenset(bounds.known))
        for inst in self.region.body[:-1]:
            self.e.loc = inst.loc
            member(elements, inst, index)
        return [elements.at(v, index) for v in self.region.yields]
