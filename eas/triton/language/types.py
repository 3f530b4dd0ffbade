"""Triton's types: dtypes with its names and questions, pointers, blocks, and `constexpr`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError

TRITON_MAX_TENSOR_NUMEL = 1048576


class PropagateNan(enum.Enum):
    """Whether `maximum` and its kin give NaN where one operand is NaN, or the other one."""

    NONE = 0
    ALL = 0xFFFF


class dtype:  # lower case: it is Triton's name
    """An element type under Triton's name; `eas` is the same type of the compiler, None for `void`."""

    class KIND(enum.Enum):
        """The order in which kinds of numbers win over each other."""

        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    class SIGNEDNESS(enum.Enum):
        """Of integers."""

        SIGNED = 0
        UNSIGNED = 1

    SINT_TYPES: ClassVar = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64"]
    STANDARD_FP_TYPES: ClassVar = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar = ["void"]

    __slots__ = ("eas", "name", "primitive_bitwidth")

    def __init__(self, name: str) -> None:
        if name not in _EAS:
            raise ArgumentError(f"Triton has no dtype {name!r}", hint=f"its dtypes are {', '.join(_EAS)}")
        self.name = name
        self.eas: DType | None = _EAS[name]
        self.primitive_bitwidth: int = {"void": 0, "int1": 1}.get(name, 8 if self.eas is None else self.eas.bits)

    @property
    def __eas_key__(self) -> str:
        return self.name

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth

    @property
    def itemsize(self) -> int:
        return self.primitive_bitwidth // 8

    @property
    def fp_mantissa_width(self) -> int:
        return self.eas.mantissa_bits if self.eas is not None else 0

    @property
    def exponent_bias(self) -> int:
        return (1 << (self.eas.exponent_bits - 1)) - 1 if self.eas is not None else 0

    @property
    def int_signedness(self) -> dtype.SIGNEDNESS:
        return self.SIGNEDNESS.SIGNED if self.is_int_signed() else self.SIGNEDNESS.UNSIGNED

    @property
    def scalar(self) -> dtype:
        return self

    @property
    def type(self) -> dtype:
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def kind(self) -> dtype.KIND:
        return self.KIND.BOOLEAN if self.is_bool() else self.KIND.INTEGRAL if self.is_int() else self.KIND.FLOATING

    def is_floating(self) -> bool:
        return self.name.startswith(("fp", "bf"))

    def is_standard_floating(self) -> bool:
        return self.is_floating() and not self.is_fp8()

    def is_fp8(self) -> bool:
        return self.is_floating() and self.primitive_bitwidth == 8

    def is_int(self) -> bool:
        return self.eas is not None and not self.eas.is_float

    def is_int_signed(self) -> bool:
        return self.eas is not None and self.eas.is_int and self.eas.is_signed

    def is_int_unsigned(self) -> bool:
        return self.is_int() and not self.is_int_signed()

    def is_bool(self) -> bool:
        return self.name == "int1"

    is_int1 = is_bool

    def is_void(self) -> bool:
        return self.name == "void"

    def is_block(self) -> bool:
        return False

    def is_ptr(self) -> bool:
        return False

    def is_const(self) -> bool:
        return False

    def get_int_min_value(self) -> int:
        return 0 if self.is_int_unsigned() else -(1 << (self.primitive_bitwidth - 1))

    def get_int_max_value(self) -> int:
        return (1 << (self.primitive_bitwidth - self.is_int_signed())) - 1

    def codegen_name(self) -> str:
        return self.name

    def with_element_ty(self, element_ty: dtype) -> dtype:
        return element_ty

    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether Triton has a dtype of this name."""
        return name in _EAS

    def __getattr__(self, word: str) -> Any:
        """`is_fp16()`, `is_uint8()`, ...: whether it is that one."""
        asked = _NAMES.get(word.removeprefix("is_")) if word.startswith("is_") else None
        if asked is None:
            raise AttributeError(f"{self.name} has no attribute {word!r}", name=word, obj=self)
        return lambda: self.name == asked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        return (type(self), (self.name,))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{next((word for word, name in _LONG.items() if name == self.name), self.name)}"


_EAS: dict[str, DType | None] = {
    "void": None, "int1": dtypes.bool_,
    "int8": dtypes.i8, "int16": dtypes.i16, "int32": dtypes.i32, "int64": dtypes.i64,
    "uint8": dtypes.u8, "uint16": dtypes.u16, "uint32": dtypes.u32, "uint64": dtypes.u64,
    "fp8e4b15": None, "fp8e4b8": None, "fp8e5b16": None,
    "fp8e4nv": dtypes.f8e4m3, "fp8e5": dtypes.f8e5m2, "fp16": dtypes.f16, "bf16": dtypes.bf16, "fp32": dtypes.f32, "fp64": dtypes.f64,
}  # fmt: skip
_LONG = {"float8e4b15": "fp8e4b15", "float8e4b8": "fp8e4b8", "float8e5b16": "fp8e5b16", "float8e4nv": "fp8e4nv", "float8e5": "fp8e5", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
_NAMES = {name: name for name in _EAS}

void, int1 = dtype("void"), dtype("int1")
int8, int16, int32, int64 = dtype("int8"), dtype("int16"), dtype("int32"), dtype("int64")
uint8, uint16, uint32, uint64 = dtype("uint8"), dtype("uint16"), dtype("uint32"), dtype("uint64")
float8e4nv, float8e5 = dtype("fp8e4nv"), dtype("fp8e5")
float8e4b15, float8e4b8, float8e5b16 = dtype("fp8e4b15"), dtype("fp8e4b8"), dtype("fp8e5b16")
float16, bfloat16, float32, float64 = dtype("fp16"), dtype("bf16"), dtype("fp32"), dtype("fp64")
_BY_EAS = {made.eas: made for made in map(dtype, _EAS) if made.eas is not None}


def of_eas(found: DType) -> dtype:
    """Triton's name of a type of the compiler."""
    return _BY_EAS[found]


