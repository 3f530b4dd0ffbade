"""The language of kernels: everything that a kernel's body may say, under one short name.

The functions are made when a kernel is first traced, or somebody asks for one: a process that finds its
kernels in the disk cache never loads them.
"""

# The formatter would give each name a line; as a table they fit on a page.
# ruff: noqa: F401, I001, RUF022
# fmt: off
from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from types import FunctionType as _FunctionType
from typing import TYPE_CHECKING
from typing import Any as _Any

from eas.base import dtypes as _dtypes
from eas.frontend.annotations import Buffer, ptr
from eas.frontend.constexpr import constexpr
from eas.frontend.lang.sizes import cdiv, next_power_of_2
from eas.base.loading import load as _load_modules

if TYPE_CHECKING:
    from eas.frontend.lang.activation import gelu, leaky_relu, relu, silu, softplus
    from eas.frontend.lang.cast import (
        cast, to_bf16, to_bool, to_f16, to_f32, to_f64, to_i8, to_i16, to_i32, to_i64, to_u8,
        to_u16, to_u32, to_u64,
    )
    from eas.frontend.lang.dot import (
        dot,
    )
    from eas.frontend.lang.dot_scaled import dot_scaled
    from eas.frontend.lang.floats import ilogb, logb, nextafter, remainder
    from eas.frontend.lang.fold import associative_scan, reduce
    from eas.frontend.lang.index import (
        arange, full, full_like, num_programs, ones, program_id, zeros, zeros_like,
    )
    from eas.frontend.lang.map import map_elementwise
    from eas.frontend.lang.math import (
        abs, acos, acosh, asin, asinh, atan, atan2, atanh, bit_reverse, cbrt, ceil, clamp, clz,
        copysign, cos, cosh, ctz, div_trunc, erf, erfc, exp, exp2, exp10, expm1, fdiv, floor, fma,
        fmod, hypot, isfinite, isinf, isnan, lgamma, log, log1p, log2, log10, logical_and,
        logical_not, logical_or, maximum, minimum, mulhi, popcount, pow, rem, round, rsqrt, sigmoid,
        sign, signbit, sin, sinh, sqrt, tan, tanh, trunc, umulhi, where,
    )
    from eas.frontend.lang.memory import (
        atomic_add, atomic_and, atomic_cas, atomic_load, atomic_max, atomic_min, atomic_or,
        atomic_poll, atomic_store, atomic_xchg, atomic_xor, int_to_ptr, load, ptr_to_int, store,
    )
    from eas.frontend.lang.misc import (
        assume, debug_barrier, device_assert, device_print, inline, max_constancy, max_contiguous,
        multiple_of, range, static_assert, static_print, static_range, to_tensor,
    )
    from eas.frontend.lang.order import (
        argsort, histogram, sort, topk,
    )
    from eas.frontend.lang.random import (
        philox, rand, rand4x, randint, randint4x, randn, randn4x,
    )
    from eas.frontend.lang.reduce import (
        all, any, argmax, argmin, cumprod, cumsum, log_softmax, logsumexp, max, mean, min, prod,
        softmax, std, sum, var, xor_sum,
    )
    from eas.frontend.lang.shape import (
        broadcast, broadcast_to, cat, expand_dims, flip, gather, interleave, join, permute, ravel,
        reshape, split, squeeze, trans, unsqueeze, view,
    )
    from eas.frontend.lang.special import (
        bessel_i0, bessel_i1, bessel_j0, bessel_j1, bessel_y0, bessel_y1, erfcinv, erfinv, normcdfinv,
    )
    from eas.frontend.lang.thread import (
        alloc_tg, barrier, lane_id, local, local_id, mma, mma_store, mma_zero, sg_id, simd_all, simd_and,
        simd_any, simd_ballot, simd_broadcast, simd_max, simd_min, simd_or,
        simd_prefix_exclusive_product, simd_prefix_exclusive_sum, simd_prefix_inclusive_product,
        simd_prefix_inclusive_sum, simd_product, simd_shuffle, simd_shuffle_down, simd_shuffle_up,
        simd_shuffle_xor, simd_sum, simd_xor, tid,
    )

i8, i16, i32, i64 = _dtypes.i8, _dtypes.i16, _dtypes.i32, _dtypes.i64
u8, u16, u32, u64 = _dtypes.u8, _dtypes.u16, _dtypes.u32, _dtypes.u64
f16, bf16, f32, f64 = _dtypes.f16, _dtypes.bf16, _dtypes.f32, _dtypes.f64
f8e4m3, f8e5m2 = _dtypes.f8e4m3, _dtypes.f8e5m2  # storage types: load, store, move and cast only
int8, int16, int32, int64 = i8, i16, i32, i64
uint8, uint16, uint32, uint64 = u8, u16, u32, u64
float16, bfloat16, float32, float64 = f16, bf16, f32, f64
bool_ = int1 = _dtypes.bool_
bool = bool_  # mk.bool; nothing in this module needs Python's own

