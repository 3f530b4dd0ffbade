"""Masks as boxes: bounds per axis, conditions for the whole block, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eas.analysis.indexing.affine import Affine
from eas.analysis.indexing.forms import Forms
from eas.analysis.indexing.linear import ONE, ZERO, Linear
from eas.analysis.program import moved_axes
from eas.base.trampoline import Definition, evaluate, every, reached
from eas.ir import Inst, Trait, Value

_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Bound:
    """position along `axis` >= (or <, if `is_upper`) ceil(limit / divisor)."""

    axis: int
    is_upper: bool
    limit: Linear
    divisor: int = 1

    def __str__(self) -> str:
        limit = str(self.limit) if self.divisor == 1 else f"ceil(({self.limit}) / {self.divisor})"
        return f"iota{self.axis} {'<' if self.is_upper else '>='} {limit}"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition for the whole block: `value` (or not, if `negated`), or 0 < `positive`."""

    positive: Linear | None = None
    value: Value | None = None
    negated: bool = False
    name: str = ""

    def __str__(self) -> str:
        return (
            f"0 < {self.positive}" if self.value is None else f"{'not ' * self.negated}{self.name}"
        )


@dataclass(frozen=True, slots=True)
class Residual:
    """A part that is not understood: axis i of `value` is axis axes[i] of the block.

    An axis of extent 1 is broadcast. An axis of -1 has extent 1 and is not an axis of the block.
    """

    value: Value
    axes: tuple[int, ...]
    negated: bool = False
    name: str = ""

    def __str__(self) -> str:
        places = ",".join("0" if a < 0 else f"iota{a}" for a in self.axes)
        return f"{'not ' * self.negated}{self.name}[{places}]"


@dataclass(frozen=True, slots=True)
class Box:
    """The conjunction of all of its parts; without parts it is the whole block."""

    bounds: tuple[Bound, ...] = ()
    guards: tuple[Guard, ...] = ()
    residuals: tuple[Residual, ...] = ()

    @property
    def is_full(self) -> bool:
        return not (self.bounds or self.guards or self.residuals)

    @property
    def is_box(self) -> bool:
        """Whether loop bounds and one condition outside of the loops say it all."""
        return not self.residuals

    def lower(self, axis: int) -> tuple[Bound, ...]:
        return tuple(b for b in self.bounds if b.axis == axis and not b.is_upper)

    def upper(self, axis: int) -> tuple[Bound, ...]:
        return tuple(b for b in self.bounds if b.axis == axis and b.is_upper)

    def __and__(self, other: Box) -> Box:
        return Box.conjunction((self, other))

    @staticmethod
    def conjunction(boxes: Sequence[Box]) -> Box:
        """What is in all of them."""
        bounds = dict.fromkeys([b for box in boxes for b in box.bounds])
        return Box(
            tuple(sorted(bounds, key=lambda b: (b.axis, b.is_upper))),
            tuple(dict.fromkeys([g for box in boxes for g in box.guards])),
            tuple(dict.fromkeys([r for box in boxes for r in box.residuals])),
        )

    def moved(self, where: Sequence[int]) -> Box:
        bounds = tuple(replace(b, axis=where[b.axis]) for b in self.bounds)
        residuals = tuple(
            replace(r, axes=tuple(_moved(a, where) for a in r.axes)) for r in self.residuals
        )
        return Box(bounds, self.guards, residuals)

    def __str__(self) -> str:
        parts = [str(b) for b in self.bounds]
        parts += [f"when {g}" for g in self.guards] + [f"where {r}" for r in self.residuals]
        return ", ".join(parts) or "none"


def _moved(axis: int, where: Sequence[int]) -> int:
    return axis if axis < 0 else where[axis]


NEVER = Box(guards=(Guard(ZERO),))


