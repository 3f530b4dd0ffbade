"""`i // w` and `i % w` in every lane of a vector, from those of the first one.

What is divided counts up with the lanes, so that all that is left to divide are small numbers: how far a lane is
behind the last multiple of w. That is one multiplication. Of a w that is longer than a vector, lanes meet one multiple.
"""

from __future__ import annotations

from dataclasses import dataclass

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.schedule.elements.elements import I32, I64, Elements, Emitter, Index, first_lane, has_lanes
from eas.schedule.rewrite.natural_divisions import may_wrap

_SCALE = 16  # bits: t * (2^16 // w + 1) >> 16 is t // w where t * w < 2^16
_F32 = Type(dtypes.f32)


@dataclass(frozen=True, eq=False)
class Divisor:
    """A positive number, and numbers by which up to `lanes` lanes divide by it."""

    value: Value
    lanes: int
    is_small: Value
    scale: Value
    most: Value

    @classmethod
    def of(cls, e: Emitter, value: Value, lanes: int) -> Divisor:
        assert 2 * lanes * lanes <= 1 << _SCALE  # a lane is less than w + lanes behind a multiple of w
        is_small = e.emit("lt", value, e.const(lanes, value.type))
        small = e.emit("select", is_small, cast(e, value, I32), e.const(1))
        # In f32: 2^16 / w is a whole number or 1 / w away from one, and rounded by at most 2^-8 / w.
        ratio = e.emit("div", e.const(float(1 << _SCALE), _F32), e.emit("cast", small, type=_F32))
        scale = e.emit("add", e.emit("cast", ratio, type=I32), e.const(1))
        return cls(value, lanes, is_small, scale, e.emit("select", is_small, e.const(2 * lanes), e.const(1)))


def lane_quotients(elements: Elements, by: Divisor, quotient: Value, remainder: Value) -> tuple[Value, Value]:
    """The quotients and remainders of all lanes; given are those of the first."""
    e, kind, lane = elements.e, by.value.type, elements.lane()
    divisor, rest = (cast(e, v, I64) for v in (by.value, remainder))
    before = e.emit("sub", e.emit("add", rest, e.const(1, I64)), divisor)
    before = e.emit("max", before, e.const(-by.lanes, I64))
    start = cast(e, e.emit("select", by.is_small, rest, before), I32)
    ahead = e.emit("min", e.emit("max", e.add(start, lane), e.const(0)), by.most)
    more = cast(e, e.emit("shr", e.emit("mul", ahead, by.scale), e.const(_SCALE)), kind)
    rests = e.emit("sub", e.emit("add", remainder, cast(e, lane, kind)), e.emit("mul", more, by.value))
    return e.emit("add", quotient, more), rests


def divided(elements: Elements, inst: Inst, index: tuple[Index, ...], *, lanes: int) -> Value | None:
    """A division of something that counts up with at most `lanes` lanes, by a positive number that only the launch knows."""
    if inst.out.dtype.is_float or inst.out.dtype.bits < 32 or not has_lanes(index):
        return None
    dividend, divisor = inst.operands
    if not inst["by_positive"] or may_wrap(inst) or elements.literal(divisor) is not None:
        return None
    if elements.step(dividend, index) != 1 or elements.step(divisor, index) != 0:
        return None
    key = (dividend, divisor, index)
    found = elements.quotients.get(key)
    if found is None:
        e, first = elements.e, first_lane(index)
        a, d = (elements.at(v, first) for v in inst.operands)
        quotient, remainder = (e.emit(name, a, d, **dict(inst.attrs)) for name in ("floordiv", "mod"))
        found = elements.quotients[key] = lane_quotients(elements, Divisor.of(e, d, lanes), quotient, remainder)
    return found[inst.op.name == "mod"]


def cast(e: Emitter, value: Value, kind: Type) -> Value:
    return value if value.type == kind else e.emit("cast", value, type=kind)


__all__ = ["Divisor", "cast", "divided", "lane_quotients"]
