"""`@eas.kernel`: binding arguments, finding the compiled kernel, launching it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from eas.base import config, dtypes
from eas.base.errors import ArgumentError, CompileError, LaunchError
from eas.base.facts import holds
from eas.base.loading import load
from eas.base.locks import new_lock
from eas.base.recent import Recent
from eas.base.types import Space, Type
from eas.compiler import CompiledKernel, Variant, compile_kernel, get_ready
from eas.frontend.active import is_tracing
from eas.frontend.annotations import Declared, check_buffer, declared, is_double, scalar_type
from eas.frontend.constexpr import Static
from eas.frontend.reads.meta_keys import meta_key
from eas.frontend.tracebacks import show_to_user
from eas.interop.arguments import ArgView, Staging, hidden_value, is_scalar, view
from eas.interop.homes import extent_of, launch_site
from eas.interop.pending import PENDING, keep_for_readers
from eas.launch.arguments import plain_arrays, type_key
from eas.launch.callable import Callable as Called
from eas.launch.callable import LaunchTable, called_natively
from eas.launch.capture import Captured, Graph, capturing
from eas.launch.function import (
    OPTIONS,
    TARGET_HINTS,
    check_function,
    check_num_warps,
    head_of_function,
    parameters_of,
)
from eas.launch.prepared import Explained, Launch, Staged
from eas.launch.retraces import told_of_retrace
from eas.launch.told_strides import refuse_told_strides, steps_of
from eas.runtime import Grid, Lane, get_runtime, keys, require
from eas.runtime.grid import GridOptions, check_tptg, infer_grid
from eas.runtime.launch_settings import setting_now
from eas.runtime.streams import PROFILES, SPECIAL, Stream, lane_of

if TYPE_CHECKING:
    from eas.explain.page import Explanation
    from eas.launch.learn import Learner

MATH_MODES = ("safe", "relaxed", "fast")
_MISSING = inspect.Parameter.empty
LEARN_AFTER = 3  # launches of a compiled kernel before it gets a plan
_MAX_GRIDS = 64  # of which a kernel keeps `kernel[grid]`

Array = np.ndarray[Any, np.dtype[Any]]


@called_natively
class Kernel(Called):
    """A Python function that is compiled for the argument types it is called with."""

    def __init__(self, fn: Callable[..., Any], math_mode: str = "safe") -> None:
        if math_mode not in MATH_MODES:
            raise ArgumentError(f"math_mode {math_mode!r} is not one of {', '.join(MATH_MODES)}")
        check_function(fn)
        functools.update_wrapper(self, fn)
        self.__name__: str = fn.__name__
        self.__qualname__: str = fn.__qualname__
        self.__eas_kernel_function__ = fn
        self._math_mode = math_mode
        self.num_warps: int | None = None
        """Simdgroups of a program on Metal; None: as many as its blocks need."""
        self._by_warps: dict[int, Kernel] = {}
        params = parameters_of(fn)
        self._names, self._is_meta = tuple(params), tuple(params.values())
        self._meta_names = tuple(name for name, is_meta in params.items() if is_meta)
        self._meta_set = frozenset(self._meta_names)
        self._index = {name: i for i, name in enumerate(self._names)}
        self._stride_places = tuple(i for i, name in enumerate(self._names) if "stride" in name.lower())
        self._read_defaults()
        self._compiled: Recent[keys.CallKey, CompiledKernel] = Recent()
        self._table: LaunchTable[Learner] = LaunchTable()
        self._grids: dict[Any, GridKernel] = {}
        self._retraces = 0  # in a row
        self._ever_written: frozenset[str] = frozenset()
        self._lock = new_lock()
        self._get_ready()

    def _get_ready(self) -> None:
        """Load what the first call will need."""
        get_ready(self.fn.__code__.co_filename)

    # --- public -----------------------------------------------------------------------------

    def __call__(self, *args: Any, _grid: Any = None, _shape: Any = None, _nthreads: Any = None, _tptg: Any = None, _sync: bool = True, _stream: Stream | None = None, **kwargs: Any) -> None:
        """Launch over the arguments; see `docs/launching.md` for the options."""
        __tracebackhide__ = True
        try:
            if PENDING:
                keep_for_readers(self._names, args, kwargs, self._ever_written)
            if self._table and _shape is None and _nthreads is None and _tptg is None:
                if _grid is not None and type(_grid) is not tuple:
                    _grid = (_grid,) if type(_grid) is int else self._evaluated(_grid, args, kwargs)
                if self._launch_known(args, kwargs, _grid, _sync, _stream):
                    return None
            if is_tracing() and _any_traced((*args, *kwargs.values())):
                return self._inline(args, kwargs, _grid)
            hinted = self._hinted(kwargs)
            if hinted is not self:
                return hinted(*args, _grid=_grid, _shape=_shape, _nthreads=_nthreads, _tptg=_tptg, _sync=_sync, _stream=_stream, **kwargs)
            values = self._bind(args, kwargs)
            compiled = self._compile(values)
            self._launch(compiled, values, GridOptions(_grid, _shape, _nthreads), _tptg, _sync, _stream)
            return None
        except BaseException as error:
            self._tell(error)
            raise

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Triton's form: `kernel[grid](args)`."""
        try:
            found = self._grids.get(grid)
        except TypeError:  # a list, which nothing can be found by
            return GridKernel(self, grid)
        if found is not None and (found.grid is grid or _kinds(found.grid) == _kinds(grid)):  # True and 1.0 equal 1
            return found
        made = GridKernel(self, grid)
        if found is None and type(grid) in (int, tuple):
            if len(self._grids) >= _MAX_GRIDS:
                self._grids.clear()
            self._grids[grid] = made
        return made

    def compile(self, *args: Any, _grid: Any = None, _shape: Any = None, _nthreads: Any = None, _tptg: Any = None, _sync: bool = True, _stream: Stream | None = None, **kwargs: Any) -> CompiledKernel:
        """The compiled kernel for arguments like these; the same object for the same types and meta."""
        __tracebackhide__ = True
        try:
            hinted = self._hinted(kwargs)
            return hinted._compile(hinted._bind(args, kwargs))
        except BaseException as error:
            self._tell(error)
            raise

    def to_msl(self, *args: Any, **kwargs: Any) -> str:
        """The Metal text that a launch over these arguments would run."""
        __tracebackhide__ = True
        try:
            hinted = self._hinted(kwargs)
            if hinted is not self:
                return hinted.to_msl(*args, **kwargs)
            values = self._bind(args, {k: v for k, v in kwargs.items() if k not in OPTIONS})
            compiled = self._compile(values)
            values = self._with_hidden(compiled, values)
            given = {name: values[self._index[name]] for name in compiled.arg_names}
            arrays = {name: view(value, name) for name, value in given.items() if not is_scalar(value)}
            return self._variant(compiled, values, arrays).msl
        except BaseException as error:
            self._tell(error)
            raise

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """One HTML page about a launch over these arguments, whose memory is left alone; see `docs/explain.md`."""
        from eas.explain.kernel_page import explain_launch

        __tracebackhide__ = True
        try:
            return explain_launch(self._explained(args, kwargs))
        except BaseException as error:
            self._tell(error)
            raise

    @property
    def fn(self) -> Callable[..., Any]:
        """The function as the user wrote it."""
        return self.__eas_kernel_function__

    @property
    def math_mode(self) -> str:
        """`safe`, `relaxed` or `fast`; a kernel keeps the one it was made with."""
        return self._math_mode

    def __reduce__(self) -> str:
        return self.__qualname__  # as functions do: found again under its name, and never copied

    def __repr__(self) -> str:
        return f"<eas.kernel {self.__qualname__}({', '.join(self._names)})>"

    def __str__(self) -> str:
        code = self.fn.__code__
        params = ", ".join(f"{name}: constexpr" if is_meta else name for name, is_meta in zip(self._names, self._is_meta, strict=True))
        return f"kernel {self.__qualname__}({params}) at {code.co_filename}:{code.co_firstlineno}, compiled for {len(self._compiled)} sets of argument types"

    def _repr_html_(self) -> str:
        from eas.tools.notebook import kernel_html

        return kernel_html(self.fn, self._names, list(dict(self._compiled.items()).values()))

    def _tell(self, error: BaseException) -> None:
        """Make an error of a call what the caller sees: one of a launch names the kernel by its `def`."""
        if sys.is_finalizing():  # nothing can be imported any more
            if isinstance(error, ImportError):
                raise LaunchError(f"kernel {self.__name__} cannot be compiled while Python ends", hint="launch it with such arguments once before, or free what launches it in a function of atexit") from None
            return
        if isinstance(error, LaunchError):
            error.at(head_of_function(self.fn))
        hide_our_frames(error)

    # --- binding and compiling --------------------------------------------------------------

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
        """Called by another kernel: a helper of it."""
        from eas.frontend.builder import current
        from eas.frontend.hooks import HOOKS

        if grid is not None:
            raise CompileError(f"kernel {self.__name__} cannot be launched inside of a kernel", hint=f"call it as {self.__name__}({', '.join(self._names)}): it becomes part of this kernel", loc=current().here())
        HOOKS.call(self.fn)(*args, **kwargs)

    def _hinted(self, kwargs: dict[str, Any]) -> Kernel:
        """The kernel for the hints among the keywords, which are taken out; those that it declares are its own."""
        given = {name: kwargs.pop(name) for name in TARGET_HINTS if name in kwargs and name not in self._index}
        warps = given.get("num_warps")
        if warps is None or warps == self.num_warps:
            return self
        check_num_warps(self.__name__, warps)
        with self._lock:
            if warps not in self._by_warps:
                made = self._by_warps[warps] = Kernel(self.fn, self.math_mode)
                made.num_warps = warps
            return self._by_warps[warps]

    def _evaluated(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A grid given as a function of one mapping as the tuple that it gives; else the grid itself."""
        if type(grid) is FunctionType and not grid.__dict__ and grid.__code__.co_argcount == 1 and not grid.__code__.co_flags & inspect.CO_VARARGS:
            named = {**dict(zip(self._names, args, strict=False)), **kwargs}
            if len(named) < len(self._names):
                named = {**self._defaults_by_name, **named}
            is_stale = self.fn.__defaults__ is not self._defaults[1] or self.fn.__kwdefaults__ is not self._defaults[2]
            if is_stale or len(args) > len(self._names) or len(named) != len(self._names) or not kwargs.keys() <= self._index.keys():
                return grid  # such a call needs to be looked at first
            found = grid(named)
            return found if type(found) is tuple and all(type(n) is int for n in found) else (found,) if type(found) is int else grid
        return grid

    def _read_defaults(self) -> None:
        seen = (self.fn.__defaults__, self.fn.__kwdefaults__)
        fresh = inspect.signature(self.fn).parameters
        self._defaults = (tuple(fresh[name].default for name in self._names), *seen)
        self._defaults_by_name = {name: p.default for name, p in fresh.items() if p.default is not _MISSING}

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The value of every parameter, in order."""
        fn, (defaults, *seen) = self.fn, self._defaults
        if fn.__defaults__ is not seen[0] or fn.__kwdefaults__ is not seen[1]:
            self._read_defaults()
            defaults = self._defaults[0]
        values = [*args, *defaults[len(args) :]]
        if len(values) > len(self._names):
            raise ArgumentError(f"{self.__name__} takes {len(self._names)} arguments ({', '.join(self._names)}), got {len(args)}", hint="launch options such as _grid are given by name")
        for name, value in kwargs.items():
            index = self._index.get(name)
            if index is None or index >= len(self._names):
                raise self._unknown_argument(name)
            if index < len(args):
                raise ArgumentError(f"{self.__name__} got the argument `{name}` twice", hint="pass it by position or by name, not both")
            values[index] = value
        if any(value is _MISSING for value in values):
            missing = [name for name, value in zip(self._names, values, strict=True) if value is _MISSING]
            raise ArgumentError(f"{self.__name__} is missing {', '.join(f'`{m}`' for m in missing)}", hint=f"call it as {self.__name__}({', '.join(self._names)})")
        return values

    def _unknown_argument(self, name: str) -> ArgumentError:
        near = config.closest(name, (*self._names, *OPTIONS))
        return ArgumentError(f"{self.__name__} has no argument `{name}`", hint=f"did you mean `{near}`?" if near else f"its arguments are {', '.join(self._names)}")

    def _compile(self, values: list[Any]) -> CompiledKernel:
        key = self._key(values)
        found = self._compiled.get(key)
        if found is not None and found.dependencies.is_current():
            self._retraces = 0
            return found
        with self._lock:
            found = self._compiled.get(key)
            if found is None or (change := found.dependencies.change()):
                self._retraces = 0 if found is None else told_of_retrace(self.__name__, change, self._retraces + 1)
                if "num_warps" in self._index:  # a meta-parameter of its own, which is also the hint
                    check_num_warps(self.__name__, values[self._index["num_warps"]])
                found = compile_kernel(self.fn, self._arguments(values), self.math_mode, self.num_warps)
                self._ever_written |= frozenset(found.writes)
                for hidden in found._hidden:
                    self._index.setdefault(hidden, len(self._index))
                self._compiled.add(key, found, setting_now(config.max_compiled), self._is_launched_natively)
            return found

    def _is_launched_natively(self, compiled: CompiledKernel) -> bool:
        """Whether calls reach a compiled kernel without being counted as uses of it."""
        return any(learner in self._table for learner in compiled._learners.values())

    def _key(self, values: list[Any]) -> keys.CallKey:
        """Equal for launches that share a compiled kernel: meta values and argument types."""
        receiver = meta_key(self.fn.__self__) if isinstance(self.fn, MethodType) else None
        parts: list[Any] = []
        for name, value, is_meta in zip(self._names, values, self._is_meta, strict=True):
            if is_meta:
                parts.append(meta_key(value))
            elif type(value) is np.ndarray:
                parts.append(value.dtype)
            elif type(value) is int:
                parts.append("i32" if -0x80000000 <= value <= 0x7FFFFFFF else dtypes.of_scalar(value).name)
            else:
                parts.append(type_key(value, name))
        return keys.CallKey(receiver, tuple(parts))

    def _arguments(self, values: list[Any]) -> dict[str, Type | Static]:
        """What tracing needs to know of every parameter."""
        given = {name: value for name, is_meta, value in zip(self._names, self._is_meta, values, strict=True) if not is_meta and value is not None}
        buffers = {name: view(value, name).dtype for name, value in given.items() if not is_scalar(value)}
        said, with_f64 = self._declared, is_double(buffers)
        arguments: dict[str, Type | Static] = {}
        for name, value in zip(self._names, values, strict=True):
            if name in buffers:
                check_buffer(name, buffers[name], said.get(name))
                arguments[name] = Type(buffers[name], (), Space.DEVICE)
            elif name in given:
                arguments[name] = Type(scalar_type(name, value, said.get(name), with_f64))
            else:
                arguments[name] = Static(value)
        return arguments

    @functools.cached_property
    def _declared(self) -> dict[str, Declared]:
        return declared(self.fn)  # late: annotations may name what is defined below the kernel

    # --- launching --------------------------------------------------------------------------

    def _launch(self, compiled: CompiledKernel, values: list[Any], options: GridOptions, tptg: Any, sync: bool, stream: Stream | None) -> None:
        if PENDING:
            keep_for_readers(self._names, values, {}, compiled.writes)
        grid = self._grid(compiled, values, options, tptg)
        staged = self._stage(compiled, self._with_hidden(compiled, values), grid)
        if staged is None:
            return
        # Results come back from copies after the kernel has ended, so such a launch is waited for.
        sync = sync or staged.has_copies or sys.is_finalizing()  # no thread can be started then
        graph = capturing() if SPECIAL else None
        if graph is not None:
            self._capture(graph, compiled, staged, grid)
            return
        lane = None if stream is None and not SPECIAL else lane_of(stream, staged.runtime)
        if lane or PROFILES or not (sync and self._repeat(compiled, staged, grid)):
            self._run(compiled, staged, grid, sync, lane)
        staged.staging.finish()

    def _capture(self, graph: Graph, compiled: CompiledKernel, staged: Staged, grid: Grid) -> None:
        if staged.has_copies:
            raise LaunchError(f"{self.__name__} would run on a copy of an argument, which a graph cannot capture", hint="pass contiguous arrays, or let the kernel ask for strides")

        def choose(values: list[Any]) -> tuple[Variant, list[Any]]:
            arrays = {name: values[self._index[name]] for name in staged.arrays}
            variant = self._variant(compiled, values, arrays, staged.runtime.ignored_facts)
            return variant, [values[self._index[name]] for name in compiled.arg_names]

        graph.add(Captured(self.__name__, staged.runtime, staged.values, grid, choose, staged.staging.written(), compiled._learners.get(staged.runtime.name)))

    def _run(self, compiled: CompiledKernel, staged: Staged, grid: Grid, sync: bool, lane: Lane | None) -> None:
        variant = self._variant(compiled, staged.values, staged.arrays, staged.runtime.ignored_facts)
        args = [staged.values[self._index[name]] for name in compiled.arg_names]
        if setting_now(config.debug) or PROFILES:
            load("eas.runtime.debug")
            from eas.runtime import debug

            debug.run(staged.runtime, variant, args, grid, sync=sync, lane=lane)
        else:
            staged.runtime.run(variant, args, grid, sync=sync, lane=lane)
        self._learn(compiled, staged, variant)

    def _prepare(self, compiled: CompiledKernel, values: list[Any], options: GridOptions, tptg: Any) -> Launch | None:
        """Everything that `Runtime.run` needs, or None for a grid without programs."""
        grid = self._grid(compiled, values, options, tptg)
        staged = self._stage(compiled, self._with_hidden(compiled, values), grid)
        if staged is None:
            return None
        args = [staged.values[self._index[name]] for name in compiled.arg_names]
        variant = self._variant(compiled, staged.values, staged.arrays, staged.runtime.ignored_facts)
        return Launch(staged.runtime, variant, args, grid, staged.staging)

    def _explained(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explained:
        """A launch over these arguments, to be looked at."""
        options = GridOptions(*(kwargs.pop(name, None) for name in ("_grid", "_shape", "_nthreads")))
        tptg = kwargs.pop("_tptg", None)
        for name in ("_sync", "_stream"):
            kwargs.pop(name, None)
        hinted = self._hinted(kwargs)
        values = hinted._bind(args, kwargs)
        compiled = hinted._compile(values)
        launch = hinted._prepare(compiled, values, options, tptg)
        if launch is None:
            raise LaunchError(f"the grid of {self.__name__} has no programs, so there is nothing to explain", hint="pass arguments as a real launch has them")
        return Explained(self.fn, dict(zip(self._names, values, strict=True)), self.math_mode, compiled, launch)

    def _grid(self, compiled: CompiledKernel, values: list[Any], options: GridOptions, tptg: Any) -> Grid:
        if tptg is not None:
            check_tptg(compiled.grid_info, tptg)
        named = dict(zip(self._names, values, strict=True))
        meta = {name: named[name] for name in self._meta_names}
        scalars = {n: v for n, v in named.items() if n not in meta and type(v) is not np.ndarray and is_scalar(v)}
        return infer_grid(compiled.grid_info, scalars, meta, options, named)

    def _with_hidden(self, compiled: CompiledKernel, values: list[Any]) -> list[Any]:
        """The values of all parameters, followed by the strides and extents that the kernel asks for."""
        if not compiled._hidden:
            return values
        extended = values + [None] * (len(self._index) - len(values))
        for name, hidden in compiled._hidden.items():
            extended[self._index[name]] = hidden_value(view(values[self._index[hidden.buffer]], hidden.buffer), hidden)
        return extended

    def _stage(self, compiled: CompiledKernel, values: list[Any], grid: Grid) -> Staged | None:
        """The memory that the kernel runs on, or None for a grid without programs."""
        given = {name: values[self._index[name]] for name in compiled.arg_names}
        arrays = plain_arrays(compiled, given)
        is_plain = arrays is not None
        views: Mapping[str, ArgView] = {} if is_plain else {n: view(v, n) for n, v in given.items() if not is_scalar(v)}
        runtime, views = launch_site(self.__name__, views, get_runtime)
        require(runtime)
        if 0 in grid:
            return None
        staging, ready = Staging(), [*values]
        strided = compiled._strided
        if arrays is None:
            strided = strided | {n for n, v in views.items() if self._was_told_strides(v, values)}
            for name, seen in views.items():
                if not (seen.is_contiguous or name in strided):
                    refuse_told_strides(compiled, seen, given, {n: values[self._index[n]] for n in self._meta_names}, lambda name, value: self._traced_with(values, name, value))
            arrays = {n: staging.prepare(v, n in compiled.writes, n in compiled.reads, n in strided) for n, v in views.items()}
            for name, value in given.items():
                if isinstance(value, np.generic):
                    ready[self._index[name]] = value.item()
        for name, array in arrays.items():
            ready[self._index[name]] = array
        has_copies = any(v.must_finish or not (v.is_contiguous or n in strided) for n, v in views.items())
        return Staged(runtime, ready, arrays, staging, is_plain, has_copies)

    def _traced_with(self, values: list[Any], name: str, value: int) -> CompiledKernel:
        """The kernel of this launch, but with another value of one meta-parameter."""
        changed = [value if n == name else v for n, v in zip(self._names, values, strict=False)]
        return compile_kernel(self.fn, self._arguments(changed), self.math_mode, self.num_warps)

    def _was_told_strides(self, seen: ArgView, values: list[Any]) -> bool:
        """Whether parameters named after strides hold those of this array, as kernels written for Triton have them.

        Such a kernel addresses the memory itself: a copy without gaps would apply the strides twice.
        """
        if seen.is_contiguous or not self._stride_places:
            return False
        steps = steps_of(seen)
        return bool(steps) and steps <= {values[i] for i in self._stride_places if type(values[i]) is int}

    def _variant(self, compiled: CompiledKernel, values: list[Any], arrays: Mapping[str, Any], ignored: frozenset[str] = frozenset()) -> Variant:
        """The code for the launch facts that hold of what the kernel runs on, of those that it asked for."""
        extents = {name: extent_of(array) for name, array in arrays.items()}
        held = (f for f in compiled.facts if f.kind not in ignored and holds(f, values[self._index[f.arg]] if f.arg else None, extents, compiled.writes))
        return compiled.variant(frozenset(held))

    # --- plans --------------------------------------------------------------------------------

    def _launch_known(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, sync: bool, stream: Stream | None) -> bool:
        """Whether a plan has taken this launch."""
        if sync is True and stream is None and not SPECIAL:
            return self._table.call(args, kwargs, grid)
        if SPECIAL and capturing() is not None:
            return False
        for learner in self._table:
            aim = learner.runtime.aim(sync, lane_of(stream, learner.runtime))
            if aim is not None and learner.call is not None and aim(learner.call, args, kwargs, grid, False) is None:
                return True
        return False

    def _repeat(self, compiled: CompiledKernel, staged: Staged, grid: Grid) -> bool:
        """Launch by its plan, if that is possible now that the arguments are flat arrays and the grid is known."""
        learner = compiled._learners.get(staged.runtime.name)
        if learner is None or learner.call is None or compiled._hidden or learner.call(tuple(staged.values), {}, grid) is not None:
            return False
        self._try_first(learner)
        return True

    def _learn(self, compiled: CompiledKernel, staged: Staged, variant: Variant) -> None:
        """After some launches, let a plan take those to come; making it takes as long as many of them."""
        compiled._launches += 1
        if compiled._launches < LEARN_AFTER or sys.is_finalizing() or staged.runtime.launch_site() is None:
            return
        load("eas.launch.learn")
        from eas.launch.learn import Launched, Learner

        learner = compiled._learners.get(staged.runtime.name)
        if learner is None:
            facts_seen = tuple(f for f in compiled.facts if f.kind not in staged.runtime.ignored_facts)
            arguments, buffers = {a.name: a.type.dtype for a in compiled.args}, frozenset(a.name for a in compiled.args if a.is_buffer)
            what = Launched(
                self.fn, self._names, self._is_meta, arguments, buffers, compiled._hidden, compiled.writes, compiled._strided,
                compiled.grid_info, facts_seen, compiled.dependencies,
            )  # fmt: skip
            learner = compiled._learners[staged.runtime.name] = Learner(what, staged.runtime)
        learner.learn(staged.values[: len(self._names)], self._defaults, functools.partial(compiled.variant, variant.facts), variant.facts)
        self._try_first(learner)

    def _try_first(self, learner: Learner) -> None:
        if learner.native is None:
            return
        learner.native.see_tensors()
        is_first = not self._table.address
        self._table.add(learner, setting_now(config.max_compiled) // 2)
        if is_first:
            self._call_natively(self._table)
            for each in self._grids.values():
                each.call_natively()


@called_natively
class GridKernel(Called):
    """`kernel[grid]`: a kernel that is launched over this grid."""

    def __init__(self, kernel: Kernel, grid: Any) -> None:
        self._kernel, self.grid = kernel, grid
        self.call_natively()

    def call_natively(self) -> None:
        """Let calls try the plans before Python, which evaluates functions."""
        if self._kernel._table.address and type(self.grid) in (int, tuple):
            self._call_natively(self._kernel._table, self.grid)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        kernel = self._kernel
        try:
            if "_grid" in kwargs:
                raise ArgumentError(f"{kernel.__name__}[grid](...) was also given _grid", hint="pass the grid once")
            return Kernel.__call__(kernel, *args, _grid=self.grid, **kwargs)
        except BaseException as error:
            kernel._tell(error)
            raise

    def _tell(self, error: BaseException) -> None:
        self._kernel._tell(error)


def _kinds(grid: Any) -> Any:
    return tuple(map(type, grid)) if type(grid) is tuple else type(grid)


# What torch.compile says where it may not leave its graph; elsewhere it calls the kernel as it is.
for _call in (vars(Kernel)["__call__"], vars(GridKernel)["__call__"]):
    _call._torchdynamo_disable = True
    _call._torchdynamo_disable_msg = "eas kernels are no operators of torch: wrap the function that launches them with eas.torch_op"


def hide_our_frames(error: BaseException) -> None:
    """Make the traceback of an error show the user's lines only."""
    if not sys.is_finalizing():
        show_to_user(error)


def _any_traced(values: tuple[Any, ...]) -> bool:
    from eas.frontend.block import Block

    return any(isinstance(value, Block) for value in values)


@overload
def kernel(fn: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(*, math_mode: str = "safe") -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(fn: Callable[..., Any] | None = None, /, *, math_mode: str = "safe") -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a Python function a kernel: `@eas.kernel` or `@eas.kernel(math_mode="fast")`."""
    if fn is None:
        return lambda f: Kernel(f, math_mode)
    return Kernel(fn, math_mode)
