"""Launch plans: how the arguments of calls of one kind become what a compiled kernel reads, as data.

A plan belongs to one compiled kernel on one backend. `interpret` reads a call as it says; native code does the same
(eas/native/plan.c), and tests compare the two word by word. Both refuse whatever is not exactly what the plan names:
such a call goes through `Kernel`, which runs it or says what is wrong. See docs/design/0009-launch-plan.md.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from math import prod
from types import CellType, CodeType, FunctionType
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from eas.base.dtypes import DType
from eas.base.facts import Extent, Fact, holds
from eas.frontend.reads.globals_read import contents
from eas.interop.arg_view import TENSOR_CLASSES, address_of, is_torch_tensor
from eas.interop.devices import Device
from eas.interop.hidden import Hidden
from eas.interop.targets import as_dtype
from eas.runtime import Grid
from eas.runtime.grid import MAX_GRID_EXTENT, MAX_PROGRAMS
from eas.runtime.launch_site import LaunchSite

MISSING: Final = object()
"""No default; no such item."""
LARGEST = 2**31 - 1
"""Of strides, extents and elements that a kernel counts in 32 bits."""

ParamKind = Literal["buffer", "i32", "i64", "f32", "bool", "constant", "f64", "any_i64"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A stride, an extent or the size of a buffer, which nobody passes: the kernel finds it in `slot`."""

    hidden: Hidden
    slot: int


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the kernel, in the order of the signature.

    buffer: memory of `dtype`, in one piece unless the kernel asks for strides; i32, i64: an int that fits, or needs, 32 or 64 bits;
    any_i64: one that fits 64; f32, f64: a float; bool; constant: `value` itself, an equal int, or a float of the same bits.
    `slot` is the position among the arguments of the module; a constant has none.
    """

    name: str
    kind: ParamKind
    slot: int = -1
    dtype: DType | None = None
    is_written: bool = False
    value: object = None
    default: object = MISSING
    is_strided: bool = False
    """The kernel asks for strides, so it sees memory with gaps itself."""
    asked: tuple[Asked, ...] = ()
    shape: tuple[int, ...] | None = None
    """None: any."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A word that no argument gives."""

    slot: int
    bits: int


@dataclass(frozen=True, slots=True)
class Axis:
    """The programs of one axis: `count`, or the integer scalar in `slot` over `block`, rounded up."""

    count: int = 1
    slot: int = -1
    block: int = 1


@dataclass(frozen=True, slots=True)
class ItemGuard:
    """`table[key]` is still `value`; MISSING means that there is no such key."""

    table: dict[Any, Any]
    key: object
    value: object


@dataclass(frozen=True, slots=True)
class CellGuard:
    """A closure variable is still `value`."""

    cell: CellType
    value: object


@dataclass(frozen=True, slots=True)
class FunctionGuard:
    """A function still has this code and these defaults."""

    function: FunctionType
    code: CodeType
    defaults: tuple[Any, ...] | None
    kwdefaults: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class CalledGuard:
    """What only Python can compare is what it was."""

    is_current: Callable[[], bool]


