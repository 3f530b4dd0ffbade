"""What Triton's operators and conversions mean: promotion as in C, truncating division, i1 modulo 2."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import CompileError, TypeMismatch
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.lang.memory import int_to_ptr, ptr_to_int, shift
from eas.frontend.values import cast_to, common_shape, constant, emit, is_number, plain
from eas.triton.language.types import block_type, constexpr, dtype, pointer_type, unwrapped

_PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "pow": operator.pow, "matmul": operator.matmul, "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift,
    "neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
_COMPARES = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_SMALLEST_F32, _LARGEST_F32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def refuse(text: str, hint: str = "", kind: type[CompileError] = TypeMismatch) -> NoReturn:
    """Raise an error at the kernel's current line."""
    raise kind(text, hint=hint, loc=current("Triton").here())


def type_of_number(x: bool | int | float) -> DType:
    """The type of a literal: i32, u32, i64, u64 by size; f32, or f64 where f32 cannot hold it."""
    if isinstance(x, bool):
        return dtypes.bool_
    if isinstance(x, int):
        for lo, hi, found in ((-(2**31), 2**31, dtypes.i32), (0, 2**32, dtypes.u32), (-(2**63), 2**63, dtypes.i64), (0, 2**64, dtypes.u64)):
            if lo <= x < hi:
                return found
        refuse(f"{x} does not fit 64 bits", "write it as a float")
    size = abs(x)
    return dtypes.f32 if x != x or size in (0.0, float("inf")) or _SMALLEST_F32 <= size <= _LARGEST_F32 else dtypes.f64


def to_tensor(x: Any, what: str = "this operand") -> Block:
    """A literal as a typed scalar; traced values as they are."""
    x = unwrapped(x)
    if is_number(x):
        number = plain(x)
        return constant(number, type_of_number(number))
    return values.as_block(x, what)


def is_static(x: Any) -> bool:
    """Whether a value is known while the kernel is traced."""
    return not isinstance(x, Block)


# --- promotion ------------------------------------------------------------------------------------


def _width(t: DType) -> int:
    return 1 if t.is_bool else t.bits


def _is_signed(t: DType) -> bool:
    return t.is_int and t.is_signed


def promote_integers(a: DType, b: DType) -> DType:
    """The usual arithmetic conversions of C, without widening to int."""
    if _is_signed(a) == _is_signed(b):
        return a if _width(a) > _width(b) else b
    unsigned, signed = (b, a) if _is_signed(a) else (a, b)
    return unsigned if _width(unsigned) >= _width(signed) else signed


def _kind(t: DType) -> int:
    return 0 if t.is_bool else 2 if t.is_float else 1


def computation_type(a: DType, b: DType, weak: DType | None = None, *, divides: bool = False) -> DType:
    """The type in which two operands are computed with; `weak` is that of the one that is a literal."""
    if weak is not None:
        other = b if weak is a else a
        if _kind(weak) <= _kind(other):
            a = b = other
    both = {a, b}
    if dtypes.f64 in both:
        return dtypes.f64
    if divides and (a.is_float or b.is_float):
        return dtypes.f32
    for wide in (dtypes.f32, dtypes.f16):
        if wide in both:
            return wide
    if dtypes.bf16 in both:
        return dtypes.bf16 if a is b else dtypes.f32
    if a.is_float and b.is_float:
        return a if a is b else dtypes.f16
    if a.is_float or b.is_float:
        refuse(f"{a} and {b} have no common type", "cast the fp8 operand: x.to(tl.float32)")
    if divides and _is_signed(a) != _is_signed(b):
        refuse(f"Cannot use /, // or % with {a} and {b} because they have different signedness", "cast one of them to the signedness of the other")
    return promote_integers(a, b)


def operands(word: str, a: Any, b: Any, *, divides: bool = False) -> tuple[Block, Block]:
    """Both operands in the type that they are computed in, and in one shape."""
    weak = [is_number(x) for x in (a, b)]
    types = [type_of_number(plain(x)) if is_number(x) else to_tensor(x, f"an operand of {word}").dtype for x in (a, b)]
    for x in (a, b):
        if isinstance(x, Block) and not x.type.is_value:
            values.refuse_pointer(word, x)
    literal = None if weak[0] == weak[1] else types[weak.index(True)]
    target = computation_type(types[0], types[1], literal, divides=divides)
    for x in (a, b):
        if is_number(x) and target.is_int and not (target.min <= plain(x) <= target.max):
            _refuse_number(plain(x), target)
    shape = common_shape(word, [x.shape for x in (a, b) if isinstance(x, Block)])
    left, right = (constant(plain(x), target, shape) if is_number(x) else values.broadcast_to(cast_to(x, target), shape) for x in (a, b))
    return left, right


