"""The walk of a kernel: trace -> passes -> variant; one visible list of steps, and what comes out of it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from eas import config
from eas._version import __version__
from eas.analysis import block_lengths, num_programs_axes, program_axes, reads, writes
from eas.cost import program_cost
from eas.errors import EasError, NotBuilt
from eas.frontend.globals_read import Dependencies
from eas.frontend.trace import Static, trace
from eas.indexing import Fact, IndexInfo, analyse, launch_facts
from eas.ir import IRModule, LaunchMode, verify
from eas.irtext import LocTable, parse_module, print_module
from eas.passes import optimise
from eas.passes.check_convergence import check_convergence
from eas.passes.specialise import specialise
from eas.runtime import debug
from eas.runtime.disk_cache import default_cache
from eas.runtime.grid import GridInfo
from eas.runtime.launch_settings import setting_now
from eas.types import Type

if TYPE_CHECKING:
    from eas.codegen.llvm import NativeCode
    from eas.runtime.repeat_launch import Repeater

Facts = frozenset[Fact]
NO_FACTS: Facts = frozenset()


def compile_kernel(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str) -> CompiledKernel:
    """Trace a kernel for argument types and trace-time values."""
    traced = trace(fn, arguments, math)
    module = verify(traced.module)
    if module.mode == "thread":
        check_convergence(module)
    return CompiledKernel(module, traced.dependencies)


class CompiledKernel:
    """A kernel for one set of meta-parameters and argument types; its variants are made when asked for."""

    def __init__(self, traced: IRModule, dependencies: Dependencies) -> None:
        self.name = traced.name
        self.traced = traced
        self.dependencies = dependencies
        self.launch_mode: LaunchMode = traced.mode
        self._arg_names = tuple(a.name for a in traced.args)
        self._storage = {a.name: a.type.dtype.np_storage for a in traced.args}
        """What the arguments are in memory."""
        self.writes = writes(traced)
        self.reads = reads(traced)
        self.grid_info = GridInfo(traced.name, traced.mode, frozenset(program_axes(traced)), block_lengths(traced), frozenset(num_programs_axes(traced)))
        self.facts: tuple[Fact, ...] = launch_facts(traced)
        self._launches = 0
        """On the CPU, up to the second one, which makes `_repeater`."""
        self._repeater: Repeater | None = None
        self._variants: dict[tuple[Facts, bool, bool], Variant] = {}
        self._by_held: dict[tuple[tuple[bool, ...], bool, bool], Variant] = {}
        self._lock = threading.Lock()

    @property
    def block_size(self) -> int | None:
        """The single arange or tid length, None if there is none or more than one."""
        lengths = self.grid_info.block_sizes
        return lengths[0] if len(lengths) == 1 else None

    @property
    def tptg(self) -> tuple[int, int, int]:
        """Logical threads per threadgroup: one per program, or the threads of a thread kernel."""
        return (self.traced.attr("threads", 1), 1, 1)

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

    @property
    def index_analysis(self) -> IndexInfo:
        """How every memory access walks through its buffer; `print(k.index_analysis.dump())`."""
        return analyse(self.ir)

    def variant(self, facts: Facts = NO_FACTS) -> Variant:
        """The code for launches of which `facts` hold; compiled on first use."""
        key = (facts, setting_now(config.noopt), setting_now(config.check_bounds))
        found = self._variants.get(key)
        if found is None:
            with self._lock:
                found = self._variants.get(key) or _make_variant(self.traced, facts)
                self._variants[key] = found
        return found

    def _variant_of(self, held: tuple[bool, ...]) -> Variant:
        """The code for launches of which those of `self.facts` hold; a set of facts takes longer to hash."""
        key = (held, setting_now(config.noopt), setting_now(config.check_bounds))
        found = self._by_held.get(key)
        if found is None:
            facts = frozenset(f for f, holds in zip(self.facts, held, strict=True) if holds)
            found = self._by_held[key] = self.variant(facts)
        return found

    def __repr__(self) -> str:
        args = ", ".join(f"{a.name}: {a.type}" for a in self.traced.args)
        return f"CompiledKernel({self.name}({args}), {self.launch_mode}, {len(self._variants)} variants)"


class Variant:
    """What a runtime executes: one module, and the texts made from it."""

    __slots__ = ("_native", "facts", "loaded", "module", "name")

    def __init__(self, name: str, module: IRModule, facts: Facts) -> None:
        self.name = name
        self.module = module
        self.facts = facts
        self._native: NativeCode | None = None
        self.loaded: Any = None  # the CPU runtime keeps the loaded code here

    @property
    def native(self) -> NativeCode:
        """The code for this machine's CPU."""
        if self._native is None:
            from eas.codegen.llvm import generate
            from eas.runtime.host_cpu import host_cpu
            from eas.schedule.cpu import schedule
            from eas.schedule.target import host_target

            scheduled = schedule(self.module, host_target(host_cpu().vector_nbytes))
            native = generate(scheduled, config.check_bounds())
            cost = program_cost(self.module)
            native.nbytes_per_program, native.flops_per_program = cost.nbytes, cost.flops
            debug.show_native(scheduled, sorted(map(str, self.facts)), native.llvm)
            self._native = native
        return self._native

    @property
    def msl(self) -> str:
        raise NotBuilt("the Metal code generator is not part of this version yet", hint="EAS_BACKEND=interp runs the kernel, .ir shows its IR")

    @property
    def llvm(self) -> str:
        return self.native.llvm

    @property
    def asm(self) -> str:
        from eas.runtime import jit

        return jit.asm(self.llvm, pipeline="plain" if config.noopt() else jit.DEFAULT_PIPELINE)


def _make_variant(traced: IRModule, facts: Facts) -> Variant:
    module = compile_module(traced, facts, config.noopt())
    debug.show_ir(module, sorted(map(str, facts)))
    return Variant(traced.name, module, facts)


def compile_module(traced: IRModule, facts: Facts, noopt: bool) -> IRModule:
    """Specialise and optimise, or take the result of an earlier process from disk."""
    locs = LocTable()
    text = print_module(traced, locs)
    names = sorted(str(fact) for fact in facts)
    key = hashlib.sha256("\0".join([__version__, str(noopt), *names, text]).encode()).hexdigest()
    cache = default_cache()
    known = cache.get(key)
    if known is not None:
        module = _from_cache(known, locs, traced)
        if module is not None:
            return module
    module = optimise(specialise(traced, facts), noopt=noopt)
    if len(locs.places) == len(_places(module, locs).places):  # a pass invented no place
        cache.put(key, print_module(module, locs).encode())
    return module


def _places(module: IRModule, locs: LocTable) -> LocTable:
    copy = LocTable(locs.places)
    print_module(module, copy)
    return copy


def _from_cache(data: bytes, locs: LocTable, traced: IRModule) -> IRModule | None:
    """The module of a cache entry; an entry that this version cannot read, or of another kernel, is no entry."""
    try:
        module = verify(parse_module(data.decode(), locs))
    except (EasError, ValueError, IndexError, KeyError):
        return None
    return module if _head(module) == _head(traced) else None


def _head(module: IRModule) -> tuple[object, ...]:
    return (module.name, module.mode, [(a.name, a.type) for a in module.args])
