"""How LLVM spells every elementwise op; one row per op, vectors and scalars alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from eas.base.dtypes import DType
from eas.codegen.llvm.casts import cast, decode, encode, rounded
from eas.codegen.llvm.math import functions as vector_math
from eas.codegen.llvm.text import Reg, Text, literal, mangled, memory_type, register_type
from eas.ir import Inst

Spelling = Callable[[Text, Inst, list[Reg]], Any]


def zero_of(dtype: DType) -> Reg:
    element = register_type(dtype)
    return Reg(literal(0, element), element)


def _arithmetic(integer: str, floating: str) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        if inst.out.dtype.is_float:
            return rounded(t, t.op(floating, xs[0], xs[1]), inst.out.dtype)
        return t.op(integer, xs[0], xs[1])

    return spell


def _compare(word: str, unordered: bool = False) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        dtype = inst.operands[0].dtype
        if dtype.is_float:
            return t.compare(f"fcmp {'u' if unordered else 'o'}{word}", xs[0], xs[1])
        sign = "" if word in ("eq", "ne") else "s" if dtype.is_signed and not dtype.is_bool else "u"
        return t.compare(f"icmp {sign}{word}", xs[0], xs[1])

    return spell


def nan_max(t: Text, a: Reg, b: Reg, kind: str) -> Reg:
    """min or max of floats that keeps a NaN of either side; the sign of zero is unspecified."""
    return t.call(f"llvm.{kind}imum", a.element, a, b, flags="nsz ")


def _extreme(kind: str) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        dtype = inst.out.dtype
        if dtype.is_float:
            return nan_max(t, xs[0], xs[1], kind)
        return t.call(f"llvm.{'s' if dtype.is_signed else 'u'}{kind}", xs[0].element, *xs)

    return spell


def _intrinsic(name: str, rounds: bool = True) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        result = t.call(name, xs[0].element, *xs)
        return rounded(t, result, inst.out.dtype) if rounds else result

    return spell


def _math(name: str) -> Spelling:
    """A function of our own, as a helper of the module."""

    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        dtype: vector_math.Float = "f64" if xs[0].element == "double" else "f32"
        symbol = vector_math.callee(name, dtype, xs[0].lanes)
        if symbol not in t.helpers:
            t.helpers[symbol] = vector_math.function(name, dtype, xs[0].lanes)
            t.declare_lines(vector_math.declarations([(name, dtype, xs[0].lanes)]))
        return rounded(t, t.call_inlined(symbol, xs), inst.out.dtype)

    return spell


# --- integers -----------------------------------------------------------------------------------


def _divide(floor: bool, wants_quotient: bool) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        a, b = xs
        dtype = inst.out.dtype
        if dtype.is_float:
            return _float_divide(t, a, b, dtype, wants_quotient)
        is_natural, is_number = inst["natural"], b.is_literal
        if is_natural and inst["by_positive"] and (is_number or a.lanes == 1):
            return _natural(t, a, b, wants_quotient)
        if is_natural and not is_number and a.lanes == 1:
            return _if_positive(t, b, lambda: _natural(t, a, b, wants_quotient), lambda: general(t, dtype, a, b))
        return general(t, dtype, a, b)

    def general(t: Text, dtype: DType, a: Reg, b: Reg) -> Reg:
        zero, one = t.like(0, a), t.like(1, a)
        by_zero = t.compare("icmp eq", b, zero)
        safe = t.select(by_zero, one, b)
        if _is_plain_divisor(b):
            quotient = t.op("sdiv" if dtype.is_signed else "udiv", a, b)  # LLVM multiplies instead
        elif dtype.is_signed:
            # INT_MIN / -1 wraps: the quotient is the negation, which LLVM's sdiv leaves undefined.
            minus = t.compare("icmp eq", b, t.like(-1, a))
            safe = t.select(minus, one, safe)
            quotient = _quotient(t, a, safe, "sdiv")
            quotient = t.select(minus, t.op("sub", zero, a), quotient)
        else:
            quotient = _quotient(t, a, safe, "udiv")
        rest = t.op("sub", a, t.op("mul", quotient, t.select(by_zero, one, b)))
        if floor and dtype.is_signed:
            opposite = t.compare("icmp slt", t.op("xor", rest, b), zero)
            adjust = t.op("and", t.compare("icmp ne", rest, zero), opposite)
            quotient = t.select(adjust, t.op("sub", quotient, one), quotient)
            rest = t.select(adjust, t.op("add", rest, b), rest)
        return t.select(by_zero, zero, quotient if wants_quotient else rest)

    return spell


def _natural(t: Text, a: Reg, b: Reg, wants_quotient: bool) -> Reg:
    """Of numbers that are not negative, by one that is positive."""
    quotient = t.op("udiv", a, b)
    return quotient if wants_quotient else t.op("sub", a, t.op("mul", quotient, b))


def _if_positive(t: Text, number: Reg, then: Callable[[], Reg], other: Callable[[], Reg]) -> Reg:
    labels, done = [t.new_label("positive"), t.new_label("not_positive")], t.new_label("divided")
    is_positive = t.compare("icmp sgt", number, t.like(0, number))
    t.line(f"br {is_positive}, label %{labels[0]}, label %{labels[1]}")
    sides = []
    for label, side in zip(labels, (then, other), strict=True):
        t.label(label)
        sides.append(f"[ {side().text}, %{t.block} ]")
        t.line(f"br label %{done}")
    t.label(done)
    return t.let(f"phi {number.type} {', '.join(sides)}", number.element, 1)


def _is_plain_divisor(b: Reg) -> bool:
    """One number in all lanes that needs no care: neither 0 nor -1."""
    return _uniform(b) not in (None, 0, -1)


def _uniform(b: Reg) -> int | None:
    """The number that is in all lanes, if it is known."""
    return b.number if isinstance(b.number, int) and b.element != "i1" else None


def _quotient(t: Text, a: Reg, b: Reg, word: str) -> Reg:
    """Vectors of up to 32 bits divide exactly in f64; LLVM would divide lane by lane."""
    if a.lanes == 1 or a.element == "i64" or b.is_literal:
        return t.op(word, a, b)
    to, back = ("sitofp", "fptosi") if word == "sdiv" else ("uitofp", "fptoui")
    ratio = t.op("fdiv", t.convert(to, a, "double"), t.convert(to, b, "double"))
    return t.convert(back, ratio, a.element)


def _float_divide(t: Text, a: Reg, b: Reg, dtype: DType, wants_quotient: bool) -> Reg:
    """Python's // and % of floats, by the exact remainder."""
    rest = t.op("frem", a, b)
    zero = t.like(0.0, a)
    opposite = t.op("xor", t.compare("fcmp olt", rest, zero), t.compare("fcmp olt", b, zero))
    nonzero = t.compare("fcmp une", rest, zero)
    adjust = t.op("and", nonzero, opposite)
    if not wants_quotient:
        moved = t.select(adjust, t.op("fadd", rest, b), rest)
        signed = t.call("llvm.copysign", a.element, zero, b)
        return rounded(t, t.select(t.compare("fcmp oeq", rest, zero), signed, moved), dtype)
    quotient = t.op("fdiv", t.op("fsub", a, rest), b)
    quotient = t.select(adjust, t.op("fsub", quotient, t.like(1.0, a)), quotient)
    whole = t.call("llvm.floor", a.element, quotient)
    near = t.compare("fcmp ogt", t.op("fsub", quotient, whole), t.like(0.5, a))
    whole = t.select(near, t.op("fadd", whole, t.like(1.0, a)), whole)
    by_zero = t.compare("fcmp oeq", b, zero)
    plain = t.op("fdiv", a, b)
    signed_zero = t.call("llvm.copysign", a.element, zero, plain)
    whole = t.select(t.compare("fcmp oeq", quotient, zero), signed_zero, whole)
    return rounded(t, t.select(by_zero, plain, whole), dtype)


