"""`@eas.autotune`: times the configs of a kernel on the first launch of its kind, and keeps the fastest."""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from eas._version import __version__
from eas.base import config
from eas.base.dtypes import DType
from eas.base.errors import (
    ArgumentError,
    EasError,
    GridError,
    LaunchError,
    ShapeMismatch,
    StaticAssertion,
    Unsupported,
)
from eas.base.locks import new_lock
from eas.base.recent import Recent
from eas.compiler import CompiledKernel
from eas.frontend.reads.meta_keys import meta_key
from eas.interop.arguments import ArgView, is_scalar, view
from eas.ir.text import print_module
from eas.kernel import Kernel, hide_our_frames
from eas.launch.function import OPTIONS, TARGET_HINTS, check_num_warps
from eas.runtime import debug, get_runtime, keys
from eas.runtime.disk_cache import default_cache
from eas.runtime.grid import GridOptions
from eas.runtime.native.host_target import host_key
from eas.tools.autotune_report import Tried, show_progress, show_table

if TYPE_CHECKING:
    from eas.explain.page import Explanation

# What says that a config does not suit these arguments; any other error is the caller's to see.
UNSUITABLE = (Unsupported, ShapeMismatch, StaticAssertion, GridError)

Prune = Callable[[Sequence["Config"], Mapping[str, Any]], Iterable["Config"]]


class Config:
    """One choice of meta-parameters, and of hints to the target: `num_warps` is the size of a threadgroup on Metal."""

    __slots__ = ("meta", "options")
    meta: Mapping[str, Any]
    options: Mapping[str, Any]

    def __init__(self, meta: Mapping[str, Any], **options: Any) -> None:
        for name in options:
            if name not in TARGET_HINTS:
                raise ArgumentError(f"Config has no option `{name}`", hint=f"its options are {', '.join(TARGET_HINTS)}; meta-parameters go into the dict: Config({{{name!r}: ...}})")
        check_num_warps("Config", options.get("num_warps"))
        object.__setattr__(self, "meta", MappingProxyType(dict(meta)))
        object.__setattr__(self, "options", MappingProxyType({n: v for n, v in options.items() if v is not None}))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Config cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Config cannot be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and (self.meta, self.options) == (other.meta, other.options)

    def __hash__(self) -> int:
        return hash((frozenset(self.meta), frozenset(self.options)))  # values may be unhashable

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(Config, **self.options), (dict(self.meta),)

    def __repr__(self) -> str:
        return f"Config({', '.join([repr(dict(self.meta)), *(f'{n}={v!r}' for n, v in self.options.items())])})"


def autotune(
    configs: Sequence[Config],
    key: Sequence[str] = (),
    *,
    warmup: int = 3,
    repeat: int = 10,
    reset_to_zero: Sequence[str] = (),
    restore_value: Sequence[str] = (),
    prune: Prune | None = None,
) -> Callable[[Kernel | Callable[..., Any]], Autotuned]:
    """Let the first launch of each kind choose the fastest config; see `docs/launching.md`.

    A kind is: the values of the scalars and the shapes and dtypes of the buffers named in `key`, the types of
    all arguments, the backend, and the kernel's code. What the kernel writes is saved and brought back, so
    tuning leaves no trace in the arguments but that of the one launch that was asked for.
    """
    options = _Options(tuple(configs), _names(key), warmup, repeat, _names(reset_to_zero), _names(restore_value), prune)

    def decorate(fn: Kernel | Callable[..., Any]) -> Autotuned:
        return Autotuned(fn if isinstance(fn, Kernel) else Kernel(fn), options)

    return decorate


@dataclass(frozen=True)
class _Options:
    configs: tuple[Config, ...]
    key: tuple[str, ...]
    warmup: int
    repeat: int
    reset_to_zero: tuple[str, ...]
    restore_value: tuple[str, ...]
    prune: Prune | None


@dataclass(frozen=True)
class _Call:
    """A launch as the caller asked for it: without the meta-parameters that are tuned."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: GridOptions
    tptg: Any


@dataclass(eq=False)
class _Trial:
    """One config on the arguments of one launch."""

    config: Config
    kernel: Kernel
    """Of the config's `num_warps`."""
    values: list[Any]
    compiled: CompiledKernel | None = None
    failure: EasError | None = None
    seconds: list[float] = field(default_factory=list)

    def median(self) -> float:
        return float(np.median(self.seconds))

    def describe(self) -> str:
        """What the disk key knows of it: the code, which an edit of the kernel changes."""
        text = print_module(self.compiled.traced) if self.compiled else _reason(self.failure)
        return f"{_text(self.config.meta)} {_text(self.config.options)} {text}"


