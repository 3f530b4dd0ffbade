"""Numbers that are added to the address of a single element go last: loads beside each other then share a register."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base import dtypes
from eas.base.trampoline import Definition, evaluate
from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite

_MOST = 1 << 16  # a number that an instruction of any processor adds itself, or nearly


def split_offsets(module: IRModule) -> IRModule:
    """`p + (3 * (i + 1) + 2)` of a load that is the same in all lanes is `(p + 3 * i) + 5`.

    Positions that are loaded from fit 32 bits, and with a number above 0 what is left does too.

    In textbooks: reassociation of addresses.

        %p = addptr %x, (%i + 3)
        %q = addptr %x, (%i + 4)
        ->
        %b = addptr %x, %i; %p = addptr %b, 3; %q = addptr %b, 4
    """
    varying: set[Value] = set()

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name == "lane" or any(v in varying for v in inst.operands):
            varying.update(inst.outs)
            return None
        address = rw.produced_by("addptr", inst.operands[0]) if inst.op.name == "load" else None
        if address is None or len(inst.operands) > 1 or address.operands[1].dtype not in (dtypes.i32, dtypes.i64):
            return None
        base, offset = address.operands
        number = _number(rw, offset)
        if not 0 < number < _MOST:
            return None
        rest = _rest(rw, offset)
        pointer = base if rest is None else rw.emit("addptr", base, rest)
        pointer = rw.emit("addptr", pointer, rw.const(number, offset.type))
        return (rw.emit("load", pointer, **dict(inst.attrs)),)

    return rewrite(module, rule)


def _number(rw: Rewriter, value: Value) -> int:
    """What is left of a sum if everything that is not known is 0."""
    return evaluate(lambda v: _numbered(rw, v), value)


def _numbered(rw: Rewriter, value: Value) -> Definition[Value, int]:
    literal, inst = rw.literal(value), rw.producer.get(value)
    if literal is not None:
        return int(literal)
    if inst is not None and inst.op.name in ("add", "sub"):
        a, b = (yield inst.operands[0]), (yield inst.operands[1])
        return a + b if inst.op.name == "add" else a - b
    if inst is not None and inst.op.name == "mul":
        for x, factor in (inst.operands, inst.operands[::-1]):
            times = rw.literal(factor)
            if times is not None:
                return (yield x) * int(times)
    return 0


def _rest(rw: Rewriter, value: Value) -> Value | None:
    """The sum without its number; None if nothing is left."""
    return evaluate(lambda v: _without_number(rw, v), value)


def _without_number(rw: Rewriter, value: Value) -> Definition[Value, Value | None]:
    if rw.literal(value) is not None:
        return None
    inst = rw.producer.get(value)
    if inst is None or inst.op.name not in ("add", "sub", "mul"):
        return value
    a, b = inst.operands
    if inst.op.name == "mul":
        x, factor = (a, b) if rw.literal(b) is not None else (b, a)
        inner = (yield x) if rw.literal(factor) is not None and _number(rw, x) else x
        if inner is x:
            return value
        return None if inner is None else rw.emit("mul", inner, factor)
    left, right = (yield a), (yield b)
    if (left, right) == (a, b):
        return value
    if right is None:
        return left
    if left is None:
        return right if inst.op.name == "add" else rw.emit("neg", right)
    return rw.emit(inst.op.name, left, right)