def _shift(left: bool) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        a, n = xs
        dtype = inst.out.dtype
        count = _uniform(n)
        if count is not None and 0 <= count < dtype.bits:
            return t.op("shl" if left else "ashr" if dtype.is_signed else "lshr", a, n)
        too_far = t.compare("icmp uge", n, t.like(dtype.bits, n))
        safe = t.select(too_far, t.like(0, n), n)
        if left:
            return t.select(too_far, t.like(0, a), t.op("shl", a, safe))
        if not dtype.is_signed:
            return t.select(too_far, t.like(0, a), t.op("lshr", a, safe))
        return t.op("ashr", a, t.select(too_far, t.like(dtype.bits - 1, n), n))

    return spell


def _mulhi(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    dtype = inst.out.dtype
    word, wide = ("sext" if dtype.is_signed else "zext"), f"i{2 * dtype.bits}"
    product = t.op("mul", t.convert(word, xs[0], wide), t.convert(word, xs[1], wide))
    return t.convert("trunc", t.op("lshr", product, t.like(dtype.bits, product)), xs[0].element)


def _count_zeros(name: str) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        symbol = f"@llvm.{name}.{mangled(xs[0])}"
        t.declare(symbol, f"declare {xs[0].type} {symbol}({xs[0].type}, i1 immarg)")
        return t.let(f"call {xs[0].type} {symbol}({xs[0]}, i1 false)", xs[0].element, xs[0].lanes)

    return spell


# --- the rest -----------------------------------------------------------------------------------


def _not(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    return t.op("xor", xs[0], t.like(1 if inst.out.dtype.is_bool else -1, xs[0]))


def _neg(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    if inst.out.dtype.is_float:
        return t.let(f"fneg {xs[0]}", xs[0].element, xs[0].lanes)
    return t.op("sub", t.like(0, xs[0]), xs[0])


def _abs(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    if inst.out.dtype.is_float:
        return t.call("llvm.fabs", xs[0].element, xs[0])
    if not inst.out.dtype.is_signed:
        return xs[0]
    negative = t.compare("icmp slt", xs[0], t.like(0, xs[0]))
    return t.select(negative, t.op("sub", t.like(0, xs[0]), xs[0]), xs[0])


def _sign(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    x, dtype = xs[0], inst.out.dtype
    zero, one = t.like(0, x), t.like(1, x)
    if not dtype.is_float and not dtype.is_signed:
        return t.select(t.compare("icmp eq", x, zero), zero, one)
    above, below = ("fcmp ogt", "fcmp olt") if dtype.is_float else ("icmp sgt", "icmp slt")
    result = t.select(
        t.compare(above, x, zero), one, t.select(t.compare(below, x, zero), t.like(-1, x), zero)
    )
    return t.select(t.compare("fcmp uno", x, x), x, result) if dtype.is_float else result


def _classify(kind: str) -> Spelling:
    def spell(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
        x = xs[0]
        if kind == "isnan":
            return t.compare("fcmp uno", x, x)
        if kind == "signbit":
            bits = t.convert("bitcast", x, "i64" if x.element == "double" else "i32")
            return t.compare("icmp slt", bits, t.like(0, bits))
        size, infinity = t.call("llvm.fabs", x.element, x), t.like(float("inf"), x)
        return t.compare("fcmp oeq" if kind == "isinf" else "fcmp olt", size, infinity)

    return spell


def _select(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    return t.select(*xs)


def _cast(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    return cast(t, xs[0], inst.operands[0].dtype, inst.out.dtype)


def _bitcast(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    raw = encode(t, xs[0], inst.operands[0].dtype)
    target = memory_type(inst.out.dtype)
    moved = raw if raw.element == target else t.convert("bitcast", raw, target)
    return decode(t, moved, inst.out.dtype)


def _hint(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    return xs[0]


def _philox(t: Text, inst: Inst, xs: list[Reg]) -> Sequence[Reg]:
    """Philox-4x32-10, unrolled."""
    c0, c1, c2, c3, k0, k1 = xs
    for _ in range(10):
        h0, l0 = _mul_words(t, c0, 0xD2511F53)
        h1, l1 = _mul_words(t, c2, 0xCD9E8D57)
        c0, c1, c2, c3 = (
            t.op("xor", t.op("xor", h1, c1), k0),
            l1,
            t.op("xor", t.op("xor", h0, c3), k1),
            l0,
        )
        k0, k1 = t.op("add", k0, t.like(0x9E3779B9, k0)), t.op("add", k1, t.like(0xBB67AE85, k1))
    return c0, c1, c2, c3


def _mul_words(t: Text, word: Reg, factor: int) -> tuple[Reg, Reg]:
    wide = t.convert("zext", word, "i64")
    product = t.op("mul", wide, t.like(factor, wide))
    return t.convert("trunc", t.op("lshr", product, t.like(32, product)), "i32"), t.convert(
        "trunc", product, "i32"
    )


def _inline(t: Text, inst: Inst, xs: list[Reg]) -> Reg:
    """The user's LLVM instruction: a0, a1, ... are operands, $0, $1, ... the same with their types in front."""
    from eas.base.errors import Unsupported

    texts = dict(inst["texts"])
    if "llvm" not in texts:
        raise Unsupported(
            "mk.inline has no llvm text", hint="give llvm='...' to run it on the CPU", loc=inst.loc
        )
    lanes = max((x.lanes for x in xs), default=1)
    wide = [t.splat(x, lanes) for x in xs]

    def operand(found: re.Match[str]) -> str:
        x = wide[int(found[2])]
        return str(x) if found[1] == "$" else x.text

    text = re.sub(r"(\$|\ba)(\d+)\b", operand, texts["llvm"])
    return t.let(text, register_type(inst.out.dtype), lanes)


LOOK_AT_NUMBERS = frozenset({"floordiv", "mod", "truncdiv", "truncmod", "shl", "shr", "inline_target"})
"""What is spelled otherwise with a number than with a register."""

OPS: dict[str, Spelling] = {
    "add": _arithmetic("add", "fadd"), "sub": _arithmetic("sub", "fsub"), "mul": _arithmetic("mul", "fmul"),
    "div": _arithmetic("", "fdiv"),
    "floordiv": _divide(True, True), "mod": _divide(True, False), "truncdiv": _divide(False, True), "truncmod": _divide(False, False),
    "mulhi": _mulhi, "min": _extreme("min"), "max": _extreme("max"),
    "fmin": _intrinsic("llvm.minnum", False), "fmax": _intrinsic("llvm.maxnum", False),
    "and": _arithmetic("and", ""), "or": _arithmetic("or", ""), "xor": _arithmetic("xor", ""),
    "shl": _shift(True), "shr": _shift(False), "not": _not, "neg": _neg, "abs": _abs, "sign": _sign,
    "eq": _compare("eq"), "ne": _compare("ne", True), "lt": _compare("lt"), "le": _compare("le"), "gt": _compare("gt"), "ge": _compare("ge"),
    "sqrt": _intrinsic("llvm.sqrt"), "floor": _intrinsic("llvm.floor", False), "ceil": _intrinsic("llvm.ceil", False),
    "trunc": _intrinsic("llvm.trunc", False), "round": _intrinsic("llvm.roundeven", False), "copysign": _intrinsic("llvm.copysign", False),
    "fma": _intrinsic("llvm.fma"),
    "isnan": _classify("isnan"), "isinf": _classify("isinf"), "isfinite": _classify("isfinite"), "signbit": _classify("signbit"),
    "popcount": _intrinsic("llvm.ctpop", False), "bit_reverse": _intrinsic("llvm.bitreverse", False), "clz": _count_zeros("ctlz"), "ctz": _count_zeros("cttz"),
    "select": _select, "cast": _cast, "bitcast": _bitcast, "multiple_of": _hint, "max_contiguous": _hint, "max_constancy": _hint,
    "philox": _philox, "inline_target": _inline,
    **{name: _math(name) for name in vector_math.SUPPORTED},
}  # fmt: skip
