"""`triton.jit`: functions that are launched over a grid, or called by other kernels."""

from __future__ import annotations
import __future__

import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Generic, TypeVar

from eas.base.errors import ArgumentError
from eas.frontend.annotations import Buffer
from eas.frontend.constexpr import constexpr as eas_constexpr
from eas.frontend.constexpr import is_constexpr
from eas.kernel import Kernel
from eas.triton.hooks import TRITON_HOOKS
from eas.triton.language.types import dtype, pointer_type, unwrapped
from eas.triton.runtime.arguments import KNOWN, PLAIN, TensorWrapper, is_memory, memory, reinterpret

__all__ = ["JITFunction", "KernelInterface", "KernelParam", "MockTensor", "TensorWrapper", "constexpr_function", "jit", "reinterpret"]

T = TypeVar("T")
HINTS = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "cluster_dims", "extern_libs", "stream", "device", "device_type",
    "warp_size", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "sanitize_overflow", "instrumentation_mode", "debug", "ir_override", "minRegAutoWS", "maxRegAutoWS",
    "pingpongAutoWS", "schedule_hint", "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer", "reg_inc_consumer", "supported_fp8_dtypes", "max_num_imprecise_acc_default", "generate_native_code",
})  # fmt: skip
"""Keywords of a launch about the device and its compiler, which change no result."""


class KernelParam:
    """One parameter of a kernel."""

    def __init__(self, num: int, param: inspect.Parameter, do_not_specialize: bool, do_not_specialize_on_alignment: bool = False) -> None:
        self.num, self._param = num, param
        self.do_not_specialize, self.do_not_specialize_on_alignment = do_not_specialize, do_not_specialize_on_alignment
        self.is_constexpr = is_constexpr(param.annotation)
        self.is_const = "const" in str(param.annotation) and not self.is_constexpr

    @property
    def name(self) -> str:
        return self._param.name

    @property
    def annotation(self) -> str:
        said = self._param.annotation
        return "" if said is self._param.empty else said if isinstance(said, str) else getattr(said, "name", str(said))

    @property
    def annotation_type(self) -> str:
        return self.annotation if dtype.is_dtype(self.annotation) else ""

    @property
    def default(self) -> Any:
        return self._param.default

    @property
    def has_default(self) -> bool:
        return self._param.default is not self._param.empty


class KernelInterface(Generic[T]):
    """What `kernel[grid](...)` launches."""

    run: Callable[..., Any]

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Compile for arguments like these, without a launch."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)

    def __getitem__(self, grid: Any) -> T:
        return functools.partial(self.run, grid=grid, warmup=False)  # type: ignore[return-value]