def _refuse_number(x: Any, target: DType) -> NoReturn:
    if x < 0 and not target.is_signed:
        refuse(f"Cannot perform a binary operation between an unsigned tensor ({target}) and a negative scalar ({x})", "cast one of them")
    refuse(f"Scalar {x} is out of range for type {target}", "cast the other operand to a wider type")


# --- operators ------------------------------------------------------------------------------------


def binary(name: str, a: Any, b: Any) -> Any:
    """`a + b` and its kin as Triton means them; of two values known while tracing, as Python does."""
    a, b = unwrapped(a), unwrapped(b)
    if is_static(a) and is_static(b):
        return _of_static(name, a, b)
    if (a is None or b is None) and name in ("eq", "ne"):
        return name == "ne"
    if any(isinstance(x, Block) and x.type.is_pointer for x in (a, b)):
        return _of_pointers(name, a, b)
    if name in _COMPARES:
        return emit(name, *operands(name, a, b))
    rule = _RULES.get(name)
    if rule is None:
        refuse(f"Triton has no {name} of {a!r} and {b!r}", "tl.dot(a, b)" if name == "matmul" else "use multiplications, or tl.exp2(y * tl.log2(x))")
    return rule(a, b)


def _of_static(name: str, a: Any, b: Any) -> Any:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and type(a) is not type(b):
        a, b = tuple(a), tuple(b)  # shapes are tuples; `x.shape[:-1] + [n]`
    return _PYTHON[name](a, b)


def _of_pointers(name: str, a: Any, b: Any) -> Block:
    if name in ("eq", "ne") or name in _COMPARES:
        return emit(name, *operands(name, address_of(a), address_of(b)))
    if name == "add" and isinstance(a, Block) and a.type.is_pointer and not (isinstance(b, Block) and b.type.is_pointer):
        return shift("pointer", a, _offset(b))
    if name == "add" and isinstance(b, Block) and b.type.is_pointer and not (isinstance(a, Block) and a.type.is_pointer):
        return shift("pointer", b, _offset(a))
    if name == "sub" and isinstance(a, Block) and a.type.is_pointer and not (isinstance(b, Block) and b.type.is_pointer):
        return shift("pointer", a, -b if is_number(b) else emit("neg", cast_to(_offset(b), dtypes.i64)))
    refuse(f"{name} of {a!r} and {b!r}", "a pointer takes + offset and - offset")


def _offset(x: Any) -> Any:
    x = unwrapped(x)
    if isinstance(x, Block) and x.type.is_value and x.dtype.is_bool:
        return cast_to(x, dtypes.i32)
    return x


def address_of(x: Any) -> Any:
    """A pointer as the integer that it is; numbers as they are."""
    return ptr_to_int(x) if isinstance(x, Block) and x.type.is_pointer else x


def _arithmetic(name: str, of_bools: str) -> Callable[[Any, Any], Block]:
    def rule(a: Any, b: Any) -> Block:
        left, right = operands(name, a, b)
        return emit(of_bools if left.dtype.is_bool else name, left, right)

    return rule


def _div(a: Any, b: Any) -> Block:
    left, right = operands("/", a, b, divides=True)
    if not left.dtype.is_float:
        left, right = cast_to(left, dtypes.f32), cast_to(right, dtypes.f32)
    return emit("div", left, right)


def _floordiv(a: Any, b: Any) -> Block:
    left, right = operands("//", a, b, divides=True)
    if left.dtype.is_float:
        refuse(f"// of {left.type}", "Triton divides floats with /; tl.floor(a / b) rounds")
    if left.dtype.is_bool:
        return emit("and", left, right)
    return emit("truncdiv", left, right)


def _mod(a: Any, b: Any) -> Block:
    left, right = operands("%", a, b, divides=True)
    if left.dtype.is_bool:
        return emit("and", left, emit("not", right))
    return emit("fmod" if left.dtype.is_float else "truncmod", left, right)


def _integers(name: str, a: Any, b: Any) -> tuple[Block, Block]:
    left, right = operands(name, a, b)
    if left.dtype.is_float:
        refuse(f"invalid operands of type {to_tensor(a).type} and {to_tensor(b).type} for {name}", "x.to(tl.int32, bitcast=True) has the bits")
    return left, right