class Boxes:
    """The box of every mask of a module."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self._boxes: dict[tuple[Value, bool], Box] = {}

    def of(self, mask: Value, truth: bool = True) -> Box:
        """The lanes where `mask` is `truth`."""
        return evaluate(self._compute, (mask, truth), self._boxes)

    def _parts(self, mask: Value, name: str) -> list[Value]:
        """The operands of a chain of `and` or `or`: a box for each of its links would take time with the square of it."""

        def links(v: Value) -> tuple[Value, ...]:
            inst = self.forms.origin.get(v)
            is_link = inst is not None and inst.op.name == name and (v is mask or not self.forms.ranges[v].is_single)
            return inst.operands if inst is not None and is_link else ()

        return [v for v in reached([mask], links) if not links(v)]

    def _compute(self, key: tuple[Value, bool]) -> Definition[tuple[Value, bool], Box]:
        mask, truth = key
        r = self.forms.ranges[mask]
        if r.is_single:
            return Box() if bool(r.lo) == truth else NEVER
        inst = self.forms.origin.get(mask)
        if inst is None or inst.regions:
            return self._opaque(mask, truth)
        name = inst.op.name
        if name == "not":
            return (yield inst.operands[0], not truth)
        if name == ("and" if truth else "or"):
            return Box.conjunction((yield from every([(v, truth) for v in self._parts(mask, name)])))
        if inst.op.has(Trait.COMPARE):
            return self._compared(inst, truth)
        where = moved_axes(inst) if inst.op.has(Trait.SHAPE) else None
        if where is not None:
            return (yield inst.operands[0], truth).moved(where)
        return self._opaque(mask, truth)

    def _opaque(self, mask: Value, truth: bool) -> Box:
        name = self.forms.names[mask]
        if mask.type.is_scalar:
            return Box(guards=(Guard(None, mask, not truth, name),))
        return Box(residuals=(Residual(mask, tuple(range(mask.type.rank)), not truth, name),))

    def _compared(self, inst: Inst, truth: bool) -> Box:
        a, b = (self.forms.of(v) for v in inst.operands)
        if a is None or b is None:
            return self._opaque(inst.out, truth)
        name = inst.op.name if truth else _NEGATED[inst.op.name]
        one = Affine(ONE)
        below = {  # conditions "formula < 0"
            "lt": (a - b,),
            "le": (a - b - one,),
            "gt": (b - a,),
            "ge": (b - a - one,),
            "eq": (a - b - one, b - a - one),
        }.get(name, ())
        boxes = [_negative(form, inst.out.shape) for form in below]
        found = Box()
        for box in boxes or [None]:
            if box is None:
                return self._opaque(inst.out, truth)
            found = found & box
        return found


def _negative(form: Affine, shape: Sequence[int]) -> Box | None:
    """The lanes where the formula is below 0; None unless it is a bound of one axis."""
    if form.is_uniform:
        literal = form.offset.literal
        if literal is not None:
            return Box() if literal < 0 else NEVER
        return Box(guards=(Guard(-form.offset),))
    term, *others = form.terms
    stride = term.stride.literal
    if others or term.vector is not None or stride is None:
        return None
    # s*i + u < 0: i < ceil(-u / s) for positive s, i >= ceil((u + 1) / -s) for negative s.
    limit, divisor = (-form.offset, stride) if stride > 0 else (form.offset + ONE, -stride)
    if limit.content % divisor == 0:
        limit, divisor = limit.divided(divisor), 1
    bound = Bound(term.axis, stride > 0, limit, divisor)
    return _pruned(bound, shape[term.axis])


def _pruned(bound: Bound, extent: int) -> Box:
    """A bound that is a number and cuts nothing, or everything, is not kept as one."""
    if bound.limit.literal is None:
        return Box((bound,))
    at = -(-bound.limit.literal // bound.divisor)
    is_full, is_empty = (at >= extent, at <= 0) if bound.is_upper else (at <= 0, at >= extent)
    exact = replace(bound, limit=Linear(at), divisor=1)
    return Box() if is_full else NEVER if is_empty else Box((exact,))
