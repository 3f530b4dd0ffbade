"""Multiply and add with one rounding, where the kernel's author allows it."""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis import uses
from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite


def fuse_fma(module: IRModule) -> IRModule:
    """Under relaxed or fast math, a float product that only one sum uses is part of that sum."""
    if module.attr("math", "safe") not in ("relaxed", "fast"):
        return module
    used = uses(module)

    def product(value: Value, rw: Rewriter) -> tuple[Value, ...]:
        mul = rw.produced_by("mul", value)
        return mul.operands if mul is not None and used[value] == 1 else ()

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name not in ("add", "sub") or not inst.out.dtype.is_float:
            return None
        a, b = inst.operands
        if factors := product(a, rw):
            addend = rw.emit("neg", b) if inst.op.name == "sub" else b  # x*y - b = x*y + -b
            return (rw.emit("fma", *factors, addend),)
        if factors := product(b, rw):
            x, y = factors
            return (
                rw.emit("fma", rw.emit("neg", x) if inst.op.name == "sub" else x, y, a),
            )  # a - x*y = -x*y + a
        return None

    return rewrite(module, rule)
