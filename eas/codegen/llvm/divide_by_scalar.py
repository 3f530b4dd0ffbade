"""Division of a vector of integers by one number: multiplication by its reciprocal in f64, exact.

Let a and d be integers of up to 32 bits, d not 0. a / d + 1 / |2 d| is no whole number but at least
1 / |2 d| away from one, and its floor is that of a / d. Computed with the rounded reciprocal it is off
by no more than 2^-20 / |d|. Half less and rounded to the nearest whole number, it is the quotient.
"""

from __future__ import annotations

from eas.codegen.llvm.text import Reg, Text, bits_of
from eas.ir import Inst

# Added to a small number it leaves the nearest whole number, modulo 2^51, in the low bits of the sum.
_ROUNDER = 1.5 * 2**52


def can_divide_by_scalar(inst: Inst, operands: list[Reg]) -> bool:
    """Whether lanes are divided by a number that only the launch knows."""
    a, d = operands
    is_short = not inst.out.dtype.is_float and bits_of(a.element) <= 32
    return is_short and a.lanes > 1 and d.lanes == 1 and not d.is_literal


def divide_by_scalar(t: Text, inst: Inst, operands: list[Reg]) -> Reg:
    """`floordiv` or `mod`; what does not depend on the lanes is left to LLVM to move out of loops."""
    a, d = operands
    to_float = "sitofp" if inst.out.dtype.is_signed else "uitofp"
    by_zero = t.compare("icmp eq", d, t.like(0, d))
    zero, half = t.number(0.0, "double"), t.number(0.5, "double")
    inverse = t.op("fdiv", t.number(1.0, "double"), t.convert(to_float, d, "double"))
    size = t.call("llvm.fabs", "double", inverse)
    shift = t.op("fsub", t.op("fmul", size, half), half)
    inverse, shift = (t.splat(t.select(by_zero, zero, r), a.lanes) for r in (inverse, shift))
    ratio = t.call("llvm.fmuladd", "double", t.convert(to_float, a, "double"), inverse, shift)
    sum_ = t.op("fadd", ratio, t.like(_ROUNDER, ratio))
    quotient = t.convert("trunc", t.convert("bitcast", sum_, "i64"), a.element)
    if inst.op.name == "floordiv":
        return quotient
    rest = t.op("sub", a, t.op("mul", quotient, t.splat(d, a.lanes)))
    kept = t.select(by_zero, t.like(0, d), t.like(-1, d))
    return t.op("and", rest, t.splat(kept, a.lanes))
