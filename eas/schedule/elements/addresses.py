"""Addresses of neighbours in memory, in parts: what a loop over lanes does not change, its counter, and a number.

All loads of a row then share a register, and differ in the number that the instruction itself adds.
A position fits 32 bits, and what is left without its counter and a number does too, unless one of those is below 0:
then the parts are added in 64.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eas.ir import Inst, Value
from eas.schedule.elements.elements import I64, Elements, Index, source_index


@dataclass
class _Parts:
    fixed: list[tuple[Value, int]] = field(default_factory=list)  # and their signs
    moving: list[Value] = field(default_factory=list)
    number: int = 0
    is_above: bool = False  # whether what moves may be below 0, so that the rest is above the position


def first_address(elements: Elements, pointer: Value, index: tuple[Index, ...]) -> Value:
    """The address of the first lane."""
    inst = elements.definition(pointer)
    while inst is not None and (source := source_index(inst, index)) is not None and pointer not in elements.slots and elements.context.loads_strides:
        index, pointer = source, inst.operands[0]
        inst = elements.definition(pointer)
    first = tuple(ix.first() for ix in index)
    if not elements.context.loads_strides or inst is None or inst.op.name != "addptr" or pointer in elements.slots:
        return elements.at(pointer, first)
    base, offset = inst.operands
    if not offset.dtype.is_signed:  # parts of a number that went through 0 are far from each other
        return elements.at(pointer, first)
    parts = _Parts()
    _collect(elements, offset, index, parts)
    if not parts.moving or not parts.fixed:
        return elements.at(pointer, first)
    e, at = elements.e, elements.at(base, first)
    total: Value | None = None
    for value, sign in sorted(parts.fixed, key=lambda part: -part[1]):
        if value.type != I64 and len(parts.fixed) > 1 and (parts.number < 0 or parts.is_above):
            value = e.emit("cast", value, type=I64)
        if total is None:
            total = value if sign > 0 else e.emit("neg", value)
        else:
            total = e.emit("add" if sign > 0 else "sub", total, value)
    assert total is not None
    at = e.emit("addptr", at, total)
    for value in parts.moving:
        at = e.emit("addptr", at, value)
    return e.emit("addptr", at, e.const(parts.number, I64)) if parts.number else at


def _collect(elements: Elements, offset: Value, index: tuple[Index, ...], parts: _Parts) -> None:
    left = [(offset, index, 1)]
    while left:
        value, index, sign = left.pop()
        literal = elements.literal(value)
        if isinstance(literal, int):
            parts.number += sign * literal
            continue
        inst = None if value.type.is_scalar or value in elements.context.lines else elements.definition(value)
        name = inst.op.name if inst is not None and value not in elements.slots else ""
        source = source_index(inst, index) if inst is not None and name else None
        if inst is not None and source is not None:
            left.append((inst.operands[0], source, sign))
        elif inst is not None and name in ("add", "sub"):
            left.append((inst.operands[1], index, sign if name == "add" else -sign))
            left.append((inst.operands[0], index, sign))
        else:
            _add_part(elements, (value, inst if name else None), index, sign, parts)


def _add_part(elements: Elements, part: tuple[Value, Inst | None], index: tuple[Index, ...], sign: int, parts: _Parts) -> None:
    """What is no sum itself."""
    value, inst = part
    name = inst.op.name if inst is not None else ""
    if inst is not None and name == "arange" and sign > 0 and index[0].lanes and not index[0].is_general:
        parts.moving.append(elements.position(index[0].first()))
        parts.number += inst["start"]
    elif name == "mul" and sign > 0 and elements.step(value, index):
        parts.moving.append(elements.at(value, tuple(ix.first() for ix in index)))
        parts.is_above = True
    else:
        parts.fixed.append((elements.at(value, tuple(ix.first() for ix in index)), sign))
