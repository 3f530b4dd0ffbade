"""How small and how large a formula can get: loop bounds, roundings and divisibility are used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd

from eas.analysis.indexing.affine import Affine, Term
from eas.analysis.indexing.forms import Forms
from eas.analysis.indexing.linear import Linear, Monomial, Symbol
from eas.base.types import Shape
from eas.ir import Inst

Interval = tuple[int, int]


def interval(form: Affine, shape: Shape, forms: Forms) -> Interval:
    """Bounds of every element of a block with this formula and shape."""
    return least(form, shape, forms), -least(-form, shape, forms)


def least(form: Affine, shape: Shape, forms: Forms) -> int:
    """A number that no element is below."""
    blocks = sum(_term_interval(t.stride, _extent(t, shape, forms), forms)[0] for t in form.terms)
    uniform = form.offset
    plain = _linear_interval(uniform, forms)[0]
    lowered = _lowered(uniform, forms)
    low = max(plain, _linear_interval(lowered, forms)[0])
    return _rounded_up(low, uniform, forms) + blocks


def _extent(term: Term, shape: Shape, forms: Forms) -> Interval:
    if term.vector is None:
        return (0, shape[term.axis] - 1)
    r = forms.ranges[term.vector.value]
    return (r.lo, r.hi)


def _term_interval(stride: Linear, extent: Interval, forms: Forms) -> Interval:
    return _times(_linear_interval(stride, forms), extent)


def _times(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x, y in product(a, b)]
    return min(corners), max(corners)


def _linear_interval(linear: Linear, forms: Forms) -> Interval:
    lo = hi = linear.const
    for monomial, c in linear.terms:
        a, b = _times((c, c), _monomial_interval(monomial, forms))
        lo, hi = lo + a, hi + b
    return lo, hi


def _monomial_interval(monomial: Monomial, forms: Forms) -> Interval:
    result = (1, 1)
    for symbol in monomial:
        result = _times(result, _symbol_interval(symbol, forms))
    return result


def _symbol_interval(symbol: Symbol, forms: Forms) -> Interval:
    if symbol.kind in ("iteration", "trips"):
        return 0, 1 << 64  # more iterations than a counter has values cannot run
    r = forms.ranges[symbol.value]
    return r.lo, r.hi


def _rounded_up(low: int, linear: Linear, forms: Forms) -> int:
    """The smallest number from `low` on that the formula's divisibility allows."""
    step = gcd(*(c * _monomial_multiple(m, forms) for m, c in linear.terms))
    return low + (linear.const - low) % step if step else max(low, linear.const)


def _monomial_multiple(monomial: Monomial, forms: Forms) -> int:
    result = 1
    for symbol in monomial:
        if symbol.kind in ("value", "offset"):
            result *= forms.ranges[symbol.value].multiple
    return result


def _lowered(linear: Linear, forms: Forms) -> Linear:
    """A formula nowhere above `linear`: counters at their ends, quotients multiplied out."""
    done: list[Symbol] = []
    while open_ := [s for s in linear.symbols() if s not in done]:
        symbol = max(open_)  # inner loops first: their bounds may name outer counters
        done.append(symbol)
        linear = _multiplied_out(_at_end(linear, symbol, forms), symbol, forms)
    return linear


def _at_end(linear: Linear, symbol: Symbol, forms: Forms) -> Linear:
    """A loop counter standing alone, replaced by its last or first value."""
    c = linear.coefficient(symbol)
    loop = forms.counters.get(symbol.value) if symbol.kind == "value" else None
    end = _counter_end(loop, forms, last=c < 0) if c and loop is not None else None
    return linear if end is None else linear.replaced(symbol, end)


def _counter_end(loop: Inst, forms: Forms, last: bool) -> Linear | None:
    """The largest (`last`) or smallest value of a counter that counts up."""
    if forms.ranges[loop.operands[2]].lo < 1:
        return None
    form = forms.of(loop.operands[1 if last else 0])
    return None if form is None else form.offset - Linear(int(last))


def _multiplied_out(linear: Linear, symbol: Symbol, forms: Forms) -> Linear:
    """k*d * (x // d) is k * (x - x % d)."""
    inst = forms.origin.get(symbol.value) if symbol.kind == "value" else None
    if inst is None or inst.op.name != "floordiv":
        return linear
    x, d = (forms.of(v) for v in inst.operands)
    c, divisor = (
        linear.coefficient(symbol),
        d.offset.literal if d is not None and d.is_uniform else None,
    )
    if x is None or not x.is_uniform or not c or not divisor or divisor < 0 or c % divisor:
        return linear
    rest = _remainder(x.offset, divisor, forms)
    if rest is None:
        rest = divisor - 1 if c > 0 else 0
    times = Linear(c // divisor)
    return linear - Linear(c) * Linear.symbol(symbol) + times * (x.offset - Linear(rest))


def _remainder(linear: Linear, divisor: int, forms: Forms) -> int | None:
    """linear % divisor, if it is the same for all values of the symbols."""
    parts: Sequence[int] = [c * _monomial_multiple(m, forms) for m, c in linear.terms]
    return None if any(p % divisor for p in parts) else linear.const % divisor
