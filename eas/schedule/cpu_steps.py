"""The list of steps from an optimised module to scheduled IR for a CPU."""

from __future__ import annotations

from eas.ir import IRModule
from eas.passes.carry_offsets import carry_offsets
from eas.passes.derive_inductions import derive_inductions
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.join_quotients import join_quotients
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.passes.spread_threads import spread_threads
from eas.passes.unguard_sums import unguard_sums
from eas.schedule.cpu.loops.prefixes import is_in_order
from eas.schedule.cpu.lower import lower_nests
from eas.schedule.cpu.split_offsets import split_offsets
from eas.schedule.nest.partition import partition
from eas.schedule.nest.program_order import order_nests, order_programs
from eas.schedule.rewrite.check_gathers import check_gathers
from eas.schedule.rewrite.contractions import contract_loops
from eas.schedule.rewrite.element_loops import mark_element_loops
from eas.schedule.rewrite.exponents import mark_negative_exponents
from eas.schedule.rewrite.fold_carried import fold_carried
from eas.schedule.rewrite.join_programs import join_programs
from eas.schedule.rewrite.lengthen_blocks import lengthen_blocks
from eas.schedule.rewrite.narrow_integers import narrow_integers
from eas.schedule.rewrite.natural_divisions import mark_natural_divisions
from eas.schedule.rewrite.near_loops import near_loops
from eas.schedule.rewrite.private_atomics import private_buffers
from eas.schedule.rewrite.recompute_blocks import recompute_blocks
from eas.schedule.rewrite.reload_blocks import reload_blocks
from eas.schedule.rewrite.repeated_loads import mark_repeated_loads
from eas.schedule.rewrite.turn_stores import turn_stores
from eas.schedule.rewrite.unroll_taps import unroll_taps
from eas.schedule.rewrite.widen_loads import widen_loads
from eas.schedule.target import CpuTarget


def schedule(module: IRModule, target: CpuTarget, check_bounds: bool = False) -> IRModule:
    """Loops over lanes, ready for the code generator; with single loads where each is to be checked."""
    module = prepared(check_gathers(module) if check_bounds else module)
    private = () if check_bounds else private_buffers(module)
    if not check_bounds:
        module = contract_loops(module, target)
        module = join_programs(module, near_loops(module, target))
    module = turn_stores(_with_wide_loops(module, target))
    module, copies = recompute_blocks(*reload_blocks(module))
    module = mark_element_loops(mark_repeated_loads(module))
    module = partition(module, is_in_order, copies, hoists=True, one_by_one=True, near=near_loops(module, target))
    module = split_offsets(lower_nests(order_programs(order_nests(module)), target))
    return module.with_attrs(private=private) if private else module


def _with_wide_loops(module: IRModule, target: CpuTarget) -> IRModule:
    """Loops over taps load what they combine with a tile for each of its elements; masks that they do not change are made before."""
    wide = widen_loads(module, near_loops(module, target))
    return module if wide is module else eliminate_dead(merge_common(hoist_invariants(wide)))


def prepared(module: IRModule) -> IRModule:
    """Blocks of one program, with nothing carried that can be computed from a loop counter."""
    if module.mode == "thread":
        module = spread_threads(module)
    module = unroll_taps(module)
    module = join_quotients(carry_offsets(derive_inductions(hoist_invariants(module)), blocks=True))
    for step in (narrow_integers, simplify_algebra, merge_common, unguard_sums, widen_loads, eliminate_dead):
        module = step(module)
    return mark_natural_divisions(mark_negative_exponents(lengthen_blocks(fold_carried(module))))
