"""The steps from an optimised module to the lane IR of a Metal kernel: the table, and what its steps tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from eas.base.errors import Unsupported
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


def _choose_threads(module: IRModule, record: MetalRecord) -> IRModule:
    """Note how many threads a threadgroup has (launch bounds)."""
    warps = record.num_warps
    record.threads = 1 if record.is_serial else (record.target.simd_width * warps if warps else choose_threads(module, record.target))
    return module


METAL_STEPS: tuple[Step[MetalRecord], ...] = (
    plain(hoist_invariants),
    plain(derive_inductions),
    plain(carry_offsets, is_optional=False, given=lambda module, record: (True,)),
    plain(simplify_algebra),
    plain(merge_common),
    plain(eliminate_dead),
    Step("choose_threads", _choose_threads, is_optional=False),
    plain(load_operands_directly, given=lambda module, record: (dot_layouts(module, record.target, record.threads),)),
    plain(partition, is_optional=False),
    plain(lower_lanes, is_optional=False, given=lambda module, record: (record.target, record.threads, record.is_serial)),
    plain(fit_memory, given=lambda module, record: (record.target,)),
    plain(place_barriers, is_optional=False),
    plain(dissolve_loops),
    plain(promote_registers),
    plain(fold_constants),
    plain(simplify_algebra, "simplify_lanes"),
    plain(hoist_invariants, "hoist_from_lane_loops"),
    plain(merge_common, "merge_lanes"),
    plain(eliminate_dead, "eliminate_dead_lanes"),
    plain(mark_accesses),
    plain(declare_late),
)


def schedule_metal(
    module: IRModule, target: MetalTarget, *, num_warps: int | None = None, is_serial: bool = False, until: str | None = None
) -> IRModule:
    """One thread's code: that of a thread kernel as it is, that of a program spread over a threadgroup."""
    if module.mode == "thread":
        return module.with_attrs(scheduled="lanes")  # what its author wrote is one thread's code already
    for inst in walk(module.body):
        if inst.op.name in ("int_to_ptr", "ptr_to_int"):
            raise Unsupported("Metal kernels see the memory of their arguments only, so addresses mean nothing there", hint="pass the buffers as arguments, or run the kernel on the CPU", loc=inst.loc)
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