def _bits(name: str) -> Callable[[Any, Any], Block]:
    return lambda a, b: emit(name, *_integers(name, a, b))


def _shl(a: Any, b: Any) -> Block:
    left, right = _integers("<<", a, b)
    return emit("and", left, emit("not", right)) if left.dtype.is_bool else emit("shl", left, right)


_UNSIGNED = {dtypes.i8: dtypes.u8, dtypes.i16: dtypes.u16, dtypes.i32: dtypes.u32, dtypes.i64: dtypes.u64}
_SIGNED = {unsigned: signed for signed, unsigned in _UNSIGNED.items()}


def _shr(a: Any, b: Any) -> Block:
    """Arithmetic if the left operand was signed before promotion, whatever it is promoted to."""
    is_signed = _is_signed(to_tensor(a).dtype)
    left, right = _integers(">>", a, b)
    if left.dtype.is_bool:
        return emit("and", left, emit("not", right))
    if is_signed == left.dtype.is_signed:
        return emit("shr", left, right)
    turned = (_SIGNED if is_signed else _UNSIGNED)[left.dtype]
    moved = emit("shr", bitcast(left, turned), bitcast(right, turned))
    return bitcast(moved, left.dtype)


def bitcast(x: Block, target: DType) -> Block:
    return x if x.dtype is target else emit("bitcast", x, type=Type(target, x.shape))


_RULES: dict[str, Callable[[Any, Any], Block]] = {
    "add": _arithmetic("add", "xor"), "sub": _arithmetic("sub", "xor"), "mul": _arithmetic("mul", "and"),
    "div": _div, "floordiv": _floordiv, "mod": _mod,
    "and": _bits("and"), "or": _bits("or"), "xor": _bits("xor"), "shl": _shl, "shr": _shr,
}  # fmt: skip


def unary(name: str, x: Any) -> Any:
    """`-x`, `+x` and `~x`."""
    x = unwrapped(x)
    if is_static(x):
        return _PYTHON[name](x)
    if not x.type.is_value:
        values.refuse_pointer(name, x)
    if name == "pos" or (name == "neg" and x.dtype.is_bool):
        return x
    if name == "invert" and x.dtype.is_float:
        refuse(f"~ of floats: {x.type}", "x.to(tl.int32, bitcast=True) has the bits")
    return emit("neg" if name == "neg" else "not", x)


def truth(x: Any) -> Block:
    """Whether a scalar or each element is not zero."""
    return values.to_bool(to_tensor(x))


# --- conversions ----------------------------------------------------------------------------------


def static_dtype(x: Any) -> dtype:
    """The dtype that an argument names."""
    x = unwrapped(x)
    if isinstance(x, block_type):
        x = x.scalar
    if isinstance(x, dtype):
        return x
    if isinstance(x, str) and dtype.is_dtype(x):
        return dtype(x)
    refuse(f"{x!r} is not a dtype of Triton", "tl.float32, tl.int32, ...")


def eas_dtype(x: Any) -> DType:
    """The compiler's type of a dtype of numbers."""
    found = static_dtype(x)
    if found.eas is None:
        refuse(f"{found} is no dtype of numbers", "tl.float32, tl.int32, ...")
    return found.eas


def cast(x: Any, target: Any, bitcast_: bool = False) -> Block:
    """x as another dtype; `bitcast_` keeps the bits."""
    block, wanted = to_tensor(x), static_dtype(target)
    if isinstance(wanted, pointer_type):
        return _as_pointer(block, wanted)
    if block.type.is_pointer:
        if wanted.eas is dtypes.i64 or wanted.eas is dtypes.u64:
            return bitcast(address_of(block), wanted.eas)
        refuse(f"a pointer does not become {wanted}", "pointers become tl.int64")
    if bitcast_:
        return bitcast(block, eas_dtype(wanted))
    return cast_to(block, eas_dtype(wanted))


def _as_pointer(block: Block, wanted: pointer_type) -> Block:
    element = eas_dtype(wanted.element_ty)
    if block.type.is_pointer and block.dtype is element:
        return block
    return int_to_ptr(cast_to(address_of(block), dtypes.i64), element)


__all__ = ["binary", "bitcast", "cast", "computation_type", "constexpr", "eas_dtype", "operands", "refuse", "static_dtype", "to_tensor", "truth", "type_of_number", "unary"]
