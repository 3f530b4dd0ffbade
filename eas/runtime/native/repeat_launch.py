"""When a launch may be repeated by a native launcher, and what that launcher must check each time."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from eas.base import config
from eas.base.dtypes import DType
from eas.base.facts import Fact
from eas.frontend.reads.frozen import MISSING
from eas.frontend.reads.globals_read import Dependencies, contents
from eas.runtime import Executable, Runtime, get_runtime
from eas.runtime.grid import GridInfo
from eas.runtime.native import fast_launch as fl
from eas.runtime.native.fast_launch import Axis, Call, Guard, Param

ENVIRONMENT = (
    "EAS_BACKEND",
    "EAS_CHECK_BOUNDS",
    "EAS_CPU",
    "EAS_DEBUG",
    "EAS_NOOPT",
    "EAS_NUM_THREADS",
    "EAS_WITHOUT",
)
"""What a launch reads from the environment."""

_MAX_BUILDS = 64  # of one kernel: past it something changes with every launch
_FIXED_TYPES = (int, bool, float, str, bytes, NoneType, DType, FunctionType)
_INT32, _INT64 = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """What is the same for all launches of one compiled kernel."""

    fn: Callable[..., Any]
    names: tuple[str, ...]
    is_meta: tuple[bool, ...]
    arguments: Mapping[str, DType]
    """The dtype of each argument of the module, in order."""
    writes: tuple[str, ...]
    grid_info: GridInfo
    facts: tuple[Fact, ...]
    dependencies: Dependencies


Defaults = tuple[tuple[object, ...], tuple[Any, ...] | None, dict[str, Any] | None]
"""Of the parameters, `Parameter.empty` where there is none; and the `__defaults__` and `__kwdefaults__` they are from."""


class Repeater:
    """The launcher of one compiled kernel on one backend; it learns from launches that went the ordinary way."""

    __slots__ = ("_builds", "_guards", "_launcher", "_what", "call", "runtime")

    def __init__(self, what: Repeatable, runtime: Runtime) -> None:
        self._what = what
        self.runtime = runtime
        self._launcher: fl.Launcher | None = None
        self._guards: tuple[Guard, ...] = ()
        self._builds = 0
        self.call: Call | None = None
        """Runs a launch that it knows, or gives NotImplemented."""

    def learn(
        self,
        values: Sequence[object],
        bound: Defaults,
        variant: Callable[[], Executable],
        facts: frozenset[Fact],
    ) -> None:
        """Launches like this one, which succeeded on the backend, are known from now on if they can be.

        `variant` gives the code for the facts in the environment as it is when it is called.
        """
        if config.debug():  # every launch is told of
            return
        # The guards see the environment first: what is read after them is what they protect.
        if self._launcher is None or not all(map(_holds, self._guards)):
            self._build(values, bound)
        launcher = self._launcher
        if launcher is None or config.debug() or not self._is_current():
            return
        executable = variant()
        code = self.runtime.launch_code(executable)
        if code is not None and all(map(_holds, self._guards)):
            launcher.add_variant(facts, code.entry, executable.name, code.places)

    def takes_tensors(self, tensors: Mapping[int, Any]) -> bool:
        """Whether from now on eas tensors like these, by position, may be passed as they are, and arrays in their place mean the same."""
        is_own = all(dtype.np_storage == dtype.np_compute for dtype in self._what.arguments.values())
        if self._launcher is None or not is_own or self.runtime.name != "cpu":
            return False
        boxes = {i: box for i, tensor in tensors.items() if (box := fl.box_of(tensor)) is not None}
        return len(boxes) == len(tensors) and self._launcher.add_boxes(boxes)

    def _is_current(self) -> bool:
        """Whether launches still go to this backend: the environment says so, or leaves it to their arguments."""
        return get_runtime() is self.runtime or (self.runtime.name == "mps" and config.backend() == "auto")

    def _build(self, values: Sequence[object], bound: Defaults) -> None:
        self._launcher = self.call = None
        what = self._what
        # What a bound method is bound to may change in place.
        fn = what.fn if type(what.fn) is FunctionType else None
        if fn is None or self._builds >= _MAX_BUILDS or not self._is_current():
            return
        params = _params(what, values, bound[0])
        environment = fl.environment_guards(*ENVIRONMENT)
        if params is None or environment is None:
            return
        self._builds += 1
        own = fl.FunctionGuard(fn, fn.__code__, *bound[1:])
        outside = _dependency_guards(what.dependencies)
        guards = (fl.ItemGuard(vars(os), "environ", os.environ), *environment, own, *(outside or ()))
        grid, site = _axes(what.grid_info, params), self.runtime.launch_site()
        launcher = None if site is None else fl.make_launcher(fl.LaunchSpec(params, grid, site, what.facts, guards))
        if launcher is None:
            return
        self._launcher, self._guards, self.call = launcher, guards, launcher.call
        if outside is None:
            is_current = what.dependencies.is_current
            self.call = functools.partial(_checked, launcher.call, is_current)


def _checked(call: Call, is_current: Callable[[], bool], *given: Any) -> object:
    """A launcher of a kernel that reads what only Python can compare."""
    return call(*given) if is_current() else NotImplemented


# --- the signature --------------------------------------------------------------------------------


def _params(what: Repeatable, values: Sequence[object], defaults: Sequence[object]) -> tuple[Param, ...] | None:
    """The parameters of launches like this one, or None if Python must look at one of them."""
    slots = {name: i for i, name in enumerate(what.arguments)}
    found = []
    for name, is_meta, value, default in zip(what.names, what.is_meta, values, defaults, strict=True):
        if default is Parameter.empty:
            default = fl.MISSING
        if is_meta or value is None:
            param = Param(name, "constant", value=value, default=default) if _is_fixed(value) else None
        else:
            param = _argument(name, slots.get(name, -1), value, what.arguments.get(name), name in what.writes, default)
        if param is None or (param.kind != "constant" and param.slot < 0):
            return None
        found.append(param)
    return tuple(found)


def _argument(name: str, slot: int, value: object, dtype: DType | None, written: bool, default: object) -> Param | None:
    if type(value) is np.ndarray:
        # Launchers compare dtypes by identity: one with metadata would never be found again.
        is_shared = np.empty(0, value.dtype).dtype is value.dtype
        return Param(name, "buffer", slot, value.dtype, written, default=default) if is_shared else None
    kind = _NATIVE.get((type(value), dtype.name if dtype else ""))
    if kind == "i64" and isinstance(value, int) and value in _INT32:
        kind = "any_i64"  # declared: small ones come as well
    return None if kind is None else Param(name, kind, slot, default=default)


_NATIVE: dict[tuple[type, str], fl.ParamKind] = {(bool, "bool"): "bool", (float, "f32"): "f32", (float, "f64"): "f64", (int, "i32"): "i32", (int, "i64"): "i64"}
"""Numbers that native code reads; of others Python makes what the kernel wants."""


def _is_fixed(value: object) -> bool:
    """Whether the same object always means the same kernel; what functions do, `Dependencies` knows."""
    if type(value) is tuple:
        return all(map(_is_fixed, value))
    return type(value) in _FIXED_TYPES


def _axes(info: GridInfo, params: Sequence[Param]) -> tuple[Axis, Axis, Axis] | None:
    """How `grid.infer_grid` finds the grid of a call without options; None if it cannot."""
    axes = info.axes | info.num_programs_axes
    if not axes:
        return (Axis(), Axis(), Axis())
    block = 1
    if 0 in axes:
        if len(info.block_sizes) != 1 or info.block_sizes[0] <= 0:
            return None
        block = info.block_sizes[0]
    names = ("N", "", "") if max(axes) == 0 else ("W", "H", "D")
    by_name = {p.name: p for p in params}
    found = [_axis(by_name.get(names[i]), (block, *info.more_threads)[i]) if i in axes else Axis() for i in range(3)]
    x, y, z = found
    return None if x is None or y is None or z is None else (x, y, z)


def _axis(param: Param | None, block: int) -> Axis | None:
    if param is None:
        return None
    if param.kind in ("i32", "i64", "any_i64"):
        return Axis(slot=param.slot, block=block)
    value = param.value
    if param.kind == "constant" and type(value) is int and value >= 0:
        return Axis(count=-(-value // block))
    return None


# --- guards ---------------------------------------------------------------------------------------


def _dependency_guards(dependencies: Dependencies) -> tuple[Guard, ...] | None:
    """`Dependencies.is_current` by identity; None if that takes more than identity."""
    found = dependencies.identities()
    if found is None:
        return None
    guards: list[Guard] = []
    guards += [fl.ItemGuard(table, name, fl.MISSING if value is MISSING else value) for table, name, value in found.items]
    guards += [fl.FunctionGuard(fn, code, fn.__defaults__, fn.__kwdefaults__) for fn, code in found.functions]
    guards += [fl.CellGuard(cell, value) for cell, value in found.cells]
    return tuple(guards)


def _holds(guard: Guard) -> bool:
    """What native code finds of this guard."""
    match guard:
        case fl.ItemGuard(table, key, value):
            return table.get(key, fl.MISSING) is value
        case fl.CellGuard(cell, value):
            return contents(cell) is value
        case fl.FunctionGuard(fn, code, defaults, kwdefaults):
            return fn.__code__ is code and fn.__defaults__ is defaults and fn.__kwdefaults__ is kwdefaults
