"""One launch of Metal text, for every runtime that runs it: what is bound where, and what the log says afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eas.base import numerics
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError, SourcePlace
from eas.ir import Arg
from eas.runtime import Executable, Grid
from eas.runtime.gpu.log import LogFormat, MetalLog
from eas.runtime.grid import check_programs
from eas.runtime.launch_queue import Span
from eas.schedule.gpu.target import MetalTarget

Array = np.ndarray


class MetalCode(Protocol):
    """What the Metal code generator makes of a module; `eas.codegen.msl.generate.MetalCode` is the implementation."""

    @property
    def text(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...
    @property
    def buffers(self) -> Sequence[tuple[str, int, bool]]: ...
    @property
    def scalars(self) -> Sequence[tuple[str, DType, int]]: ...
    @property
    def scalars_index(self) -> int | None: ...
    @property
    def scalars_nbytes(self) -> int: ...
    @property
    def log_index(self) -> int | None: ...
    @property
    def lines(self) -> Sequence[SourcePlace | None]: ...
    @property
    def math_mode(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def places(self) -> Sequence[tuple[str, SourcePlace | None]]: ...
    @property
    def logs(self) -> Sequence[LogFormat]: ...


class MetalExecutable(Executable, Protocol):
    """An executable with Metal text."""

    @property
    def metal(self) -> MetalCode: ...

    def metal_on(self, target: MetalTarget | None) -> MetalCode: ...


@dataclass(frozen=True, slots=True)
class MetalLaunch:
    """Memory by buffer index; the grid counts threadgroups of `code.threads` threads."""

    code: MetalCode
    bound: dict[int, Array]
    grid: Grid
    log: MetalLog | None

    def spans(self) -> list[Span]:
        """The memory of the buffers that the kernel was given."""
        arrays = ((self.bound[index], is_written) for _, index, is_written in self.code.buffers)
        return [Span(a.ctypes.data, a.ctypes.data + a.nbytes, is_written) for a, is_written in arrays]

    def finish(self, kernel: str) -> None:
        """Print what the kernel printed, and raise what it asserted."""
        if self.log is not None:
            self.log.finish(kernel)


def prepare(executable: MetalExecutable, args: Sequence[object], grid: Grid, target: MetalTarget | None = None) -> MetalLaunch:
    """Bind the arguments of a launch: buffers as they are, scalars as one struct, the log behind them."""
    check_programs(executable.name, grid)
    code, module = executable.metal_on(target), executable.module
    if len(args) != len(module.args):
        raise ArgumentError(f"the kernel takes {len(module.args)} arguments, got {len(args)}")
    given = dict(zip((a.name for a in module.args), args, strict=True))
    by_name = {a.name: a for a in module.args}
    bound = {index: _buffer(by_name[name], given[name]) for name, index, _ in code.buffers}
    if code.scalars_index is not None:
        bound[code.scalars_index] = scalar_struct(code, module.args, given)
    log = None
    if code.log_index is not None:
        log = MetalLog(code, math.prod(grid))
        bound[code.log_index] = log.words
    return MetalLaunch(code, bound, grid, log)


def scalar_struct(code: MetalCode, args: Sequence[Arg], given: Mapping[str, object]) -> Array:
    """The bytes of the struct that the scalars of a launch lie in."""
    by_name = {a.name: a for a in args}
    struct = np.zeros(max(code.scalars_nbytes, 1), np.uint8)
    for name, dtype, offset in code.scalars:
        data = _scalar(by_name[name], given[name], dtype)
        struct[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
    return struct


def _buffer(arg: Arg, given: object) -> Array:
    dtype = arg.type.dtype
    if not isinstance(given, np.ndarray):
        raise ArgumentError(f"argument {arg.name} is a buffer of {dtype}, got {type(given).__name__}")
    if given.dtype != dtype.np_storage or given.ndim != 1 or not given.flags.c_contiguous:
        raise ArgumentError(
            f"argument {arg.name} is a flat, contiguous buffer of {dtype} "
            f"({dtype.np_storage} in memory), got {given.dtype} of shape {given.shape}"
        )
    if not given.flags.aligned:
        raise ArgumentError(
            f"argument {arg.name} starts in the middle of an element of {dtype}", hint=f"pass {arg.name}.copy()"
        )
    return given


def _scalar(arg: Arg, given: Any, dtype: DType) -> bytes:
    if not isinstance(given, bool | int | float | np.bool_ | np.integer | np.floating):
        raise ArgumentError(f"argument {arg.name} is a number of type {arg.type}, got {type(given).__name__}")
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return numerics.encode(numerics.round_to(np.asarray(given, np.float64), dtype), dtype).tobytes()
    is_whole = not isinstance(given, float | np.floating) or float(given).is_integer()
    if not is_whole or not dtype.min <= given <= dtype.max:
        raise ArgumentError(f"argument {arg.name} is {given}, which is no {dtype}")
    return int(given).to_bytes(dtype.nbytes, "little", signed=int(given) < 0)