Guard = ItemGuard | CellGuard | FunctionGuard | CalledGuard


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What is the same for all calls of one compiled kernel on one backend."""

    params: tuple[Param, ...]
    arguments: tuple[str, ...]
    """Of the module, by slot."""
    axes: tuple[Axis, Axis, Axis] | None
    """The grid of a call that gives none; None if such a call cannot be inferred."""
    site: LaunchSite
    """Where launches go."""
    facts: tuple[Fact, ...] = ()
    """What distinguishes the variants of the kernel."""
    guards: tuple[Guard, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    devices: tuple[Device, ...] = ()
    """On which an eas.Tensor may live."""
    is_host: bool = True
    """Whether the backend takes memory of the CPU."""
    answer: int = -1
    """Which parameter the call returns; -1: None."""
    n_positional: int | None = None
    """How many arguments may be given by position; None: all."""

    def slot_of(self, fact: Fact) -> int:
        """The argument that a fact speaks of; 0 if it is one of the whole launch."""
        return self.arguments.index(fact.arg) if fact.arg else 0


class Word(NamedTuple):
    """What a kernel gets for one argument: 8 bytes; of a buffer also its elements, and the address behind it."""

    bits: int
    size: int = 0
    end: int = 0


class Reading(NamedTuple):
    """What a plan finds in a call."""

    words: tuple[Word, ...]
    grid: Grid
    facts: tuple[Fact, ...]


# --- reading a call -------------------------------------------------------------------------------


def interpret(plan: LaunchPlan, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Reading | None:
    """What a launch over these arguments gets, or None if it is not of the kind that the plan knows."""
    values = _bound(plan, args, kwargs)
    if values is None or not all(map(guard_holds, plan.guards)):
        return None
    words = {each.slot: Word(each.bits) for each in plan.fixed}
    for param, value in zip(plan.params, values, strict=True):
        found = _read(plan, param, value)
        if found is None:
            return None
        words |= found
    sizes = _grid(plan, words, grid)
    if sizes is None:
        return None
    ordered = tuple(words[slot] for slot in range(len(plan.arguments)))
    return Reading(ordered, sizes, _facts(plan, ordered))


def guard_holds(guard: Guard) -> bool:
    """Whether what the guard watches is what it was."""
    match guard:
        case ItemGuard(table, key, value):
            return table.get(key, MISSING) is value
        case CellGuard(cell, value):
            return contents(cell) is value
        case FunctionGuard(fn, code, defaults, kwdefaults):
            return fn.__code__ is code and fn.__defaults__ is defaults and fn.__kwdefaults__ is kwdefaults
        case CalledGuard(is_current):
            return is_current()


def _bound(plan: LaunchPlan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
    """The value of each parameter; None if one is missing, too many, or given twice."""
    rest = plan.params[len(args) :]
    if len(args) > (len(plan.params) if plan.n_positional is None else plan.n_positional) or not kwargs.keys() <= {p.name for p in rest}:
        return None
    values = [*args, *(kwargs.get(p.name, p.default) for p in rest)]
    return None if any(value is MISSING or value is Parameter.empty for value in values) else values


def _read(plan: LaunchPlan, param: Param, value: Any) -> dict[int, Word] | None:
    if param.kind == "constant":
        return {} if value is param.value or _are_equal_numbers(value, param.value) else None
    if param.kind == "buffer":
        memory = _memory(plan, param, value)
        return None if memory is None else _words(param, memory)
    bits = number_word(param.kind, value)
    return None if bits is None else {param.slot: Word(bits)}


def _are_equal_numbers(one: Any, other: Any) -> bool:
    if type(one) is float and type(other) is float:
        return struct.pack("d", one) == struct.pack("d", other)
    return type(one) is int and type(other) is int and one == other and -(2**63) <= one < 2**63


def number_word(kind: ParamKind, value: Any) -> int | None:
    """A number as a kernel finds it; None if it is not of that kind."""
    if kind == "bool":
        return int(value) if type(value) is bool else None
    if kind in ("f32", "f64"):
        if type(value) is not float:
            return None
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.uint32)) if kind == "f32" else int(np.float64(value).view(np.int64))
    if type(value) is not int or not -(2**63) <= value < 2**63:
        return None
    return value if kind == "any_i64" or (-(2**31) <= value < 2**31) == (kind == "i32") else None


# --- memory ---------------------------------------------------------------------------------------


class _Memory(NamedTuple):
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    is_plain: bool


def _memory(plan: LaunchPlan, param: Param, value: Any) -> _Memory | None:
    dtype, kind = param.dtype, type(value)
    assert dtype is not None, param
    if kind is np.ndarray:
        return _array_memory(param, value) if dtype.np_storage == dtype.np_compute else None
    if kind in TENSOR_CLASSES:
        if value.dtype is not dtype or value._device not in plan.devices or type(value._memory) is not np.ndarray:
            return None
        owner = value._owner
        is_told = not param.is_written or type(owner) is np.ndarray or (kind_of_torch(owner) and _is_plain_torch(owner) and not owner.requires_grad)
        return _array_memory(param, value._memory) if is_told else None
    return _torch_memory(param, value) if plan.is_host and kind_of_torch(value) else None


def kind_of_torch(value: Any) -> bool:
    """Whether it is a tensor of one of torch's own classes, which do nothing but hold memory."""
    torch = sys.modules.get("torch")
    return torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter)


