"""The NumPy interpreter, the judge of all backends: it runs the block IR as the op table says."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base import config, numerics
from eas.base.errors import ArgumentError, GridError
from eas.base.locks import new_lock
from eas.ir import Arg, IRModule, verify
from eas.ops.machine import Buffer, Pointer
from eas.passes.spread_threads import spread_threads
from eas.runtime import Executable, Grid, Lane, Runtime
from eas.runtime.checked_program import Report
from eas.runtime.grid import check_programs
from eas.runtime.interp_lanes import LanePlan, is_lanes
from eas.runtime.interp_plan import Plan


class InterpRuntime(Runtime):
    """Runs every kernel everywhere, slowly, and checks every access to memory."""

    name = "interp"

    def why_unavailable(self) -> str | None:
        return None

    def prepare(self, executable: Executable) -> None:
        _prepare(executable.module)

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        execute(executable.module, args, grid)


def execute(module: IRModule, args: Sequence[object], grid: Grid, out: Report = print, streams: bool = False) -> None:
    """Run all programs one after another, axis 0 fastest.

    `args` follows `module.args`: flat storage arrays for buffers (uint16 for bf16, uint8 for fp8),
    numbers for scalars. `out` gets the lines of `device_print`. Of a scheduled module all stores go past the cache that may,
    if `streams`. A program that fails ends the
    launch with an error that names its kernel line; what was written until then stays written.
    """
    _check_grid(module, grid)
    if len(args) != len(module.args):
        raise ArgumentError(
            f"kernel {module.name} takes {len(module.args)} arguments, got {len(args)}"
        )
    values = [_argument(arg, given) for arg, given in zip(module.args, args, strict=True)]
    if 0 in grid:
        return
    prepared = _prepare(module)
    plan = prepared.take()
    plan.program.streams = streams
    try:
        plan.launch(values, grid, out)
    finally:
        prepared.give_back(plan)


def _check_grid(module: IRModule, grid: Grid) -> None:
    if len(grid) != 3 or min(grid) < 0:
        raise GridError(f"kernel {module.name}: the grid {grid} is not three numbers of 0 or more")
    check_programs(module.name, grid)


def _argument(arg: Arg, given: object) -> Any:
    """What the kernel sees: a pointer to the start of a buffer, or a scalar in compute form."""
    if arg.is_buffer:
        dtype = arg.type.dtype
        if not isinstance(given, np.ndarray):
            raise ArgumentError(
                f"argument {arg.name} is a buffer of {dtype}, got {type(given).__name__}"
            )
        if given.dtype != dtype.np_storage or given.ndim != 1 or not given.flags.c_contiguous:
            raise ArgumentError(
                f"argument {arg.name} is a flat, contiguous buffer of {dtype} "
                f"({dtype.np_storage} in memory), got {given.dtype} of shape {given.shape}"
            )
        return Pointer(Buffer(arg.name, given, dtype), np.zeros((), np.int64))
    if not isinstance(given, bool | int | float | np.bool_ | np.integer | np.floating):
        raise ArgumentError(
            f"argument {arg.name} is a number of type {arg.type}, got {type(given).__name__}"
        )
    return _scalar(arg, given)


def _scalar(arg: Arg, given: Any) -> np.ndarray:
    dtype = arg.type.dtype
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return numerics.round_to(np.asarray(given, np.float64), dtype)
    is_whole = not isinstance(given, float | np.floating) or float(given).is_integer()
    if not is_whole or not dtype.min <= given <= dtype.max:
        raise ArgumentError(f"argument {arg.name} is {given}, which is no {dtype}")
    return np.asarray(int(given), dtype.np_compute)


class _Prepared:
    """A module made ready to run, with the plans that no launch is using at the moment."""

    def __init__(self, module: IRModule) -> None:
        self.source = module  # kept alive, so that its id stays its own
        self.module = _lowered(verify(module))
        self.idle: list[Plan] = []

    def take(self) -> Plan:
        """A plan of this launch's own: threads may run one module at the same time."""
        try:
            return self.idle.pop()
        except IndexError:
            return LanePlan(self.module) if is_lanes(self.module) else Plan(self.module)

    def give_back(self, plan: Plan) -> None:
        plan.forget()
        self.idle.append(plan)


def _lowered(module: IRModule) -> IRModule:
    """Thread mode as block IR, where a thread is a lane of the leading axis."""
    if module.mode != "thread" or module.attr("spread") or is_lanes(module):
        return module
    spread = spread_threads(module)
    return verify(spread) if config.verify() else spread


_MAX_PREPARED = 256
_prepared: OrderedDict[int, _Prepared] = OrderedDict()
_prepared_lock = new_lock()


def _prepare(module: IRModule) -> _Prepared:
    with _prepared_lock:
        found = _prepared.get(id(module))
        if found is None:
            found = _prepared[id(module)] = _Prepared(module)
            while len(_prepared) > _MAX_PREPARED:
                _prepared.popitem(last=False)
        with contextlib.suppress(KeyError):  # a signal handler may have run kernels meanwhile
            _prepared.move_to_end(id(module))
        return found
