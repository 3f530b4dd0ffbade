"""The list of steps from an optimised module to the lane IR of a Metal kernel."""

from __future__ import annotations

from eas.ir import Inst, IRModule, walk
from eas.passes.carry_offsets import carry_offsets
from eas.passes.derive_inductions import derive_inductions
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.fold_constants import fold_constants
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.schedule.gpu.barriers import place_barriers
from eas.schedule.gpu.direct_operands import load_operands_directly
from eas.schedule.gpu.fit_memory import fit_memory
from eas.schedule.gpu.fragments import dot_layouts, dot_threads
from eas.schedule.gpu.lanes import lower_lanes
from eas.schedule.gpu.marks import mark_accesses
from eas.schedule.gpu.promote_registers import declare_late, dissolve_loops, promote_registers
from eas.schedule.gpu.target import MetalTarget
from eas.schedule.nest.partition import partition

_MOST_ELEMENTS_PER_THREAD = 16


def schedule_metal(
    module: IRModule, target: MetalTarget, *, num_warps: int | None = None, is_serial: bool = False
) -> IRModule:
    """One thread's code: that of a thread kernel as it is, that of a program spread over a threadgroup."""
    if module.mode == "thread":
        return module.with_attrs(scheduled="lanes")
    module = carry_offsets(derive_inductions(hoist_invariants(module)), blocks=True)
    for step in (simplify_algebra, merge_common, eliminate_dead):
        module = step(module)
    threads = 1 if is_serial else (32 * num_warps if num_warps else choose_threads(module, target))
    module = load_operands_directly(module, dot_layouts(module, target, threads))
    lowered = lower_lanes(partition(module), target, threads, is_serial)
    lowered = place_barriers(fit_memory(lowered, target))
    lowered = promote_registers(dissolve_loops(lowered))
    for step in (fold_constants, simplify_algebra, hoist_invariants, merge_common, eliminate_dead):
        lowered = step(lowered)
    return declare_late(mark_accesses(lowered))


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
