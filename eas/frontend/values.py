"""How operands of every kind become traced values, and are made to fit each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import EasError, ShapeMismatch, TypeMismatch, UndefinedName
from eas.base.types import Shape, Type
from eas.frontend.block import Block, Counter, Number
from eas.frontend.builder import NeedsTraceTime, current
from eas.frontend.hints import checked, fill_hint
from eas.ir import Inst, Region


def _counted(name: str, operands: Sequence[Any]) -> Counter:
    """Arithmetic of counters and Python integers, which Python would do."""
    if name not in ("add", "sub", "mul") or not all(isinstance(x, Counter) or type(x) is int for x in operands):
        raise NeedsTraceTime(name)
    (a, b), (c, d) = ((x.lo, x.hi) if isinstance(x, Counter) else (x, x) for x in operands)
    ends = {"add": (a + c, b + d), "sub": (a - d, b - c), "mul": (a * c, a * d, b * c, b * d)}[name]
    blocks = [x.as_block() if isinstance(x, Counter) else constant(x, dtypes.i32) for x in operands]
    return Counter(emit(name, *blocks).value, min(ends), max(ends))


def _is_same_of_number(name: str, counter: Counter, attrs: Mapping[str, Any]) -> bool:
    """Whether an op makes of a counter what it makes of the Python integers."""
    if name == "cast":
        dtype = attrs["type"].dtype
        return bool(dtype.is_float or (dtype.is_int and dtype.min <= counter.lo and counter.hi <= dtype.max))
    return name in ("addptr", "broadcast")


class Undefined:
    """Stands for a variable that some path never assigned; every use says so."""

    __slots__ = ("hint", "name", "reason")
    __array_ufunc__ = None

    def __init__(self, name: str, reason: str = "", hint: str = "give it a value on every path, for example before the branch or loop") -> None:
        self.name = name
        self.reason = reason
        self.hint = hint

    def refuse(self) -> NoReturn:
        shown = "the result of this function" if self.name.startswith("__eas") else f"`{self.name}`"
        raise UndefinedName(f"{shown} {self.reason or 'is used before it is assigned'}", hint=self.hint, loc=current().here())

    def _use(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse()

    __getattr__ = __getitem__ = __call__ = __bool__ = __iter__ = __len__ = __index__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = _use
    __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __neg__ = __pos__ = __invert__ = __abs__ = _use
    __hash__ = None  # type: ignore[assignment]  # == refuses


def is_number(x: object) -> bool:
    return isinstance(x, (bool, int, float, np.bool_, np.integer, np.floating))


def plain(x: Any) -> Number:
    """A Python number of a Python or NumPy number."""
    return x.item() if isinstance(x, np.generic) else x  # type: ignore[no-any-return]


def emit(name: str, /, *operands: Block, **attrs: Any) -> Block:
    """One instruction with one result."""
    return Block(emit_inst(name, *operands, **attrs).out)


def emit_inst(name: str, /, *operands: Block, regions: Sequence[Region] = (), **attrs: Any) -> Inst:
    """One instruction; a refusal of its row is told in the kernel's own words."""
    for b in operands:
        if isinstance(b, Counter) and not _is_same_of_number(name, b, attrs):
            raise NeedsTraceTime(name)
    try:
        return current().emit(name, [b.value for b in operands], attrs, regions)
    except EasError as error:
        raise fill_hint(error) from None


def constant(x: Number, dtype: DType, shape: Shape = ()) -> Block:
    """A number of `dtype`, rounded to it, as a scalar or a filled block."""
    value: Number
    if dtype.is_bool:
        value = bool(x)
    elif dtype.is_float:
        wide = np.asarray(x, np.float64)
        value = float(numerics.round_to(wide, dtype)) if dtype is not dtypes.f64 else float(wide)
    else:
        value = int(x)
        if not dtype.min <= value <= dtype.max:
            raise TypeMismatch(f"{value} does not fit {dtype}", hint="use a wider dtype", loc=current().here())
    return emit("const", value=value, type=Type(dtype, shape))


