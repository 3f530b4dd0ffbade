"""The element types, and the one lattice that decides what two of them become together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from eas.base.errors import ArgumentError, TypeMismatch


class Kind(Enum):
    """The four families of element types."""

    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"


_SIGNED, _UNSIGNED, _FLOAT = Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT  # looking up a member of an Enum is slow


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType:
    """One element type; every member exists once, so `is` and `==` mean the same among them.

    The same type of NumPy or torch is equal too; the hash is that of NumPy's dtype, where it has one.
    """

    name: str
    kind: Kind
    bits: int  # as in memory: a bool takes 8
    np_storage: np.dtype[Any]  # what a buffer holds: uint16 for bf16, uint8 for fp8
    np_compute: np.dtype[Any]  # what the interpreter computes with: float32 for bf16 and fp8
    exponent_bits: int = 0
    mantissa_bits: int = 0  # stored ones, without the implicit leading 1
    _hash: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        is_numpys = self.np_storage == self.np_compute
        object.__setattr__(self, "_hash", hash(self.np_storage) if is_numpys else hash(self.name))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return False
        found = of_foreign(other)
        return NotImplemented if found is None else found is self

    def __hash__(self) -> int:
        return self._hash

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the same numbers: `np.dtype(t.dtype)` asks for it."""
        if self.np_storage == self.np_compute:
            return self.np_storage
        raise TypeMismatch(
            f"NumPy has no dtype for {self.name}: its arrays cannot hold such numbers",
            hint=f'x.to("f32") has them in float32; {self.name}.np_storage, {self.np_storage}, is how they are stored',
        )

    __numpy_dtype__ = dtype  # the name that NumPy looks for from 2.4 on

    @property
    def is_float(self) -> bool:
        return self.kind is _FLOAT

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, false for bool."""
        return self.kind is _SIGNED or self.kind is _UNSIGNED

    @property
    def is_signed(self) -> bool:
        """True for signed integers and for floats."""
        return self.kind is _SIGNED or self.kind is _FLOAT

    @property
    def is_bool(self) -> bool:
        return self.kind is Kind.BOOL

    @property
    def is_storage_only(self) -> bool:
        """True for fp8, which can be loaded, stored, moved and cast, but not computed with."""
        return self.kind is _FLOAT and self.bits == 8

    @property
    def nbytes(self) -> int:
        return self.bits // 8

    @property
    def min(self) -> int:
        """Smallest integer of the type; floats have `max_finite`."""
        assert not self.is_float, f"{self.name} is not an integer type"
        return -(1 << (self.bits - 1)) if self.kind is _SIGNED else 0

    @property
    def max(self) -> int:
        """Largest integer of the type; floats have `max_finite`."""
        assert not self.is_float, f"{self.name} is not an integer type"
        if self.is_bool:
            return 1
        return (1 << (self.bits - self.is_signed)) - 1

    @property
    def bias(self) -> int:
        """Exponent bias of a float type; the smallest normal number is 2**(1 - bias)."""
        assert self.is_float, f"{self.name} is not a float type"
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def max_finite(self) -> float:
        """Largest finite value of a float type."""
        # e4m3fn has no infinity: its top binade is finite, but for the code that is NaN.
        is_fn = self.name == "f8e4m3"
        significand = 2.0 - 2.0 ** -(self.mantissa_bits - is_fn)
        return significand * 2.0 ** (self.bias + is_fn)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (parse, (self.name,))


def _make(
    name: str,
    kind: Kind,
    bits: int,
    storage: str,
    compute: str = "",
    ebits: int = 0,
    mbits: int = 0,
) -> DType:
    return DType(name, kind, bits, np.dtype(storage), np.dtype(compute or storage), ebits, mbits)


bool_ = _make("bool", Kind.BOOL, 8, "bool")
i8 = _make("i8", Kind.SIGNED, 8, "int8")
i16 = _make("i16", Kind.SIGNED, 16, "int16")
i32 = _make("i32", Kind.SIGNED, 32, "int32")
i64 = _make("i64", Kind.SIGNED, 64, "int64")
u8 = _make("u8", Kind.UNSIGNED, 8, "uint8")
u16 = _make("u16", Kind.UNSIGNED, 16, "uint16")
u32 = _make("u32", Kind.UNSIGNED, 32, "uint32")
u64 = _make("u64", Kind.UNSIGNED, 64, "uint64")
f16 = _make("f16", Kind.FLOAT, 16, "float16", "float16", 5, 10)
bf16 = _make("bf16", Kind.FLOAT, 16, "uint16", "float32", 8, 7)
f32 = _make("f32", Kind.FLOAT, 32, "float32", "float32", 8, 23)
f64 = _make("f64", Kind.FLOAT, 64, "float64", "float64", 11, 52)
f8e4m3 = _make("f8e4m3", Kind.FLOAT, 8, "uint8", "float32", 4, 3)  # torch.float8_e4m3fn
f8e5m2 = _make("f8e5m2", Kind.FLOAT, 8, "uint8", "float32", 5, 2)

ALL: tuple[DType, ...] = (
    bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2,
)  # fmt: skip

_ALIASES: dict[str, DType] = {
    "bool_": bool_, "int1": bool_,
    "int8": i8, "int16": i16, "int32": i32, "int64": i64,
    "short": i16, "int": i32, "long": i64,
    "uint8": u8, "uint16": u16, "uint32": u32, "uint64": u64,
    "float16": f16, "half": f16, "fp16": f16, "bfloat16": bf16, "bfloat": bf16,
    "float32": f32, "float": f32, "fp32": f32, "float64": f64, "double": f64, "fp64": f64,
    "float8_e4m3fn": f8e4m3, "f8e4m3fn": f8e4m3, "fp8e4m3": f8e4m3, "e4m3": f8e4m3,
    "float8_e5m2": f8e5m2, "fp8e5m2": f8e5m2, "e5m2": f8e5m2,
}  # fmt: skip
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL} | _ALIASES


def parse(name: str) -> DType:
    """The type of that name; `float32`, `half`, `bfloat16` and the like are understood too."""
    found = _BY_NAME.get(name)
    if found is None:
        names = ", ".join(d.name for d in ALL)
        raise TypeMismatch(f"there is no dtype named {name!r}", hint=f"use one of {names}")
    return found


# --- from NumPy, torch and Python -------------------------------------------------------------

_NATIVE = {d.np_storage: d for d in ALL if d.np_storage == d.np_compute and not d.is_storage_only}
_BY_KIND = {(np_dtype.kind, np_dtype.itemsize): d for np_dtype, d in _NATIVE.items()}
_SCALAR_CLASSES = frozenset(np.dtype(code).type for code in "?bBhHiIlLqQefd")
_EXTENSION_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # ml_dtypes, never imported here


def of_foreign(dtype: object) -> DType | None:
    """The type that a dtype of NumPy, a scalar class of it or a dtype of torch names; None if it names none."""
    if isinstance(dtype, np.dtype):
        return _of_numpy(dtype)
    if isinstance(dtype, type):
        if not issubclass(dtype, np.generic):
            return None
        # Of an abstract class such as np.floating NumPy would make a float64.
        is_concrete = dtype in _SCALAR_CLASSES or dtype.__name__ in _EXTENSION_NAMES
        return _of_numpy(np.dtype(dtype)) if is_concrete else None
    if type(dtype).__module__ == "torch":
        return _BY_NAME.get(str(dtype).removeprefix("torch."))
    return None


def _of_numpy(dtype: np.dtype[Any]) -> DType | None:
    found = _NATIVE.get(dtype)
    if found is not None:
        return found
    if dtype.name in _EXTENSION_NAMES:
        return _BY_NAME[dtype.name]
    # C's `long` and `long long` are distinct NumPy dtypes of one format.
    return _BY_KIND.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None


def from_numpy(dtype: np.dtype[Any] | type[np.generic]) -> DType:
    """The type whose memory format is that of the NumPy dtype."""
    dtype = np.dtype(dtype)
    found = _of_numpy(dtype)
    if found is not None:
        return found
    if not dtype.isnative:
        native = dtype.newbyteorder("=")
        raise ArgumentError(
            f"arrays of NumPy dtype {dtype.str!r} are not in this machine's byte order",
            hint=f"a.astype({native.str!r})",
        )
    raise ArgumentError(
        f"kernels cannot take NumPy dtype {dtype.name!r}", hint=_dtype_advice(dtype.kind)
    )


def _dtype_advice(kind: str) -> str:
    """What to do with an array that has no element type here."""
    advice = {
        "c": "pass a.real and a.imag, or a.view of the float type with a last axis of 2",
        "f": "a.astype(np.float64)",
        "O": "a.astype of a bool, integer or float dtype",
        "M": "a.view(np.int64)",
        "m": "a.view(np.int64)",
    }
    return advice.get(kind, "use a bool, integer or float dtype")


def of_scalar(value: object) -> DType:
    """The type that a Python or NumPy scalar has as a kernel argument."""
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, int | np.integer):
        found = _int_type(int(value))
        if found is None:
            raise ArgumentError(
                f"the integer {value} does not fit 64 bits",
                hint="pass it as a float, or in two halves",
            )
        return found
    if isinstance(value, float | np.floating):
        return f32
    raise ArgumentError(
        f"a scalar argument must be a bool, int or float, got {type(value).__name__}",
        hint="convert it with bool(), int() or float()",
    )


def _int_type(value: int) -> DType | None:
    """The first of i32, i64, u64 that holds the value."""
    return next((d for d in (i32, i64, u64) if d.min <= value <= d.max), None)


# --- promotion --------------------------------------------------------------------------------


def promote(a: DType, b: DType) -> DType:
    """The type in which an arithmetic operation on `a` and `b` is computed."""
    if a.is_storage_only or b.is_storage_only:
        raise _storage_only(a if a.is_storage_only else b)
    if a is b or b.is_bool:
        return a
    if a.is_bool:
        return b
    if a.is_float or b.is_float:
        return _promote_floats(a, b)
    return _promote_ints(a, b)


def common(a: DType, b: DType) -> DType:
    """The type that can hold either of two values that are moved, not computed with."""
    return a if a is b else promote(a, b)


def promote_weak(dtype: DType, value: bool | int | float) -> DType:
    """The type in which an operation on `dtype` and a Python number is computed."""
    if dtype.is_storage_only:
        raise _storage_only(dtype)
    if isinstance(value, bool):
        return dtype
    if isinstance(value, float):
        return dtype if dtype.is_float else f32
    if dtype.is_bool:
        return weak_default(value)
    if dtype.is_int and not dtype.min <= value <= dtype.max:
        wide = weak_default(value)
        raise TypeMismatch(
            f"{value} does not fit {dtype.name}",
            hint=f"cast the {dtype.name} operand to {wide.name}, or use a number in "
            f"[{dtype.min}, {dtype.max}]",
        )
    return dtype


def weak_default(value: bool | int | float) -> DType:
    """The type of a Python number that meets no typed operand."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, float):
        return f32
    found = _int_type(value)
    if found is None:
        raise TypeMismatch(f"{value} does not fit 64 bits", hint="write it as a float")
    return found


