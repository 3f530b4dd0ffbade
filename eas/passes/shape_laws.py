"""Laws of moving elements: two moves make one, and equal lanes are computed once."""

from __future__ import annotations

from eas.ir import Inst, Value
from eas.ir.rewriting import Rewriter


def shape_law(inst: Inst, rw: Rewriter) -> Value | None:
    """The same block with fewer moves."""
    if len(inst.operands) != 1 or len(inst.outs) != 1:
        return None
    x, shape = inst.operands[0], inst.out.shape
    if inst.op.name in ("broadcast", "reshape") and x.shape == shape:
        return x
    inner = rw.producer.get(x)
    inner_name = inner.op.name if inner is not None else ""
    source = inner.operands[0] if inner is not None and len(inner.operands) == 1 else x
    match inst.op.name, inner_name:
        case "broadcast", "broadcast":
            return rw.emit("broadcast", source, shape=shape)
        case _, "broadcast" if not source.shape:
            return rw.emit(
                "broadcast", source, shape=shape
            )  # every order of equal elements is the same
        case "reshape", "reshape" | "expand_dims":
            return rw.emit("reshape", source, shape=shape)
        case "permute", _ if inst["order"] == tuple(range(len(shape))):
            return x
        case "permute", "permute" if inner is not None:
            # Axis i of the result is axis order[i] of x, which is axis inner.order[order[i]].
            order = tuple(inner["order"][i] for i in inst["order"])
            return rw.emit("permute", source, order=order)
        case "flip", "flip" if (
            inner is not None and (inst["axis"] - inner["axis"]) % len(shape) == 0
        ):
            return source
    return None


def splat_law(inst: Inst, rw: Rewriter) -> Value | None:
    """op(broadcast a, broadcast b) = broadcast(op(a, b)), constants taking part in any shape."""
    if len(inst.outs) != 1 or not inst.out.shape:
        return None
    small: tuple[int, ...] | None = None
    for operand in inst.operands:
        producer = rw.producer.get(operand)
        if producer is None or producer.op.name not in ("broadcast", "const"):
            return None
        if producer.op.name == "const":
            continue
        shape = producer.operands[0].shape
        if small not in (None, shape):
            return None
        small = shape
    if small is None:
        return None
    attrs = {k: v.with_shape(small) if k == "type" else v for k, v in inst.attrs}
    lanes = rw.emit(
        inst.op.name, *[_before_broadcast(v, small, rw) for v in inst.operands], **attrs
    )
    return rw.emit("broadcast", lanes, shape=inst.out.shape)


def _before_broadcast(value: Value, shape: tuple[int, ...], rw: Rewriter) -> Value:
    number = rw.literal(value)
    if number is None:
        return rw.producer[value].operands[0]
    return rw.const(number, value.type.with_shape(shape))
