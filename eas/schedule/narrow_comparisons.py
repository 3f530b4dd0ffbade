"""Short integers that are compared with one number stay short: four times as many fit into a register."""

from __future__ import annotations

from collections.abc import Sequence

from eas.ir import Inst, IRModule, Value
from eas.passes.rewriting import Rewriter, rewrite
from eas.types import Type

_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_NEGATED = {"le": "gt", "ge": "lt", "ne": "eq"}


def narrow_comparisons(module: IRModule) -> IRModule:
    """A block of 8 or 16 bits that is widened only to be compared with a scalar is compared as it is."""

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name not in _MIRRORED or not inst.operands[0].dtype.is_int:
            return None
        left, right = inst.operands
        for name, wide, other in ((inst.op.name, left, right), (_MIRRORED[inst.op.name], right, left)):
            cast, number = rw.produced_by("cast", wide), _scalar(other, rw)
            if cast is not None and number is not None and _is_short(cast.operands[0]):
                return (_compare(name, cast.operands[0], number, rw),)
        return None

    return rewrite(module, rule)


def _is_short(value: Value) -> bool:
    return bool(value.shape) and value.dtype.is_int and value.dtype.bits < 32


def _scalar(value: Value, rw: Rewriter) -> Value | None:
    """The one number that all elements of a block are."""
    literal = rw.literal(value)
    if literal is not None and value.shape:
        return rw.const(literal, Type(value.dtype))
    inst = rw.producer.get(value)
    while inst is not None and inst.op.name in ("broadcast", "expand_dims"):
        value = inst.operands[0]
        inst = rw.producer.get(value)
    return value if value.type.is_scalar else None


def _compare(name: str, x: Value, number: Value, rw: Rewriter) -> Value:
    """x `name` number, where the number may be outside of what x can be: then x is one that gives the answer."""
    if name in _NEGATED:
        return rw.emit("not", _compare(_NEGATED[name], x, number, rw))
    short, ends = Type(x.dtype), (x.dtype.min, x.dtype.max)
    least, most = (_bound(number, end, rw) for end in ends)
    inside = rw.emit("cast", rw.emit("min", rw.emit("max", number, least), most), type=short)
    if name == "eq":
        is_there = rw.emit("eq", rw.emit("cast", inside, type=number.type), number)
        return rw.emit("and", rw.emit("eq", x, _spread(inside, x, rw)), _spread(is_there, x, rw))
    is_outside = rw.emit("gt", number, most) if name == "lt" else rw.emit("lt", number, least)
    first, second = (rw.const(end, short) for end in (ends if name == "lt" else ends[::-1]))
    limit = rw.emit("select", is_outside, first, second)
    return rw.emit(name, rw.emit("min" if name == "lt" else "max", x, _spread(limit, x, rw)), _spread(inside, x, rw))


def _bound(number: Value, end: int, rw: Rewriter) -> Value:
    """An end of the short type's range, in the type of the number."""
    return rw.const(min(max(end, number.dtype.min), number.dtype.max), number.type)


def _spread(scalar: Value, x: Value, rw: Rewriter) -> Value:
    return rw.emit("broadcast", scalar, shape=x.shape)