__all__ = [
    "Buffer", "abs", "acos", "acosh", "all", "alloc_tg", "any", "arange", "argmax", "argmin", "argsort",
    "asin", "asinh", "associative_scan", "assume", "atan", "atan2", "atanh", "atomic_add",
    "atomic_and", "atomic_cas", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_poll", "atomic_store", "atomic_xchg",
    "atomic_xor", "barrier", "bessel_i0", "bessel_i1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "bf16", "bfloat16", "bit_reverse", "bool", "bool_", "broadcast",
    "broadcast_to", "cast", "cat", "cbrt", "cdiv", "ceil", "clamp", "clz", "constexpr",
    "copysign", "cos", "cosh", "ctz", "cumprod", "cumsum", "debug_barrier", "device_assert",
    "device_print", "div_trunc", "dot", "dot_scaled", "erf", "erfc", "erfcinv", "erfinv", "exp", "exp10", "exp2", "expand_dims",
    "expm1", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "fdiv", "flip", "float16", "float32",
    "float64", "floor", "fma", "fmod", "full", "full_like", "gather", "gelu", "histogram",
    "hypot", "i16", "i32", "i64", "i8", "ilogb", "inline", "int_to_ptr", "int1", "int16", "int32", "int64", "int8",
    "interleave", "isfinite", "isinf", "isnan", "join", "lane_id", "leaky_relu", "lgamma",
    "load", "local", "local_id", "log", "log10", "log1p", "log2", "log_softmax", "logb", "logical_and",
    "logical_not", "logical_or", "logsumexp", "map_elementwise", "max", "max_constancy", "max_contiguous",
    "maximum", "mean", "min", "minimum", "mma", "mma_store", "mma_zero", "mulhi", "multiple_of",
    "next_power_of_2", "nextafter", "normcdfinv", "num_programs", "ones", "permute", "philox", "popcount", "pow", "prod", "ptr_to_int",
    "program_id", "ptr", "rand", "rand4x", "randint", "randint4x", "randn", "randn4x", "range",
    "ravel", "reduce", "relu", "rem", "remainder", "reshape", "round", "rsqrt", "sg_id", "sigmoid", "sign",
    "signbit", "silu", "simd_all", "simd_and", "simd_any", "simd_ballot", "simd_broadcast",
    "simd_max", "simd_min", "simd_or", "simd_prefix_exclusive_product",
    "simd_prefix_exclusive_sum", "simd_prefix_inclusive_product", "simd_prefix_inclusive_sum",
    "simd_product", "simd_shuffle", "simd_shuffle_down", "simd_shuffle_up", "simd_shuffle_xor",
    "simd_sum", "simd_xor", "sin", "sinh", "softmax", "softplus", "sort", "split", "sqrt",
    "squeeze", "static_assert", "static_print", "static_range", "std", "store", "sum", "tan",
    "tanh", "tid", "to_bf16", "to_bool", "to_f16", "to_f32", "to_f64", "to_i16", "to_i32",
    "to_i64", "to_i8", "to_tensor", "to_u16", "to_u32", "to_u64", "to_u8", "topk", "trans",
    "trunc", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "umulhi",
    "unsqueeze", "var", "view", "where", "xor_sum", "zeros", "zeros_like",
]


_FAMILIES = (
    "activation", "cast", "dot", "dot_scaled", "floats", "fold", "index", "map", "math", "memory", "misc", "order", "random", "reduce", "shape", "special", "thread",
)


if not TYPE_CHECKING:  # who checks types sees the names above, and no others

    def __getattr__(name: str) -> _Any:
        if name not in __all__:
            raise AttributeError(f"module 'eas.mk' has no attribute {name!r}", name=name, obj=_sys.modules[__name__])
        _load()
        return globals()[name]


def _load() -> None:
    """Make every function; also gives traced values their operators."""
    _load_modules("eas.frontend.operators", *(f"eas.frontend.lang.{family}" for family in _FAMILIES))
    from eas.frontend import operators
    from eas.frontend.builder import hiding_our_frames
    from eas.frontend.spellings import spelled

    defined = {
        key: value
        for family in _FAMILIES
        for module in [_import_module(f"eas.frontend.lang.{family}")]
        for key, value in vars(module).items()
        if isinstance(value, _FunctionType) and value.__module__ == module.__name__
    }
    for each in __all__:
        if each in defined:  # an error outside of a kernel shows the caller's line, not ours
            globals().setdefault(each, hiding_our_frames(spelled(defined[each], f"mk.{each}")))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
