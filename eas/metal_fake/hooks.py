"""What the fake Metal asks of Python: compile Metal text, run sanitized kernels, explain what went wrong in a launch."""

from __future__ import annotations

import atexit
import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from eas.base.errors import EasError
from eas.base.locks import new_lock
from eas.metal_sim import native
from eas.metal_sim.library import Kernel, Library
from eas.metal_sim.reports import raise_error

SLOTS, PARAMETERS, TEXT_NBYTES = 31, 64, 8192
MATH_MODES = ("safe", "relaxed", "fast")
FAULTS = {"compile": 1, "allocation": 2, "page": 3, "timeout": 4, "removed": 5, "memory": 6, "pipeline": 7, "warning": 8}
U32, U64, P = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class FakeParameter(ctypes.Structure):
    _fields_ = (("kind", U32), ("index", U32), ("nbytes", U32), ("align", U32), ("is_const", U32))


class FakeFunction(ctypes.Structure):
    _fields_ = (
        ("number", U64), ("entry", P), ("max_threads", U32), ("static_nbytes", U32), ("n_parameters", U32), ("is_sanitized", U32),
        ("parameters", FakeParameter * PARAMETERS),
    )  # fmt: skip


class FakeDispatch(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.POINTER(FakeFunction)), ("buffers", P * SLOTS), ("nbytes", U64 * SLOTS),
        ("threadgroup_nbytes", U32 * SLOTS), ("groups", U32 * 3), ("threads", U32 * 3),
    )  # fmt: skip


# Of texts that C passes a plain pointer is needed where it is written to.
_COMPILE = ctypes.CFUNCTYPE(U64, ctypes.c_char_p, U32, U32, P)
_NAMES = ctypes.CFUNCTYPE(None, U64, P)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, U64, ctypes.c_char_p, ctypes.POINTER(FakeFunction), P)
_FORGET = ctypes.CFUNCTYPE(None, U64)
_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(FakeDispatch), P)
_EXPLAIN = ctypes.CFUNCTYPE(None, ctypes.POINTER(FakeDispatch), P, P)


class FakeHooks(ctypes.Structure):
    _fields_ = (
        ("compile", _COMPILE), ("names", _NAMES), ("function", _FUNCTION), ("forget", _FORGET), ("run", _RUN), ("engine", P), ("explain", _EXPLAIN),
    )  # fmt: skip


