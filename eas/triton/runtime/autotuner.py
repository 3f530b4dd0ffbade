"""`triton.autotune` and `triton.heuristics`: meta-parameters that are measured, or computed from the arguments."""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eas.base.errors import ArgumentError
from eas.runtime.disk_cache import default_cache
from eas.triton import testing
from eas.triton.runtime.errors import AutotunerError, OutOfResources, PTXASError
from eas.triton.runtime.jit import HINTS, KernelInterface

__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "PTXASError", "autotune", "heuristics"]
_WARMUP_MS, _REPEAT_MS = 2.0, 10.0
"""How long a configuration is run: a kernel on a CPU is timed well by a few calls."""


class Config:
    """Values of meta-parameters, hints for the compiler, and what to do before a launch with them."""

    def __init__(self, kwargs: Mapping[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, maxnreg: int | None = None, pre_hook: Any = None, ir_override: str | None = None) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook, self.ir_override = pre_hook, ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """The meta-parameters and the hints."""
        hints = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas, "maxnreg": self.maxnreg}
        return {**self.kwargs, **{name: value for name, value in hints.items() if value is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (*self.all_kwargs().items(), self.pre_hook)


class Autotuner(KernelInterface[Callable[..., Any]]):
    """A kernel whose fastest configuration is measured once for each key, and remembered on disk if told."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Any = None,
        post_hook: Any = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Any = None,
        cache_results: bool = False,
    ) -> None:
        self.fn, self.arg_names, self.keys = fn, list(arg_names), list(key)
        self.configs = list(configs) or [Config({})]
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook, self.post_hook = pre_hook or self._prepare, post_hook or self._restore
        pruning = prune_configs_by or {}
        self.perf_model, self.configs_top_k = pruning.get("perf_model"), pruning.get("top_k", 1.0)
        self.early_config_prune = pruning.get("early_config_prune")
        self.num_warmups, self.num_reps = warmup or _WARMUP_MS, rep or _REPEAT_MS
        self.use_cuda_graph, self.cache_results, self._do_bench = use_cuda_graph, cache_results, do_bench
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.configs_timings: dict[Config, Any] = {}
        self.best_config: Config = self.configs[0]
        self.bench_time = 0.0
        self.nargs: dict[str, Any] | None = None
        self.base_fn = fn
        while not inspect.isfunction(self.base_fn):
            self.base_fn = self.base_fn.fn
        for word in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(self, word, getattr(self.base_fn, word))

    @property
    def __eas_kernel_function__(self) -> Any:
        return self.fn.__eas_kernel_function__

    @property
    def do_bench(self) -> Callable[..., Any]:
        """How a call is timed."""
        return self._do_bench or (lambda call, quantiles: testing.do_bench(call, self.num_warmups, self.num_reps, quantiles=quantiles))

    # --- what tuning must not change ------------------------------------------------------------

    def _prepare(self, kwargs: Mapping[str, Any], reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            kwargs[name].zero_()
        if not reset_only:
            self.restore_copies = {name: kwargs[name].clone() for name in self.restore_value}

    def _restore(self, kwargs: Mapping[str, Any], exception: BaseException | None) -> None:
        for name, copy in getattr(self, "restore_copies", {}).items():
            kwargs[name].copy_(copy)
        self.restore_copies = {}

    # --- tuning -----------------------------------------------------------------------------------

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Milliseconds of a configuration: the median and two quantiles; infinite if it does not compile."""
        clash = meta.keys() & config.kwargs.keys()
        if clash:
            raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(clash))}. Make sure that you don't re-define auto-tuned symbols.")
        current = {**meta, **config.all_kwargs()}
        named = {**(self.nargs or {}), **current}

        def call() -> None:
            if config.pre_hook:
                config.pre_hook(named)
            self.pre_hook(named)
            try:
                self.fn.run(*args, **current)
            except BaseException as error:
                self.post_hook(named, exception=error)
                raise
            self.post_hook(named, exception=None)

        try:
            return self.do_bench(call, quantiles=(0.5, 0.2, 0.8))
        except (OutOfResources, PTXASError):
            return [float("inf")] * 3

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments, which is looked for the first time."""
        __tracebackhide__ = True
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self._config(args, kwargs)
            self.best_config = config
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            return self.fn.run(*args, **kwargs, **{k: v for k, v in config.all_kwargs().items() if k not in kwargs})
        finally:
            self.nargs = None

    def _config(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        if len(self.configs) == 1:
            return self.configs[0]
        key = self._key({**(self.nargs or {}), **kwargs})
        if key not in self.cache:
            self.cache[key] = self._tuned(key, args, kwargs)
        return self.cache[key]

    def _key(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the key arguments, and the dtypes of all tensors."""
        return (*(given[name] for name in self.keys if name in given), *(str(given[name].dtype) for name in self.arg_names if hasattr(given.get(name), "dtype")))

    def _tuned(self, key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        candidates = _distinct(self.prune_configs(kwargs))
        if not candidates:
            raise AutotunerError(f"No valid autotuner configs after pruning for {self.base_fn.__name__}", hint="`early_config_prune` should return at least one config")
        if len(candidates) == 1:
            return candidates[0]
        place = self._disk_key(key, candidates)
        found = default_cache().get(place) if place else None
        if found is not None and (number := int(found)) < len(candidates):
            return candidates[number]
        start = time.perf_counter()
        self.configs_timings = {config: self._bench(*args, config=config, **kwargs) for config in candidates}
        self.bench_time = time.perf_counter() - start
        best = min(candidates, key=lambda config: _first(self.configs_timings[config]))
        self.pre_hook({**(self.nargs or {}), **kwargs, **best.all_kwargs()}, reset_only=True)
        if place:
            default_cache().put(place, str(candidates.index(best)).encode())
        return best

    def _disk_key(self, key: tuple[Any, ...], candidates: Sequence[Config]) -> str | None:
        """Where the best configuration is kept, if it is to be."""
        if not self.cache_results or any(config.pre_hook for config in candidates):
            return None
        text = json.dumps([self.base_fn.__qualname__, inspect.getsource(self.base_fn), [str(part) for part in key], [str(config) for config in candidates]])
        return f"triton autotune {hashlib.sha256(text.encode()).hexdigest()}"

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations that are worth a measurement."""
        found = self.configs
        if self.early_config_prune:
            found = list(self.early_config_prune(self.configs, self.nargs, **kwargs))
        if self.perf_model:
            top = self.configs_top_k
            if isinstance(top, float):
                if not top <= 1.0:
                    raise ArgumentError("Error while pruning configs, top_k must be either 1) a float <= 1.0 or 2) an int")
                top = int(len(self.configs) * top)
            model = self.perf_model
            if len(found) > top:
                found = sorted(found, key=lambda c: model(**(self.nargs or {}), **kwargs, **c.all_kwargs()))[:top]
        return list(found)

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Every configuration compiled."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return [self.fn.warmup(*args, **kwargs, **config.all_kwargs()) for config in _distinct(self.prune_configs(kwargs))]


def _first(timing: Any) -> float:
    return float(timing[0] if isinstance(timing, (list, tuple)) else timing)


def _distinct(configs: Sequence[Config]) -> list[Config]:
    """Of configurations that differ by hints only, which change nothing here, the first."""
    found: dict[Any, Config] = {}
    for config in configs:
        found.setdefault((str(sorted((k, v) for k, v in config.kwargs.items() if k not in HINTS or k in config.kwargs)), id(config.pre_hook) if config.pre_hook else 0), config)
    return list(found.values())


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Any = None,
    post_hook: Any = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Any = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Measure configurations once for each value of the key arguments."""

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook, prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results)

    return decorate


class Heuristics(KernelInterface[Callable[..., Any]]):
    """A kernel some of whose meta-parameters are computed from its arguments."""

    def __init__(self, fn: Any, arg_names: Sequence[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        self.fn, self.arg_names, self.values = fn, list(arg_names), values

    @property
    def __eas_kernel_function__(self) -> Any:
        return self.fn.__eas_kernel_function__

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the values computed."""
        __tracebackhide__ = True
        for name, rule in self.values.items():
            kwargs[name] = rule({**dict(zip(self.arg_names, args, strict=False)), **kwargs})
        return self.fn.run(*args, **kwargs)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute meta-parameters from the arguments of a launch."""
    return lambda fn: Heuristics(fn, fn.arg_names, values)


