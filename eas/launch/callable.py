"""Objects that Python calls natively: a vectorcall that tries plans (eas/native/plan.c), and `__call__` for everything else.

The type has room for the address of a function and of a table, which are 0 until there is a plan: calls then are those of the
class. From the first plan on CPython calls the function, which calls `__call__` only for what no plan takes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from eas.interop.pending import PENDING
from eas.runtime.streams import SPECIAL

if TYPE_CHECKING:
    from eas.launch.native_plan import NativePlan

_MAX_PLANS = 16  # MAX_PLANS of eas/native/plan.h
_HAS_VECTORCALL, _IS_BASE_TYPE, _PYSSIZET, _READONLY = 1 << 11, 1 << 10, 19, 1
_FLAGS_AT = 168  # of tp_flags in PyTypeObject of 64-bit CPython; compared with type.__flags__
_VECTORCALL_AT, _TABLE_AT, _GRID_AT, _OTHERWISE_AT, _TELL_AT, _NBYTES = 16, 24, 32, 40, 48, 56  # struct callable


class _Member(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("nbytes", ctypes.c_int), ("item_nbytes", ctypes.c_int), ("flags", ctypes.c_uint), ("slots", ctypes.c_void_p))


_PY_TP_MEMBERS = 72
_kept: list[object] = []


def _made_type() -> type[Any]:
    """A class whose objects have the words of `struct callable`; a plain one where Python is laid out in another way."""
    if sys.implementation.name != "cpython" or "t" in sys.abiflags or ctypes.sizeof(ctypes.c_void_p) != 8:
        return object
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _PYSSIZET, _VECTORCALL_AT, _READONLY, None))
    slots = (_Slot * 2)(_Slot(_PY_TP_MEMBERS, ctypes.addressof(members)))
    spec = _Spec(b"eas.launch.callable.Words", _NBYTES, 0, _IS_BASE_TYPE, ctypes.addressof(slots))
    _kept.extend((members, slots, spec))
    new = ctypes.pythonapi.PyType_FromSpec
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p,)
    made: type[Any] = new(ctypes.addressof(spec))
    del made.__vectorcalloffset__  # has said where the word is
    return made


if TYPE_CHECKING:
    _Words = object
else:
    _Words = _made_type()


class Callable(_Words):
    """What a kernel, `kernel[grid]` and a function of the library are called by."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Whatever no plan takes."""
        raise NotImplementedError

    def _tell(self, error: BaseException) -> None:
        """Make an error of a launch what the caller sees."""

    def _call_natively(self, table: LaunchTable[Any], grid: object = None) -> None:
        """From now on calls try the plans of the table; it and the grid live as long as this object."""
        if _Words is object or not type(self).__flags__ & _HAS_VECTORCALL:
            return
        from eas.runtime.native.native_code import native_code

        self._functions = (type(self).__call__, type(self)._tell)
        words = (ctypes.c_int64 * (_NBYTES // 8)).from_address(id(self))
        words[_TABLE_AT // 8], words[_GRID_AT // 8] = table.address, 0 if grid is None else id(grid)
        words[_OTHERWISE_AT // 8], words[_TELL_AT // 8] = map(id, self._functions)
        words[_VECTORCALL_AT // 8] = native_code().address("eas_plan_call")


C = TypeVar("C", bound=Callable)


def called_natively(cls: type[C]) -> type[C]:
    """Let CPython call objects of this class by their vectorcall, where they have one; a subclass that says nothing is called by `__call__`."""
    flags = ctypes.c_ulong.from_address(id(cls) + _FLAGS_AT)
    if _Words is not object and flags.value == cls.__flags__:  # else this Python is laid out in another way
        flags.value |= _HAS_VECTORCALL
    return cls


class _TableWords(ctypes.Structure):
    _fields_ = (("n_plans", ctypes.c_int64), ("plans", ctypes.c_int64 * _MAX_PLANS), *((name, ctypes.c_int64) for name in ("readers", "special", "grid_name", "world")))


class Known(Protocol):
    """Whoever keeps a plan up to date."""

    @property
    def native(self) -> NativePlan | None: ...


K = TypeVar("K", bound=Known)


class LaunchTable(Generic[K]):
    """The plans that calls of one object try, the newest first: native code has them by their addresses."""

    __slots__ = ("_held", "_learners", "_plans", "_words")

    def __init__(self) -> None:
        self._learners: tuple[K, ...] = ()
        self._plans: tuple[object, ...] = ()
        self._words: Any = None
        self._held: tuple[object, ...] = ()

    @property
    def address(self) -> int:
        """Of the words; 0 before the first plan."""
        return 0 if self._words is None else ctypes.addressof(self._words)

    def add(self, learner: K, limit: int) -> None:
        """Try this plan first from now on, and no more than `limit` in all."""
        if learner.native in self._plans:
            return
        if self._words is None:
            from eas.launch.native_plan import world

            name = sys.intern("_grid")
            self._held = (name, PENDING, SPECIAL)
            self._words = _TableWords(readers=id(PENDING), special=id(SPECIAL), grid_name=id(name), world=ctypes.addressof(world()))
        self._set((learner, *(each for each in self._learners if each is not learner))[: max(1, min(limit, _MAX_PLANS))])

    def _set(self, learners: tuple[K, ...]) -> None:
        plans = tuple(each.native for each in learners if each.native is not None)
        self._words.n_plans = 0  # nobody changes the order meanwhile
        for i, plan in enumerate(plans):
            self._words.plans[i] = plan.address
        self._words.n_plans = len(plans)
        self._learners, self._plans = learners, plans  # last: what goes is pointed to no more

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> bool:
        """Whether a plan has taken this launch."""
        for each in self._learners:
            native = each.native
            if native is not None and native.call(args, kwargs, grid) is None:
                return True
        return False

    def __contains__(self, learner: object) -> bool:
        return learner in self._learners

    def __iter__(self) -> Iterator[K]:
        return iter(self._learners)

    def __len__(self) -> int:
        return len(self._learners)
