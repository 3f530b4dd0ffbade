"""Addresses of neighbours in memory, in parts: what a loop over lanes does not change, its counter, and a number.

All loads of a row then share a register, and differ in the number that the instruction itself adds.
Positions that are stored to or loaded from fit 32 bits, so that the parts may be added in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eas.ir import Value
from eas.schedule.elements import INDEX_MAPS, Elements, Index


@dataclass
class _Parts:
    fixed: list[tuple[Value, int]] = field(default_factory=list)  # and their signs
    moving: list[Value] = field(default_factory=list)
    number: int = 0


def first_address(elements: Elements, pointer: Value, index: tuple[Index, ...]) -> Value:
    """The address of the first lane."""
    first = tuple(ix.first() for ix in index)
    inst = elements.definition(pointer)
    if not elements.loads_strides or inst is None or inst.op.name != "addptr" or pointer in elements.slots:
        return elements.at(pointer, first)
    base, offset = inst.operands
    parts = _Parts()
    _collect(elements, offset, index, 1, parts)
    if not parts.moving or not parts.fixed:
        return elements.at(pointer, first)
    e, at = elements.e, elements.at(base, first)
    total: Value | None = None
    for value, sign in sorted(parts.fixed, key=lambda part: -part[1]):
        if total is None:
            total = value if sign > 0 else e.emit("neg", value)
        else:
            total = e.emit("add" if sign > 0 else "sub", total, value)
    assert total is not None
    at = e.emit("addptr", at, total)
    for value in parts.moving:
        at = e.emit("addptr", at, value)
    return e.emit("addptr", at, e.const(parts.number)) if parts.number else at


def _collect(elements: Elements, value: Value, index: tuple[Index, ...], sign: int, parts: _Parts) -> None:
    literal = elements.literal(value)
    if isinstance(literal, int):
        parts.number += sign * literal
        return
    inst = None if value.type.is_scalar or value in elements.lines else elements.definition(value)
    name = inst.op.name if inst is not None and value not in elements.slots else ""
    if inst is not None and name in INDEX_MAPS:
        _collect(elements, inst.operands[0], INDEX_MAPS[name](inst, index), sign, parts)
    elif inst is not None and name in ("add", "sub"):
        _collect(elements, inst.operands[0], index, sign, parts)
        _collect(elements, inst.operands[1], index, sign if name == "add" else -sign, parts)
    elif inst is not None and name == "arange" and sign > 0 and index[0].lanes and not index[0].is_general:
        parts.moving.append(elements.position(index[0].first()))
        parts.number += inst["start"]
    else:
        parts.fixed.append((elements.at(value, tuple(ix.first() for ix in index)), sign))