class JITFunction(KernelInterface[Callable[..., Any]]):
    """A Python function as a Triton kernel, or as a helper of other kernels."""

    is_gluon = lambda self: False  # noqa: E731

    def __init__(self, fn: Callable[..., Any], version: Any = None, do_not_specialize: Any = None, do_not_specialize_on_alignment: Any = None, debug: Any = None, noinline: Any = None, repr: Any = None, launch_metadata: Any = None) -> None:
        if not isinstance(fn, FunctionType):
            raise ArgumentError(f"triton.jit decorates a Python function, got {fn!r}", hint="write @triton.jit above a def")
        self.__name__, self.__qualname__, self.__module__, self.__doc__ = fn.__name__, fn.__qualname__, fn.__module__, fn.__doc__
        self.fn, self.version, self.debug, self.noinline = fn, version, debug, noinline
        self.do_not_specialize, self.do_not_specialize_on_alignment = do_not_specialize or [], do_not_specialize_on_alignment or []
        self._repr, self.launch_metadata = repr, launch_metadata
        self.signature = inspect.signature(fn)
        unspecial = {*self.do_not_specialize, *self.do_not_specialize_on_alignment}
        self.params = [KernelParam(i, p, i in unspecial or p.name in unspecial) for i, p in enumerate(self.signature.parameters.values())]
        self.arg_names = [p.name for p in self.params]
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self._kernels: dict[Any, Any] = {}
        self._place = {name: i for i, name in enumerate(self.arg_names)}

    # --- what it is of --------------------------------------------------------------------------

    @functools.cached_property
    def __eas_kernel_function__(self) -> FunctionType:
        """The function as one of Triton's language, with the annotations that a kernel of ours knows."""
        return _in_triton(self.fn)

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The kernel of ours that launches it."""
        return Kernel(self.__eas_kernel_function__)

    @functools.cached_property
    def src(self) -> str:
        """The source, from its `def` on."""
        text = textwrap.dedent(inspect.getsource(self.fn))
        return text[text.index("def ") if text.startswith("def ") else text.index("\ndef ") + 1 :]

    raw_src = property(lambda self: self.src.splitlines(keepends=True))

    @property
    def cache_key(self) -> str:
        return hashlib.sha256(f"{self.__module__}.{self.__qualname__}\n{self.src}".encode()).hexdigest()

    @property
    def starting_line_number(self) -> int:
        return self.fn.__code__.co_firstlineno

    @property
    def __globals__(self) -> dict[str, Any]:
        return self.fn.__globals__

    def _unsafe_update_src(self, new_src: str) -> None:
        """Compile another text in place of the function's own, with the same globals."""
        made = JITFunction(compiled_from(new_src, self.fn))
        for name in ("kernel", "__eas_kernel_function__"):
            self.__dict__.pop(name, None)
        self.__dict__.update(made.__dict__, src=new_src)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Cannot call @triton.jit'd outside of the scope of a kernel: launch it as {self.__name__}[grid](...)")

    def __repr__(self) -> str:
        return f"JITFunction({self.__module__}:{self.__qualname__})"

    def __reduce__(self) -> str:
        return self.__qualname__

    # --- launching ------------------------------------------------------------------------------

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook` with the arguments of each launch before it."""
        self.pre_run_hooks.append(hook)

    def preload(self, specialization_data: Any) -> None:
        """Nothing: compiled kernels are found in eas' own cache."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch over the arguments, or only compile."""
        __tracebackhide__ = True
        if kwargs and not kwargs.keys() <= self._place.keys():
            kwargs = self._own(kwargs)
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        if callable(grid):
            grid = grid(self._bound(args, kwargs))
        values: list[Any] = []
        for value in args:
            kind = type(value)
            if kind in PLAIN:
                values.append(value)
            elif kind in KNOWN:
                values.append(KNOWN[kind](value))
            elif is_memory(value):
                values.append(memory(value))
            else:
                return self._run_structured(args, kwargs, grid, warmup)
        if kwargs:
            for name, value in kwargs.items():
                if type(value) not in PLAIN:
                    if not self.params[self._place[name]].is_constexpr and not is_memory(value):
                        return self._run_structured(args, kwargs, grid, warmup)
                    kwargs[name] = memory(value) if is_memory(value) else unwrapped(value)
        return self._launch(self.kernel, tuple(values), kwargs, grid, warmup)

    def _launch(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        if warmup:
            return Compiled(kernel, args, kwargs)
        kernel(*args, _grid=grid if type(grid) is tuple and _INT.issuperset(map(type, grid)) else _extents(grid), **kwargs)
        return None

    def _own(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keywords that are parameters; the others are hints."""
        unknown = sorted(kwargs.keys() - self._place.keys() - HINTS)
        if unknown:
            raise ArgumentError(f"{self.__name__} has no argument `{unknown[0]}`, and Triton no such launch option", hint=f"its arguments are {', '.join(self.arg_names)}")
        return {name: value for name, value in kwargs.items() if name in self._place}

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, for a grid that is computed from them."""
        named = {p.name: p.default for p in self.params if p.has_default}
        named.update(zip(self.arg_names, args, strict=False))
        named.update(kwargs)
        return {name: unwrapped(value) for name, value in named.items()}

    def _run_structured(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any, warmup: bool) -> Any:
        """Launch with tuples, dtypes, functions or descriptors among the arguments."""
        from eas.triton.runtime.structured import flat_launch

        kernel, values, metas = flat_launch(self, args, kwargs)
        return self._launch(kernel, values, metas, grid, warmup)


_INT = frozenset({int})


def _extents(grid: Any) -> tuple[int, ...]:
    items = grid if isinstance(grid, (tuple, list)) else (grid,)
    found = tuple(int(unwrapped(n)) for n in items)
    if not 1 <= len(found) <= 3:
        raise ArgumentError(f"a grid has 1 to 3 axes, got {grid!r}")
    return found


def _in_triton(fn: FunctionType) -> FunctionType:
    made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, _plain(fn.__defaults__), fn.__closure__)
    made.__kwdefaults__ = None if fn.__kwdefaults__ is None else {k: unwrapped(v) for k, v in fn.__kwdefaults__.items()}
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    made.__annotations__ = {name: _annotation(said) for name, said in fn.__annotations__.items()}
    made.__dict__["__eas_hooks__"] = TRITON_HOOKS
    return made


def _plain(defaults: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if defaults is None else tuple(map(unwrapped, defaults))


def _annotation(said: Any) -> Any:
    """An annotation as one that a kernel of ours knows; Triton's others say nothing."""
    if is_constexpr(said):
        return eas_constexpr
    if isinstance(said, str):
        said = said.rpartition(".")[2]
        said = dtype(said) if dtype.is_dtype(said) else said
    if isinstance(said, pointer_type):
        return Buffer
    return said.eas if isinstance(said, dtype) and said.eas is not None else object


def compiled_from(source: str, like: FunctionType) -> FunctionType:
    """A function of another text, with the globals and closure of one that exists; errors show that text."""
    import linecache

    outer = ", ".join(like.__code__.co_freevars)
    text = f"def _enclosing({outer}):\n{textwrap.indent(source, '    ')}\n    return {like.__name__}\n"
    name = f"<{like.__name__} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = dict(like.__globals__)
    exec(compile(text, name, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True), space)
    made: FunctionType = space["_enclosing"](*like.__code__.co_freevars)
    cells = dict(zip(like.__code__.co_freevars, like.__closure__ or (), strict=True))
    found = FunctionType(made.__code__, like.__globals__, like.__name__, like.__defaults__, tuple(cells[n] for n in made.__code__.co_freevars))
    found.__kwdefaults__, found.__annotations__, found.__module__ = like.__kwdefaults__, like.__annotations__, like.__module__
    found.__qualname__, found.__doc__ = like.__qualname__, like.__doc__
    return found


class Compiled:
    """What `warmup` gives: the compiled kernel, and its texts when somebody asks."""

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.compiled, self._kernel = kernel.compile(*args, **kwargs), kernel
        self.name = self.compiled.name
        self.n_regs, self.n_spills, self.shared = 32, 0, 1024
        """No figures of CPUs: what a small kernel has on a GPU, for host code that computes how many programs fit."""
        self.metadata = SimpleNamespace(name=self.name, shared=self.shared, num_warps=4, num_stages=3, num_ctas=1)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Launch it over arguments like those that it was compiled for."""
        return lambda *args: self._kernel(*map(memory, args), _grid=_extents(grid))

    def _init_handles(self) -> None:
        """Nothing: the first launch loads the code."""

    @property
    def asm(self) -> dict[str, str]:
        """The texts of the kernel: IR, and that of the target."""
        return {"ir": str(self.compiled.ir), "llir": self.compiled.llvm}


class MockTensor:
    """Stands for a tensor of a dtype in `warmup`."""

    def __init__(self, dtype: Any, shape: Sequence[int] | None = None) -> None:
        self.dtype, self.shape = dtype, list(shape or [1])

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        return MockTensor(arg) if type(arg).__name__ == "dtype" and type(arg).__module__ == "torch" else arg

    @staticmethod
    def data_ptr() -> int:
        return 0

    @staticmethod
    def ptr_range() -> int:
        return 0


def jit(fn: Callable[..., Any] | None = None, *, version: Any = None, repr: Any = None, launch_metadata: Any = None, do_not_specialize: Any = None, do_not_specialize_on_alignment: Any = None, debug: Any = None, noinline: Any = None) -> Any:
    """Make a Python function a Triton kernel."""

    def decorate(fn: Callable[..., Any]) -> JITFunction:
        return JITFunction(fn, version, do_not_specialize, do_not_specialize_on_alignment, debug, noinline, repr, launch_metadata)

    return decorate if fn is None else decorate(fn)


class ConstexprFunction:
    """A Python function that kernels call while they are traced, on values known then."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = self.__eas_constexpr_function__ = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


type_canonicalisation_dict = {
    "bool": "i1", "int1": "i1", "uint1": "u1", "i1": "i1", "float8e4nv": "fp8e4nv", "float8e5": "fp8e5", "float8e4b15": "fp8e4b15", "float8_e4m3fn": "fp8e4nv", "float8e4b8": "fp8e4b8",
    "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2": "fp8e5", "float8e5b16": "fp8e5b16", "float8_e5m2fnuz": "fp8e5b16", "half": "fp16", "float16": "fp16", "bfloat16": "bf16",
    "float": "fp32", "float32": "fp32", "double": "fp64", "float64": "fp64", "int": "i32", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "void": "void",
}  # fmt: skip
"""Names of dtypes -> the short ones in which signatures of kernels are written."""
type_canonicalisation_dict.update({short: short for short in list(type_canonicalisation_dict.values())})


def constexpr_function(fn: Callable[..., Any]) -> ConstexprFunction:
    """Let kernels call a Python function while they are traced."""
    return ConstexprFunction(fn)


