"""Plans from launches that went the ordinary way: what is the same in all calls like them, and what must be checked each time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import FunctionType, NoneType
from typing import Any

from eas.base import config
from eas.base.dtypes import DType
from eas.base.facts import Fact
from eas.frontend.reads.frozen import MISSING as GONE
from eas.frontend.reads.globals_read import Dependencies
from eas.interop.devices import devices_of
from eas.interop.hidden import Hidden
from eas.launch import plan as lp
from eas.launch.native_plan import Call, NativePlan, environment_guards, make_native
from eas.launch.plan import Asked, Axis, Guard, LaunchPlan, Param
from eas.runtime import BACKENDS, Executable, Runtime, get_runtime
from eas.runtime.grid import GridInfo

ENVIRONMENT = ("EAS_BACKEND", "EAS_CHECK_BOUNDS", "EAS_CPU", "EAS_DEBUG", "EAS_NOOPT", "EAS_NUM_THREADS", "EAS_WITHOUT")
"""What a launch reads from the environment."""

_MAX_BUILDS = 64  # of one kernel: past it something changes with every launch
_FIXED_TYPES = (int, bool, float, str, bytes, NoneType, DType, FunctionType)
_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class Launched:
    """What is the same for all launches of one compiled kernel."""

    fn: Callable[..., Any]
    names: tuple[str, ...]
    is_meta: tuple[bool, ...]
    arguments: Mapping[str, DType]
    """The dtype of each argument of the module, in order."""
    buffers: frozenset[str]
    hidden: Mapping[str, Hidden]
    writes: tuple[str, ...]
    strided: frozenset[str]
    grid_info: GridInfo
    facts: tuple[Fact, ...]
    dependencies: Dependencies


Defaults = tuple[tuple[object, ...], tuple[Any, ...] | None, dict[str, Any] | None]
"""Of the parameters, `Parameter.empty` where there is none; and the `__defaults__` and `__kwdefaults__` they are from."""


class Learner:
    """The plan of one compiled kernel on one backend; it learns from launches that went the ordinary way."""

    __slots__ = ("_builds", "_what", "native", "runtime")

    def __init__(self, what: Launched, runtime: Runtime) -> None:
        self._what = what
        self.runtime = runtime
        self._builds = 0
        self.native: NativePlan | None = None
        """The plan in native code, if calls can have one."""

    @property
    def call(self) -> Call | None:
        """Runs a launch that it knows, or gives NotImplemented."""
        return self.native.call if self.native else None

    def learn(self, values: Sequence[object], bound: Defaults, variant: Callable[[], Executable], facts: frozenset[Fact]) -> None:
        """Launches like this one, which succeeded on the backend, are known from now on if they can be.

        `variant` gives the code for the facts in the environment as it is when it is called.
        """
        if config.debug():  # every launch is told of
            return
        # The guards see the environment first: what is read after them is what they protect.
        if self.native is None or not all(map(lp.guard_holds, self.native.plan.guards)):
            self.native = self._built(values, bound)
        native = self.native
        if native is None or config.debug() or not self._is_current():
            return
        executable = variant()
        code = self.runtime.launch_code(executable)
        if code is not None and all(map(lp.guard_holds, native.plan.guards)):
            native.add_variant(facts, code.entry, executable.name, code.places)

    def _is_current(self) -> bool:
        """Whether launches still go to this backend: the environment says so, or leaves it to their arguments."""
        return get_runtime() is self.runtime or (self.runtime.name == "mps" and config.backend() == "auto")

    def _built(self, values: Sequence[object], bound: Defaults) -> NativePlan | None:
        what = self._what
        # What a bound method is bound to may change in place.
        fn = what.fn if type(what.fn) is FunctionType else None
        if fn is None or self._builds >= _MAX_BUILDS or not self._is_current():
            return None
        params = _params(what, values, bound[0])
        environment = environment_guards(*ENVIRONMENT)
        if params is None or environment is None:
            return None
        self._builds += 1
        own = lp.FunctionGuard(fn, fn.__code__, *bound[1:])
        guards = (lp.ItemGuard(vars(os), "environ", os.environ), *environment, own, *_dependency_guards(what.dependencies))
        site = self.runtime.launch_site()
        if site is None:
            return None
        is_host = any(b.is_host for b in BACKENDS if b.name == self.runtime.name)
        plan = LaunchPlan(
            params, tuple(what.arguments), _axes(what.grid_info, params), site, what.facts, guards,
            devices=devices_of(self.runtime.name), is_host=is_host,
        )  # fmt: skip
        return make_native(plan)


# --- the signature --------------------------------------------------------------------------------


def _params(what: Launched, values: Sequence[object], defaults: Sequence[object]) -> tuple[Param, ...] | None:
    """The parameters of launches like this one, or None if Python must look at one of them."""
    slots = {name: i for i, name in enumerate(what.arguments)}
    found = []
    for name, is_meta, value, default in zip(what.names, what.is_meta, values, defaults, strict=True):
        if default is Parameter.empty:
            default = lp.MISSING
        if is_meta or value is None:
            param = Param(name, "constant", value=value, default=default) if is_fixed(value) else None
        elif name in what.buffers:
            asked = tuple(Asked(hidden, slots[each]) for each, hidden in what.hidden.items() if hidden.buffer == name)
            param = Param(name, "buffer", slots[name], what.arguments[name], name in what.writes, default=default, is_strided=name in what.strided, asked=asked)
        else:
            param = _number(name, slots.get(name, -1), value, what.arguments.get(name), default)
        if param is None or (param.kind != "constant" and param.slot < 0):
            return None
        found.append(param)
    return tuple(found)


def _number(name: str, slot: int, value: object, dtype: DType | None, default: object) -> Param | None:
    kind = _NATIVE.get((type(value), dtype.name if dtype else ""))
    if kind == "i64" and isinstance(value, int) and value in _INT32:
        kind = "any_i64"  # declared: small ones come as well
    return None if kind is None else Param(name, kind, slot, default=default)


_NATIVE: dict[tuple[type, str], lp.ParamKind] = {(bool, "bool"): "bool", (float, "f32"): "f32", (float, "f64"): "f64", (int, "i32"): "i32", (int, "i64"): "i64"}
"""Numbers that native code reads; of others Python makes what the kernel wants."""


def is_fixed(value: object) -> bool:
    """Whether the same object always means the same kernel; what functions do, `Dependencies` knows."""
    if type(value) is tuple:
        return all(map(is_fixed, value))
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


def _dependency_guards(dependencies: Dependencies) -> tuple[Guard, ...]:
    """`Dependencies.is_current` by identity, where that is enough."""
    found = dependencies.identities()
    if found is None:
        return (lp.CalledGuard(dependencies.is_current),)
    guards: list[Guard] = []
    guards += [lp.ItemGuard(table, name, lp.MISSING if value is GONE else value) for table, name, value in found.items]
    guards += [lp.FunctionGuard(fn, code, fn.__defaults__, fn.__kwdefaults__) for fn, code in found.functions]
    guards += [lp.CellGuard(cell, value) for cell, value in found.cells]
    return tuple(guards)
