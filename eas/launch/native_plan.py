"""Launch plans in native code: the words that eas/native/plan.c reads, and the functions that it gives.

Why this is safe. The code runs with the GIL held and borrows what its caller's arguments hold; while the GIL is released it uses
addresses only, like any NumPy operation. It reads types, arrays and tensors at offsets that are first compared with what
Python says of several of them (and refuses builds of Python without a GIL); everything else goes through CPython's C API. It
takes an argument only if its type is exactly one that it knows, so no Python code of anybody runs. What a plan points to
is kept alive by its owner, of which a call that is under way has a reference.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MemberDescriptorType
from typing import Any

import numpy as np

from eas.base.errors import SourcePlace
from eas.base.facts import EQUALS, Fact
from eas.interop import torch_words
from eas.interop.arg_view import TENSOR_CLASSES
from eas.launch.plan import (
    MISSING,
    CalledGuard,
    CellGuard,
    FunctionGuard,
    Guard,
    ItemGuard,
    LaunchPlan,
    Param,
)
from eas.runtime.launch_site import LaunchEntry
from eas.runtime.native import elf, jit
from eas.runtime.native.kernels import ErrorRecord, raise_error
from eas.runtime.native.launch_layout import ENDS, FACTS
from eas.runtime.native.native_code import native_code

Places = Sequence[tuple[str, SourcePlace | None]]
Call = Callable[..., object]
"""`call(args, kwargs, grid)`: None (or the answer of the plan), or NotImplemented; a fourth argument, True, lets (address, size) stand for a buffer."""

_METH_FASTCALL = 0x80
_D_MEMBER, _OFFSET = 40, 16  # of PyMemberDescrObject and PyMemberDef
_MAX_ARGS, _MAX_FACTS, _MAX_VARIANTS = 64, 63, 32


# --- the words of plan.h ----------------------------------------------------------------------------


def _words(fields: str) -> type[ctypes.Structure]:
    """A structure of 8-byte words of these names."""
    return type("Words", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int64) for name in fields.split()]})


_ASKED = _words("kind axis ndim is_narrow slot")
_PARAM = _words("kind name fallback expected slot nbytes is_written is_strided takes_arrays dtype torch_dtype n_asked asked ndim shape")
_GUARD = _words("kind object a b c")
_FACT = _words("kind slot written number")
_VARIANT = _words("facts code scratch_nbytes rate max_programs")
_FIXED = _words("slot value")
_WORLD = _words(f"ndarray int_ float_ tuple dict true_ false_ none not_implemented tensor memory_at owner_at dtype_at device_at {' '.join(torch_words.NAMES)}")
_PLAN = _words(
    "n_params params n_guards guards n_facts facts n_variants variants n_fixed fixed n_args run n_threads pending on_error owner can_infer "
    "slot0 count0 block0 slot1 count1 block1 slot2 count2 block2 device private_device on_host answer n_positional world"
)
_KINDS = {kind: i for i, kind in enumerate(("buffer", "i32", "i64", "f32", "bool", "constant", "f64", "any_i64"))}
_ASKED_KINDS = {"stride": 0, "shape": 1, "size": 2}
_FACTS = {**dict.fromkeys(EQUALS, 0), "positive": 1, "divisible_16": 2, "aligned_64": 3, "disjoint": 4, "fits_32": 5, "in_place": 6}


class _Owner:
    """What the words of a plan point to, and what an error needs."""

    __slots__ = ("held", "variants")

    def __init__(self) -> None:
        self.held: list[object] = []
        self.variants: dict[int, tuple[LaunchEntry, str, Places]] = {}

    def table(self, rows: Sequence[ctypes.Structure], kind: type[ctypes.Structure]) -> int:
        """The address of rows side by side."""
        made = (kind * max(len(rows), 1))(*rows)
        self.held.append(made)
        return ctypes.addressof(made)

    def known(self, value: object) -> int:
        """The address of an object that stays alive; 0 for MISSING."""
        self.held.append(value)
        return 0 if value is MISSING else id(value)


def _param_row(param: Param, owner: _Owner) -> ctypes.Structure:
    row: Any = _PARAM(kind=_KINDS[param.kind], name=owner.known(sys.intern(param.name)), fallback=owner.known(param.default), slot=param.slot, torch_dtype=-1, ndim=-1)
    if param.kind == "constant":
        row.expected = owner.known(param.value)
    if param.dtype is not None and param.kind == "buffer":
        dtype = param.dtype
        row.expected, row.dtype, row.nbytes = owner.known(dtype.np_storage), owner.known(dtype), dtype.nbytes
        row.is_written, row.is_strided, row.takes_arrays = param.is_written, param.is_strided, dtype.np_storage == dtype.np_compute
        asked = [_ASKED(_ASKED_KINDS[a.hidden.kind], a.hidden.axis, a.hidden.ndim, a.hidden.is_narrow, a.slot) for a in param.asked]
        row.n_asked, row.asked = len(asked), owner.table(asked, _ASKED)
    if param.shape is not None:
        shape = (ctypes.c_int64 * max(len(param.shape), 1))(*param.shape)
        owner.held.append(shape)
        row.ndim, row.shape = len(param.shape), ctypes.addressof(shape)
    return row  # type: ignore[no-any-return]


def _guard_row(guard: Guard, owner: _Owner) -> ctypes.Structure:
    words: tuple[Any, ...]
    match guard:
        case ItemGuard(table, key, value):
            words = (0, table, key, value, MISSING)
        case CellGuard(cell, value):
            words = (1, cell, value, MISSING, MISSING)
        case FunctionGuard(fn, code, defaults, kwdefaults):  # CPython keeps NULL for None here
            words = (2, fn, code, MISSING if defaults is None else defaults, MISSING if kwdefaults is None else kwdefaults)
        case CalledGuard(is_current):
            words = (3, is_current, MISSING, MISSING, MISSING)
    kind, *objects = words
    return _GUARD(kind, *map(owner.known, objects))


def _fact_row(fact: Fact, plan: LaunchPlan) -> ctypes.Structure:
    written = sum(1 << p.slot for p in plan.params if p.is_written)
    return _FACT(_FACTS[fact.kind], plan.slot_of(fact), written, EQUALS.get(fact.kind, 0))


def _encode(plan: LaunchPlan, owner: _Owner, variants: ctypes.Array[Any]) -> Any:
    on_error = functools.partial(_on_error, owner.variants)  # not a method: the code goes with its plan, not with a cycle
    devices = (*plan.devices, MISSING, MISSING)
    words: Any = _PLAN(
        n_params=len(plan.params), params=owner.table([_param_row(p, owner) for p in plan.params], _PARAM),
        n_guards=len(plan.guards), guards=owner.table([_guard_row(g, owner) for g in plan.guards], _GUARD),
        n_facts=len(plan.facts), facts=owner.table([_fact_row(f, plan) for f in plan.facts], _FACT),
        n_variants=0, variants=ctypes.addressof(variants),
        n_fixed=len(plan.fixed), fixed=owner.table([_FIXED(each.slot, each.bits) for each in plan.fixed], _FIXED), n_args=len(plan.arguments),
        run=plan.site.run_address, n_threads=plan.site.n_threads, pending=ctypes.addressof(plan.site.pending),
        on_error=owner.known(on_error), owner=id(owner), can_infer=plan.axes is not None, on_host=plan.is_host, answer=plan.answer, n_positional=len(plan.params) if plan.n_positional is None else plan.n_positional,
        device=owner.known(devices[0]), private_device=owner.known(devices[1]), world=ctypes.addressof(world()),
    )  # fmt: skip
    for i, axis in enumerate(plan.axes or ()):
        for name in ("slot", "count", "block"):
            setattr(words, f"{name}{i}", getattr(axis, name))
    owner.held += [plan, variants, words]
    return words


def _on_error(variants: Mapping[int, tuple[LaunchEntry, str, Places]], data: bytes) -> None:
    record = ErrorRecord.from_buffer_copy(data)
    bits, x, y, z = np.frombuffer(data, np.int64, 4, ctypes.sizeof(ErrorRecord)).tolist()
    _, name, places = variants[bits]
    raise_error(name, places, (x, y, z), record)


# --- what a plan gives ------------------------------------------------------------------------------


class NativePlan:
    """A plan that native code executes: `call(args, kwargs, grid)` runs the kernel and gives None, or gives NotImplemented.

    It knows no variant at first: after a launch by the Python path, `add_variant` tells it the code for the facts that held.
    """

    __slots__ = ("_facts", "_owner", "_seen", "_variants", "_words", "call", "plan", "read")

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self._facts = {fact: 1 << i for i, fact in enumerate(plan.facts)}
        self._owner = _Owner()
        self._seen = (0, False)
        self._variants: Any = (_VARIANT * _MAX_VARIANTS)()
        self._words = _encode(plan, self._owner, self._variants)
        self.call = self._function(b"eas_plan_launch")
        self.read = self._function(b"eas_plan_read")
        """`read(args, kwargs, grid)`: what such a launch found, as the bytes of a frame; `frame_words` shows it."""
        self.see_tensors()

    @property
    def address(self) -> int:
        return ctypes.addressof(self._words)

    def add_variant(self, facts: frozenset[Fact], kernel: LaunchEntry, name: str, places: Places) -> None:
        """From now on calls of which exactly `facts` hold run this code."""
        bits, count = sum(self._facts[fact] for fact in facts), len(self._owner.variants)
        if bits in self._owner.variants or count == _MAX_VARIANTS:
            return
        self._owner.variants[bits] = (kernel, name, places)
        self._variants[count] = _VARIANT(bits, kernel.address, kernel.scratch_nbytes, ctypes.addressof(kernel.rate), kernel.max_programs)
        self._words.n_variants = count + 1  # last: the row is complete

    def take_variants(self, other: NativePlan) -> None:
        """Know the code that a plan with the same facts knows."""
        for bits, (kernel, name, places) in list(other._owner.variants.items()):
            self.add_variant(frozenset(fact for fact, bit in self._facts.items() if bits & bit), kernel, name, places)

    def see_tensors(self) -> None:
        """Take tensors of eas and torch from now on, if they are there and laid out as expected."""
        seen = (len(TENSOR_CLASSES), torch_words.is_loaded())
        if seen == self._seen:
            return
        self._seen, codes = seen, torch_words.dtype_codes()
        rows = (_PARAM * len(self.plan.params)).from_address(self._words.params)
        for row, param in zip(rows, self.plan.params, strict=True):
            if param.kind == "buffer":
                row.torch_dtype = codes.get(param.dtype, -1)
        for name, word in {**_tensor_words(), **torch_words.words()}.items():
            setattr(world(), name, word)

    def frame_words(self, data: bytes) -> tuple[list[int], list[int], list[int], tuple[int, ...], frozenset[Fact]]:
        """Of a frame: words of the arguments, elements of buffers, ends of buffers, grid, and the facts that hold."""
        words, n = np.frombuffer(data, np.int64).tolist(), len(self.plan.arguments)
        bits = words[FACTS]
        held = frozenset(fact for fact, bit in self._facts.items() if bits & bit)
        return words[:n], words[n + 5 : 2 * n + 5], words[ENDS : ENDS + n], tuple(words[FACTS + 1 : FACTS + 4]), held

    def _function(self, name: bytes) -> Call:
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        made: Call = new(ctypes.addressof(_method(name)), (self.address, self._owner), None)
        return made


def make_native(plan: LaunchPlan) -> NativePlan | None:
    """The plan in native code, or None if this signature or this build of Python needs the Python path."""
    has_room = len(plan.arguments) <= _MAX_ARGS and len(plan.facts) <= _MAX_FACTS
    is_known = all((p.kind == "constant") == (p.slot < 0) for p in plan.params)
    return NativePlan(plan) if has_room and is_known and why_not_here() is None else None


def environment_guards(*names: str) -> tuple[ItemGuard, ...] | None:
    """Guards that these environment variables are as they are now; None if they cannot be guarded."""
    data, encode = getattr(os.environ, "_data", None), getattr(os.environ, "encodekey", None)
    if type(data) is not dict or encode is None:
        return None
    keys = [encode(name) for name in names]
    return tuple(ItemGuard(data, key, data.get(key, MISSING)) for key in keys)


# --- this process -----------------------------------------------------------------------------------


@functools.cache
def world() -> Any:
    """What is the same for all plans of this process."""
    constants = {"ndarray": np.ndarray, "int_": int, "float_": float, "tuple": tuple, "dict": dict, "true_": True, "false_": False, "none": None, "not_implemented": NotImplemented}
    return _WORLD(**{name: id(value) for name, value in constants.items()})


def _tensor_words() -> dict[str, int]:
    """Where native code finds what an eas.Tensor holds; empty before there is one."""
    offsets = [(kind, _slot_offsets(kind, ("_memory", "_owner", "dtype", "_device"))) for kind in TENSOR_CLASSES]
    return {name: word for kind, found in offsets if found for name, word in zip(("tensor", "memory_at", "owner_at", "dtype_at", "device_at"), (id(kind), *found), strict=True)}


def _slot_offsets(kind: type[Any], names: Sequence[str]) -> list[int] | None:
    """Where slots of objects of a class are, as its descriptors say (PyMemberDescrObject.d_member.offset); compared with an object that has them."""
    probe, found = object.__new__(kind), []
    for name in names:
        member, value = getattr(kind, name, None), object()
        if type(member) is not MemberDescriptorType:
            return None
        definition = ctypes.c_void_p.from_address(id(member) + _D_MEMBER).value or 0
        at = ctypes.c_ssize_t.from_address(definition + _OFFSET).value if definition else 0
        setattr(probe, name, value)
        if not 0 < at <= kind.__basicsize__ - 8 or ctypes.c_void_p.from_address(id(probe) + at).value != id(value):
            return None
        found.append(at)
    return found


class _MethodDef(ctypes.Structure):
    _fields_ = (("ml_name", ctypes.c_char_p), ("ml_meth", ctypes.c_void_p), ("ml_flags", ctypes.c_int), ("ml_doc", ctypes.c_char_p))


_methods: dict[bytes, _MethodDef] = {}


def _method(name: bytes) -> _MethodDef:
    """Shared by all plans; kept for ever. functools.cache would give two threads that ask at once an object each."""
    with jit.lock:
        if name not in _methods:
            _methods[name] = _MethodDef(name, native_code().address(name.decode()), _METH_FASTCALL, None)
        return _methods[name]


@functools.cache
def why_not_here() -> str | None:
    """Why native launches cannot work in this process, or None."""
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:  # t: free-threaded
        return "native launches need CPython with a GIL"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "native launches need a 64-bit little-endian machine"
    if not all(_is_laid_out(a) for a in _probes()):
        return "this NumPy lays its arrays out in another way"
    try:
        native_code()
    except (elf.CannotLoad, jit.CodeError) as error:
        return str(error)
    return None


# PyArrayObject_fields of NumPy 1 and 2 on 64-bit CPython with a GIL: `struct array` of plan.c.
_ARRAY = {"type": 8, "data": 16, "ndim": 24, "shape": 32, "strides": 40, "dtype": 56, "flags": 64}


def _probes() -> list[np.ndarray]:
    frozen = np.arange(5, dtype=np.int64)
    frozen.flags.writeable = False
    matrix = np.zeros((3, 4), np.float32)
    return [frozen, matrix, matrix.T, np.zeros((2, 0, 3), np.uint8), np.zeros((), np.float16), frozen[1::2]]


def _is_laid_out(array: np.ndarray) -> bool:
    """Whether the words of this array are where native code looks for them."""

    def word(name: str, kind: Any = ctypes.c_void_p) -> Any:
        return kind.from_address(id(array) + _ARRAY[name]).value

    def axes(name: str) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * array.ndim).from_address(word(name))) if array.ndim else ()

    if word("type") != id(np.ndarray) or word("ndim", ctypes.c_int32) != array.ndim or word("flags", ctypes.c_int32) != array.flags.num:
        return False
    return word("data") == array.ctypes.data and word("dtype") == id(array.dtype) and axes("shape") == array.shape and axes("strides") == array.strides

