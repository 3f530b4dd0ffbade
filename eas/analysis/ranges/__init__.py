"""Which numbers every integer of a kernel can be: bounds, divisibility, contiguity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from eas.analysis import Step, address_values, carried_steps, definitions, producers, value_names
from eas.analysis.ranges.conditions import implied
from eas.analysis.ranges.intervals import (
    Contiguity,
    Range,
    bounds,
    fit,
    full,
    join,
    join_all,
    single,
    tidy,
    widen,
)
from eas.analysis.ranges.transfer import add, contiguous_hint, decide, multiply, negate, transfer
from eas.base.types import Type
from eas.ir import Arg, Inst, IRModule, Region, Value

__all__ = ["Contiguity", "Range", "Ranges", "decide", "dump", "value_ranges"]

_Closed = tuple[Range, bool] | None
_PATIENCE = 3  # rounds of a loop before bounds that still move are given up


def is_counted(t: Type) -> bool:
    """Whether values of the type have a range: integers, bools, and pointers by their offset."""
    return t.is_pointer or (t.is_value and (t.dtype.is_int or t.dtype.is_bool))


class Ranges:
    """The ranges of a module; what is not known is the whole range of its type."""

    def __init__(
        self,
        module: IRModule,
        ranges: Mapping[Value, Range],
        exact: Mapping[Value, bool],
        chosen: Mapping[Value, Value],
    ) -> None:
        self.module = module
        self._ranges = ranges
        self._exact = exact
        self._chosen = chosen

    def __getitem__(self, value: Value) -> Range:
        found = self._ranges.get(value)
        return full(value.type) if found is None else found

    def is_exact(self, value: Value) -> bool:
        """Whether the value is what unbounded integers would give: it does not wrap."""
        return self._exact.get(value, True)

    def chosen(self, value: Value) -> Value | None:
        """The operand that a choice (`min`, `select`, `mod`, `and`, ...) always gives, if any."""
        return self._chosen.get(value)

    def dump(self) -> str:
        return dump(self)


def dump(ranges: Ranges) -> str:
    """One line `%name: range` per integer value, named and ordered as in the printed module."""
    names = value_names(ranges.module)
    values = (v for v in definitions(ranges.module) if is_counted(v.type))
    return "".join(
        f"%{names[v]}: {ranges[v]}{'' if ranges.is_exact(v) else ', may wrap'}\n" for v in values
    )


def value_ranges(module: IRModule) -> Ranges:
    """The range of every integer, bool and pointer offset of the module."""
    sweep = _Sweep(module)
    sweep.region(module.body)
    return Ranges(module, sweep.ranges, sweep.exact, sweep.chosen)


def _of_argument(arg: Arg) -> Range:
    if arg.is_buffer:
        return single(0, ())
    equals = arg.attr("equals")
    if equals is not None:
        return single(int(equals), ())
    lo, hi = arg.attr("range", bounds(arg.type))
    return tidy(Range(lo, hi, arg.attr("divisible", 1)), ())


class _Sweep:
    """Evaluates regions in order; `scopes` hold what conditions say inside of their region."""

    def __init__(self, module: IRModule) -> None:
        self.origin = producers(module)
        self.addresses = address_values(module)
        self.ranges = {a.value: _of_argument(a) for a in module.args if is_counted(a.type)}
        self.exact: dict[Value, bool] = {}
        self.chosen: dict[Value, Value] = {}
        self.scopes: list[dict[Value, Range]] = []

    def of(self, value: Value) -> Range:
        for scope in reversed(self.scopes):
            if value in scope:
                return scope[value]
        found = self.ranges.get(value)
        return full(value.type) if found is None else found

    def set(self, value: Value, r: Range, exact: bool = True) -> None:
        if is_counted(value.type):
            self.ranges[value] = r
            self.exact[value] = exact

    def rely_on(self, condition: Value, truth: bool) -> None:
        for value, r in implied(condition, truth, self.origin, self.of):
            self.scopes[-1][value] = r

    def region(self, region: Region, condition: tuple[Value, bool] | None = None) -> list[Range]:
        """Evaluate a region, inside of which `condition` holds; gives the ranges of its yields."""
        self.scopes.append({})
        if condition is not None:
            self.rely_on(*condition)
        for inst in region.body:
            self.inst(inst)
        yields = self.counted(region.yields)
        self.scopes.pop()
        return yields

    def counted(self, values: Sequence[Value]) -> list[Range]:
        return [self.of(v) if is_counted(v.type) else Range(0, 0) for v in values]

    def inst(self, inst: Inst) -> None:
        match inst.op.name:
            case "for":
                self.loop(inst)
            case "while":
                self.while_loop(inst)
            case "if":
                self.branch(inst)
            case "loop":
                self.counted_loop(inst)
            case "assume":
                self.rely_on(inst.operands[0], True)
            case _:
                for region in inst.regions:
                    self.region(region)
                for out in inst.outs:
                    self.result(inst, out)

    def result(self, inst: Inst, out: Value) -> None:
        operands = self.counted(inst.operands)
        self.choose(inst, out, operands)
        if not is_counted(out.type):
            return
        if inst.op.name == "max_contiguous":
            inner = self.origin.get(inst.operands[0])
            start = inner["n"] if inner is not None and inner.op.name == "multiple_of" else 1
            r = contiguous_hint(operands[0], inst["n"], start, out.type)
        else:
            r = transfer(inst, operands, out.type)
        # A narrowing cast wraps on purpose; other arithmetic on addresses must not.
        assumed = inst.op.name != "cast" and self.never_wraps(out)
        self.set(out, *fit(r, out.type, assumed))

    def never_wraps(self, value: Value) -> bool:
        if value.type.is_pointer:
            return True
        return value in self.addresses and value.dtype.is_signed and value.dtype.bits >= 32

    def choose(self, inst: Inst, out: Value, operands: Sequence[Range]) -> None:
        index = _choice(inst, operands)
        if index is None:
            self.chosen.pop(out, None)
        else:
            self.chosen[out] = inst.operands[index]

    def branch(self, inst: Inst) -> None:
        (condition,) = inst.operands
        then = self.region(inst.regions[0], (condition, True))
        other = self.region(inst.regions[1], (condition, False))
        known = self.of(condition)
        for out, a, b in zip(inst.outs, then, other, strict=True):
            if is_counted(out.type):
                both = join(a, b, out.shape)
                self.set(out, (a if known.lo else b) if known.is_single else both)

    def while_loop(self, inst: Inst) -> None:
        test, body = inst.regions
        initial = state = self.counted(inst.operands)
        open_ended = [None] * len(initial)
        for rounds in count():
            for region in inst.regions:
                for param, r in zip(region.params, state, strict=True):
                    self.set(param, r)
            self.region(test)
            before = state
            state = self.advance(inst.outs, initial, before, self.region(body), open_ended, rounds)
            if state == before:
                break
        for out, r in zip(inst.outs, state, strict=True):
            self.set(out, r)

    def counted_loop(self, inst: Inst) -> None:
        """A loop that a schedule made: its counter is known, nothing is of what it carries."""
        (body,) = inst.regions
        start, end = self.counted(inst.operands[:2])
        step = single(inst["lanes"], ())
        self.set(body.params[0], _counter(start, end, step, inst.operands[0].type))
        self.region(body)

    def loop(self, inst: Inst) -> None:
        (body,) = inst.regions
        start, end, step = self.counted(inst.operands[:3])
        self.set(body.params[0], _counter(start, end, step, inst.operands[0].type))
        initial = state = self.counted(inst.operands[3:])
        steps, trips = carried_steps(inst, self.origin), _trips(start, end, step)
        for rounds in count():
            for param, r in zip(body.params[1:], state, strict=True):
                self.set(param, r)
            yields = self.region(body)
            closed = [
                self.closed(param, first, s, trips) if rounds < 2 * _PATIENCE else None
                for param, first, s in zip(body.params[1:], initial, steps, strict=True)
            ]
            before = state
            state = self.advance(inst.outs, initial, before, yields, closed, rounds)
            if state == before:
                break
        for param, r, known, s in zip(body.params[1:], state, closed, steps, strict=True):
            self.set(param, r, s is None if known is None else known[1])
        for out, first, last in zip(inst.outs, initial, yields, strict=True):
            if is_counted(out.type):
                self.set(out, join(first, last, out.shape))

    def closed(self, param: Value, first: Range, step: Step | None, trips: int) -> _Closed:
        """initial + [0, trips - 1] * step of a parameter, and whether that is exact.

        The range of a step may itself depend on what an `assume` in the body says about the
        parameter; if that does not settle, the parameter is treated as any other.
        """
        if step is None or not is_counted(param.type):
            return None
        shape = param.shape
        times = Range(0, max(0, trips - 1), 1, tuple(Contiguity(1, 1, n) for n in shape))
        for sign, value in step.terms:
            by = self.of(value) if sign > 0 else negate(self.of(value))
            first = add(first, multiply(tidy(times, shape), by, shape), shape)
        return fit(first, param.type, self.never_wraps(param))

    def advance(
        self,
        outs: Sequence[Value],
        initial: Sequence[Range],
        state: Sequence[Range],
        yields: Sequence[Range],
        closed: Sequence[_Closed],
        rounds: int,
    ) -> list[Range]:
        """The next ranges of what a loop carries."""
        after = []
        for out, first, old, new, known in zip(outs, initial, state, yields, closed, strict=True):
            if known is not None:
                after.append(known[0])
            elif not is_counted(out.type):
                after.append(old)
            elif rounds < _PATIENCE:
                after.append(join_all([old, first, new], out.shape))
            else:
                after.append(widen(old, new, out.type))
        return after


def _choice(inst: Inst, operands: Sequence[Range]) -> int | None:
    """Which operand the result always equals, in every lane."""
    if len(operands) < 2 or not is_counted(inst.operands[0].type):
        return None
    a, b = operands[:2]
    match inst.op.name:
        case "min":
            return 0 if a.hi <= b.lo else 1 if b.hi <= a.lo else None
        case "max":
            return 0 if a.lo >= b.hi else 1 if b.lo >= a.hi else None
        case "mod" | "truncmod":
            return 0 if a.lo >= 0 and a.hi < b.lo else None
        case "select":
            return 2 - a.lo if a.is_single else None
        case "and" | "or" if inst.out.dtype.is_bool:
            neutral = int(inst.op.name == "and")
            for i, r in enumerate((a, b)):
                if r.is_single:
                    return 1 - i if r.lo == neutral else i
    return None


def _counter(start: Range, end: Range, step: Range, t: Type) -> Range:
    """The loop counter inside of the body, where at least one iteration runs."""
    up = (start.lo, end.hi - 1) if step.hi > 0 else (start.hi, start.lo)
    down = (end.lo + 1, start.hi) if step.lo < 0 else (start.hi, start.lo)
    lo, hi = min(up[0], down[0]), max(up[1], down[1])
    if lo > hi:  # the loop never runs
        return start
    multiple = add(Range(0, 0, start.multiple), Range(0, 0, step.multiple), ()).multiple
    return fit(Range(lo, hi, multiple), t, True)[0]


def _trips(start: Range, end: Range, step: Range) -> int:
    """An upper bound of the number of iterations."""
    up = -(-(end.hi - start.lo) // max(1, step.lo)) if step.hi > 0 else 0
    down = -(-(start.hi - end.lo) // max(1, -step.hi)) if step.lo < 0 else 0
    return max(0, up, down)
