"""The range of a result from those of its operands, over unbounded integers; one row per op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import gcd, lcm

from eas.analysis.program import moved_axes
from eas.analysis.ranges.intervals import Contiguity, Range, full, join, join_all, meet, single
from eas.base.types import Shape, Type
from eas.ir import Inst

Transfer = Callable[[Inst, Sequence[Range], Type], Range]
_LAST_PROGRAM = (1 << 31) - 2


def transfer(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    """What an instruction without regions gives; it may lie outside of `out`, which then wraps."""
    row = _ROWS.get(inst.op.name)
    return full(out) if row is None else row(inst, operands, out)


# --- arithmetic -------------------------------------------------------------------------------


def add(a: Range, b: Range, shape: Shape) -> Range:
    axes = []
    for n, x, y in zip(shape, a.axes, b.axes, strict=True):
        left, right = meet(n, x.run, y.constancy), meet(n, y.run, x.constancy)
        run = max(left, right)
        first = gcd(lcm(x.at(run), a.multiple), lcm(y.at(run), b.multiple))
        axes.append(Contiguity(run, first, meet(n, x.constancy, y.constancy)))
    return Range(a.lo + b.lo, a.hi + b.hi, gcd(a.multiple, b.multiple), tuple(axes))


def negate(a: Range) -> Range:
    axes = tuple(Contiguity(1, a.multiple, c.constancy) for c in a.axes)
    return Range(-a.hi, -a.lo, a.multiple, axes)


def multiply(a: Range, b: Range, shape: Shape) -> Range:
    if a.lo == a.hi == 1:
        return b
    if b.lo == b.hi == 1:
        return a
    corners = [x * y for x, y in product((a.lo, a.hi), (b.lo, b.hi))]
    return _lanewise(min(corners), max(corners), a.multiple * b.multiple, (a, b), shape)


def _lanewise(lo: int, hi: int, multiple: int, operands: Sequence[Range], shape: Shape) -> Range:
    """No runs: only equal elements of all operands give equal elements."""
    axes = tuple(
        Contiguity(1, multiple, meet(n, *(r.axes[i].constancy for r in operands)))
        for i, n in enumerate(shape)
    )
    return Range(lo, hi, multiple, axes)


def _divide(a: Range, b: Range, towards_zero: bool, shape: Shape) -> Range:
    quotients = [0] if b.lo <= 0 <= b.hi else []
    for lo, hi in ((max(b.lo, 1), b.hi), (b.lo, min(b.hi, -1))):
        if lo <= hi:
            quotients += [_quotient(x, d, towards_zero) for x, d in product((a.lo, a.hi), (lo, hi))]
    divisor = b.lo if b.is_single and b.lo > 0 else 0
    exact = divisor and a.multiple % divisor == 0
    r = _lanewise(
        min(quotients), max(quotients), a.multiple // divisor if exact else 1, (a, b), shape
    )
    if not divisor or (towards_zero and a.lo < 0):
        return r
    # Runs from multiples of g with g | divisor do not cross a step of the quotient.
    axes = []
    for n, x, c in zip(shape, a.axes, r.axes, strict=True):
        group = _aligned_group(n, x, divisor)
        axes.append(Contiguity(1, c.multiple, max(c.constancy, group)))
    return Range(r.lo, r.hi, r.multiple, tuple(axes))


def _aligned_group(n: int, x: Contiguity, divisor: int) -> int:
    """The length of groups that count up and lie between two multiples of `divisor`."""
    start = gcd(x.multiple, divisor)
    return min(n, start if x.run >= n else gcd(x.run, start))


def _quotient(x: int, d: int, towards_zero: bool) -> int:
    return abs(x) // abs(d) * (1 if (x < 0) == (d < 0) else -1) if towards_zero else x // d


def _modulo(a: Range, b: Range, shape: Shape) -> Range:
    if a.lo >= 0 and a.hi < b.lo:
        return a
    hi = max(0, b.hi - 1)
    if a.lo >= 0 and b.lo >= 0:
        hi = min(hi, a.hi)
    r = _lanewise(min(0, b.lo + 1), hi, gcd(a.multiple, b.multiple), (a, b), shape)
    if b.lo <= 0:
        return r
    # A divisor that is a multiple of the group never cuts one (for a negative one it would).
    axes = []
    for n, x, y, c in zip(shape, a.axes, b.axes, r.axes, strict=True):
        run = meet(n, _aligned_group(n, x, b.multiple), y.constancy)
        axes.append(Contiguity(run, gcd(x.at(run), b.multiple), c.constancy))
    return Range(r.lo, r.hi, r.multiple, tuple(axes))


def _truncmod(a: Range, b: Range, shape: Shape) -> Range:
    if a.lo >= 0 and b.lo > 0:
        return _modulo(a, b, shape)
    largest = max(abs(b.lo), abs(b.hi), 1) - 1
    lo, hi = max(-largest, min(a.lo, 0)), min(largest, max(a.hi, 0))
    return _lanewise(lo, hi, gcd(a.multiple, b.multiple), (a, b), shape)


def _min_max(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    a, b = operands
    pick = min if inst.op.name == "min" else max
    first, second = (a, b) if pick is min else (b, a)
    if first.hi <= second.lo:
        return a
    if second.hi <= first.lo:
        return b
    return _lanewise(
        pick(a.lo, b.lo), pick(a.hi, b.hi), gcd(a.multiple, b.multiple), (a, b), out.shape
    )


def _shift_left(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    a, n = operands
    if not n.fits(0, out.dtype.bits - 1):
        return full(out)
    power = _lanewise(1 << n.lo, 1 << n.hi, 1 << n.lo, (n,), out.shape)
    return multiply(a, power, out.shape)


def _shift_right(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    a, n = operands
    if not n.fits(0, out.dtype.bits - 1):
        return full(out)
    power = _lanewise(1 << n.lo, 1 << n.hi, 1 << n.lo, (n,), out.shape)
    return _divide(a, power, False, out.shape)


def _power_of_two(n: int, bits: int) -> int:
    """The largest power of two that divides `n`."""
    return n & -n if n else 1 << bits


def _bits(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    a, b = operands
    name, bits = inst.op.name, out.dtype.bits
    twos = [_power_of_two(r.multiple, bits) for r in operands]
    multiple = max(twos) if name == "and" else min(twos)
    lo, hi = full(out).lo, full(out).hi
    if name == "and" and max(a.lo, b.lo) >= 0:
        hi, lo = min(r.hi for r in operands if r.lo >= 0), 0
        low = hi + 1  # x & (2^k - 1) is x % 2^k
        if any(r.is_single and r.lo == hi for r in operands) and low & hi == 0:
            return _modulo(
                b if a.is_single and a.lo == hi else a, single(low, out.shape), out.shape
            )
    elif min(a.lo, b.lo) >= 0:
        hi = (1 << max(a.hi, b.hi).bit_length()) - 1
        lo = max(a.lo, b.lo) if name == "or" else 0
    return _lanewise(lo, hi, multiple, operands, out.shape)


def _logic(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    """`and`, `or`, `xor` of bools."""
    a, b = operands
    match inst.op.name:
        case "and":
            lo, hi = min(a.lo, b.lo), min(a.hi, b.hi)
        case "or":
            lo, hi = max(a.lo, b.lo), max(a.hi, b.hi)
        case _ if a.is_single and b.is_single:
            lo = hi = a.lo ^ b.lo
        case _:
            lo, hi = 0, 1
    return _lanewise(lo, hi, 1, operands, out.shape)


def _bitwise(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    return (_logic if out.dtype.is_bool else _bits)(inst, operands, out)


def _invert(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    top = full(out).lo + full(out).hi  # -1, or all ones of an unsigned type, or 1 of a bool
    return add(single(top, out.shape), negate(operands[0]), out.shape)


def _absolute(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    (a,) = operands
    if a.lo >= 0:
        return a
    lo = 0 if a.hi >= 0 else -a.hi
    return _lanewise(lo, max(abs(a.lo), abs(a.hi)), a.multiple, operands, out.shape)


# --- comparisons and choices ------------------------------------------------------------------


def decide(name: str, a: Range, b: Range) -> bool | None:
    """The answer of a comparison that the ranges already know."""
    match name:
        case "gt" | "ge":
            return decide({"gt": "lt", "ge": "le"}[name], b, a)
        case "lt":
            return True if a.hi < b.lo else False if a.lo >= b.hi else None
        case "le":
            return True if a.hi <= b.lo else False if a.lo > b.hi else None
        case "ne":
            equal = decide("eq", a, b)
            return None if equal is None else not equal
    if a.is_single and b.is_single and a.lo == b.lo:
        return True
    # A number that is not a multiple of what the other one is a multiple of.
    apart = any(x.is_single and y.multiple and x.lo % y.multiple for x, y in ((a, b), (b, a)))
    return False if apart or a.hi < b.lo or b.hi < a.lo else None


def _compare(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    if not inst.operands[0].dtype.is_int and not inst.operands[0].dtype.is_bool:
        return full(out)
    a, b = operands
    known = decide(inst.op.name, a, b)
    if known is not None:
        return single(int(known), out.shape)
    if inst.op.name in ("gt", "le"):
        a, b = b, a
    axes = []
    for n, x, y in zip(out.shape, a.axes, b.axes, strict=True):
        equal = meet(n, x.constancy, y.constancy)
        if inst.op.name not in ("eq", "ne") and y.constancy > 1 and y.run == 1:
            # a < b: a counts up from multiples of g, b is a multiple of g: a whole group agrees.
            group = _aligned_group(n, x, gcd(y.multiple, b.multiple))
            equal = max(equal, meet(n, group, y.constancy) if group else 1)
        axes.append(Contiguity(1, 1, equal))
    return Range(0, 1, 1, tuple(axes))


def _select(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    cond, a, b = operands
    if cond.is_single:
        return a if cond.lo else b
    both = join(a, b, out.shape)
    axes = []
    for n, c, x in zip(out.shape, cond.axes, both.axes, strict=True):
        run = meet(n, x.run, c.constancy)
        axes.append(Contiguity(run, x.at(run), meet(n, x.constancy, c.constancy)))
    return Range(both.lo, both.hi, both.multiple, tuple(axes))


def _cast(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    if inst.operands[0].dtype.is_float:
        return full(out)
    (a,) = operands
    if not out.dtype.is_bool:
        return a
    if a.lo <= 0 <= a.hi and not a.is_single:
        return _lanewise(0, 1, 1, operands, out.shape)
    return single(int(a.lo != 0 or a.hi != 0), out.shape)


# --- sources, shapes, hints -------------------------------------------------------------------


def _between(lo: int, hi: int) -> Transfer:
    return lambda inst, operands, out: Range(lo, hi, 1, (Contiguity(),) * out.rank)


def _const(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    return single(int(inst["value"]), out.shape)


def _arange(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    start, end = inst["start"], inst["end"]
    return Range(start, end - 1, 1, (Contiguity(end - start, abs(start), 1),))


def _tid(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    return Range(inst["start"], inst["end"] - 1)


def _move(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    (a,) = operands
    where = moved_axes(inst)
    if where is None:
        return Range(a.lo, a.hi, a.multiple, (Contiguity(1, a.multiple, 1),) * out.rank)
    axes = [Contiguity(1, a.multiple, n) for n in out.shape]
    for i, axis in enumerate(where):
        if inst.operands[0].shape[i] > 1:
            axes[axis] = a.axes[i]
    return Range(a.lo, a.hi, a.multiple, tuple(axes))


def _shuffle(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    """The elements of all operands in some order."""
    flat = [Range(r.lo, r.hi, r.multiple) for r in operands]
    r = join_all(flat, ())
    return Range(r.lo, r.hi, r.multiple, (Contiguity(1, r.multiple, 1),) * out.rank)


def _first_shuffled(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    return _shuffle(inst, operands[:1], out)


def _multiple_of(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    (a,) = operands
    if out.is_pointer:
        return a
    if out.is_scalar:
        return Range(a.lo, a.hi, lcm(a.multiple, inst["n"]))
    # It speaks of the first element of each run; `max_contiguous` around it may still name the run.
    axes = [
        Contiguity(c.run, lcm(c.multiple, inst["n"]), c.constancy) if c.run > 1 else c
        for c in a.axes
    ]
    return Range(a.lo, a.hi, a.multiple, tuple(axes))


def _constancy_hint(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    (a,) = operands
    if out.is_scalar or out.is_pointer:
        return a
    *others, last = a.axes
    n = max(last.constancy, min(inst["n"], out.shape[-1]))
    return Range(a.lo, a.hi, a.multiple, (*others, Contiguity(last.run, last.multiple, n)))


def contiguous_hint(a: Range, n: int, multiple: int, out: Type) -> Range:
    """`max_contiguous(n)` of a block whose runs start at multiples of `multiple`."""
    if out.is_scalar or out.is_pointer or a.axes[-1].run >= n:
        return a
    *others, last = a.axes
    run = min(n, out.shape[-1])
    return Range(a.lo, a.hi, a.multiple, (*others, Contiguity(run, lcm(last.at(run), multiple), 1)))


def _lane(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    lanes = inst["lanes"]
    return full(out) if lanes is None else Range(0, lanes - 1)


def _start(inst: Inst, operands: Sequence[Range], out: Type) -> Range:
    """A new buffer: its pointer is its start."""
    return single(0, ())


_ROWS: dict[str, Transfer] = {
    "alloc_tg": _start,
    "scratch": _start,
    "fragments": _start,
    "const": _const,
    "program_id": _between(0, _LAST_PROGRAM),
    "num_programs": _between(1, _LAST_PROGRAM + 1),
    "arange": _arange,
    "tid": _tid,
    "local_id": _between(0, 1023),
    "lane_id": _between(0, 31),
    "lane": _lane,
    "sg_id": _between(0, 31),
    "add": lambda inst, xs, out: add(xs[0], xs[1], out.shape),
    "addptr": lambda inst, xs, out: add(xs[0], xs[1], out.shape),
    "sub": lambda inst, xs, out: add(xs[0], negate(xs[1]), out.shape),
    "mul": lambda inst, xs, out: multiply(xs[0], xs[1], out.shape),
    "neg": lambda inst, xs, out: negate(xs[0]),
    "abs": _absolute,
    "sign": lambda inst, xs, out: _lanewise(-(xs[0].lo < 0), int(xs[0].hi > 0), 1, xs, out.shape),
    "floordiv": lambda inst, xs, out: _divide(xs[0], xs[1], False, out.shape),
    "truncdiv": lambda inst, xs, out: _divide(xs[0], xs[1], True, out.shape),
    "mod": lambda inst, xs, out: _modulo(xs[0], xs[1], out.shape),
    "truncmod": lambda inst, xs, out: _truncmod(xs[0], xs[1], out.shape),
    "min": _min_max,
    "max": _min_max,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _bitwise,
    "or": _bitwise,
    "xor": _bitwise,
    "not": _invert,
    "eq": _compare,
    "ne": _compare,
    "lt": _compare,
    "le": _compare,
    "gt": _compare,
    "ge": _compare,
    "select": _select,
    "cast": _cast,
    "popcount": lambda inst, xs, out: _lanewise(0, out.dtype.bits, 1, xs, out.shape),
    "clz": lambda inst, xs, out: _lanewise(0, out.dtype.bits, 1, xs, out.shape),
    "ctz": lambda inst, xs, out: _lanewise(0, out.dtype.bits, 1, xs, out.shape),
    "broadcast": _move,
    "reshape": _move,
    "permute": _move,
    "expand_dims": _move,
    "join": _shuffle,
    "split": _shuffle,
    "cat": _shuffle,
    "flip": _shuffle,
    "sort": _shuffle,  # of keys and payloads alike
    "gather": _first_shuffled,
    "multiple_of": _multiple_of,
    "max_constancy": _constancy_hint,
}
