"""How far values move when something moves by a step: an axis of a block, a loop counter, the programs of the grid, or the lanes of a vector.

All of them are one question, asked along a *direction*: who moves, and how far. A value that is a function of what stays does not move;
sums and products of what moves have known steps; all else that depends on it moves unevenly. Where the next program starts behind the last
position of this one, "a program further and BLOCK positions back" is a direction too: what does not move along it is made of
`BLOCK * program + position` alone. Steps are numbers times values of the kernel, so that code can be made of them; positions are
assumed to fit 32 bits, as everywhere (`indexing.Forms` has the exact formulas that launch facts and bounds need).
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from eas.analysis.program import (
    HINTS,
    SPREADS,
    constant_behind,
    producers,
    region_definitions,
    source_of,
)
from eas.base.trampoline import evaluate
from eas.ir import Arg, Inst, IRModule, Region, Trait, Value, walk

_CONVERTED = SPREADS | {"cast"}

P = TypeVar("P")  # a position along one axis of a block
Place = tuple[P, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A number times values, each with the element of it that is meant."""

    number: int
    times: tuple[tuple[Value, Place[Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """A step that is the same wherever it starts: a sum of terms."""

    terms: tuple[Term, ...] = ()
    wraps: bool = False  # not so where an unsigned number of 32 bits goes through 0, which only lanes that are off may do

    @staticmethod
    def by(number: int) -> Move:
        return Move((Term(number),)) if number else STILL

    @property
    def number(self) -> int | None:
        """The step, if it is one known number."""
        if not self.terms:
            return 0
        (first, *others) = self.terms
        return None if others or first.times else first.number

    def __add__(self, other: Move) -> Move:
        """The sum of both, one term for each product."""
        total: dict[tuple[tuple[Value, Place[Any]], ...], int] = {}
        for term in (*self.terms, *other.terms):
            total[term.times] = total.get(term.times, 0) + term.number
        return Move(tuple(Term(n, times) for times, n in total.items() if n), self.wraps or other.wraps)

    def scaled(self, number: int) -> Move:
        return replace(self, terms=tuple(Term(t.number * number, t.times) for t in self.terms if number))

    def times(self, factor: Value, place: Place[Any]) -> Move:
        return replace(self, terms=tuple(Term(t.number, (*t.times, (factor, place))) for t in self.terms))


STILL = Move()
Steps = Generator[tuple[Value, Place[P]], "Move | None", "Move | None"]  # None: uneven, or not known


VIEWS = frozenset({"broadcast", "expand_dims", "permute"})
"""Ops that move whole axes of their operand."""


def source_place(inst: Inst, place: Place[P], still: P) -> Place[P]:
    """Where an element of a view comes from."""
    if inst.op.name == "broadcast":
        source = inst.operands[0].shape
        kept = place[len(place) - len(source) :]
        return tuple([still if extent == 1 else at for extent, at in zip(source, kept, strict=True)])
    if inst.op.name == "expand_dims":
        axis = inst["axis"] % len(place)
        return place[:axis] + place[axis + 1 :]
    places = dict(zip((axis % len(place) for axis in inst["order"]), place, strict=True))
    return tuple([places[axis] for axis in range(len(place))])


def keeps_steps(inst: Inst) -> bool:
    """Whether the result moves as the first operand does: hints, and integers in at least 32 bits (shorter ones wrap on purpose)."""
    return inst.op.name in HINTS or (inst.op.name == "cast" and not inst.out.dtype.is_float and inst.out.dtype.bits >= 32)


class Rules(Generic[P]):
    """How the steps of operands become those of a result; who moves, and what a value is made of, is said by those who know."""

    def literal(self, value: Value) -> int | None:
        """The number behind a constant, also of a block of them."""
        raise NotImplementedError

    def may_cast(self, move: Move, place: Place[P]) -> bool:
        """Whether what moves this far surely fits other bits."""
        return True

    def combined(self, inst: Inst, place: Place[P]) -> Steps[P]:
        """The step of an instruction that works element by element."""
        moves = []
        for v in inst.operands:
            moves.append((yield v, place if v.shape else ()))
        moving = [i for i, move in enumerate(moves) if move is None or move.terms]
        if not moving:
            return STILL
        known = [move for move in moves if move is not None]
        if len(known) < len(moves):
            return None
        name, which = inst.op.name, moving[0]
        if name == "mul" and len(moving) == 1:
            other = inst.operands[1 - which]
            number = self.literal(other)
            return known[which].times(other, place) if number is None else known[which].scaled(number)
        if name in ("add", "addptr", "sub"):
            total = known[0] + (known[1].scaled(-1) if name == "sub" else known[1])
        elif keeps_steps(inst) and (name != "cast" or self.may_cast(known[0], place)):
            total = known[0]
        else:
            return None
        return replace(total, wraps=True) if moving[-1] == len(moves) - 1 and _is_widened(inst) else total


def _is_widened(inst: Inst) -> bool:
    """Whether the last operand is an unsigned number of 32 bits, of which 64 are made."""
    source = inst.operands[-1].dtype
    is_wider = inst.op.name == "addptr" or (inst.op.name == "cast" and inst.out.dtype.bits > source.bits)
    return is_wider and source.is_int and not source.is_signed and source.bits == 32


@dataclass(frozen=True)
class Direction:
    """Which numbers of a kernel move beside positions, and how far."""

    movers: Mapping[Value, int] = field(default_factory=dict)
    inside: Container[Value] | None = None  # only these values depend on them
    through_loads: bool = False  # whether what is loaded (inside) from a place that stays, stays
    from_start: bool = False  # whether loops are taken at their first iteration
    is_exact: bool = False  # whether only the movers themselves, and no multiples, surely fit other bits
    folds_literals: bool = True


class DirectedMotion(Rules[int]):
    """The steps of values of a module along a direction; a place says how far the position along each axis goes."""

    def __init__(self, motion: Motion, direction: Direction) -> None:
        self.motion, self.direction = motion, direction
        self._found: dict[tuple[Value, Place[int]], Move | None] = {}

    def move(self, value: Value, place: Place[int] | None = None) -> Move | None:
        """The step of a value; None if it is not the same everywhere, or not known."""
        return evaluate(self._compute, (value, (0,) * len(value.shape) if place is None else place), self._found)

    def literal(self, value: Value) -> int | None:
        return self.motion.literal(value) if self.direction.folds_literals else None

    def may_cast(self, move: Move, place: Place[int]) -> bool:
        return not self.direction.is_exact or move.number in (*self.direction.movers.values(), *place)

    def _compute(self, key: tuple[Value, Place[int]]) -> Steps[int]:
        value, place = key
        to, values, is_moved = self.direction, self.motion, any(place)
        if value in to.movers:
            return Move.by(to.movers[value])
        if not is_moved and (not to.movers or (to.inside is not None and value not in to.inside)):
            return STILL
        inst = values.made.get(value)
        if inst is None:
            if to.from_start and value in values.counters:
                return (yield values.counters[value].operands[0], ())
            return STILL if value in values.args else None
        if inst.op.name == "arange":
            return Move.by(place[0])
        if inst.op.name in VIEWS:
            return (yield inst.operands[0], source_place(inst, place, 0))
        is_load = inst.op.name == "load" and to.through_loads and (to.inside is None or value in to.inside)
        if not (is_load or (inst.op.is_pure and not inst.regions)) or (is_moved and inst.operands and not inst.op.has(Trait.ELEMENTWISE)):
            return None
        return (yield from self.combined(inst, place))


def place(value: Value, axis: int, moves: int = 1) -> Place[int]:
    """A position that moves along one axis of a block."""
    return tuple(moves * (k == axis) for k in range(len(value.shape)))


class Motion:
    """The motion of values along any direction, found when it is asked for."""

    def __init__(self, made: Mapping[Value, Inst], args: Sequence[Arg] = (), body: Region | None = None) -> None:
        self.made, self._body = made, body
        self.args: Mapping[Value, Arg] = {arg.value: arg for arg in args}

    @cached_property
    def counters(self) -> Mapping[Value, Inst]:
        """The loops of the body by their counters."""
        loops = [inst for inst in walk(self._body) if inst.op.name == "for"] if self._body is not None else []
        return {loop.regions[0].params[0]: loop for loop in loops}

    @cached_property
    def _axes(self) -> DirectedMotion:
        return DirectedMotion(self, Direction())

    def along(self, direction: Direction) -> DirectedMotion:
        return DirectedMotion(self, direction)

    def along_loop(self, loop: Inst) -> DirectedMotion:
        """While the counter of a loop moves by 1."""
        return self.along(Direction({loop.regions[0].params[0]: 1}, frozenset(region_definitions(loop.regions[0]))))

    def programs(self, axis: int) -> Mapping[Value, int]:
        """The ids of programs along an axis of the grid, which move by 1 from program to program."""
        return {out: 1 for out, inst in self.made.items() if inst.op.name == "program_id" and inst["axis"] == axis}

    def move(self, value: Value, axis: int) -> Move | None:
        """How far neighbours along an axis of a block are apart."""
        return STILL if value.type.is_scalar or value.shape[axis] == 1 else self._axes.move(value, place(value, axis))

    def step(self, value: Value, axis: int) -> int | None:
        """The same, if it is one known number."""
        move = self.move(value, axis)
        return None if move is None else move.number

    def grows(self, value: Value, axis: int) -> bool:
        """Whether each of the neighbours along an axis is above the one before."""
        move = self.move(value, axis)
        return move is not None and bool(move.terms) and all(t.number > 0 and all(self._is_positive(v) for v, _ in t.times) for t in move.terms)

    def is_uniform(self, value: Value) -> bool:
        """Whether all elements of a block are equal."""
        return all(self.move(value, axis) == STILL for axis in range(len(value.shape)))

    def scalar(self, value: Value) -> Value:
        """The scalar that all elements of a block are, if it is a view of one."""
        return source_of(value, self.made)

    def literal(self, value: Value) -> int | None:
        """The integer behind a constant."""
        number = constant_behind(value, self.made, _CONVERTED)
        return number if isinstance(number, int) else None

    def _is_positive(self, value: Value) -> bool:
        arg = self.args.get(source_of(value, self.made, _CONVERTED))
        least, _ = arg.attr("range", (0, 0)) if arg is not None else (0, 0)
        return bool(least > 0)


def motion_of(module: IRModule) -> Motion:
    """The motion of the values of a module."""
    return Motion(producers(module), module.args, module.body)


__all__ = ["STILL", "VIEWS", "DirectedMotion", "Direction", "Motion", "Move", "Place", "Rules", "Steps", "Term", "keeps_steps", "motion_of", "place", "source_place"]
