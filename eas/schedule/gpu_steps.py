"""The steps from an optimised module to the lane IR of a Metal kernel: the table, and what its steps tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from eas.ir import Inst, IRModule, walk
from eas.passes.carry_offsets import carry_offsets
from eas.passes.derive_inductions import derive_inductions
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.fold_constants import fold_constants
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.passes.steps import Step, plain, run_steps
from eas.schedule.gpu.barriers import place_barriers
from eas.schedule.gpu.direct_operands import load_operands_directly
from eas.schedule.gpu.fit_memory import fit_memory
from eas.schedule.gpu.fragments import dot_layouts, dot_threads
from eas.schedule.gpu.lower import lower_lanes
from eas.schedule.gpu.marks import mark_accesses
from eas.schedule.gpu.promote_registers import declare_late, dissolve_loops, promote_registers
from eas.schedule.gpu.target import MetalTarget
from eas.schedule.nest.partition import partition

_MOST_ELEMENTS_PER_THREAD = 16


@dataclass
class MetalRecord:
    """What the steps of one Metal schedule know beside the module."""

    target: MetalTarget
    num_warps: int | None = None
    """Simdgroups that the kernel's author asks for."""
    is_serial: bool = False
    """One thread per program (`EAS_NOOPT=1`)."""
    threads: int = 1
    """Of a threadgroup: what `choose_threads` has found."""


def _is_of_threads(module: IRModule, record: MetalRecord) -> bool:
    return module.mode == "thread" and module.attr("scheduled") is None


def _is_program(module: IRModule, record: MetalRecord) -> bool:
    return module.attr("scheduled") is None


def _is_nests(module: IRModule, record: MetalRecord) -> bool:
    return bool(module.attr("scheduled") == "nests")


def _was_program(module: IRModule, record: MetalRecord) -> bool:
    """A thread kernel is printed as its author wrote it."""
    return record.threads > 0


def _keep_threads(module: IRModule, record: MetalRecord) -> IRModule:
    """A thread kernel is one thread's code already."""
    record.threads = 0
    return module.with_attrs(scheduled="lanes")


def _carry_offsets(module: IRModule, record: MetalRecord) -> IRModule:
    """Loops and branches that carry pointers, blocks of them too, carry their distances from a buffer instead."""
    return carry_offsets(module, blocks=True)


def _choose_threads(module: IRModule, record: MetalRecord) -> IRModule:
    """Note how many threads a threadgroup has (launch bounds)."""
    warps = record.num_warps
    record.threads = 1 if record.is_serial else (32 * warps if warps else choose_threads(module, record.target))
    return module


def _load_operands_directly(module: IRModule, record: MetalRecord) -> IRModule:
    """Operands of products that simdgroups load from device memory themselves skip threadgroup memory."""
    return load_operands_directly(module, dot_layouts(module, record.target, record.threads))


def _lower_lanes(module: IRModule, record: MetalRecord) -> IRModule:
    """Blocks become registers of threads, by linear layouts."""
    return lower_lanes(module, record.target, record.threads, record.is_serial)


def _fit_memory(module: IRModule, record: MetalRecord) -> IRModule:
    """Blocks in threadgroup memory that are not needed at the same time share a place (colouring by liveness)."""
    return fit_memory(module, record.target)


METAL_STEPS: tuple[Step[MetalRecord], ...] = (
    Step("keep_threads", _keep_threads, _is_of_threads, is_optional=False),
    plain(hoist_invariants, when=_is_program),
    plain(derive_inductions, when=_is_program),
    Step("carry_offsets", _carry_offsets, _is_program, is_optional=False),
    plain(simplify_algebra, when=_is_program),
    plain(merge_common, when=_is_program),
    plain(eliminate_dead, when=_is_program),
    Step("choose_threads", _choose_threads, _is_program, is_optional=False),
    Step("load_operands_directly", _load_operands_directly, _is_program),
    plain(partition, when=_is_program, is_optional=False),
    Step("lower_lanes", _lower_lanes, _is_nests, is_optional=False),
    Step("fit_memory", _fit_memory, _was_program),
    plain(place_barriers, when=_was_program, is_optional=False),
    plain(dissolve_loops, when=_was_program),
    plain(promote_registers, when=_was_program),
    plain(fold_constants, when=_was_program),
    plain(simplify_algebra, "simplify_lanes", _was_program),
    plain(hoist_invariants, "hoist_from_lane_loops", _was_program),
    plain(merge_common, "merge_lanes", _was_program),
    plain(eliminate_dead, "eliminate_dead_lanes", _was_program),
    plain(mark_accesses, when=_was_program),
    plain(declare_late, when=_was_program),
)


def schedule_metal(
    module: IRModule, target: MetalTarget, *, num_warps: int | None = None, is_serial: bool = False, until: str | None = None
) -> IRModule:
    """One thread's code: that of a thread kernel as it is, that of a program spread over a threadgroup."""
    return run_steps(METAL_STEPS, module, MetalRecord(target, num_warps, is_serial), until=until)


def choose_threads(module: IRModule, target: MetalTarget) -> int:
    """What products on simdgroup matrices want; else a vector per thread for small blocks, at most 16 elements for large ones."""
    wanted = dot_threads(module, target)
    if wanted:
        return wanted
    size = max((_padded_size(inst) for inst in walk(module.body)), default=1)
    threads = target.simd_width
    while threads < target.usual_threads and threads * target.elements_per_thread < size:
        threads *= 2
    while threads < target.max_threads and threads * _MOST_ELEMENTS_PER_THREAD < size:
        threads *= 2
    return threads


def _padded_size(inst: Inst) -> int:
    sizes = [1]
    for value in (*inst.operands, *inst.outs):
        size = 1
        for extent in value.shape:
            size <<= (extent - 1).bit_length()
        sizes.append(size)
    return max(sizes)
