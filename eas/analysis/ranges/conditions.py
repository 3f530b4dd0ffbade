"""What a scalar condition that is known to hold says about the ranges of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import lcm

from eas.analysis.program import Producers
from eas.analysis.ranges.intervals import Range, single, tidy
from eas.ir import Trait, Value

_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
Lookup = Callable[[Value], Range]
Known = Iterator[tuple[Value, Range]]


def implied(condition: Value, truth: bool, origin: Producers, known: Lookup) -> Known:
    """Sharper ranges of scalars where `condition` is `truth`; contradictions are left out."""
    left = [(condition, truth)]
    while left:
        condition, truth = left.pop()
        yield condition, single(int(truth), ())
        inst = origin.get(condition)
        if inst is None or not condition.type.is_scalar:
            continue
        name = inst.op.name
        if name == "not":
            left.append((inst.operands[0], not truth))
        elif name == ("and" if truth else "or"):
            left += [(operand, truth) for operand in reversed(inst.operands)]
        elif inst.op.has(Trait.COMPARE) and inst.operands[0].dtype.is_int:
            a, b = inst.operands
            yield from _compared(name if truth else _NEGATED[name], a, b, origin, known)


def _compared(name: str, a: Value, b: Value, origin: Producers, known: Lookup) -> Known:
    if name in ("gt", "ge"):
        yield from _compared({"gt": "lt", "ge": "le"}[name], b, a, origin, known)
        return
    x, y = known(a), known(b)
    if name in ("lt", "le"):
        gap = int(name == "lt")
        yield from _narrowed(a, x, x.lo, min(x.hi, y.hi - gap))
        yield from _narrowed(b, y, max(y.lo, x.lo + gap), y.hi)
    elif name == "eq":
        lo, hi = max(x.lo, y.lo), min(x.hi, y.hi)
        yield from _narrowed(a, x, lo, hi)
        yield from _narrowed(b, y, lo, hi)
        if y.is_single and y.lo == 0:
            yield from _divided(a, origin, known)
    else:
        yield from _excluded(a, x, y)
        yield from _excluded(b, y, x)


def _narrowed(value: Value, old: Range, lo: int, hi: int) -> Known:
    if lo <= hi and (lo, hi) != (old.lo, old.hi):
        yield value, tidy(replace(old, lo=lo, hi=hi), ())


def _excluded(value: Value, old: Range, other: Range) -> Known:
    """value != other: an end of the interval may go."""
    if other.is_single:
        yield from _narrowed(
            value, old, old.lo + (old.lo == other.lo), old.hi - (old.hi == other.lo)
        )


def _divided(value: Value, origin: Producers, known: Lookup) -> Known:
    """x % c == 0: x is a multiple of c."""
    inst = origin.get(value)
    if inst is None or inst.op.name not in ("mod", "truncmod"):
        return
    x, divisor = inst.operands
    d = known(divisor)
    if d.is_single and d.lo > 0:
        r = known(x)
        yield x, tidy(replace(r, multiple=lcm(r.multiple, d.lo)), ())
