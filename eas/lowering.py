"""What compiling does: trace -> verify -> passes -> schedule -> LLVM text; a launch from the disk cache loads none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eas.analysis import block_lengths, num_programs_axes, program_axes, reads, writes
from eas.analysis.cost import most_work, program_cost
from eas.analysis.indexing import launch_facts
from eas.base import config
from eas.base.collector import resting
from eas.base.errors import Unsupported
from eas.base.facts import Fact
from eas.base.loading import load
from eas.base.types import Type
from eas.frontend import operators
from eas.frontend.constexpr import Static
from eas.frontend.trace import Traced, trace
from eas.ir import IRModule, verify, walk
from eas.launch.summary import ArgType, Summary
from eas.ops.simd import LANES
from eas.passes import optimise
from eas.passes.check_convergence import check_convergence
from eas.passes.specialise import specialise
from eas.passes.steps import Seen, Steps, check_name, observing
from eas.runtime import debug
from eas.runtime.grid import GridInfo

if TYPE_CHECKING:
    from eas.codegen.llvm.generate import NativeCode
    from eas.codegen.msl.generate import MetalCode
    from eas.schedule.gpu.target import MetalTarget
    from eas.schedule.target import CpuTarget

_ = operators  # gives traced values their operators


def trace_kernel(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str, num_warps: int | None = None) -> Traced:
    """The verified IR of a kernel for argument types and trace-time values."""
    traced = trace(fn, arguments, math)
    if verify(traced.module).mode == "thread":
        check_convergence(traced.module)
        _check_threads(traced.module, num_warps)
    declared = arguments.get("num_warps")
    warps = declared.value if isinstance(declared, Static) else num_warps
    return traced if warps is None else replace(traced, module=traced.module.with_attrs(num_warps=warps))


def _check_threads(module: IRModule, num_warps: int | None) -> None:
    """Raise where a call asks for another number of threads than a kernel of threads says itself."""
    threads = module.attr("threads", 1)
    if num_warps is not None and LANES * num_warps != threads:
        raise Unsupported(
            f"num_warps={num_warps} of {module.name}, whose mk.tid already says that a threadgroup has {threads} threads",
            hint="leave num_warps out, or change the range of mk.tid",
            loc=next((inst.loc for inst in walk(module.body) if inst.op.name == "tid"), None),
        )


@resting()
def summarise(module: IRModule) -> Summary:
    """What launches need to know of traced IR."""
    threads = module.attr("tptg", ())
    lengths = threads[:1] or block_lengths(module)
    grid = GridInfo(module.name, module.mode, frozenset(program_axes(module)), lengths, frozenset(num_programs_axes(module)), threads[1:] or (1, 1))
    args = tuple(ArgType(a.name, a.type, a.attrs) for a in module.args)
    return Summary(module.name, args, writes(module), reads(module), grid, launch_facts(module), module.attr("threads", 1))


def make_module(traced: IRModule, facts: frozenset[Fact], noopt: bool) -> IRModule:
    """The optimised module of a variant, told as `EAS_DEBUG` asks."""
    module = compile_module(traced, facts, noopt)
    debug.show_ir(module, sorted(map(str, facts)))
    return module


@contextmanager
def _showing_steps(name: str, target: str) -> Iterator[None]:
    """At `EAS_DEBUG=5` the schedule that runs in the block tells of its steps."""
    if config.debug() < 5:
        yield
        return
    seen: list[Seen] = []
    with observing(seen.append):
        yield
    debug.show_steps(name, target, Steps(seen))


def _check_left_out() -> None:
    """Raise for a name in `EAS_WITHOUT` that no step of any schedule has."""
    if config.without():
        from eas.schedule.cpu_steps import CPU_STEPS
        from eas.schedule.gpu_steps import METAL_STEPS

        for name in config.without():
            check_name((*CPU_STEPS, *METAL_STEPS), name, " of EAS_WITHOUT")


def load_code_generator() -> None:
    """Import what `make_native` will need."""
    load("eas.codegen.llvm.generate", "eas.schedule.cpu_steps")


@resting()
def make_native(module: IRModule, facts: frozenset[Fact], check_bounds: bool, target: CpuTarget) -> NativeCode:
    """The code of a variant for a CPU."""
    _check_left_out()
    load_code_generator()
    from eas.codegen.llvm.generate import generate
    from eas.schedule.cpu_steps import schedule

    with _showing_steps(module.name, "the CPU"):
        scheduled = schedule(module, target, check_bounds)
    native = generate(scheduled, target, check_bounds)
    cost = program_cost(module)
    native.nbytes_per_program, native.flops_per_program = cost.nbytes, cost.flops
    native.work_per_program = most_work(module)
    debug.show_native(scheduled, sorted(map(str, facts)), native.llvm)
    debug.show_length(module.name, bool(scheduled.attr("long")), native.num_functions, native.num_repeats)
    return native


@resting()
def make_metal(module: IRModule, facts: frozenset[Fact], noopt: bool, target: MetalTarget | None = None) -> MetalCode:
    """The Metal text of a variant, and what a runtime needs to launch it."""
    _check_left_out()
    load("eas.codegen.msl.generate", "eas.codegen.msl.helpers", "eas.schedule.gpu_steps")
    from eas.codegen.msl.generate import generate_msl
    from eas.schedule.gpu.marks import layouts_of
    from eas.schedule.gpu.target import DEFAULT
    from eas.schedule.gpu_steps import schedule_metal

    target = target or DEFAULT
    with _showing_steps(module.name, "Metal"):
        scheduled = schedule_metal(module, target, num_warps=module.attr("num_warps"), is_serial=noopt)
    code = replace(generate_msl(scheduled, target), layouts=layouts_of(scheduled))
    debug.show_metal(scheduled, sorted(map(str, facts)), code.text)
    return code


@resting()
def observe_steps(traced: IRModule, facts: frozenset[Fact], noopt: bool, check_bounds: bool, target: CpuTarget | MetalTarget) -> Steps:
    """What each pass, and each step of the schedule for that target, leaves of a traced module."""
    from eas.schedule.cpu_steps import schedule
    from eas.schedule.gpu_steps import schedule_metal
    from eas.schedule.target import CpuTarget

    _check_left_out()
    seen = [Seen("trace", traced, True)]
    module = specialise(traced, facts)
    seen.append(Seen("specialise", module, module is not traced))
    module = optimise(module, noopt=noopt, observe=lambda name, module: seen.append(Seen(name, module, True)))
    with observing(seen.append):
        if isinstance(target, CpuTarget):
            schedule(module, target, check_bounds)
        else:
            schedule_metal(module, target, num_warps=module.attr("num_warps"), is_serial=noopt)
    return Steps(seen)


@resting()
def compile_module(traced: IRModule, facts: frozenset[Fact], noopt: bool) -> IRModule:
    """Specialised for the facts of a launch, and optimised."""
    return optimise(specialise(traced, facts), noopt=noopt)
