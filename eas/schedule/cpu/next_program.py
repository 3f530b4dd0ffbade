"""Asking memory for what is read later, where processors do not look ahead that far themselves.

A program that normalises a row first reads it from memory, then works on what is in the cache. Memory is idle in
that second part, and the next row comes late: processors look ahead inside of a page, not behind its end. A loop
with much to do for each vector comes to the next page as late. Where a loop goes along the row in blocks, its length
is known at run time: what is asked for in rows that are too long is what is read anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eas.analysis import producers
from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Inst, IRModule, Value, walk
from eas.schedule.cpu.elements import Elements
from eas.schedule.nest.axis_steps import HINTS
from eas.schedule.target import CpuTarget

_AHEAD_NBYTES = 1 << 11
_LONG_NBYTES = 1 << 13  # of a row: most of what is asked for is part of it
_SAME = frozenset({"broadcast", "expand_dims", *HINTS})


@dataclass(frozen=True)
class _Term:
    """A number times scalars."""

    number: int
    times: tuple[Value, ...] = ()


class NextProgram:
    """How far from the elements of a program those of the next one are."""

    def __init__(self, module: IRModule, target: CpuTarget) -> None:
        self._most_nbytes, self._near_nbytes = target.row_nbytes, target.near_row_nbytes
        self._made = producers(module)
        self._args = {arg.value for arg in module.args}
        self._loops = {inst.regions[0].params[0]: inst for inst in walk(module.body) if inst.op.name == "for"}

    def ask(self, elements: Elements, load: Inst, address: Value) -> None:
        """At the address of a vector that is loaded: for the same one of the next program, or for what follows."""
        pointer, e = load.operands[0], elements.e
        nbytes, is_again = pointer.dtype.nbytes, load["again"]
        row_nbytes, level = math.prod(pointer.shape) * nbytes, 1
        if load["asked"]:  # the load that it repeats has asked
            return
        if is_again and row_nbytes <= self._most_nbytes:
            level = 1 if row_nbytes <= self._near_nbytes and not self._along(pointer) else 2
            steps = [self._short(elements, pointer, self._step(elements, term)) for term in self._moved(pointer) or ()]
        elif not is_again and elements.context.is_slow and pointer.shape[-1] * nbytes >= _LONG_NBYTES:
            steps = [e.const(_AHEAD_NBYTES // nbytes)]
        else:
            return
        for step in steps:
            address = e.emit("addptr", address, step)
        if steps:
            e.inst("ask", [address], {"level": level})

    def _step(self, elements: Elements, term: _Term) -> Value:
        step = elements.e.const(term.number)
        for factor in term.times:
            step = elements.e.emit("mul", elements.at(factor, ()), step)
        return step

    def _short(self, elements: Elements, pointer: Value, step: Value) -> Value:
        """The step to the next row, and 0 if a loop goes along a row that is too long."""
        e = elements.e
        for loop in self._along(pointer):
            first, stop = (elements.at(v, ()) for v in loop.operands[:2])
            length = e.emit("sub", stop, first)
            is_short = e.emit("le", length, e.const(self._most_nbytes // pointer.dtype.nbytes, length.type))
            step = e.emit("select", is_short, step, e.const(0, step.type))
        return step

    def _along(self, pointer: Value) -> list[Inst]:
        """The loops whose counters are part of an address."""
        seen, values = set(), [pointer]
        while values:
            value = values.pop()
            if value not in seen:
                seen.add(value)
                values += self._made[value].operands if value in self._made else ()
        return [loop for counter, loop in self._loops.items() if counter in seen]

    def _moved(self, value: Value) -> tuple[_Term, ...] | None:
        """What a number or address grows by from program to program; None if that is not so simple."""
        return evaluate(self._growth, value)

    def _growth(self, value: Value) -> Definition[Value, tuple[_Term, ...] | None]:
        inst = self._made.get(value)
        if inst is None:
            loop = self._loops.get(value)
            return (yield loop.operands[0]) if loop is not None else () if value in self._args else None
        name = inst.op.name
        if name == "program_id":
            return (_Term(1),) if inst["axis"] == 0 else ()
        if name in _SAME or (name == "cast" and not inst.out.dtype.is_float and inst.out.dtype.bits >= 32):
            return (yield inst.operands[0])
        parts: list[tuple[_Term, ...] | None] = yield from every(inst.operands)
        known = [p for p in parts if p is not None]
        if not inst.op.is_pure or inst.regions or len(known) < len(parts):
            return None
        if not any(known):
            return ()
        if name in ("add", "addptr", "sub"):
            sign = -1 if name == "sub" else 1
            return (*known[0], *(_Term(sign * t.number, t.times) for t in known[1]))
        if name != "mul" or all(known):
            return None
        factor = self._scalar(inst.operands[0 if known[1] else 1])
        return None if factor is None else tuple(_Term(t.number, (*t.times, factor)) for t in known[0] or known[1])

    def _scalar(self, value: Value) -> Value | None:
        inst = self._made.get(value)
        while inst is not None and inst.op.name in _SAME:
            value = inst.operands[0]
            inst = self._made.get(value)
        return value if value.type.is_scalar and value.type.dtype.bits == 32 else None


__all__ = ["NextProgram"]