_table_block: list[Callable[[Any], Block]] = []  # makes a block of a constant table; `lang_tables` puts it here


def take_tables(make: Callable[[Any], Block]) -> None:
    """Let operands be constant tables."""
    _table_block[:] = [make]


def is_table(x: object) -> bool:
    """Whether an operand is a NumPy array, or a list of numbers: a constant of the kernel."""
    return (isinstance(x, np.ndarray) and x.ndim > 0) or (isinstance(x, list) and bool(x))


def with_blocks(operands: Sequence[Any]) -> Sequence[Any]:
    """The operands, with blocks in place of constant tables."""
    return [_table_block[0](x) if is_table(x) else x for x in operands] if any(map(is_table, operands)) else operands


def as_block(x: Any, what: str = "this operand") -> Block:
    """Any operand as a runtime value; Python numbers get their default dtype."""
    if isinstance(x, Block):
        return x
    if is_table(x):
        return _table_block[0](x)
    if is_number(x):
        number = plain(x)
        return constant(number, checked(dtypes.weak_default, number))
    if isinstance(x, Undefined):
        x.refuse()
    return refuse_operand(x, what)


def refuse_operand(x: Any, what: str) -> NoReturn:
    if x is None:
        raise TypeMismatch(f"{what} is None", hint="pass something for it, or ask `if x is not None` first", loc=current().here())
    is_array = hasattr(x, "__array__") or hasattr(x, "__dlpack__")
    hint = "pass arrays as kernel arguments and mk.load from them" if is_array else "use numbers and traced values"
    raise TypeMismatch(f"{what} cannot be a {type(x).__name__}", hint=hint, loc=current().here())


def cast_to(x: Block, dtype: DType) -> Block:
    if x.dtype is dtype:
        return x
    return emit("cast", x, type=Type(dtype, x.shape))


def broadcast_to(x: Block, shape: Shape) -> Block:
    return x if x.shape == shape else emit("broadcast", x, shape=shape)


