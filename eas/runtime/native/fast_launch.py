"""Launches in under a microsecond: a native function per signature that reads Python arguments itself.

Why this is safe. The function runs with the GIL held, is called with a tuple and a dict that its
caller owns, and only borrows what these hold, so every object it looks at lives until it returns;
while the GIL is released it uses addresses only, like any NumPy operation. It reads types and
arrays at fixed offsets, which `_why_not_here` first compares with what NumPy says of several arrays
(and refuses builds of Python without a GIL); everything else goes through CPython's C API. It takes
an argument only if its type is exactly ndarray, int, float or bool, or `eas.Tensor` (whose slots are
where its class says, compared with a tensor before use), so no Python code of anybody
runs. Anything else, also an argument that is an error, makes it return NotImplemented before a
program has run, and the Python path decides. What the plan points to is kept alive by the tuple
that is the function's `self`, so also by a call that is under way.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import Any, Final, Literal

import numpy as np

from eas.base.errors import SourcePlace
from eas.base.facts import EQUALS, Fact
from eas.runtime.launch_site import LaunchEntry, LaunchSite
from eas.runtime.native import elf, jit
from eas.runtime.native import launch_layout as ll
from eas.runtime.native.kernels import ErrorRecord, raise_error
from eas.runtime.native.launch_llvm import LAUNCHER_TEXT

MISSING: Final = object()
"""No default; no such item."""

Places = Sequence[tuple[str, SourcePlace | None]]
Call = Callable[..., object]
"""`call(args, kwargs, grid)`; a fourth argument lets (address, size) stand for a buffer."""

_METH_FASTCALL = 0x80
_D_MEMBER, _OFFSET = 40, 16  # of PyMemberDescrObject and PyMemberDef
_MAX_VARIANTS = 32
_MAX_FACTS = 63


ParamKind = Literal["buffer", "i32", "i64", "f32", "bool", "constant", "f64", "any_i64"]


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the kernel, in the order of the signature.

    buffer: an ndarray of `dtype`; i32, i64: an int that fits, or needs, 32 or 64 bits; any_i64: one that fits 64; f32, f64: a float;
    bool; constant: `value` itself, an equal int, or a float of the same bits. `slot` is the position among the arguments of
    the module; a constant has none.
    """

    name: str
    kind: ParamKind
    slot: int = -1
    dtype: np.dtype[Any] | None = None
    is_written: bool = False
    value: object = None
    default: object = MISSING


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


Guard = ItemGuard | CellGuard | FunctionGuard


@dataclass(frozen=True, slots=True)
class Box:
    """An object whose slots hold an array, the owner that is told of writes, a dtype and a device."""

    kind: type[Any]
    at: tuple[int, int, int, int]
    """Bytes from the object to its slots `_memory`, `_owner`, `dtype` and `_device`."""
    dtype: object
    device: object

    def words(self) -> dict[str, int]:
        array, owner, dtype, device = self.at
        return {"type": id(self.kind), "array_at": array, "owner_at": owner, "dtype_at": dtype, "dtype": id(self.dtype), "device_at": device, "device": id(self.device)}


def box_of(value: Any) -> Box | None:
    """What is looked for in objects like this one, or None if they are not laid out in slots."""
    kind = type(value)
    at = tuple(_slot_offset(value, name) for name in ("_memory", "_owner", "dtype", "_device"))
    array, owner, dtype, device = at
    if array is None or owner is None or dtype is None or device is None or type(value._memory) is not np.ndarray:
        return None
    return Box(kind, (array, owner, dtype, device), value.dtype, value._device)


