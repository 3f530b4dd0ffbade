"""The list of steps from an optimised module to scheduled IR for a CPU."""

from __future__ import annotations

from eas.ir import IRModule
from eas.passes.carry_offsets import carry_offsets
from eas.passes.derive_inductions import derive_inductions
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.passes.spread_threads import spread_threads
from eas.schedule.loops import lower_nests
from eas.schedule.nests import partition
from eas.schedule.prefixes import is_in_order
from eas.schedule.target import CpuTarget


def schedule(module: IRModule, target: CpuTarget) -> IRModule:
    """Loops over lanes, ready for the code generator."""
    if module.mode == "thread":
        module = spread_threads(module)
    module = carry_offsets(derive_inductions(hoist_invariants(module)), blocks=True)
    for step in (simplify_algebra, merge_common, eliminate_dead):
        module = step(module)
    return lower_nests(partition(module, is_in_order), target)
