"""The steps from an optimised module to scheduled IR for a CPU: the table, and what its steps tell each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from eas.ir import Inst, IRModule
from eas.passes.carry_offsets import carry_offsets
from eas.passes.derive_inductions import derive_inductions
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.join_quotients import join_quotients
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.passes.spread_threads import spread_threads
from eas.passes.steps import Step, plain, run_steps
from eas.passes.unguard_sums import unguard_sums
from eas.schedule.cpu.loops.prefixes import is_in_order
from eas.schedule.cpu.lower import lower_nests
from eas.schedule.cpu.split_offsets import split_offsets
from eas.schedule.nest.partition import partition
from eas.schedule.nest.program_order import order_nests, order_programs
from eas.schedule.rewrite.check_addresses import check_addresses
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
from eas.schedule.rewrite.transpose_stores import transpose_stores
from eas.schedule.rewrite.unroll_taps import unroll_taps
from eas.schedule.rewrite.widen_loads import widen_loads
from eas.schedule.target import AVX2, CpuTarget


@dataclass
class CpuRecord:
    """What the steps of one CPU schedule know beside the module."""

    target: CpuTarget
    check_bounds: bool = False
    private: tuple[tuple[int, str, int], ...] = ()
    """Buffers that threads may add up in copies of: (argument, kind of atomic, elements changed)."""
    copies: dict[Inst, Inst] = field(default_factory=dict)
    """Loads that repeat another one, so that the partition keeps the two apart."""
    _near: tuple[IRModule, frozenset[Inst]] | None = None

    def near(self, module: IRModule) -> frozenset[Inst]:
        """Loops that come back to the memory they read; found once as long as the module stays the same."""
        if self._near is None or self._near[0] is not module:
            self._near = (module, near_loops(module, self.target))
        return self._near[1]


def _is_checked(module: IRModule, record: CpuRecord) -> bool:
    return record.check_bounds


def _is_unchecked(module: IRModule, record: CpuRecord) -> bool:
    """Loads and stores that are checked one by one stay apart."""
    return not record.check_bounds


def _is_of_threads(module: IRModule, record: CpuRecord) -> bool:
    return module.mode == "thread"


def _private_atomics(module: IRModule, record: CpuRecord) -> IRModule:
    """Note the buffers that a kernel only changes by one kind of atomic: each thread changes a copy (privatise)."""
    record.private = private_buffers(module)
    return module


def _widen_tap_loads(module: IRModule, record: CpuRecord) -> IRModule:
    """Loops over taps load what they combine with a tile for each of its elements; masks that they do not change are made before."""
    wide = widen_loads(module, record.near(module))
    return module if wide is module else eliminate_dead(merge_common(hoist_invariants(wide)))


def _reload_blocks(module: IRModule, record: CpuRecord) -> IRModule:
    """Read a block again instead of keeping it in scratch across a reduction of it (rematerialise)."""
    module, record.copies = reload_blocks(module)
    return module


def _recompute_blocks(module: IRModule, record: CpuRecord) -> IRModule:
    """Compute a cheap block again instead of keeping it in scratch across a reduction of it (rematerialise)."""
    module, record.copies = recompute_blocks(module, record.copies)
    return module


def _partition(module: IRModule, record: CpuRecord) -> IRModule:
    """Block instructions that run together become loop nests (fusion)."""
    return partition(module, is_in_order, record.copies, hoists=True, one_by_one=True, near=record.near(module))


def _lower_nests(module: IRModule, record: CpuRecord) -> IRModule:
    """Nests become loops over lanes, blocks that cross nests live in scratch (strip-mine, vectorise)."""
    module = lower_nests(module, record.target)
    return module.with_attrs(private=record.private) if record.private else module




CPU_STEPS: tuple[Step[CpuRecord], ...] = (
    plain(check_gathers, when=_is_checked, is_optional=False),
    plain(check_addresses, when=_is_checked, is_optional=False),
    plain(spread_threads, when=_is_of_threads, is_optional=False),
    plain(unroll_taps),
    plain(hoist_invariants),
    plain(derive_inductions),
    plain(carry_offsets, is_optional=False, given=lambda module, record: (True,)),
    plain(join_quotients),
    plain(narrow_integers),
    plain(simplify_algebra),
    plain(merge_common),
    plain(unguard_sums),
    plain(widen_loads),
    plain(eliminate_dead),
    plain(fold_carried),
    plain(lengthen_blocks),
    plain(mark_negative_exponents),
    plain(mark_natural_divisions),
    # So far blocks of one program, with nothing carried that a loop counter tells: `prepared`.
    Step("private_atomics", _private_atomics, _is_unchecked),
    plain(contract_loops, when=_is_unchecked, given=lambda module, record: (record.target,)),
    plain(join_programs, when=_is_unchecked, given=lambda module, record: (record.near(module),)),
    Step("widen_tap_loads", _widen_tap_loads),
    plain(transpose_stores),
    Step("reload_blocks", _reload_blocks),
    Step("recompute_blocks", _recompute_blocks),
    plain(mark_repeated_loads),
    plain(mark_element_loops),
    Step("partition", _partition, is_optional=False),
    plain(order_nests),
    plain(order_programs),
    Step("lower_nests", _lower_nests, is_optional=False),
    plain(split_offsets),
)


def schedule(module: IRModule, target: CpuTarget, check_bounds: bool = False, until: str | None = None) -> IRModule:
    """Loops over lanes, ready for the code generator; with single loads where each is to be checked."""
    return run_steps(CPU_STEPS, module, CpuRecord(target, check_bounds), until=until)


def prepared(module: IRModule) -> IRModule:
    """Blocks of one program, with nothing carried that can be computed from a loop counter; the same for every CPU."""
    return schedule(module, AVX2, until="mark_natural_divisions")
