"""Conversions between dtypes as LLVM text, with one rounding and saturation as DECISIONS 16 says.

Narrow floats live in f32 registers, already rounded; `decode` and `encode` are the way to and from
memory, `rounded` is what every arithmetic result goes through.
"""

from __future__ import annotations

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.codegen.llvm.text import Reg, Text, bits_of, register_type


def decode(t: Text, raw: Reg, dtype: DType) -> Reg:
    """From the storage format to a register."""
    if dtype.is_bool:
        return t.compare("icmp ne", raw, t.like(0, raw))
    if dtype is dtypes.f16:
        return _decode_f16(t, raw)
    if dtype is dtypes.bf16:
        wide = t.convert("zext", raw, "i32")
        return t.convert("bitcast", t.op("shl", wide, t.like(16, wide)), "float")
    if dtype is dtypes.f8e5m2:  # the upper half of an f16
        wide = t.convert("zext", raw, "i16")
        return _decode_f16(t, t.convert("bitcast", t.op("shl", wide, t.like(8, wide)), "half"))
    if dtype is dtypes.f8e4m3:
        return _decode_e4m3(t, raw)
    return raw


def encode(t: Text, value: Reg, dtype: DType) -> Reg:
    """From a register to the storage format; the value is already rounded."""
    if dtype.is_bool:
        return t.convert("zext", value, "i8")
    if dtype is dtypes.f16:
        return _encode_f16(t, value)
    if dtype is dtypes.bf16:
        bits = t.convert("bitcast", value, "i32")
        return t.convert("trunc", t.op("lshr", bits, t.like(16, bits)), "i16")
    if dtype is dtypes.f8e5m2:
        bits = t.convert("bitcast", _encode_f16(t, value), "i16")
        return t.convert("trunc", t.op("lshr", bits, t.like(8, bits)), "i8")
    if dtype is dtypes.f8e4m3:
        return _encode_e4m3(t, value)
    return value


def _decode_f16(t: Text, raw: Reg) -> Reg:
    """As e4m3 below where the target has no instruction for it: LLVM would call a function for each lane. NaN keeps its bits."""
    if t.has_f16:
        return t.convert("fpext", raw, "float")
    wide = t.convert("zext", t.convert("bitcast", raw, "i16"), "i32")
    sign = t.op("shl", t.op("and", wide, t.like(0x8000, wide)), t.like(16, wide))
    magnitude = t.op("and", wide, t.like(0x7FFF, wide))
    placed = t.op("shl", magnitude, t.like(13, wide))
    scaled = t.convert("bitcast", placed, "float")
    finite = t.convert("bitcast", t.op("fmul", scaled, t.like(2.0**112, scaled)), "i32")
    infinite = t.op("or", placed, t.like(0x7F800000, wide))
    bits = t.select(t.compare("icmp ult", magnitude, t.like(0x7C00, wide)), finite, infinite)
    return t.convert("bitcast", t.op("or", bits, sign), "float")


def _encode_f16(t: Text, value: Reg) -> Reg:
    if t.has_f16:
        return t.convert("fptrunc", value, "half")
    size = t.call("llvm.fabs", "float", value)
    raw = t.convert("bitcast", value, "i32")
    finite = t.op("lshr", t.convert("bitcast", t.op("fmul", size, t.like(2.0**-112, size)), "i32"), t.like(13, raw))
    infinite = t.op("and", t.op("lshr", raw, t.like(13, raw)), t.like(0x7FFF, raw))
    magnitude = t.select(t.compare("fcmp olt", size, t.like(float("inf"), size)), finite, infinite)
    sign = t.op("and", t.op("lshr", raw, t.like(16, raw)), t.like(0x8000, raw))
    return t.convert("bitcast", t.convert("trunc", t.op("or", magnitude, sign), "i16"), "half")