class Autotuned:
    """A kernel whose configs are timed when a new kind of launch comes; `kernel` is the kernel itself."""

    def __init__(self, kernel: Kernel, options: _Options) -> None:
        _check_options(kernel, options)
        functools.update_wrapper(self, kernel, updated=())
        self.__name__: str = kernel.__name__
        self.__qualname__: str = kernel.__qualname__
        self.__eas_kernel_function__ = kernel.fn
        self.kernel = kernel
        self.configs = options.configs
        self.best_config: Config | None = None
        """The config of the last launch."""
        self.clock: Callable[[], float] = time.perf_counter
        self._options = options
        self._tuned = tuple(dict.fromkeys(name for c in options.configs for name in (*c.meta, *c.options)))
        self._choices: Recent[keys.TuningKind, tuple[Config, CompiledKernel]] = Recent()
        self._lock = new_lock()

    # --- public -----------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch with the fastest config; arguments and options as for a `Kernel`, less what the configs give."""
        __tracebackhide__ = True
        try:
            self._refuse_given(args, kwargs)
            self.best_config = self._choose(_call(args, kwargs))
            self.kernel(*args, **kwargs, **self._settings(self.best_config))
        except BaseException as error:
            hide_our_frames(error)
            raise

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Triton's form: `kernel[grid](args)`; a callable grid sees the meta-parameters that were chosen."""

        def launch(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            try:
                if "_grid" in kwargs:
                    raise ArgumentError(f"{self.__name__}[grid](...) was also given _grid", hint="pass the grid once")
                return self(*args, _grid=grid, **kwargs)
            except BaseException as error:
                hide_our_frames(error)
                raise

        return launch

    def compile(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """The kernel that such a launch runs; before it was tuned here, that of the first config."""
        __tracebackhide__ = True
        try:
            return self.kernel.compile(*args, **kwargs, **self._known_meta(args, kwargs))
        except BaseException as error:
            hide_our_frames(error)
            raise

    def to_msl(self, *args: Any, **kwargs: Any) -> str:
        """The Metal text of the kernel that `compile` gives."""
        __tracebackhide__ = True
        try:
            return self.kernel.to_msl(*args, **kwargs, **self._known_meta(args, kwargs))
        except BaseException as error:
            hide_our_frames(error)
            raise

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The page of the kernel that `compile` gives."""
        return self.kernel.explain(*args, **kwargs, **self._known_meta(args, kwargs))

    @property
    def cache(self) -> dict[tuple[Any, ...], Config]:
        """What was chosen in this process, by kind of launch."""
        return {kind: chosen for kind, (chosen, _) in self._choices.items()}

    @property
    def fn(self) -> Callable[..., Any]:
        """The function as the user wrote it."""
        return self.kernel.fn

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<eas.autotune of {self.kernel!r}, {len(self.configs)} configs>"

    def _repr_html_(self) -> str:
        from eas.tools.notebook import tuned_html

        return tuned_html(self.kernel._repr_html_(), [repr(config) for config in self.configs], repr(self.best_config) if self.best_config else "")

    # --- choosing ---------------------------------------------------------------------------

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        """The tuned meta-parameters that the caller passes."""
        return [name for name in self._tuned if name in kwargs or self.kernel._index.get(name, len(args)) < len(args)]

    def _refuse_given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = self._given(args, kwargs)
        if given:
            names = ", ".join(f"`{name}`" for name in given)
            raise ArgumentError(f"{self.__name__} was given {names}, which autotune chooses", hint=f"leave it out, or launch {self.__name__}.kernel(...)")

    def _known_meta(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        if self._given(args, kwargs):
            return {}
        known = self._choices.get(self._kind(_call(args, kwargs)))
        chosen = known[0] if known else self.configs[0]
        return {**chosen.meta, **chosen.options}

    def _settings(self, chosen: Config) -> dict[str, Any]:
        """What a launch passes: of the hints those that the kernel declares, and those that this backend uses."""
        used = (name for name in chosen.options if name in self.kernel._index or name in get_runtime().used_hints)
        return {**chosen.meta, **{name: chosen.options[name] for name in used}}

    def _choose(self, call: _Call) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        kind = self._kind(call)
        with self._lock:
            known = self._choices.get(kind)
            # An edited kernel is another object: it is tuned anew.
            if known is not None and self._trial(call, known[0]).compiled is known[1]:
                return known[0]
            trials = [self._trial(call, c) for c in self._candidates(call)]
            return self._tune(call, kind, trials)

    def _kind(self, call: _Call) -> keys.TuningKind:
        kernel, values = self._bind(call, self.configs[0])
        types = self.kernel._key([None if name in self._tuned else v for name, v in zip(self.kernel._names, values, strict=True)])
        return keys.TuningKind(get_runtime().name, keys.settings_now(), kernel.num_warps, types, self._named(values))

    def _named(self, values: list[Any]) -> tuple[Any, ...]:
        """What counts of the arguments in `key`: of a scalar the value, of a buffer shape and dtype."""
        parts: list[Any] = []
        for name in self._options.key:
            index = self.kernel._index[name]
            value = values[index]
            if self.kernel._is_meta[index] or value is None or is_scalar(value):
                parts.append(meta_key(value.item() if isinstance(value, np.generic) else value))
            else:
                memory = view(value, name)
                parts.append((memory.shape, memory.dtype))
        return tuple(parts)

    def _bind(self, call: _Call, chosen: Config) -> tuple[Kernel, list[Any]]:
        """The kernel for a config's hints, and the value of each of its parameters."""
        kwargs = {**call.kwargs, **self._settings(chosen)}
        kernel = self.kernel._hinted(kwargs)
        return kernel, kernel._bind(call.args, kwargs)

    def _candidates(self, call: _Call) -> Sequence[Config]:
        """The configs to try; of those that differ in nothing that this backend looks at, the first."""
        different: list[Config] = []
        for chosen in self._pruned(call):
            if all(self._settings(chosen) != self._settings(other) for other in different):
                different.append(chosen)
        return different

    def _pruned(self, call: _Call) -> Sequence[Config]:
        if self._options.prune is None:
            return self.configs
        values = zip(self.kernel._names, self._bind(call, self.configs[0])[1], strict=True)
        kept = tuple(self._options.prune(self.configs, {n: v for n, v in values if n not in self._tuned}))
        strangers = [c for c in kept if c not in self.configs]
        if strangers or not kept:
            raise ArgumentError(f"prune of {self.__name__} returned {strangers[0] if strangers else 'no config'}", hint="return one or more of the configs that it was given")
        return kept

    def _trial(self, call: _Call, chosen: Config) -> _Trial:
        trial = _Trial(chosen, *self._bind(call, chosen))
        try:
            trial.compiled = trial.kernel._compile(trial.values)
        except UNSUITABLE as error:
            trial.failure = error
        return trial

    def _tune(self, call: _Call, kind: keys.TuningKind, trials: list[_Trial]) -> Config:
        """The fastest config, from disk or by the clock; a launch of no programs is not remembered."""
        backend = kind.backend
        disk_key = self._disk_key(backend, trials)
        best = _recall(disk_key, trials)
        if best is None:
            self._time(call, trials)
            timed = [t for t in trials if t.seconds]
            if not timed:
                return self._any_suitable(trials).config
            best = min(timed, key=_Trial.median)
            default_cache().put(disk_key, str(trials.index(best)).encode())
            tried = [Tried(str(t.config), t.median() if t.seconds else None, _reason(t.failure)) for t in trials]
            show_table(self.__name__, backend, tried, trials.index(best), str(config.cache_dir()) if config.cache_enabled() else "")
        debug.note(1, f"autotune {self.__name__} on {backend}: {_verdict(best, trials)}")
        assert best.compiled is not None
        self._choices.add(kind, (best.config, best.compiled), config.max_compiled())
        return best.config

    def _any_suitable(self, trials: list[_Trial]) -> _Trial:
        suitable = [t for t in trials if t.failure is None]
        if suitable:
            return suitable[0]
        kinds = {type(t.failure) for t in trials if t.failure}
        kind = kinds.pop() if len(kinds) == 1 else LaunchError
        reasons = "".join(f"\n  {t.config}: {_reason(t.failure)}" for t in trials)
        raise kind(f"no config of {self.__name__} suits these arguments:{reasons}", hint="add a config that does")

    def _disk_key(self, backend: str, trials: list[_Trial]) -> str:
        machine = (platform.system(), platform.machine(), platform.node(), str(os.cpu_count()))
        now = keys.settings_now()
        named = _text(self._named(trials[0].values))
        return "autotune " + keys.disk_key(keys.TuningKey(__version__, machine, host_key(), backend, now.noopt, now.check_bounds, named, tuple(t.describe() for t in trials)))

    # --- timing -----------------------------------------------------------------------------

    def _time(self, call: _Call, trials: list[_Trial]) -> None:
        """Fill in the seconds: rounds over all configs, so that a slow moment of the machine hits each of them."""
        memory = _Memory(self.kernel, trials, self._options)
        rounds = self._options.warmup + self._options.repeat
        try:
            for number in range(rounds):
                for place, trial in enumerate(trials):
                    show_progress(self.__name__, number * len(trials) + place, rounds * len(trials), str(trial.config))
                    if trial.failure is not None:
                        continue
                    memory.reset()
                    seconds = self._sample(call, trial)
                    if seconds is not None and number >= self._options.warmup:
                        trial.seconds.append(seconds)
        finally:
            memory.restore()
            show_progress(self.__name__, 0, 0, "")

    def _sample(self, call: _Call, trial: _Trial) -> float | None:
        """Seconds of one launch; None if there was none. Strided arguments run on copies that are dropped."""
        assert trial.compiled is not None
        try:
            launch = trial.kernel._prepare(trial.compiled, trial.values, call.options, call.tptg)
            if launch is None:
                return None
            start = self.clock()
            launch.runtime.run(launch.variant, launch.args, launch.grid, sync=True)
            launch.runtime.wait()
            return self.clock() - start
        except UNSUITABLE as error:
            trial.failure, trial.seconds = error, []
            return None
        except EasError as error:
            error.add_note(f"  while autotune tried {trial.config}")
            raise


class _Memory:
    """The buffers that tuning may change, as they were before."""

    def __init__(self, kernel: Kernel, trials: list[_Trial], options: _Options) -> None:
        written = {name for t in trials if t.compiled for name in t.compiled.writes}
        self._saved: list[tuple[ArgView, Any, bool]] = []
        for name, value in zip(kernel._names, trials[0].values, strict=True):
            is_named = name in written or name in options.reset_to_zero or name in options.restore_value
            if value is None or not is_named:
                continue
            memory = view(value, name)
            if not memory.readonly:  # else the launch refuses to write it
                self._saved.append((memory, memory.copied(), name in options.reset_to_zero))

    def reset(self) -> None:
        """Before each launch: what was there, or zeros where the caller asked for them."""
        for memory, before, is_zeroed in self._saved:
            memory.write_back(0 if is_zeroed else before)

    def restore(self) -> None:
        for memory, before, _ in self._saved:
            memory.write_back(before)


# --- parts of keys and texts ----------------------------------------------------------------------


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    options = GridOptions(kwargs.get("_grid"), kwargs.get("_shape"), kwargs.get("_nthreads"))
    return _Call(args, {n: v for n, v in kwargs.items() if n not in OPTIONS}, options, kwargs.get("_tptg"))


def _text(value: Any) -> str:
    """Plain data as text that is the same in every process; of other objects the IR says enough."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{k}: {_text(v)}' for k, v in value.items()))}}}"
    if isinstance(value, DType):
        return str(value)
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _reason(error: EasError | None) -> str:
    return f"{type(error).__name__}: {error.message}" if error else ""


def _recall(disk_key: str, trials: list[_Trial]) -> _Trial | None:
    """The choice of an earlier process; an entry that makes no sense is no entry."""
    data = default_cache().get(disk_key)
    if data is None:
        return None
    index = int(data) if data.isdigit() else len(trials)
    return trials[index] if index < len(trials) and trials[index].compiled else None


def _verdict(best: _Trial, trials: list[_Trial]) -> str:
    if not best.seconds:
        return f"{best.config}, known from an earlier run"
    failed = sum(t.failure is not None for t in trials)
    skipped = f", {failed} skipped" if failed else ""
    return f"{best.config} with {best.median() * 1e6:.2f}us, best of {len(trials)}{skipped}"


# --- checks when a kernel is decorated -------------------------------------------------------------


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_options(kernel: Kernel, options: _Options) -> None:
    if not options.configs or not all(isinstance(c, Config) for c in options.configs):
        raise ArgumentError(f"autotune of {kernel.__name__} needs a list of eas.Config, got {list(options.configs)!r}", hint='pass configs=[eas.Config({"BLOCK": 128}), ...]')
    if options.warmup < 0 or options.repeat < 1:
        raise ArgumentError(f"autotune of {kernel.__name__} got warmup={options.warmup}, repeat={options.repeat}", hint="warm up 0 times or more, and repeat at least once")
    metas = [name for name, is_meta in zip(kernel._names, kernel._is_meta, strict=True) if is_meta]
    tuned = {name for c in options.configs for name in c.meta}
    runtime = [name for name in kernel._names if name not in metas]
    _check_names(kernel, "a config", tuned, metas, "meta-parameters")
    _check_names(kernel, "key", options.key, [n for n in kernel._names if n not in tuned], "arguments that no config sets")
    _check_names(kernel, "reset_to_zero", options.reset_to_zero, runtime, "runtime arguments")
    _check_names(kernel, "restore_value", options.restore_value, runtime, "runtime arguments")


def _check_names(kernel: Kernel, where: str, given: Iterable[str], known: Sequence[str], kind: str) -> None:
    for name in given:
        if name not in known:
            near = config.closest(name, known)
            raise ArgumentError(f"{where} of autotune names `{name}`, which is not one of the {kind} of {kernel.__name__}: {', '.join(known) or 'none'}", hint=f"did you mean `{near}`?" if near else "annotate meta-parameters with eas.constexpr")