def _slot_offset(value: Any, name: str) -> int | None:
    """Where a slot of an object is: PyMemberDescrObject.d_member.offset, compared with what Python finds there."""
    member = getattr(type(value), name, None)
    if type(member) is not MemberDescriptorType:
        return None
    definition = ctypes.c_void_p.from_address(id(member) + _D_MEMBER).value
    at = ctypes.c_ssize_t.from_address((definition or 0) + _OFFSET).value if definition else 0
    is_inside = 0 < at <= type(value).__basicsize__ - 8
    found = ctypes.c_void_p.from_address(id(value) + at).value if is_inside else None
    return at if found == id(getattr(value, name)) else None


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a launcher must know of one compiled kernel."""

    params: tuple[Param, ...]
    grid: tuple[Axis, Axis, Axis] | None
    """The grid of a call that gives none; None if such a call cannot be inferred."""
    site: LaunchSite
    """Where launches go."""
    facts: tuple[Fact, ...] = ()
    """`CompiledKernel.facts`: what distinguishes its variants."""
    guards: tuple[Guard, ...] = ()


@dataclass(slots=True)
class _Variant:
    kernel: LaunchEntry
    name: str
    places: Places


@dataclass(slots=True)
class _State:
    """What the plan points to, and what an error needs."""

    held: list[object] = field(default_factory=list)
    variants: dict[int, _Variant] = field(default_factory=dict)


def _on_error(variants: Mapping[int, _Variant], data: bytes) -> None:
    record = ErrorRecord.from_buffer_copy(data)
    bits, x, y, z = np.frombuffer(data, np.int64, 4, ctypes.sizeof(ErrorRecord)).tolist()
    found = variants[bits]
    raise_error(found.name, found.places, (x, y, z), record)


class Launcher:
    """`call(args, kwargs, grid)` runs the kernel and gives None, or gives NotImplemented.

    `grid` is None or a tuple of ints. A launcher knows no variant at first: after a launch by the
    Python path, `add_variant` tells it the code for the facts that held.
    """

    __slots__ = ("_boxes", "_facts", "_plan", "_rows", "_state", "call")

    def __init__(self, spec: LaunchSpec) -> None:
        self._boxes: dict[int, Box] = {}
        self._facts = {fact: 1 << i for i, fact in enumerate(spec.facts)}
        self._state = _State()
        self._rows = (ctypes.c_uint64 * (ll.ROW_WORDS * _MAX_VARIANTS))()
        self._plan = _plan(spec, self._state, self._rows)
        self.call = _new_function(self._plan, self._state)

    def add_variant(
        self, facts: frozenset[Fact], kernel: LaunchEntry, name: str, places: Places
    ) -> None:
        """From now on calls of which exactly `facts` hold run this code."""
        bits = sum(self._facts[fact] for fact in facts)
        count = len(self._state.variants)
        if bits in self._state.variants or count == _MAX_VARIANTS:
            return
        self._state.variants[bits] = _Variant(kernel, name, places)
        rate = ctypes.addressof(kernel.rate)
        row = (bits, kernel.address, kernel.scratch_nbytes, rate, kernel.max_programs)
        self._rows[ll.ROW_WORDS * count : ll.ROW_WORDS * count + len(row)] = list(row)
        self._plan[ll.PLAN.index("n_variants")] = count + 1  # last: the row is complete

    def add_boxes(self, boxes: Mapping[int, Box]) -> bool:
        """Whether from now on tensors like these may stand for the parameters of these positions."""
        if not all(self._boxes.get(i, box) == box for i, box in boxes.items()):
            return False
        params = self._plan[ll.PLAN.index("params")]
        for i, box in boxes.items():
            if i not in self._boxes:
                self._boxes[i] = box
                self._state.held.append(box)
                row = _table(self._state.held, [_words(box.words(), ll.BOX)])
                word = params + 8 * (ll.ROW_WORDS * i + ll.PARAM.index("box"))
                ctypes.c_uint64.from_address(word).value = row
        return True


def make_launcher(spec: LaunchSpec) -> Launcher | None:
    """A launcher, or None if this signature or this build of Python needs the Python path."""
    n_args = sum(p.slot >= 0 for p in spec.params)
    has_room = n_args <= ll.MAX_ARGS and len(spec.facts) <= _MAX_FACTS
    is_known = all((p.kind == "constant") == (p.slot < 0) for p in spec.params)
    if not has_room or not is_known or why_not_here() is not None:
        return None
    return Launcher(spec)


def environment_guards(*names: str) -> tuple[ItemGuard, ...] | None:
    """Guards that these environment variables are as they are now; None if they cannot be guarded."""
    data = getattr(os.environ, "_data", None)
    encode = getattr(os.environ, "encodekey", None)
    if type(data) is not dict or encode is None:
        return None
    keys = [encode(name) for name in names]
    return tuple(ItemGuard(data, key, data.get(key, MISSING)) for key in keys)


# --- the plan -------------------------------------------------------------------------------------

_KINDS = {
    "buffer": ll.BUFFER,
    "i32": ll.INT32,
    "i64": ll.INT64,
    "f32": ll.FLOAT32,
    "bool": ll.BOOL,
    "constant": ll.CONSTANT,
    "f64": ll.FLOAT64,
    "any_i64": ll.ANY_INT64,
}
_FACTS = {
    **dict.fromkeys(EQUALS, ll.EQUALS), "positive": ll.POSITIVE, "divisible_16": ll.DIVISIBLE_16,
    "aligned_64": ll.ALIGNED_64, "disjoint": ll.DISJOINT, "fits_32": ll.FITS_32, "in_place": ll.IN_PLACE,
}  # fmt: skip
Words = ctypes.Array[ctypes.c_uint64]


def _plan(spec: LaunchSpec, state: _State, variants: Words) -> Words:
    keep = state.held
    params = _table(keep, [_param_row(p, keep) for p in spec.params])
    guards = _table(keep, [_guard_row(g, keep) for g in spec.guards])
    facts = _table(keep, [_fact_row(f, spec.params) for f in spec.facts])
    on_error = functools.partial(_on_error, state.variants)  # not a method: the code goes with its launcher, not with a cycle
    keep += [on_error, spec.site, variants]
    words: dict[str, int] = {
        "n_params": len(spec.params), "params": params, "n_guards": len(spec.guards), "guards": guards,
        "n_facts": len(spec.facts), "facts": facts, "n_variants": 0, "variants": ctypes.addressof(variants),
        "n_args": sum(p.slot >= 0 for p in spec.params), "run": spec.site.run_address,
        "n_threads": spec.site.n_threads, "pending": ctypes.addressof(spec.site.pending),
        "on_error": id(on_error), "can_infer": spec.grid is not None,
        "ndarray": id(np.ndarray), "int": id(int), "float": id(float), "tuple": id(tuple), "dict": id(dict),
        "true": id(True), "false": id(False), "none": id(None), "not_implemented": id(NotImplemented),
    }  # fmt: skip
    for i, axis in enumerate(spec.grid or ()):
        words |= {f"extent{i}": axis.slot, f"count{i}": axis.count, f"block{i}": axis.block}
    plan = _words(words, ll.PLAN)
    made = (ctypes.c_uint64 * len(plan))(*plan)
    keep.append(made)
    return made


def _words(values: Mapping[str, int], names: tuple[str, ...]) -> list[int]:
    assert values.keys() <= set(names), values.keys() - set(names)
    return [int(values.get(name, 0)) for name in names]


def _table(keep: list[object], rows: list[list[int]]) -> int:
    """The address of rows of ROW_WORDS words."""
    flat = [word for row in rows for word in row + [0] * (ll.ROW_WORDS - len(row))]
    made = (ctypes.c_uint64 * max(len(flat), 1))(*flat)
    keep.append(made)
    return ctypes.addressof(made)


def _param_row(param: Param, keep: list[object]) -> list[int]:
    name = sys.intern(param.name)
    keep += [name, param.default, param.value]
    default = 0 if param.default is MISSING else id(param.default)
    row = {"kind": _KINDS[param.kind], "name": id(name), "default": default, "slot": param.slot}
    if param.kind == "constant":
        row["expected"] = id(param.value)
    if param.kind == "buffer":
        dtype = np.empty(0, param.dtype).dtype  # the object that arrays share
        keep.append(dtype)
        written = ll.WRITEABLE if param.is_written else 0
        row |= {
            "expected": id(dtype),
            "flags": ll.C_CONTIGUOUS | ll.ALIGNED | written,
            "nbytes": dtype.itemsize,
        }
    return _words(row, ll.PARAM)


def _guard_row(guard: Guard, keep: list[object]) -> list[int]:
    target: object
    expected: tuple[object, object, object]
    match guard:
        case ItemGuard(table, key, value):
            kind, target = ll.DICT_ITEM, table
            expected = (key, value, None)
        case CellGuard(cell, value):
            kind, target = ll.CELL, cell
            expected = (value, None, None)
        case FunctionGuard(fn, code, defaults, kwdefaults):
            kind, target = ll.FUNCTION, fn
            expected = (code, _or_missing(defaults), _or_missing(kwdefaults))
    keep += [target, *expected]
    a, b, c = (0 if value is MISSING else id(value) for value in expected)
    return _words({"kind": kind, "object": id(target), "a": a, "b": b, "c": c}, ll.GUARD)


def _or_missing(value: object) -> object:
    return MISSING if value is None else value  # CPython keeps NULL for None here


def _fact_row(fact: Fact, params: tuple[Param, ...]) -> list[int]:
    slots = {p.name: p.slot for p in params}
    written = sum(1 << p.slot for p in params if p.is_written)
    row = {"kind": _FACTS[fact.kind], "slot": slots.get(fact.arg, 0), "written": written, "number": EQUALS.get(fact.kind, 0)}
    return _words(row, ll.FACT)


# --- the function ---------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("ml_name", ctypes.c_char_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_char_p),
    )


_methods: list[_MethodDef] = []


def _method() -> _MethodDef:
    """Shared by all launchers; kept, with its code, for ever.

    functools.cache would give two threads that ask at once an object each and keep only one of them.
    """
    with jit.lock:
        if not _methods:
            code = jit.load(LAUNCHER_TEXT, pipeline="plain", keep_for_ever=True)
            address = code.address("eas_launch")
            _methods.append(_MethodDef(b"eas_launch", address, _METH_FASTCALL, None))
        return _methods[0]


def _new_function(plan: Words, state: _State) -> Call:
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    owner = (ctypes.addressof(plan), plan, state)
    made: Call = new(ctypes.addressof(_method()), owner, None)
    return made


@functools.cache
def why_not_here() -> str | None:
    """Why launchers cannot work in this process, or None."""
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:  # t: free-threaded
        return "launchers need CPython with a GIL"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "launchers need a 64-bit little-endian machine"
    if not all(_is_laid_out(a) for a in _probes()):
        return "this NumPy lays its arrays out in another way"
    try:
        _method()
    except (elf.CannotLoad, jit.CodeError) as error:
        return str(error)
    return None


def _probes() -> list[np.ndarray]:
    frozen = np.arange(5, dtype=np.int64)
    frozen.flags.writeable = False
    matrix = np.zeros((3, 4), np.float32)
    return [
        frozen,
        matrix,
        matrix.T,
        np.zeros((2, 0, 3), np.uint8),
        np.zeros((), np.float16),
        frozen[1::2],
    ]


def _is_laid_out(array: np.ndarray) -> bool:
    """Whether the words of this array are where launchers look for them."""

    def word(name: str, kind: Any) -> Any:
        return kind.from_address(id(array) + ll.ARRAY_OFFSETS[name]).value

    shape = word("shape", ctypes.c_void_p)
    if (
        word("type", ctypes.c_void_p) != id(np.ndarray)
        or word("ndim", ctypes.c_int32) != array.ndim
    ):
        return False
    if word("data", ctypes.c_void_p) != array.ctypes.data or word("dtype", ctypes.c_void_p) != id(
        array.dtype
    ):
        return False
    if word("flags", ctypes.c_int32) != array.flags.num:
        return False
    return (
        array.ndim == 0 or tuple((ctypes.c_int64 * array.ndim).from_address(shape)) == array.shape
    )