def _decode_e4m3(t: Text, raw: Reg) -> Reg:
    """Shift exponent and mantissa into f32 place, then scale by 2**120: subnormals come out right."""
    wide = t.convert("zext", raw, "i32")
    sign = t.op("shl", t.op("and", wide, t.like(0x80, wide)), t.like(24, wide))
    magnitude = t.op("and", wide, t.like(0x7F, wide))
    scaled = t.convert("bitcast", t.op("shl", magnitude, t.like(20, wide)), "float")
    value = t.op("fmul", scaled, t.like(2.0**120, scaled))
    value = t.select(
        t.compare("icmp eq", magnitude, t.like(0x7F, wide)), t.like(float("nan"), value), value
    )
    bits = t.op("or", t.convert("bitcast", value, "i32"), sign)
    return t.convert("bitcast", bits, "float")


def _encode_e4m3(t: Text, value: Reg) -> Reg:
    size = t.call("llvm.fabs", "float", value)
    bits = t.convert("bitcast", t.op("fmul", size, t.like(2.0**-120, size)), "i32")
    magnitude = t.op("lshr", bits, t.like(20, bits))
    magnitude = t.select(t.compare("fcmp uno", value, value), t.like(0x7F, magnitude), magnitude)
    raw = t.convert("bitcast", value, "i32")
    sign = t.op("and", t.op("lshr", raw, t.like(24, raw)), t.like(0x80, raw))
    return t.convert("trunc", t.op("or", magnitude, sign), "i8")


def rounded(t: Text, value: Reg, dtype: DType) -> Reg:
    """An f32 result as a number of a narrower float dtype, to nearest even."""
    if dtype is dtypes.f16 and t.has_f16:
        return t.convert("fpext", t.convert("fptrunc", value, "half"), "float")
    if dtype is dtypes.f16:
        return _round_narrow(t, value, 13, 2.0**-14, 2.0**-24, 65504.0, saturates=False)
    if dtype is dtypes.bf16:
        return _round_bits(t, value, 16)
    if dtype is dtypes.f8e5m2:
        return _round_narrow(t, value, 21, 2.0**-14, 2.0**-16, 57344.0, saturates=False)
    if dtype is dtypes.f8e4m3:
        return _round_narrow(t, value, 20, 2.0**-6, 2.0**-9, 448.0, saturates=True)
    return value


def _round_bits(t: Text, value: Reg, dropped: int) -> Reg:
    """Clear the last bits of the mantissa, rounding to nearest even; NaN stays NaN."""
    bits = t.convert("bitcast", value, "i32")
    last = t.op("and", t.op("lshr", bits, t.like(dropped, bits)), t.like(1, bits))
    half = t.op("add", last, t.like((1 << (dropped - 1)) - 1, bits))
    cleared = t.op("and", t.op("add", bits, half), t.like(-(1 << dropped), bits))
    quiet = t.op("or", bits, t.like(0x400000, bits))
    quiet = t.op("and", quiet, t.like(-(1 << min(dropped, 22)), bits))
    result = t.select(t.compare("fcmp uno", value, value), quiet, cleared)
    return t.convert("bitcast", result, "float")


def _round_narrow(
    t: Text,
    value: Reg,
    dropped: int,
    least_normal: float,
    spacing: float,
    largest: float,
    *,
    saturates: bool,
) -> Reg:
    size = t.call("llvm.fabs", "float", value)
    normal = _round_bits(t, size, dropped)
    # Adding and subtracting a number whose last bit is `spacing` rounds to a multiple of it.
    magic = t.like(spacing * 2.0**23, size)
    small = t.op("fsub", t.op("fadd", size, magic), magic)
    result = t.select(t.compare("fcmp olt", size, t.like(least_normal, size)), small, normal)
    too_large = t.compare("fcmp ogt", result, t.like(largest, result))
    result = t.select(too_large, t.like(largest if saturates else float("inf"), result), result)
    return t.call("llvm.copysign", "float", result, value)


