"""Simdgroup functions, with what Metal lacks: bf16 through float, 64-bit words as two, bools as integers."""

from __future__ import annotations

from collections.abc import Callable

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.text import Expr, call, infix
from eas.codegen.msl.types import literal, type_name
from eas.ir import Inst

Spelling = Callable[[MslEmitter, Inst, list[Expr]], Expr]

_COMBINE = {
    "sum": "x + other", "product": "x * other", "max": "max(x, other)", "min": "min(x, other)",
    "and": "x & other", "or": "x | other", "xor": "x ^ other",
}  # fmt: skip

# How many lanes of its simdgroup a thread has; the last simdgroup may be a partial one.
_SHUFFLE_64 = """\
template <typename T>
inline T shuffle_64(T x, ushort source) {
    return as_type<T>(simd_shuffle(as_type<uint2>(x), source));
}"""

_FOLD_64 = """\
template <typename T>
inline T fold_{name}(T x, uint lane, uint lanes) {{
    for (ushort step = 16; step > 0; step /= 2) {{
        T other = shuffle_64(x, ushort(min(lane + step, 31u)));
        if (lane + step < lanes) x = {combine};
    }}
    return shuffle_64(x, ushort(0));
}}"""

_PREFIX_64 = """\
template <typename T>
inline T prefix_{name}(T x, uint lane) {{
    for (ushort step = 1; step < 32; step *= 2) {{
        T other = shuffle_64(x, ushort(lane >= step ? lane - step : lane));
        if (lane >= step) x = {combine};
    }}
    return x;
}}"""

_EXCLUSIVE_64 = """\
template <typename T>
inline T before_{name}(T x, uint lane) {{
    T previous = shuffle_64(x, ushort(max(lane, 1u) - 1));
    return prefix_{name}(lane == 0 ? T({neutral}) : previous, lane);
}}"""

# The move happens in all lanes, the choice after it: a lane that branched around would not take part.
_FROM_LANE = """\
template <typename T>
inline T from_lane(T x, int source, uint lane, uint lanes) {
    bool inside = source >= 0 && source < int(lanes);
    return simd_shuffle(x, ushort(inside ? source : int(lane)));
}"""
_FROM_LANE_64 = _FROM_LANE.replace("T from_lane(", "T from_lane_64(").replace("simd_shuffle", "shuffle_64")

_NAN_FOLD = """\
inline {t} nan_simd_{name}({t} x) {{
    {t} result = simd_{name}(x);
    return simd_any(isnan(x)) ? {t}(NAN) : result;
}}"""


def _lanes(m: MslEmitter) -> Expr:
    """The number of threads in this thread's simdgroup."""
    if m.threads % 32 == 0:
        return Expr("32u")
    whole = m.threads // 32 * 32
    if whole == 0:
        return Expr(f"{m.threads}u")
    tail = infix("==", Expr(m.builtin("sgid")), Expr(f"{m.threads // 32}u"))
    return Expr(f"({tail.text} ? {m.threads - whole}u : 32u)")


def _lane(m: MslEmitter) -> Expr:
    return Expr(m.builtin("lane"))


def _fold(name: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype, x = inst.out.dtype, xs[0]
        if dtype.bits == 64:
            m.library.add("shuffle_64", _SHUFFLE_64)
            ours = m.library.add(f"fold_{name}", _FOLD_64.format(name=name, combine=_COMBINE[name]))
            return call(ours, x, _lane(m), _lanes(m))
        if not dtype.is_float:
            return call(f"simd_{name}", x)
        if name in ("max", "min"):
            wide = dtype is dtypes.bf16
            t = type_name(dtypes.f32 if wide else dtype)
            folded = call(m.nan_aware(f"simd_{name}", _NAN_FOLD.format(t=t, name=name), t), call("float", x) if wide else x)
            return call("bfloat", folded) if wide else folded
        return _rounded(f"simd_{name}", x, dtype)

    return spell


def _rounded(function: str, x: Expr, dtype: DType) -> Expr:
    """Summed in f32 and rounded once."""
    if dtype is dtypes.f32:
        return call(function, x)
    return call(type_name(dtype), call(function, call("float", x)))


def _prefix(kind: str, name: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype, x = inst.out.dtype, xs[0]
        if dtype.bits < 64:
            function = f"simd_prefix_{kind}_{name}"
            return _rounded(function, x, dtype) if dtype.is_float else call(function, x)
        m.library.add("shuffle_64", _SHUFFLE_64)
        ours = m.library.add(f"prefix_{name}", _PREFIX_64.format(name=name, combine=_COMBINE[name]))
        if kind == "inclusive":
            return call(ours, x, _lane(m))
        neutral = "0" if name == "sum" else "1"
        ours = m.library.add(f"before_{name}", _EXCLUSIVE_64.format(name=name, neutral=neutral))
        return call(ours, x, _lane(m))

    return spell


def _shuffle(name: str) -> Spelling:
    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        x, n = xs
        dtype = inst.out.dtype
        if dtype is dtypes.bf16:
            return call("as_type<bfloat>", _moved(m, name, inst, call("as_type<ushort>", x), n, False))
        if dtype.is_bool:
            return infix("!=", _moved(m, name, inst, call("uint", x), n, False), literal(0, dtypes.u32))
        return _moved(m, name, inst, x, n, dtype.bits == 64)

    return spell


def _moved(m: MslEmitter, name: str, inst: Inst, x: Expr, n: Expr, is_wide: bool) -> Expr:
    count = m.range_of(inst.operands[1])
    number = n if inst.operands[1].dtype is dtypes.i32 else call("int", n)
    never_leaves = count.lo >= 0 and count.hi < min(32, m.threads)
    if never_leaves and m.threads % 32 == 0 and name in ("simd_shuffle", "simd_broadcast", "simd_shuffle_xor") and not is_wide:
        return call(name, x, call("ushort", number) if not count.is_single else literal(count.lo, dtypes.i32))
    lane = call("int", _lane(m))
    source = {
        "simd_shuffle": number,
        "simd_broadcast": number,
        "simd_shuffle_xor": infix("^", lane, number),
        "simd_shuffle_up": infix("-", lane, number),
        "simd_shuffle_down": infix("+", lane, number),
    }[name]
    if is_wide:
        m.library.add("shuffle_64", _SHUFFLE_64)
        ours = m.library.add("from_lane_64", _FROM_LANE_64)
    else:
        ours = m.library.add("from_lane", _FROM_LANE)
    return call(ours, x, source, _lane(m), _lanes(m))


def _ballot(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
    return call("uint", call("simd_vote::vote_t", call("simd_ballot", xs[0])))


SIMD: dict[str, Spelling] = {
    **{f"simd_{name}": _fold(name) for name in _COMBINE},
    **{f"simd_prefix_{kind}_{name}": _prefix(kind, name) for kind in ("inclusive", "exclusive") for name in ("sum", "product")},
    **{name: _shuffle(name) for name in ("simd_shuffle", "simd_broadcast", "simd_shuffle_xor", "simd_shuffle_up", "simd_shuffle_down")},
    "simd_all": lambda m, inst, xs: call("simd_all", xs[0]),
    "simd_any": lambda m, inst, xs: call("simd_any", xs[0]),
    "simd_ballot": _ballot,
}  # fmt: skip
