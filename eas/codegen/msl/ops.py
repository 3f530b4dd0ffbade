"""How Metal spells each op on scalars: one row per op, its dtype families inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.codegen.msl import casts as msl_casts
from eas.codegen.msl import math as msl_math
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.simd import SIMD
from eas.codegen.msl.text import ATOM, Expr, call, choose, gathered, infix, prefix
from eas.codegen.msl.types import literal, type_name, unsigned_name
from eas.ir import Inst

Spelling = Callable[[MslEmitter, Inst, list[Expr]], Expr]


def narrow(value: Expr, dtype: DType) -> Expr:
    """The float result of an op, rounded to its type."""
    return value if dtype is dtypes.f32 else call(type_name(dtype, value.lanes), value)


def widen(x: Expr, dtype: DType) -> Expr:
    """A float operand as f32."""
    return x if dtype is dtypes.f32 else call(type_name(dtypes.f32, x.lanes), x)


def in_float(function: Callable[..., Expr], inst: Inst, xs: Sequence[Expr]) -> Expr:
    """Computed in f32 and rounded once to the type of the result."""
    dtype = inst.operands[0].dtype
    return narrow(function(*(widen(x, dtype) for x in xs)), dtype)


def _arithmetic(operator: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.out.dtype
        if dtype is dtypes.bf16:
            return in_float(lambda a, b: infix(operator, a, b), inst, xs)
        # The product of two halves fits a float, and the sum of two is never rounded twice wrongly.
        if dtype.is_float or dtype in (dtypes.u32, dtypes.u64):
            return infix(operator, *xs)
        if dtype.bits < 32:
            # Small integers are computed as int, where only u16 * u16 can overflow.
            if dtype is dtypes.u16 and operator == "*":
                xs = [call(type_name(dtypes.u32, x.lanes), x) for x in xs]
            return call(type_name(dtype, max(x.lanes for x in xs)), infix(operator, *xs))
        if m.is_exact(inst.out):
            return infix(operator, *xs)
        return _wrapped(dtype, infix(operator, *(_unsigned(x, dtype) for x in xs)))

    return spell


def _unsigned(x: Expr, dtype: DType) -> Expr:
    """An operand of arithmetic that may overflow, which C++ defines for unsigned numbers only."""
    if x.wrapped is not None:
        return x.wrapped
    if x.text.removesuffix("L").isdigit():
        return Expr(f"{x.text.removesuffix('L')}{'u' if dtype.bits == 32 else 'UL'}")
    return call(_vector(unsigned_name(dtype), x.lanes), x)


def _wrapped(dtype: DType, unsigned: Expr) -> Expr:
    return replace(call(type_name(dtype, unsigned.lanes), unsigned), wrapped=unsigned)


def _div(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return in_float(lambda a, b: infix("/", a, b), inst, xs)


def _divide(floors: bool, operator: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.out.dtype
        kind = "div" if operator == "/" else "mod"
        if dtype.is_float:
            return in_float(lambda a, b: m.helper(f"float_floor_{kind}", dtypes.f32, a, b), inst, xs)
        a, b = (m.range_of(v) for v in inst.operands)
        if b.lo > 0 and (a.lo >= 0 or not floors):
            plain = infix(operator, *xs)
            return plain if dtype.bits >= 32 else call(type_name(dtype, plain.lanes), plain)
        return m.helper(f"{'floor' if floors else 'trunc'}_{kind}", dtype, *xs)

    return spell


def _extreme(name: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.out.dtype
        if not dtype.is_float or (m.math == "fast" and dtype is not dtypes.bf16):
            return call(name, *xs)
        if m.math == "fast":
            return in_float(lambda a, b: call(name, a, b), inst, xs)
        if dtype is dtypes.bf16:
            return in_float(lambda a, b: m.helper(f"nan_{name}", dtypes.f32, a, b), inst, xs)
        return m.helper(f"nan_{name}", dtype, *xs)

    return spell


def _function(name: str) -> Spelling:
    """A function of Metal's that is exact on float and half; bfloat goes through float."""

    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        if inst.operands[0].dtype is dtypes.bf16:
            return in_float(lambda *args: call(name, *args), inst, xs)
        return call(name, *xs)

    return spell


def _in_float(name: str) -> Spelling:
    return lambda m, inst, xs: in_float(lambda *args: call(name, *args), inst, xs)