class pointer_type(dtype):  # lower case: it is Triton's name
    """The type of addresses of elements."""

    __slots__ = ("address_space", "const", "element_ty")

    def __init__(self, element_ty: dtype, address_space: int = 1, const: bool = False) -> None:
        self.element_ty, self.address_space, self.const = element_ty, address_space, const
        self.name, self.eas, self.primitive_bitwidth = f"pointer<{element_ty}>", None, 64

    def is_ptr(self) -> bool:
        return True

    def is_const(self) -> bool:
        return self.const

    def __reduce__(self) -> Any:
        return (pointer_type, (self.element_ty, self.address_space, self.const))

    def __repr__(self) -> str:
        return self.name


class block_type(dtype):  # lower case: it is Triton's name
    """The type of a block."""

    __slots__ = ("element_ty", "numel", "sizes")

    def __init__(self, element_ty: dtype, shape: Sequence[int]) -> None:
        self.element_ty, self.sizes, self.numel = element_ty, tuple(shape), 1
        for n in self.sizes:
            self.numel *= n
        self.name, self.eas, self.primitive_bitwidth = f"<{list(self.sizes)}, {element_ty}>", element_ty.eas, element_ty.primitive_bitwidth

    @property
    def scalar(self) -> dtype:
        return self.element_ty

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    def get_block_shapes(self) -> tuple[int, ...]:
        return self.sizes

    def with_element_ty(self, element_ty: dtype) -> dtype:
        return block_type(element_ty, self.sizes)

    def is_block(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        return (block_type, (self.element_ty, self.sizes))

    def __repr__(self) -> str:
        return self.name


pi32_t = pointer_type(int32)


def _binary(word: str) -> Any:
    import operator

    function = getattr(operator, word)

    def forward(self: constexpr, other: Any) -> Any:
        return constexpr(function(self.value, unwrapped(other)))

    return forward


def _reflected(word: str) -> Any:
    forward = _binary(word)
    return lambda self, other: forward(constexpr(other), self)


class constexpr:  # lower case: it reads as a keyword in kernel signatures
    """The annotation of what is known when a kernel is compiled; around a value, that value for Triton kernels to read."""

    __slots__ = ("value",)
    __eas_constexpr__ = True

    def __init__(self, value: Any = None) -> None:
        self.value = unwrapped(value)

    @property
    def __eas_key__(self) -> str:
        return repr(self.value) if type(self.value) in (int, float, bool, str) else f"{id(self.value)}"

    @property
    def type(self) -> Any:
        return constexpr_type(self.value)

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    __add__, __radd__, __sub__, __rsub__ = _binary("add"), _reflected("add"), _binary("sub"), _reflected("sub")
    __mul__, __rmul__, __truediv__, __rtruediv__ = _binary("mul"), _reflected("mul"), _binary("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__, __mod__, __rmod__ = _binary("floordiv"), _reflected("floordiv"), _binary("mod"), _reflected("mod")
    __pow__, __rpow__, __lshift__, __rlshift__ = _binary("pow"), _reflected("pow"), _binary("lshift"), _reflected("lshift")
    __rshift__, __rrshift__, __and__, __rand__ = _binary("rshift"), _reflected("rshift"), _binary("and_"), _reflected("and_")
    __or__, __ror__, __xor__, __rxor__ = _binary("or_"), _reflected("or_"), _binary("xor"), _reflected("xor")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return self.value.__index__()  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrapped(index)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*map(unwrapped, args), **{k: unwrapped(v) for k, v in kwargs.items()})

    def __hash__(self) -> int:
        return hash(("constexpr", self.value))

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"


class constexpr_type:  # lower case: it is Triton's name
    """The type of a value known when a kernel is compiled."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


def str_to_ty(name: Any, context: Any = None) -> Any:
    """The type that a short name in a kernel's signature means: `i32`, `*fp16`, `u1`."""
    if name.startswith("*"):
        return pointer_type(str_to_ty(name[1:].removeprefix("k")), const=name.startswith("*k"))
    long = {"i": "int", "u": "uint"}.get(name[:1], "") + name[1:] if name[1:].isdigit() else name
    return constexpr if name == "constexpr" else dtype("int1" if long == "uint1" else long)


def unwrapped(x: Any) -> Any:
    """What a constexpr holds; other values as they are."""
    return x.value if isinstance(x, constexpr) else x


class const:  # lower case: it is Triton's name
    """The annotation of a pointer through which a kernel does not write."""