class Hooks:
    """The Python side of one loaded extension; it must live as long as the extension."""

    def __init__(self, library: ctypes.CDLL, family: int, seed: int, sanitize: bool) -> None:
        self.native = library
        self.sanitize = sanitize
        self._numbers = itertools.count(1)
        self._libraries: dict[int, Library] = {}
        self._kernels: dict[int, Kernel] = {}
        self._lock = new_lock()
        engine = ctypes.cast(native._engine().eas_sim_run, P)
        self._table = FakeHooks(
            _COMPILE(self._compile), _NAMES(self._names), _FUNCTION(self._function), _FORGET(self._forget), _RUN(self._run), engine, _EXPLAIN(self._explain),
        )  # fmt: skip
        library.eas_fake_register(ctypes.byref(self._table), family, U64(seed))
        atexit.register(library.eas_fake_register, ctypes.byref(FakeHooks()), family, U64(seed))  # objects that die later have nobody to tell
        library.eas_fake_problem.restype = ctypes.c_char_p
        library.eas_fake_live_objects.restype = ctypes.c_long

    # --- for tests --------------------------------------------------------------------------------

    def inject(self, fault: str, after: int = 1) -> None:
        """Let the n-th event of a kind from now on fail."""
        self.native.eas_fake_inject(FAULTS[fault], after)

    def problem(self) -> str | None:
        """What Metal's validation layer, or the Objective-C runtime, would have refused first."""
        found = self.native.eas_fake_problem()
        return None if found is None else str(found.decode(errors="replace"))

    def hold(self, is_held: bool) -> None:
        """While held, the GPU begins and ends nothing."""
        self.native.eas_fake_hold(int(is_held))

    def idle(self, is_idle: bool) -> None:
        """While idle, dispatches are forgotten: what is left of a launch is the work of the processor."""
        self.native.eas_fake_idle(int(is_idle))

    def drop_order(self, nth: int) -> None:
        """Leave out the n-th barrier or wait from now on; 0: none."""
        self.native.eas_fake_drop_order(nth)

    def orders(self) -> int:
        """Barriers and waits since `drop_order`."""
        return int(self.native.eas_fake_order_count())

    def clear(self) -> None:
        """Forget problems and faults that have not come."""
        self.native.eas_fake_clear()

    def live_objects(self, class_name: str | None = None) -> int:
        """Objects of the fake that are alive."""
        return int(self.native.eas_fake_live_objects(None if class_name is None else class_name.encode()))

    # --- what the fake calls ----------------------------------------------------------------------

    def _compile(self, source: bytes, language: int, math_mode: int, error: int) -> int:
        def made() -> int:
            library = Library(
                source.decode(), language=f"{language // 10}.{language % 10}", math_mode=MATH_MODES[math_mode], sanitize=self.sanitize
            )
            for name in library.kernel_names:
                library.kernel(name)  # Apple's compiler compiles a text as a whole
            number = next(self._numbers)
            with self._lock:
                self._libraries[number] = library
            return number

        return _told(made, error, 0)

    def _names(self, number: int, text: int) -> None:
        _write(text, "\n".join(self._libraries[number].kernel_names))

    def _function(self, number: int, name: bytes, out: Any, error: int) -> int:
        def filled() -> int:
            kernel = self._libraries[number].kernel(name.decode())
            entry = next(self._numbers)
            function = out.contents
            function.number, function.entry = entry, kernel._code.entry
            function.max_threads, function.is_sanitized = kernel.max_total_threads, int(self.sanitize)
            passed = [p for p in kernel.parameters if p.kind != "position"]
            function.n_parameters = len(passed)
            for slot, p in zip(function.parameters, passed, strict=False):
                info = kernel.info(p)
                slot.kind, slot.index = int(p.kind == "threadgroup"), p.index
                slot.nbytes, slot.align, slot.is_const = info.nbytes, info.align, ord(info.is_const)
            with self._lock:
                self._kernels[entry] = kernel
            return 0

        return _told(filled, error, 1)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._libraries.pop(number, None)

    def _run(self, dispatch: Any, error: int) -> int:
        def ran() -> int:
            d = dispatch.contents
            kernel = self._kernels[d.function.contents.number]
            arrays = [_array(d, p.index) for p in kernel.buffers]
            memory: dict[int | str, int] = {p.index: d.threadgroup_nbytes[p.index] for p in kernel.parameters if p.kind == "threadgroup"}
            kernel(*arrays, grid=tuple(d.groups), threads=tuple(d.threads), threadgroup_memory=memory)
            return 0

        return _told(ran, error, 1)

    def _explain(self, dispatch: Any, launch: int, error: int) -> None:
        kernel = self._kernels[dispatch.contents.function.contents.number]
        found = native.Launch.from_address(launch)
        _told(lambda: raise_error(kernel, found, [found.error]), error, 0)


def _array(dispatch: Any, index: int) -> np.ndarray:
    nbytes = dispatch.nbytes[index]
    return np.frombuffer((ctypes.c_char * nbytes).from_address(dispatch.buffers[index]), np.uint8)


def _told(action: Callable[[], int], error: int, failed: int) -> int:
    """The result of an action; what it raises becomes a text of the caller's."""
    try:
        return action()
    except Exception as raised:  # C cannot take exceptions, and every one of them has to reach the user
        _write(error, raised.message if isinstance(raised, EasError) else f"{type(raised).__name__}: {raised}")
        return failed


def _write(place: int, text: str) -> None:
    data = text.encode(errors="replace")[: TEXT_NBYTES - 1] + b"\0"
    ctypes.memmove(place, data, len(data))
