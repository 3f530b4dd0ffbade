"""Kernels in memory of the CPU: what they are made of, their arguments as slots, their error records as exceptions."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

import numpy as np

from eas.base import config, dtypes
from eas.base.errors import ArgumentError, KernelError, SourcePlace
from eas.base.loading import load
from eas.base.types import Type
from eas.runtime import Executable, Grid
from eas.runtime.launch_queue import Span
from eas.runtime.native import jit
from eas.runtime.native.faults import watch

if TYPE_CHECKING:
    from eas.runtime.device_log import DeviceLog, LogFormat
    from eas.schedule.target import CpuTarget

MAX_SHORT_WORK = 1_000_000  # operations on elements: a millisecond or a few


class NativeCode(Protocol):
    """What the LLVM code generator makes of a module.

    `entry` is `void (ptr args, i64 begin, i64 end, ptr scratch)` and runs linear program ids; see
    `slot_count` for `args`. `scratch` has `scratch_nbytes` bytes at a multiple of 64, for one
    thread; the first 64 are zero when a thread meets a launch and keep what the kernel puts there
    until the launch ends. If a program fails it sets an `ErrorRecord`, whose `place` is an index
    into `places`: the message of a device_assert, or the name of a buffer; and the kernel line.
    The code itself is `object`, an object file for this machine, or else `llvm`, a text.
    """

    @property
    def entry(self) -> str: ...
    @property
    def scratch_nbytes(self) -> int: ...
    @property
    def places(self) -> Sequence[tuple[str, SourcePlace | None]]: ...
    @property
    def object(self) -> bytes | None: ...
    @property
    def llvm(self) -> str: ...
    @property
    def target(self) -> CpuTarget | None:
        """For whom the text is compiled; None is this machine."""
    @property
    def logs(self) -> Sequence[LogFormat]:
        """Formats of `device_print`; a launch of such a kernel needs a `DeviceLog`."""
    @property
    def nbytes_per_program(self) -> int | None: ...
    @property
    def flops_per_program(self) -> int | None: ...
    @property
    def work_per_program(self) -> int | None:
        """Instructions, at most; None if nobody knows how long a program takes."""


class Argument(Protocol):
    """One runtime argument of a kernel."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Type: ...
    @property
    def is_buffer(self) -> bool: ...


class NativeExecutable(Executable, Protocol):
    """An executable with native code; this runtime keeps the loaded code in `loaded`."""

    loaded: LoadedKernel | None

    @property
    def args(self) -> Sequence[Argument]: ...
    @property
    def native(self) -> NativeCode: ...
    @property
    def writes(self) -> Sequence[str] | None:
        """Names of the buffers that are written, or None if nobody has looked."""


