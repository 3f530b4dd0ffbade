"""Emits one thread's scalar code, knowing of every index what it is in each register of each thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eas.base.types import Type
from eas.ir import Inst, Region, Value
from eas.schedule.elements.elements import I32, Emitter

Table = np.ndarray  # int64, [registers, threads] or what broadcasts to it


# What index arithmetic does to tables; layouts and views need no other ops.
_FOLDS: dict[str, Callable[..., Table]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "min": np.minimum, "max": np.maximum,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "select": np.where,
}  # fmt: skip


class LaneEmitter(Emitter):
    """An emitter that keeps a table beside every value computed from thread and register numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[Value, Table] = {}

    def inst(
        self,
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        hints: Sequence[str] = (),
    ) -> Inst:
        inst = super().inst(name, operands, attrs, regions, hints)
        if name in _FOLDS or name in ("floordiv", "mod"):
            known = [self.tables[v] for v in operands if v in self.tables]
            if len(known) == len(operands):
                table = _divided(name, *known) if name not in _FOLDS else _FOLDS[name](*known)
                if table is not None:
                    self.tables[inst.out] = table
        return inst

    def const(self, value: Any, type: Type = I32) -> Value:
        out = super().const(value, type)
        if type == I32:
            self.tables[out] = np.asarray(int(value), np.int64)
        return out

    def bits(self, source: Value, columns: Sequence[int]) -> Value | None:
        """The sum of columns[k] over the set bits k of `source`; None where that is always 0."""
        total: Value | None = None
        k = 0
        while k < len(columns):
            if columns[k] == 0:
                k += 1
                continue
            end = k + 1
            while end < len(columns) and columns[end] == 2 * columns[end - 1]:
                end += 1
            if end == len(columns) and columns[k] % (1 << k) == 0 and self._is_multiple(source, 1 << k):
                part = self.mul(source, columns[k] >> k)  # the bits below are 0
            else:
                part = self.mul(self._field(source, k, end - k, len(columns)), columns[k])
            total = part if total is None else self.emit("add", total, part)
            k = end
        return total

    def _is_multiple(self, source: Value, n: int) -> bool:
        table = self.tables.get(source)
        return table is not None and not np.any(table % n)

    def _field(self, source: Value, first: int, count: int, width: int) -> Value:
        """Bits first .. first+count-1 of a number of `width` bits."""
        if first:
            source = self.emit("shr", source, self.const(first))
        if first + count < width:
            source = self.emit("and", source, self.const((1 << count) - 1))
        return source

    def sum(self, a: Value | None, b: Value | None) -> Value:
        if a is None:
            return self.const(0) if b is None else b
        return a if b is None else self.add(a, b)


def _divided(name: str, a: Table, b: Table) -> Table | None:
    if np.any(b == 0):
        return None
    return np.asarray(np.floor_divide(a, b) if name == "floordiv" else np.mod(a, b))


def linear_columns(numbers: Table) -> list[int] | None:
    """Column k of the map r -> numbers[r] if it is the sum over the bits of r, else None."""
    count = len(numbers)
    if numbers[0] != 0:
        return None
    columns = [int(numbers[1 << k]) for k in range(count.bit_length() - 1)]
    expected = np.zeros(count, np.int64)
    for k, column in enumerate(columns):
        expected += np.where(np.arange(count) >> k & 1, column, 0)
    return columns if np.array_equal(expected, numbers) else None
