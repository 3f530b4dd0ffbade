"""Permuted blocks: where the last axis moves, blocks in scratch are transposed once, in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from eas.base.trampoline import reached
from eas.ir import Inst, Value
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.elements import I32, Slot


@contextmanager
def contiguous(p: Lowering, used: Iterable[Value]) -> Iterator[None]:
    """Give every permuted block behind these values a slot of its own while a nest reads them.

    Only while: what is computed in a branch or loop is not there after it.
    """
    made = []
    for value in _moved_blocks(p, used):
        slot = p.slot_like(value)
        transpose(p, p.formulas[value], slot)
        made.append((value, slot))
    for value, slot in made:
        p.slots[value] = slot
    yield
    for value, _ in made:
        del p.slots[value]


def moved_into(p: Lowering, slot: Slot, value: Value) -> bool:
    """Transpose straight into a slot if that is all that a copy does; not onto the block itself."""
    if not _is_moved(p, value) or p.slots[p.formulas[value].operands[0]].pointer is slot.pointer:
        return False
    transpose(p, p.formulas[value], slot)
    return True


def _is_moved(p: Lowering, value: Value) -> bool:
    """A permutation of a block in scratch that has another last axis, too large for a few gathers."""
    inst = p.formulas.get(value)
    if inst is None or inst.op.name != "permute" or value in p.slots:
        return False
    source = inst.operands[0]
    edge = min(value.shape[-1], source.shape[-1])
    return source in p.slots and p.slots[source].strides()[inst["order"][-1]] != 1 and edge >= 4


def _moved_blocks(p: Lowering, used: Iterable[Value]) -> list[Value]:
    def behind(value: Value) -> tuple[Value, ...]:
        inst = p.formulas.get(value) if value not in p.slots and not _is_moved(p, value) else None
        return () if inst is None else inst.operands

    return [v for v in reached(used, behind) if v not in p.slots and _is_moved(p, v)]


def transpose(p: Lowering, inst: Inst, target: Slot) -> None:
    """Fill a slot with the permutation of a block in scratch."""
    source = p.slots[inst.operands[0]]
    order = [k % len(target.shape) for k in inst["order"]]
    inner = order.index(len(order) - 1)  # along this axis of the target the source is contiguous
    steps = [source.strides()[k] for k in order], target.strides()
    size = p.target.vector_nbytes // max(4, source.pointer.dtype.nbytes)
    rest = [k for k in range(len(order) - 1) if k != inner]

    def level(axes: Sequence[int], at: dict[int, Value]) -> None:
        if axes:
            p.counted(target.shape[axes[0]], lambda i: level(axes[1:], {**at, axes[0]: i}))
        else:
            _matrix(p, (source, target), steps, inner, at, size)

    level(rest, {})


def _matrix(
    p: Lowering,
    slots: tuple[Slot, Slot],
    steps: tuple[Sequence[int], Sequence[int]],
    inner: int,
    at: dict[int, Value],
    size: int,
) -> None:
    """Square blocks of two axes, then the elements of the edges."""
    shape = slots[1].shape
    last = len(shape) - 1
    whole = [shape[k] // size * size for k in (inner, last)]

    def pointers(i: Value, j: Value) -> list[Value]:
        place = {**at, inner: i, last: j}
        found = []
        for slot, strides in zip(slots, steps, strict=True):
            offset = p.e.const(0)
            for axis, position in place.items():
                offset = p.e.add(offset, p.e.mul(position, strides[axis]))
            found.append(p.e.emit("addptr", slot.pointer, offset))
        return found

    def block(i: Value, j: Value) -> None:
        attrs = {"size": size, "source_row": steps[0][last], "target_row": steps[1][inner]}
        p.e.inst("relayout", pointers(i, j), attrs)

    def element(i: Value, j: Value) -> None:
        source, target = pointers(i, j)
        p.e.inst("store", [target, p.e.emit("load", source)])

    if math.prod(whole):
        _square(p, (0, whole[0]), (0, whole[1]), size, block)
    else:
        whole = [0, 0]
    _square(p, (0, whole[0]), (whole[1], shape[last]), 1, element)
    _square(p, (whole[0], shape[inner]), (0, shape[last]), 1, element)


def _square(
    p: Lowering,
    first: tuple[int, int],
    second: tuple[int, int],
    step: int,
    body: Callable[[Value, Value], None],
) -> None:
    """Both counters in steps, the second one inside."""

    def level(ranges: Sequence[tuple[int, int]], at: tuple[Value, ...]) -> None:
        if not ranges:
            body(*at)
            return
        (begin, end), *more = ranges

        def inside(i: Value) -> Sequence[Value]:
            level(more, (*at, i))
            return ()

        region = p.e.region([I32], inside)
        p.e.inst("loop", [p.e.const(begin), p.e.const(end)], {"lanes": step}, [region])

    if first[0] < first[1] and second[0] < second[1]:
        level((first, second), ())
