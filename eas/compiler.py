"""The walk of a kernel: trace -> passes -> variant; one visible list of steps, and what comes out of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eas.base import config
from eas.base.backends import keeps_code
from eas.base.errors import ArgumentError, CompileError, EasError
from eas.base.facts import Fact
from eas.base.loading import load
from eas.base.locks import new_lock
from eas.base.recent import Recent
from eas.base.types import Type
from eas.frontend.constexpr import Static
from eas.frontend.reads.globals_read import Dependencies
from eas.interop.hidden import hidden_of
from eas.launch import warm_start
from eas.launch.summary import ArgType, Summary
from eas.runtime import get_runtime, keys
from eas.runtime.launch_settings import setting_now
from eas.runtime.native.host_target import host_target
from eas.schedule.target import CpuTarget

if TYPE_CHECKING:
    from eas.analysis.indexing import IndexInfo
    from eas.codegen.llvm.generate import NativeCode
    from eas.codegen.msl.generate import MetalCode
    from eas.ir import Arg, IRModule
    from eas.launch.learn import Learner
    from eas.passes.steps import Steps
    from eas.schedule.gpu.target import MetalTarget

Facts = frozenset[Fact]
NO_FACTS: Facts = frozenset()


def get_ready(filename: str) -> None:
    """Load what compiling needs, unless the disk cache knows kernels of this file.

    The first call of a kernel then pays for its own compilation only, and a process that compiles nothing
    loads nothing.
    """
    if "eas.lowering" in sys.modules:
        return
    try:
        get_runtime()
        if keeps_code(config.backend()) and warm_start.knows_file(filename):
            return
    except EasError:  # a launch says what is wrong with the settings
        return
    _load_lowering()
    from eas import lowering

    if keeps_code(config.backend()):
        lowering.load_code_generator()


def compile_kernel(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str, num_warps: int | None = None) -> CompiledKernel:
    """The kernel for argument types and trace-time values: of an earlier process, or traced."""
    identity = warm_start.identify(fn, arguments, math, num_warps) if may_be_known() else None
    known = warm_start.find(identity) if identity else None
    if identity and known:
        return CompiledKernel(known, identity.dependencies, functools.partial(_trace, fn, arguments, math, num_warps), identity)
    _load_lowering()
    from eas import lowering

    traced = lowering.trace_kernel(fn, arguments, math, num_warps)
    if identity and not identity.covers(traced.dependencies):
        identity = None
    return CompiledKernel(lowering.summarise(traced.module), traced.dependencies, lambda: traced.module, identity)


def _check_running() -> None:
    """Refuse to compile when nothing can be imported any more: in a `__del__` at the end of the process."""
    if sys.is_finalizing():
        raise CompileError("a kernel cannot be compiled while Python ends", hint="compile it once before, or free what needs it in a function of atexit")


def _load_lowering() -> None:
    _check_running()
    load("eas.lowering")


def may_be_known() -> bool:
    """Whether native code of earlier processes may be used; who wants to see the steps needs them done."""
    return keeps_code(config.backend()) and config.debug() < 4 and not config.verify()


def _trace(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str, num_warps: int | None) -> IRModule:
    _load_lowering()
    from eas import lowering

    return lowering.trace_kernel(fn, arguments, math, num_warps).module


class CompiledKernel:
    """A kernel for one set of meta-parameters and argument types; its variants are made when asked for."""

    def __init__(self, summary: Summary, dependencies: Dependencies, trace: Callable[[], IRModule], identity: warm_start.Identity | None = None) -> None:
        self.name = summary.name
        self.dependencies = dependencies
        self.launch_mode = summary.launch_mode
        self.args = summary.args
        self.writes = summary.writes
        self.reads = summary.reads
        self.grid_info = summary.grid_info
        self.facts = summary.facts
        self._source = _Source(summary, functools.cache(trace), identity)
        self._arg_names = tuple(a.name for a in summary.args)
        self._storage = {a.name: a.type.dtype.np_storage for a in summary.args}
        """What the arguments are in memory."""
        self._hidden = {a.name: hidden for a in summary.args if (hidden := hidden_of(a)) is not None}
        """Arguments that nobody passes: strides and extents of others."""
        self._strided = frozenset(hidden.buffer for hidden in self._hidden.values() if hidden.kind == "stride")
        self._launches = 0
        """Until there is a launcher for them."""
        self._learners: dict[str, Learner] = {}
        """By backend: plans of its launches."""
        self._variants: Recent[keys.Form, Variant] = Recent()
        self._lock = new_lock()

    @property
    def traced(self) -> IRModule:
        """The IR before the passes; of a kernel from the disk cache, traced when somebody asks."""
        return self._source.trace()

    @property
    def block_size(self) -> int | None:
        """The single arange or tid length, None if there is none or more than one."""
        lengths = self.grid_info.block_sizes
        return lengths[0] if len(lengths) == 1 else None

    @property
    def tptg(self) -> tuple[int, int, int]:
        """Logical threads per threadgroup: one per program, or the threads of a thread kernel."""
        rows, slices = self.grid_info.more_threads
        return (self._source.summary.threads // (rows * slices), rows, slices)

    @property
    def threads_per_threadgroup(self) -> int:
        """Physical threads of a threadgroup on Metal, by which a program is run there."""
        return self.variant().metal.threads

    @property
    def layouts(self) -> str:
        """Which thread of a Metal threadgroup holds which elements of each block, in which registers."""
        return self.variant().metal.layouts

    @property
    def arg_names(self) -> tuple[str, ...]:
        return self._arg_names

    @property
    def ir(self) -> IRModule:
        """The IR after the passes, for arguments of which nothing more is known."""
        return self.variant().module

    @property
    def msl(self) -> str:
        """The Metal Shading Language text of the general variant."""
        return self.variant().msl

    @property
    def llvm(self) -> str:
        """The LLVM text of the general variant."""
        return self.variant().llvm

    @property
    def asm(self) -> str:
        """The assembly of the general variant for this machine's CPU."""
        return self.variant().asm

    def steps(self, target: str = "cpu") -> Steps:
        """What each pass and each step of the schedule left, for "cpu" or "metal": print it, or ask `.after("partition")`."""
        _load_lowering()
        from eas.lowering import observe_steps
        from eas.schedule.gpu.target import DEFAULT

        if target not in ("cpu", "metal"):
            raise ArgumentError(f"there are no steps for {target!r}", hint='steps("cpu") or steps("metal")')
        settings = keys.settings_now()
        return observe_steps(self.traced, NO_FACTS, settings.noopt, settings.check_bounds, host_target() if target == "cpu" else DEFAULT)

    @property
    def index_analysis(self) -> IndexInfo:
        """How every memory access walks through its buffer; `print(k.index_analysis.dump())`."""
        _check_running()
        load("eas.analysis.indexing")
        from eas.analysis.indexing import analyse

        return analyse(self.ir)

    def variant(self, facts: Facts = NO_FACTS) -> Variant:
        """The code for launches of which `facts` hold; compiled on first use."""
        key = keys.Form(facts, keys.settings_now())
        found = self._variants.get(key)
        if found is None:
            with self._lock:
                found = self._variants.get(key) or Variant(self.name, None, facts, self._source, key.settings)
                self._variants.add(key, found, setting_now(config.max_compiled))
        return found

    def __repr__(self) -> str:
        args = ", ".join(f"{a.name}: {a.type}" for a in self.args)
        return f"CompiledKernel({self.name}({args}), {self.launch_mode}, {len(self._variants)} variants)"