def div_type(dtype: DType) -> DType:
    """The type of a true division whose operands promote to `dtype`."""
    if dtype.is_storage_only:
        raise _storage_only(dtype)
    return dtype if dtype.is_float else f32


def _promote_floats(a: DType, b: DType) -> DType:
    if not b.is_float:
        return a
    if not a.is_float:
        return b
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return f32  # f16 and bf16: neither holds the other


def _promote_ints(a: DType, b: DType) -> DType:
    if a.kind is b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind is Kind.SIGNED else (b, a)
    if unsigned is u64:
        raise TypeMismatch(
            f"{a.name} and {b.name} have no common type",
            hint=f"cast one of them: mk.cast(x, mk.{signed.name}) or mk.cast(x, mk.u64)",
        )
    return next(d for d in (i8, i16, i32, i64) if d.bits > unsigned.bits and d.bits >= signed.bits)


def _storage_only(dtype: DType) -> TypeMismatch:
    return TypeMismatch(
        f"{dtype.name} is a storage type: cast it before computing with it",
        hint="mk.cast(x, mk.f32)",
    )


PROMOTION_NOTES: tuple[str, ...] = (
    "An integer with a float gives that float, as in torch; NumPy widens (i32 with f16 is f64 there).",
    "Mixed signs give the next wider signed type, as in NumPy; torch has this only for u8.",
    "u64 with a signed integer is an error; NumPy gives f64, torch refuses.",
    "f16 with bf16 gives f32, as in torch; NumPy has no bf16.",
    "fp8 types are for storage: any arithmetic on them is an error, as in torch.",
    "A Python number takes the type of the other operand; an int that does not fit is an error, "
    "as in NumPy 2; torch wraps it.",
    "A Python float with an integer or bool gives f32, as torch's default dtype; NumPy gives f64.",
    "A Python int with a bool gives i32; torch and NumPy give i64.",
    "True division of integers gives f32, as torch's default dtype; NumPy gives f64.",
    "Scalar arguments are i32, i64 or f32 by value; the dtype of a NumPy scalar is not kept.",
)