def _sqrt(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return in_float(lambda x: call(f"{msl_math.namespace(m.math)}sqrt", x), inst, xs)


def _logic(for_bool: str, for_int: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.out.dtype
        if dtype.is_bool:
            if for_bool == "&&":  # what stands behind a mask is only looked at where it holds
                xs = [xs[0], xs[1].under(inst.operands[0])]
            return infix(for_bool, *xs)
        result = infix(for_int, *xs)
        return result if dtype.bits >= 32 else call(type_name(dtype, result.lanes), result)

    return spell


def _shift(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    dtype, is_left = inst.out.dtype, inst.op.name == "shl"
    count = m.range_of(inst.operands[1])
    if not (count.lo >= 0 and count.hi < dtype.bits):
        return m.helper("shift_left" if is_left else "shift_right", dtype, *xs)
    by = literal(count.lo, dtypes.i32) if count.is_single else xs[1]
    x = xs[0]
    if is_left and dtype.is_signed and dtype.bits >= 32 and not (m.is_exact(inst.out) and m.range_of(inst.operands[0]).lo >= 0):
        x = call(_vector(unsigned_name(dtype), x.lanes), x)
        return call(type_name(dtype, x.lanes), infix("<<", x, by))
    result = infix("<<" if is_left else ">>", x, by)
    return result if dtype.bits >= 32 else call(type_name(dtype, result.lanes), result)


def _vector(name: str, lanes: int) -> str:
    return name if lanes == 1 else f"{name}{lanes}"


def _not(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    dtype = inst.out.dtype
    if dtype.is_bool:
        return prefix("!", xs[0])
    result = prefix("~", xs[0])
    return result if dtype.bits >= 32 else call(type_name(dtype, result.lanes), result)


def _neg(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    dtype = inst.out.dtype
    if dtype is dtypes.bf16:
        return in_float(lambda x: prefix("-", x), inst, xs)
    if dtype.is_float or (dtype.bits >= 32 and (not dtype.is_signed or m.is_exact(inst.out))):
        return prefix("-", xs[0])
    if dtype.bits < 32:
        return call(type_name(dtype, xs[0].lanes), prefix("-", xs[0]))
    return _wrapped(dtype, prefix("-", _unsigned(xs[0], dtype)))


def _abs(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    dtype = inst.out.dtype
    if dtype.is_float:
        return _function("fabs")(m, inst, xs)
    if not dtype.is_signed:
        return xs[0]
    if m.range_of(inst.operands[0]).lo > dtype.min:
        return call("abs", *xs)
    return m.helper("wrapping_abs", dtype, *xs)


def _sign(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    if inst.out.dtype is dtypes.bf16:
        return in_float(lambda x: m.helper("sign_of", dtypes.f32, x), inst, xs)
    return m.helper("sign_of", inst.out.dtype, *xs)


def _compare(operator: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.operands[0].dtype
        if dtype is dtypes.bf16:
            xs = [widen(x, dtype) for x in xs]
        return infix(operator, *xs)

    return spell


def _classify(name: str) -> Spelling:
    return lambda m, inst, xs: call(name, widen(xs[0], inst.operands[0].dtype))


def _select(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    """Both sides are vectors if one is, or if the choice is made lane by lane."""
    condition, *sides = xs
    lanes = max(x.lanes for x in xs)
    if lanes > 1:
        sides = [x if x.lanes > 1 else replace(call(type_name(inst.out.dtype, lanes), x), lanes=lanes) for x in sides]
    return choose(condition, *sides)


def _cast(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return msl_casts.cast(m, xs[0], inst.operands[0].dtype, inst.out.dtype)


def _bitcast(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    source, target = (type_name(v.dtype, xs[0].lanes) for v in (inst.operands[0], inst.out))
    return xs[0] if source == target else call(f"as_type<{target}>", xs[0])


def _hint(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return xs[0]


def _inline(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    """The user's expression, in which a0, a1, ... stand for the operands."""
    texts = dict(inst["texts"])
    if "msl" not in texts:
        raise Unsupported("mk.inline has no msl text", hint="give msl='...' to run it on Metal", loc=inst.loc)
    text = msl_casts.substitute(texts["msl"], xs)
    # Parentheses: nobody knows how tightly the user's text binds.
    return gathered(f"{type_name(inst.out.dtype)}({text})", ATOM, xs)


def _const(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return literal(inst["value"], inst.out.dtype)


def _id(position: str, suffix: str = "") -> Spelling:
    """An id of the thread; Metal's are unsigned, ours are i32."""

    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        axis = f".{'xyz'[inst['axis']]}" if suffix else ""
        return gathered(f"int({m.builtin(position)}{axis})", ATOM, ())

    return spell


def _tid(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    thread = gathered(f"int({m.builtin('tid')})", ATOM, ())
    return infix("+", thread, literal(inst["start"], dtypes.i32)) if inst["start"] else thread


def _local_id(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    """A threadgroup is one row of threads."""
    return gathered(f"int({m.builtin('tid')})", ATOM, ()) if inst["axis"] == 0 else literal(0, dtypes.i32)


OPS: dict[str, Spelling] = {
    "const": _const, "program_id": _id("gid", "axis"), "num_programs": _id("groups", "axis"),
    "tid": _tid, "local_id": _local_id, "lane_id": _id("lane"), "sg_id": _id("sgid"),
    "add": _arithmetic("+"), "sub": _arithmetic("-"), "mul": _arithmetic("*"), "div": _div,
    "floordiv": _divide(True, "/"), "mod": _divide(True, "%"), "truncdiv": _divide(False, "/"), "truncmod": _divide(False, "%"),
    "fmod": _in_float("fmod"), "mulhi": _function("mulhi"), "min": _extreme("min"), "max": _extreme("max"),
    "fmin": _function("fmin"), "fmax": _function("fmax"),
    "and": _logic("&&", "&"), "or": _logic("||", "|"), "xor": _logic("!=", "^"),
    "shl": _shift, "shr": _shift, "not": _not, "neg": _neg, "abs": _abs, "sign": _sign,
    "eq": _compare("=="), "ne": _compare("!="), "lt": _compare("<"), "le": _compare("<="), "gt": _compare(">"), "ge": _compare(">="),
    "sqrt": _sqrt, "floor": _function("floor"), "ceil": _function("ceil"), "trunc": _function("trunc"), "round": _function("rint"),
    "copysign": _function("copysign"), "fma": _in_float("fma"),
    "isnan": _classify("isnan"), "isinf": _classify("isinf"), "isfinite": _classify("isfinite"), "signbit": _classify("signbit"),
    "popcount": _function("popcount"), "clz": _function("clz"), "ctz": _function("ctz"), "bit_reverse": _function("reverse_bits"),
    "select": _select, "cast": _cast, "bitcast": _bitcast, "multiple_of": _hint, "max_contiguous": _hint, "max_constancy": _hint,
    "inline_target": _inline,
    **{name: msl_math.spelling(name) for name in msl_math.FUNCTIONS},
    **SIMD,
}  # fmt: skip