def _array_memory(param: Param, array: Any) -> _Memory | None:
    assert param.dtype is not None
    flags, nbytes = array.flags, param.dtype.nbytes
    is_usable = flags.aligned and not flags.writebackifcopy and (flags.writeable or not param.is_written)
    if array.dtype is not param.dtype.np_storage or not is_usable or (not flags.c_contiguous and any(step % nbytes for step in array.strides)):
        return None
    return _Memory(address_of(array), array.shape, tuple(step // nbytes for step in array.strides), flags.c_contiguous)


def _is_plain_torch(tensor: Any) -> bool:
    """Whether a tensor is dense memory of the CPU that everybody may look at."""
    torch = sys.modules["torch"]
    try:
        has_memory = tensor.data_ptr() != 0
    except RuntimeError:  # inside of vmap or grad
        return False
    return has_memory and tensor.is_cpu and tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_neg() or tensor.is_conj() or tensor.is_inference() or tensor.is_quantized)


def _torch_memory(param: Param, tensor: Any) -> _Memory | None:
    assert is_torch_tensor(tensor)
    if not _is_plain_torch(tensor) or as_dtype(tensor.dtype) is not param.dtype or (param.is_written and tensor.requires_grad):
        return None
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    last = _reach(shape, strides, is_written=False)
    end = (tensor.storage_offset() + (prod(shape) if last is None else last)) * tensor.itemsize
    if end > tensor.untyped_storage().nbytes() or tensor.data_ptr() % tensor.itemsize:  # a storage may have shrunk since
        return None
    return _Memory(tensor.data_ptr(), shape, strides, tensor.is_contiguous())


def _reach(shape: Sequence[int], strides: Sequence[int], is_written: bool) -> int | None:
    """Elements from the first to the last; None where elements lie backwards, or share memory that is written."""
    last = 0
    for step, size in sorted((step, size) for size, step in zip(shape, strides, strict=True) if size != 1):
        # Steps past all that the smaller ones reach: no two elements share memory.
        if size == 0 or step < 0 or (is_written and step <= last):
            return None
        last += (size - 1) * step
    return last + 1


def _words(param: Param, memory: _Memory) -> dict[int, Word] | None:
    assert param.dtype is not None
    if param.shape is not None and memory.shape != param.shape:
        return None
    size = prod(memory.shape) if memory.is_plain else _reach(memory.shape, memory.strides, param.is_written) if param.is_strided else None
    if size is None:
        return None
    words = {param.slot: Word(memory.address, size, memory.address + size * param.dtype.nbytes)}
    for asked in param.asked:
        found = asked.hidden.of(memory.shape, memory.strides)
        if found is None or not 0 <= found <= LARGEST:
            return None
        words[asked.slot] = Word(found)
    return words


# --- grid and facts -------------------------------------------------------------------------------


def _grid(plan: LaunchPlan, words: Mapping[int, Word], given: Any) -> Grid | None:
    if given is None:
        if plan.axes is None:
            return None
        extents = [axis.count if axis.slot < 0 else -(-words[axis.slot].bits // axis.block) for axis in plan.axes]
        if any(axis.slot >= 0 and words[axis.slot].bits < 0 for axis in plan.axes):
            return None
    else:
        items = (given,) if type(given) is int else given
        if type(items) is not tuple or not 1 <= len(items) <= 3 or any(type(n) is not int for n in items):
            return None
        extents = [*items, 1, 1][:3]
    x, y, z = extents
    # In this order, as it is multiplied: a last extent of 0 does not help.
    is_good = all(0 <= n <= MAX_GRID_EXTENT for n in extents) and max(x, x * y, x * y * z) <= MAX_PROGRAMS
    return (x, y, z) if is_good else None


def _facts(plan: LaunchPlan, words: Sequence[Word]) -> tuple[Fact, ...]:
    buffers = {plan.arguments[p.slot]: (p, words[p.slot]) for p in plan.params if p.kind == "buffer"}
    extents = {name: Extent(0, word.bits, word.end - word.bits, word.size) for name, (_, word) in buffers.items()}
    writes = [name for name, (p, _) in buffers.items() if p.is_written]
    return tuple(f for f in plan.facts if holds(f, words[plan.slot_of(f)].bits, extents, writes))
