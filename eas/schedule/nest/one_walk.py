"""Tiles side by side as one: where position k + BLOCK of a program is position k of the next, rows need not end between them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Inst, Trait, Value, walk
from eas.schedule.nest.axis_steps import HINTS, AxisSteps

_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "rem"})  # their runs end with the block


class _Kind(Enum):
    STILL = "the same for all programs and positions"
    ALONG = "made of block * program + position, and of what stays the same"


_Parts = tuple[int, int]  # a * program + b * position + what stays the same
_Found = _Kind | _Parts | None


def is_one_walk(nest: Inst, steps: AxisSteps, program: int, axis: int) -> bool:
    """Whether a nest does the same for the first position of a program as for the one behind the last of the program before."""
    walk_of = _Walk(steps, program, nest["shape"][axis])
    insts = list(walk(nest.regions[0]))
    if any(inst.op.name in _DIVISIONS for inst in insts) or any(i.op.name in _DIVISIONS and i.out.shape for i in steps.makers.values()):
        return False
    stores = [inst for inst in insts if inst.op.name == "store"]
    return all(
        walk_of.of(inst.operands[0], axis) is _Kind.ALONG and all(isinstance(walk_of.of(v, axis), _Kind) for v in inst.operands)
        for inst in stores
    )


class _Walk:
    """What is known of values of a module, of which `axis` is the axis of positions or None."""

    def __init__(self, steps: AxisSteps, program: int, block: int) -> None:
        self.steps, self.program, self.block = steps, program, block
        self._found: dict[tuple[Value, int | None], _Found] = {}

    def of(self, value: Value, axis: int | None) -> _Found:
        return evaluate(self._compute, (value, axis), self._found)

    def _compute(self, key: tuple[Value, int | None]) -> Definition[tuple[Value, int | None], _Found]:
        value, axis = key
        inst = self.steps.makers.get(value)
        if inst is None or inst.op.name in ("const", "num_programs"):
            return _Kind.STILL
        name = inst.op.name
        if name == "program_id":
            return (1, 0) if inst["axis"] == self.program else _Kind.STILL
        if name == "arange":
            return (0, 1) if axis == 0 else _Kind.STILL
        if name == "broadcast":
            (source,) = inst.operands
            inner = None if axis is None else axis - (len(value.shape) - len(source.shape))
            return (yield source, None if inner is None or inner < 0 or source.shape[inner] == 1 else inner)
        if name == "expand_dims":
            made = inst["axis"] % len(value.shape)
            return (yield inst.operands[0], None if axis is None or axis == made else axis - (axis > made))
        if inst.regions or not (name == "load" or (inst.op.is_pure and (inst.op.has(Trait.ELEMENTWISE) or value.type.is_scalar))):
            return None
        return self._combined(inst, (yield from every([(v, axis) for v in inst.operands])))

    def _combined(self, inst: Inst, found: Sequence[_Found]) -> _Found:
        name = inst.op.name
        if None in found:
            return None
        if all(isinstance(f, _Kind) for f in found):
            return _Kind.ALONG if _Kind.ALONG in found else _Kind.STILL
        if _Kind.ALONG in found:
            return None
        parts = [f if isinstance(f, tuple) else (0, 0) for f in found]
        if name in HINTS:
            return parts[0]
        if name == "cast":  # of a number that surely fits
            return parts[0] if parts[0] in ((1, 0), (0, 1)) and not inst.out.dtype.is_float and inst.out.dtype.bits >= 32 else None
        if name in ("add", "addptr", "sub"):
            sign = -1 if name == "sub" else 1
            return self._kind(parts[0][0] + sign * parts[1][0], parts[0][1] + sign * parts[1][1])
        if name == "mul":
            which = 0 if isinstance(found[0], tuple) else 1
            factor = self.steps.literal(inst.operands[1 - which])
            return None if factor is None else self._kind(factor * parts[which][0], factor * parts[which][1])
        return None

    def _kind(self, a: int, b: int) -> _Found:
        if a == b == 0:
            return _Kind.STILL
        return _Kind.ALONG if a == b * self.block else (a, b)


__all__ = ["is_one_walk"]