class _Source(NamedTuple):
    """Where a variant comes from."""

    summary: Summary
    trace: Callable[[], IRModule]
    identity: warm_start.Identity | None


class Variant:
    """What a runtime executes: one module, and the texts made from it, each made when it is asked for."""

    __slots__ = ("_generated", "_metal", "_module", "_native", "_source", "facts", "loaded", "name", "settings", "target")

    def __init__(self, name: str, module: IRModule | None, facts: Facts = NO_FACTS, source: _Source | None = None, settings: keys.Settings | None = None) -> None:
        self.name = name
        self.facts = facts
        self.loaded: Any = None  # the CPU runtime keeps the loaded code here
        self.settings = settings or keys.settings_now()
        self.target: CpuTarget = host_target()
        self._module = module
        self._source = source
        self._generated: NativeCode | None = None
        self._metal: dict[MetalTarget | None, MetalCode] = {}
        """By target; None is the default one."""
        self._native: NativeCode | warm_start.StoredCode | None = None

    @property
    def args(self) -> Sequence[Arg | ArgType]:
        """The runtime arguments, in order."""
        return self._source.summary.args if self._source else self.module.args

    @property
    def writes(self) -> tuple[str, ...] | None:
        """Names of the buffers that are written, or None if nobody has looked."""
        return self._source.summary.writes if self._source else None

    @property
    def module(self) -> IRModule:
        """The IR after the passes."""
        if self._module is None:
            _load_lowering()
            from eas.lowering import make_module

            assert self._source is not None, self.name
            self._module = make_module(self._source.trace(), self.facts, self.settings.noopt)
        return self._module

    @property
    def native(self) -> NativeCode | warm_start.StoredCode:
        """The code for this machine's CPU, from the disk cache if it is there."""
        if self._native is None:
            identity = self._source.identity if self._source else None
            stored = warm_start.find_native(identity, keys.Form(self.facts, self.settings), self.target) if identity else None
            self._native = stored or self._generate()
        return self._native

    def _generate(self) -> NativeCode:
        if self._generated is None:
            _load_lowering()
            from eas.lowering import make_native

            self._generated = make_native(self.module, self.facts, self.settings.check_bounds, self.target)
            if self._source and self._source.identity:
                warm_start.remember(self._source.identity, self._source.summary, keys.Form(self.facts, self.settings), self.target, self._generated)
        return self._generated

    @property
    def metal(self) -> MetalCode:
        """The Metal text for the default target, and what a runtime needs to launch it."""
        return self.metal_on(None)

    def metal_on(self, target: MetalTarget | None) -> MetalCode:
        """The same for the GPU that a runtime has found."""
        found = self._metal.get(target)
        if found is None:
            found = self._metal[target] = self.metal_for(target)
        return found

    def metal_for(self, target: MetalTarget | None = None) -> MetalCode:
        """The Metal text for a target of its own choice; not kept."""
        _load_lowering()
        from eas.lowering import make_metal

        return make_metal(self.module, self.facts, self.settings.noopt, target)

    @property
    def msl(self) -> str:
        return self.metal.text

    @property
    def llvm(self) -> str:
        return self._generate().llvm

    @property
    def asm(self) -> str:
        _check_running()
        from eas.runtime.native import jit

        return jit.asm(self.llvm, pipeline="plain" if self.settings.noopt else jit.DEFAULT_PIPELINE, target=self.target)