class ErrorRecord(ctypes.Structure):
    """Written by the first program that fails: it swaps `flag` from 0 to 1, then fills the rest."""

    _fields_ = (
        ("flag", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("place", ctypes.c_int64),
        ("program", ctypes.c_int64),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


ASSERTION, BAD_LOAD, BAD_STORE = 1, 2, 3  # ErrorRecord.kind


def slot_count(n_args: int) -> int:
    """Slots of 8 bytes: the arguments, gx, gy, gz, error record, print buffer, elements of each argument.

    A buffer is its address, a scalar its value in the low bytes. The last `n_args` slots hold the
    number of elements of each buffer, for checked accesses; 0 for scalars.
    """
    return 2 * n_args + 5


class LoadedKernel:
    """A kernel in memory; its code lives as long as this object."""

    def __init__(self, args: Sequence[Argument], native: NativeCode) -> None:
        self.code = _code(native)
        self.address = self.code.address(native.entry)
        self.scratch_nbytes = native.scratch_nbytes
        self.args = args
        self.logs = native.logs
        self.rate = ctypes.c_int64(0)
        """What the pool learned of the time of one program."""
        work = native.work_per_program
        self.max_programs = 0 if work is None else MAX_SHORT_WORK // max(work, 1)
        """Up to how many programs a launch is short for certain; 0: nobody knows how long one takes."""
        self._encoders = tuple(functools.partial(_encoder(arg), arg) for arg in args)
        self._slots = ctypes.c_uint64 * slot_count(len(args))

    def slots(
        self, args: Sequence[object], grid: Grid, record: ErrorRecord, log: DeviceLog | None = None
    ) -> ctypes.Array[ctypes.c_uint64]:
        """The memory that the entry reads; it does not keep the arguments alive."""
        if len(args) != len(self._encoders):
            raise ArgumentError(
                f"the kernel takes {len(self._encoders)} arguments, got {len(args)}"
            )
        encoded = [encode(given) for encode, given in zip(self._encoders, args, strict=True)]
        values, sizes = zip(*encoded, strict=True) if encoded else ((), ())
        log_address = 0 if log is None else log.address
        return self._slots(*values, *grid, ctypes.addressof(record), log_address, *sizes)

    def spans(
        self, slots: ctypes.Array[ctypes.c_uint64], writes: Sequence[str] | None
    ) -> list[Span]:
        """The memory of the buffers in these slots; `writes` names those written, None means all."""
        sizes = len(self.args) + 5
        return [
            Span(slots[i], slots[i] + slots[sizes + i] * arg.type.dtype.nbytes, writes is None or arg.name in writes)
            for i, arg in enumerate(self.args)
            if arg.is_buffer
        ]


def _code(native: NativeCode) -> jit.LoadedCode:
    if native.object is not None:
        return jit.load_object(native.object)
    return jit.load(native.llvm, pipeline="plain" if config.noopt() else jit.DEFAULT_PIPELINE, target=native.target)


def load_kernel(executable: NativeExecutable) -> LoadedKernel:
    """The code of an executable in memory; compiled on first use."""
    found = executable.loaded
    if found is None:
        with jit.lock:
            found = executable.loaded
            if found is None:
                found = executable.loaded = LoadedKernel(executable.args, executable.native)
                watch(executable.name, found.code, found.address)
    return found


def raise_error(
    name: str, places: Sequence[tuple[str, SourcePlace | None]], grid: Grid, record: ErrorRecord
) -> NoReturn:
    """The error that the interpreter raises for the same failure."""
    load("eas.ops.machine", "eas.runtime.checked_program")
    from eas.ops.machine import Buffer
    from eas.runtime.checked_program import CheckedProgram

    text, loc = places[record.place]
    x, rest = record.program % grid[0], record.program // grid[0]
    program = CheckedProgram(name)
    program.pid = (x, rest % grid[1], rest // grid[1])
    if record.kind == ASSERTION:
        try:
            program.fail(text)
        except KernelError as error:
            raise error.at(loc) from None
    access: Literal["load", "store"] = "load" if record.kind == BAD_LOAD else "store"
    # Only the length of the buffer is asked for: no memory stands behind this array.
    length = np.broadcast_to(np.zeros((), np.uint8), (record.size,))
    buffer = Buffer(text, length, dtypes.u8)
    raise program._out_of_bounds(access, buffer, record.index).at(loc) from None


# --- arguments ------------------------------------------------------------------------------------

_F32_MAX = float(np.finfo(np.float32).max)
Slot = tuple[int, int]  # the 8 bytes, and the number of elements


def _encoder(arg: Argument) -> Callable[[Argument, Any], Slot]:
    if arg.is_buffer:
        return _buffer_slot
    return _float_slot if arg.type.dtype.is_float else _integer_slot


def _buffer_slot(arg: Argument, given: Any) -> Slot:
    dtype = arg.type.dtype
    if type(given) is np.ndarray and given.dtype is dtype.np_storage and given.ndim == 1:
        flags = given.flags
        if flags.c_contiguous and flags.aligned:
            return given.__array_interface__["data"][0], given.size
    if not isinstance(given, np.ndarray):
        raise ArgumentError(
            f"argument {arg.name} is a buffer of {dtype}, got {type(given).__name__}"
        )
    flags = given.flags
    if given.dtype != dtype.np_storage or given.ndim != 1 or not flags.c_contiguous:
        raise ArgumentError(
            f"argument {arg.name} is a flat, contiguous buffer of {dtype} "
            f"({dtype.np_storage} in memory), got {given.dtype} of shape {given.shape}"
        )
    if not flags.aligned:
        raise ArgumentError(
            f"argument {arg.name} starts in the middle of an element of {dtype}",
            hint=f"pass {arg.name}.copy()",
        )
    return given.__array_interface__["data"][0], given.size


def _integer_slot(arg: Argument, given: Any) -> Slot:
    dtype = arg.type.dtype
    if type(given) is int and dtype.min <= given <= dtype.max:
        return given, 0
    _check_number(arg, given)
    is_whole = not isinstance(given, float | np.floating) or float(given).is_integer()
    if not is_whole or not dtype.min <= given <= dtype.max:
        raise ArgumentError(f"argument {arg.name} is {given}, which is no {dtype}")
    return int(given), 0


def _float_slot(arg: Argument, given: Any) -> Slot:
    dtype = arg.type.dtype
    if type(given) is float and dtype is dtypes.f32 and abs(given) <= _F32_MAX:
        return int.from_bytes(struct.pack("<f", given), "little"), 0
    load("eas.base.numerics")
    from eas.base import numerics

    _check_number(arg, given)
    with np.errstate(all="ignore"):
        value = numerics.round_to(np.asarray(given, np.float64), dtype)
    return int.from_bytes(numerics.encode(value, dtype).tobytes(), "little"), 0


def _check_number(arg: Argument, given: object) -> None:
    if not isinstance(given, bool | int | float | np.bool_ | np.integer | np.floating):
        raise ArgumentError(
            f"argument {arg.name} is a number of type {arg.type}, got {type(given).__name__}"
        )