def cast(t: Text, x: Reg, src: DType, dst: DType) -> Reg:
    """Any conversion: saturating to integers, wrapping between them, one rounding to floats."""
    if src is dst:
        return x
    if dst.is_bool:
        return t.compare("fcmp une" if src.is_float else "icmp ne", x, t.like(0, x))
    if src.is_float:
        return _float_to_float(t, x, dst) if dst.is_float else _float_to_int(t, x, dst)
    if dst.is_float:
        return _int_to_float(t, x, src, dst)
    if src.is_bool:
        return t.convert("zext", x, register_type(dst))
    if dst.bits == src.bits:
        return x
    word = "trunc" if dst.bits < src.bits else "sext" if src.is_signed else "zext"
    return t.convert(word, x, register_type(dst))


def _float_to_float(t: Text, x: Reg, dst: DType) -> Reg:
    if dst is dtypes.f64:
        return x if x.element == "double" else t.convert("fpext", x, "double")
    if x.element == "float":
        return rounded(t, x, dst)
    if dst is dtypes.f32:
        return t.convert("fptrunc", x, "float")
    return rounded(t, _to_odd(t, x), dst)


def _to_odd(t: Text, x: Reg) -> Reg:
    """f64 to f32 rounding to odd, so that a second rounding to fewer bits is exact."""
    near = t.convert("fptrunc", x, "float")
    back = t.convert("fpext", near, "double")
    bits = t.convert("bitcast", near, "i32")
    beyond = t.compare(
        "fcmp ogt", t.call("llvm.fabs", "double", back), t.call("llvm.fabs", "double", x)
    )
    toward_zero = t.op("sub", bits, t.convert("zext", beyond, "i32"))
    odd = t.op("or", toward_zero, t.like(1, bits))
    inexact = t.compare("fcmp one", back, x)
    return t.convert("bitcast", t.select(inexact, odd, bits), "float")


def _float_to_int(t: Text, x: Reg, dst: DType) -> Reg:
    """Truncated; NaN is 0, and what is outside is the nearest integer inside."""
    number = t.select(t.compare("fcmp ord", x, x), x, t.like(0.0, x))
    digits = 24 if x.element == "float" else 53
    is_exact = dst.max < 1 << digits
    # Else the largest float below the end of the range: what is above it gets the largest integer in the end.
    top = float(dst.max if is_exact else dst.max + 1 - (1 << dst.max.bit_length() - digits))
    for word, end in (("fcmp ogt", float(dst.min)), ("fcmp olt", top)):
        limit = t.like(end, x)
        number = t.select(t.compare(word, number, limit), number, limit)
    if dst.bits < 32:  # through i32, which vectors convert to in one instruction
        return t.convert("trunc", t.convert("fptosi", number, "i32"), register_type(dst))
    inside = t.convert("fptosi" if dst.is_signed else "fptoui", number, register_type(dst))
    if is_exact:
        return inside
    return t.select(t.compare("fcmp ogt", x, t.like(top, x)), t.like(dst.max, inside), inside)


def _int_to_float(t: Text, x: Reg, src: DType, dst: DType) -> Reg:
    word = "sitofp" if src.is_signed and not src.is_bool else "uitofp"
    if dst in (dtypes.f32, dtypes.f64):
        return t.convert(word, x, register_type(dst))
    if bits_of(x.element) <= 16:
        return rounded(t, t.convert(word, x, "float"), dst)
    if bits_of(x.element) == 64:
        x = _sticky(t, x)
    return rounded(t, _to_odd(t, t.convert(word, x, "double")), dst)


def _sticky(t: Text, x: Reg) -> Reg:
    """Large 64-bit integers with what f64 cannot hold gathered in its last bit."""
    low = t.op("and", x, t.like(0x7FF, x))
    flag = t.convert("zext", t.compare("icmp ne", low, t.like(0, x)), "i64")
    kept = t.op("or", t.op("and", x, t.like(-0x800, x)), t.op("shl", flag, t.like(11, x)))
    small = t.compare("icmp ult", t.op("add", x, t.like(1 << 53, x)), t.like(1 << 54, x))
    return t.select(small, x, kept)
