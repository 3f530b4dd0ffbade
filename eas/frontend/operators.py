"""Python's operators and the methods of traced values: one table, added to `Block` on import."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from eas.base import dtypes
from eas.base.errors import TypeMismatch
from eas.frontend.advice import advise_on_bits
from eas.frontend.block import Block, Operators
from eas.frontend.builder import current
from eas.frontend.lang import activation as lang_activation
from eas.frontend.lang import cast as lang_cast
from eas.frontend.lang import dot as lang_dot
from eas.frontend.lang import extents as lang_extents
from eas.frontend.lang import fold as lang_fold
from eas.frontend.lang import index as lang_index
from eas.frontend.lang import items as lang_items
from eas.frontend.lang import math as lang_math
from eas.frontend.lang import order as lang_order
from eas.frontend.lang import reduce as lang_reduce
from eas.frontend.lang import shape as lang_shape
from eas.frontend.lang.memory import shift
from eas.frontend.spellings import spelled
from eas.frontend.values import broadcast_to as to_shape
from eas.frontend.values import (
    cast_to,
    check_operands,
    common_dtype,
    common_shape,
    constant,
    emit,
    is_number,
    lanewise,
    plain,
)

Binary = Callable[[Any, Any], Any]


def _is_pointer(x: Any) -> bool:
    return isinstance(x, Block) and x.type.is_pointer


def _refuse_pointers(text: str, hint: str) -> Any:
    raise TypeMismatch(text, hint=hint, loc=current().here())


def add(a: Any, b: Any) -> Block:
    """a + b, or a pointer moved by a number of elements."""
    if _is_pointer(a) and _is_pointer(b):
        _refuse_pointers(
            "two pointers cannot be added", "add offsets, then add them to one pointer"
        )
    if _is_pointer(a):
        return shift("pointer", a, b)
    return shift("pointer", b, a) if _is_pointer(b) else lanewise("add", a, b)


def sub(a: Any, b: Any) -> Block:
    """a - b, or a pointer moved back by a number of elements."""
    if _is_pointer(b):
        _refuse_pointers(
            "a pointer cannot be subtracted", "subtract offsets, and add them to one pointer"
        )
    if not _is_pointer(a):
        return lanewise("sub", a, b)
    back = -plain(b) if is_number(b) else lanewise("neg", _signed(b))
    return shift("pointer", a, back)


def _signed(offset: Any) -> Any:
    """An unsigned offset in a type that holds its negative; u64 is as wide as an address and may wrap."""
    if (
        isinstance(offset, Block)
        and offset.type.is_value
        and offset.dtype.is_int
        and not offset.dtype.is_signed
    ):
        return cast_to(offset, dtypes.i64)
    return offset


def _shifted(name: str) -> Binary:
    def function(a: Any, b: Any) -> Block:
        check_operands(name, (a, b))
        dtype = a.dtype if isinstance(a, Block) else common_dtype([a, b])
        dtype = dtypes.i32 if dtype.is_bool else dtype
        shape = common_shape(name, [x.shape for x in (a, b) if isinstance(x, Block)])
        left = (
            to_shape(cast_to(a, dtype), shape)
            if isinstance(a, Block)
            else constant(plain(a), dtype, shape)
        )
        return emit(name, left, _count(name, b, dtype, shape))

    return function


def _count(name: str, n: Any, dtype: dtypes.DType, shape: tuple[int, ...]) -> Block:
    """A shift count in the dtype of what is shifted, without becoming a smaller one."""
    if is_number(n):
        if isinstance(plain(n), float) or plain(n) < 0:
            raise TypeMismatch(
                f"{name} by {plain(n)}",
                hint="shift by a whole number that is not negative",
                loc=current().here(),
            )
        return constant(min(int(plain(n)), dtype.bits) if dtype.is_int else plain(n), dtype, shape)
    if n.dtype.is_float:
        raise TypeMismatch(f"{name} by {n.type}", hint="mk.cast(n, mk.i32)", loc=current().here())
    if n.dtype.is_int and dtype.is_int and n.dtype.bits > dtype.bits:
        # Counts of the width or more all mean the same; cut off, 256 would become 0.
        n = lanewise("min", n, dtype.bits)
        n = lanewise("max", n, -1) if n.dtype.is_signed else n
    return to_shape(cast_to(n, dtype), shape)


def _row(name: str) -> Binary:
    def function(a: Any, b: Any) -> Block:
        return lanewise(name, a, b)

    return function


def _bits(name: str, sign: str) -> Binary:
    def function(a: Any, b: Any) -> Block:
        if isinstance(a, Block) and isinstance(b, Block):
            advise_on_bits(sign, a, b)
        return lanewise(name, a, b)

    return function


def _reflected(fn: Binary) -> Callable[[Any, Any], Block]:
    return lambda self, other: fn(other, self)


def _same(x: Any) -> Block:
    """+x; of bools their i32 values, as Python does."""
    check_operands("+", (x,))
    return cast_to(x, dtypes.i32) if x.dtype.is_bool else x


def _negated(x: Any) -> Block:
    is_storage = isinstance(x, Block) and x.dtype.is_storage_only
    return lang_math.with_sign_bit("xor", 0x80, x) if is_storage else lanewise("neg", x)


def _inverted(x: Any) -> Block:
    return lanewise("not", x)


def _rounded(x: Any, digits: int | None = None) -> Block:
    if digits:
        raise TypeMismatch(
            "round to decimal digits has no meaning in a kernel",
            hint="mk.round(x * 100) / 100",
            loc=current().here(),
        )
    return lang_math.round(x)


def _divmod(a: Any, b: Any) -> tuple[Block, Block]:
    return _floordiv(a, b), _mod(a, b)


_mul, _floordiv, _mod = _row("mul"), _row("floordiv"), _row("mod")
_and, _or, _xor = _bits("and", "&"), _bits("or", "|"), _row("xor")
_shl, _shr = _shifted("shl"), _shifted("shr")


class Methods(Operators):
    """Every operator and method of a traced value; `Operators` has their types."""

    __slots__ = ()

    __add__, __radd__ = add, _reflected(add)
    __sub__, __rsub__ = sub, _reflected(sub)
    __mul__, __rmul__ = _mul, _reflected(_mul)
    __truediv__, __rtruediv__ = lang_math.fdiv, _reflected(lang_math.fdiv)
    __floordiv__, __rfloordiv__ = _floordiv, _reflected(_floordiv)
    __mod__, __rmod__, __divmod__ = _mod, _reflected(_mod), _divmod
    __pow__, __rpow__ = lang_math.power, _reflected(lang_math.power)
    __matmul__, __rmatmul__ = lang_dot.dot, _reflected(lang_dot.dot)
    __and__, __rand__ = _and, _reflected(_and)
    __or__, __ror__ = _or, _reflected(_or)
    __xor__, __rxor__ = _xor, _reflected(_xor)
    __lshift__, __rlshift__ = _shl, _reflected(_shl)
    __rshift__, __rrshift__ = _shr, _reflected(_shr)
    __lt__, __le__, __gt__, __ge__ = _row("lt"), _row("le"), _row("gt"), _row("ge")
    __eq__, __ne__ = _row("eq"), _row("ne")  # a block of bools, not one
    __neg__, __pos__, __invert__, __abs__ = _negated, _same, _inverted, lang_math.abs
    __round__, __trunc__ = _rounded, lang_math.trunc
    __floor__, __ceil__ = lang_math.floor, lang_math.ceil
    __getitem__, __setitem__ = lang_items.item, lang_items.set_item

    to, cast = lang_cast.cast, lang_cast.cast
    abs, sign, floor, ceil, trunc = lang_math.abs, lang_math.sign, lang_math.floor, lang_math.ceil, lang_math.trunc
    sqrt, rsqrt, cbrt, sigmoid, clamp = lang_math.sqrt, lang_math.rsqrt, lang_math.cbrt, lang_math.sigmoid, lang_math.clamp
    exp, exp2, exp10, expm1 = lang_math.exp, lang_math.exp2, lang_math.exp10, lang_math.expm1
    log, log2, log10, log1p = lang_math.log, lang_math.log2, lang_math.log10, lang_math.log1p
    sin, cos, tan = lang_math.sin, lang_math.cos, lang_math.tan
    asin, acos, atan = lang_math.asin, lang_math.acos, lang_math.atan
    sinh, cosh, tanh = lang_math.sinh, lang_math.cosh, lang_math.tanh
    asinh, acosh, atanh = lang_math.asinh, lang_math.acosh, lang_math.atanh
    erf, erfc, lgamma = lang_math.erf, lang_math.erfc, lang_math.lgamma
    isnan, isinf, isfinite, signbit = lang_math.isnan, lang_math.isinf, lang_math.isfinite, lang_math.signbit
    maximum, minimum, pow, fmod = lang_math.maximum, lang_math.minimum, lang_math.pow, lang_math.fmod
    relu, softplus, silu, gelu = lang_activation.relu, lang_activation.softplus, lang_activation.silu, lang_activation.gelu
    round = _rounded
    leaky_relu = lang_activation.leaky_relu
    logical_and, logical_or, logical_not = lang_math.logical_and, lang_math.logical_or, lang_math.logical_not
    cdiv = lang_index.cdiv
    sum, prod, mean, xor_sum = (
        lang_reduce.sum,
        lang_reduce.prod,
        lang_reduce.mean,
        lang_reduce.xor_sum,
    )
    max, min, argmax, argmin = (
        lang_reduce.max_along,
        lang_reduce.min_along,
        lang_reduce.argmax,
        lang_reduce.argmin,
    )
    any, all = lang_reduce.any, lang_reduce.all
    var, std = lang_reduce.var, lang_reduce.std
    softmax, log_softmax, logsumexp = lang_reduce.softmax, lang_reduce.log_softmax, lang_reduce.logsumexp
    cumsum, cumprod = lang_reduce.cumsum, lang_reduce.cumprod
    reduce, associative_scan = lang_fold.reduce, lang_fold.associative_scan
    reshape, view, ravel = lang_shape.reshape, lang_shape.view, lang_shape.ravel
    permute, trans, flip = lang_shape.permute, lang_shape.trans, lang_shape.flip
    T = property(lang_shape.trans)
    broadcast_to, expand_dims = lang_shape.broadcast_to, lang_shape.expand_dims
    unsqueeze, squeeze = lang_shape.unsqueeze, lang_shape.squeeze
    gather, split, stride = lang_shape.gather, lang_shape.split, lang_extents.stride
    sort, argsort, topk, histogram = (
        lang_order.sort,
        lang_order.argsort,
        lang_order.topk,
        lang_order.histogram,
    )


def _as_method(name: str, value: Any) -> Any:
    """What stands in `Block`: a named method also takes the parameter names of other libraries."""
    return spelled(value, f"x.{name}") if isinstance(value, FunctionType) and not name.startswith("__") else value


for _name, _value in vars(Methods).items():
    if _name not in ("__doc__", "__module__", "__slots__", "__qualname__", "__hash__"):
        setattr(Block, _name, _as_method(_name, _value))
