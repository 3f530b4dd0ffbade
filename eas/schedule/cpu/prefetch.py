"""Software prefetch of what is read later, where hardware prefetchers do not look ahead that far.

A program that normalises a row first reads it from memory, then works on what is in the cache. Memory is idle in
that second part, and the next row comes late: processors look ahead inside of a page, not behind its end. A loop
with much to do for each vector comes to the next page as late. Where a loop goes along the row in blocks, its length
is known at run time: rows that are too long prefetch what is read anyway.
"""

from __future__ import annotations

import math

from eas.analysis.motion import Direction, Term, motion_of
from eas.base.trampoline import reached
from eas.ir import Inst, IRModule, Value
from eas.schedule.elements.elements import Elements
from eas.schedule.target import CpuTarget

_AHEAD_NBYTES = 1 << 11
_LONG_NBYTES = 1 << 13  # of a row: most of what is prefetched is part of it


class Prefetch:
    """How far from the elements of a program those of the next one are."""

    def __init__(self, module: IRModule, target: CpuTarget) -> None:
        self._most_nbytes, self._near_nbytes = target.row_nbytes, target.near_row_nbytes
        self._motion = motion_of(module)
        self._programs = self._motion.along(Direction(self._motion.programs(0), from_start=True, folds_literals=False))

    def emit(self, elements: Elements, load: Inst, address: Value) -> None:
        """Beside the load of a vector: prefetch the same one of the next program, or what follows."""
        pointer, e = load.operands[0], elements.e
        nbytes, is_again = pointer.dtype.nbytes, load["reread"]
        row_nbytes, level = math.prod(pointer.shape) * nbytes, 1
        if load["prefetched"]:  # the load that it repeats does
            return
        if is_again and row_nbytes <= self._most_nbytes:
            level = 1 if row_nbytes <= self._near_nbytes and not self._along(pointer) else 2
            steps = [self._short(elements, pointer, self._step(elements, term)) for term in self._terms(pointer)]
        elif not is_again and elements.context.is_slow and pointer.shape[-1] * nbytes >= _LONG_NBYTES:
            steps = [e.const(_AHEAD_NBYTES // nbytes)]
        else:
            return
        for step in steps:
            address = e.emit("addptr", address, step)
        if steps:
            e.inst("prefetch", [address], {"level": level})

    def _step(self, elements: Elements, term: Term) -> Value:
        step = elements.e.const(term.number)
        for factor, _ in term.times:
            step = elements.e.emit("mul", elements.at(self._motion.scalar(factor), ()), step)
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
        made = self._motion.made
        seen = set(reached([pointer], lambda v: made[v].operands if v in made else ()))
        return [loop for counter, loop in self._motion.counters.items() if counter in seen]

    def _terms(self, pointer: Value) -> tuple[Term, ...]:
        """What an address grows by from program to program, as products of scalars; none if that is not so simple."""
        move = self._programs.move(pointer)
        terms = move.terms if move is not None else ()
        scalars = [self._motion.scalar(v) for term in terms for v, _ in term.times]
        return terms if all(v.type.is_scalar and v.type.dtype.bits == 32 for v in scalars) else ()


__all__ = ["Prefetch"]