def common_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    """The NumPy broadcast of several shapes."""
    try:
        return tuple(int(n) for n in np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(str(list(s)) for s in dict.fromkeys(shapes))
        raise ShapeMismatch(f"{name} got blocks of shapes {listed}, which do not broadcast", hint="insert axes with x[:, None], or use mk.broadcast_to", loc=current().here()) from None


def common_dtype(operands: Sequence[Any]) -> DType:
    """Promotion over traced values first; Python numbers are weak and join last."""
    if any(isinstance(x, Counter) for x in operands):
        return _dtype_with_counters(operands)
    try:
        typed = [x.dtype for x in operands if isinstance(x, Block)]
        numbers = [plain(x) for x in operands if not isinstance(x, Block)]
        if not typed:
            joined = dtypes.weak_default(numbers[0])
            numbers = numbers[1:]
        else:
            joined = typed[0]
            for dtype in typed[1:]:
                joined = dtypes.common(joined, dtype)
        for number in numbers:
            joined = dtypes.promote_weak(joined, number)
    except EasError as error:
        raise error.at(current().here()) from None
    return joined


def _dtype_with_counters(operands: Sequence[Any]) -> DType:
    """The same where typed counters give what Python integers would."""
    typed, least, most = (
        common_dtype([choose(x) if isinstance(x, Counter) else x for x in operands])
        for choose in (Counter.as_block, lambda x: x.lo, lambda x: x.hi)
    )
    if typed is not least or typed is not most:
        raise NeedsTraceTime("weak promotion")
    return typed


def check_operands(name: str, operands: Sequence[Any]) -> None:
    for x in operands:
        if isinstance(x, Undefined):
            x.refuse()
        if not isinstance(x, Block) and not is_number(x):
            refuse_operand(x, f"an operand of {name}")
        if isinstance(x, Block) and not x.type.is_value:
            refuse_pointer(name, x)


def fit(name: str, operands: Sequence[Any], dtype: DType | None = None) -> list[Block]:
    """All operands in one dtype (promoted, or the given one) and one shape."""
    operands = with_blocks(operands)
    check_operands(name, operands)
    target = dtype or common_dtype(operands)
    shape = common_shape(name, [x.shape for x in operands if isinstance(x, Block)])
    fitted = []
    for x in operands:
        if isinstance(x, Counter):
            x = x.as_block()
        if isinstance(x, Block):
            fitted.append(broadcast_to(cast_to(x, target), shape))
        else:
            fitted.append(constant(plain(x), target, shape))
    return fitted


def refuse_pointer(name: str, x: Block) -> NoReturn:
    if x.type.is_pointer:
        raise TypeMismatch(f"{name} needs values, got the pointer {x!r}", hint="load from it first: mk.load(buffer, offsets)", loc=current().here())
    raise TypeMismatch(f"{name} needs values, got the simdgroup matrix {x!r}", hint="write it with mk.mma_store first", loc=current().here())


_NEVER_BOOL = {"add", "sub", "mul", "floordiv", "mod", "truncdiv", "truncmod", "neg", "abs", "shl", "shr", "min", "max", "mulhi"}


def lanewise(name: str, *operands: Any) -> Block:
    """An elementwise op on promoted and broadcast operands; arithmetic on bools is done in i32."""
    operands = tuple(with_blocks(operands))
    check_operands(name, operands)
    if not any(isinstance(x, Block) and not isinstance(x, Counter) for x in operands) and any(isinstance(x, Counter) for x in operands):
        return _counted(name, operands)
    dtype = common_dtype(operands)
    if name in _NEVER_BOOL and dtype.is_bool:
        dtype = dtypes.i32
    return emit(name, *fit(name, operands, dtype))


def to_bool(x: Any) -> Block:
    """Python truth of a scalar or block: != 0."""
    block = as_block(x)
    if not block.type.is_value:
        refuse_pointer("a condition", block)
    return cast_to(block, dtypes.bool_)


def condition(x: Any) -> Block:
    """What a branch or loop decides by: one truth value."""
    truth = to_bool(x)
    if truth.shape:
        raise ShapeMismatch(f"a condition must be a scalar, got the block {truth.type}", hint="use mk.where(cond, a, b) per element, or mk.any(x) or mk.all(x)", loc=current().here())
    return truth


def static_int(x: Any, what: str) -> int:
    """A trace-time integer, or an error that says why it is not one."""
    if isinstance(x, Block):
        x._need_static(what, "make it an eas.constexpr parameter or a Python number")
    if isinstance(x, Undefined):
        x.refuse()
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
        raise TypeMismatch(f"{what} must be an integer, got {x!r}", hint="pass one Python integer", loc=current().here())
    return int(x)


def static_shape(x: Any, what: str = "a shape") -> Shape:
    """A trace-time shape of one or more integers."""
    items = x if isinstance(x, (tuple, list)) else (x,)
    shape = tuple(static_int(n, what) for n in items)
    if any(n < 1 for n in shape):
        raise ShapeMismatch(f"{what} needs positive extents, got {list(shape)}", hint="pass extents of 1 or more", loc=current().here())
    return shape


_PYTHON_TYPES = {bool: dtypes.bool_, int: dtypes.i32, float: dtypes.f32}


def static_dtype(x: Any) -> DType:
    """A dtype from a DType, its name, a NumPy dtype, or a torch dtype."""
    if isinstance(x, DType):
        return x
    try:
        if isinstance(x, str):
            return dtypes.parse(x)
        if type(x).__module__ == "torch":
            return dtypes.parse(str(x).removeprefix("torch."))
        if isinstance(x, type) and x in _PYTHON_TYPES:
            return _PYTHON_TYPES[x]
        return dtypes.from_numpy(np.dtype(x))
    except TypeError:
        raise TypeMismatch(f"{x!r} is not a dtype", hint="use mk.f32, mk.i32, ...", loc=current().here()) from None
