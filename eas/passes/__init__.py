"""What happens to a kernel's IR before it is scheduled, as functions from module to module.

A pass returns the very same module when it found nothing to do. `pipeline()` is their order.
"""

from __future__ import annotations

from collections.abc import Callable

from eas.base import config
from eas.ir import IRModule
from eas.passes.eliminate_dead import eliminate_dead
from eas.passes.fold_constants import fold_constants
from eas.passes.fold_masks import fold_masks
from eas.passes.fuse_fma import fuse_fma
from eas.passes.hoist_invariants import hoist_invariants
from eas.passes.merge_common import merge_common
from eas.passes.simplify_algebra import simplify_algebra
from eas.passes.spread_maps import spread_maps
from eas.passes.steps import verify_after

__all__ = [
    "OPTIONAL",
    "REQUIRED",
    "Pass",
    "eliminate_dead",
    "fold_constants",
    "fold_masks",
    "fuse_fma",
    "hoist_invariants",
    "merge_common",
    "optimise",
    "pipeline",
    "simplify_algebra",
    "spread_maps",
]

Pass = Callable[[IRModule], IRModule]
Observer = Callable[[str, IRModule], None]

# What every kernel needs: no backend knows what these replace.
REQUIRED: tuple[Pass, ...] = (spread_maps,)
# What only makes kernels faster. Merging looks for equal operands, so the laws come first; fusion
# leaves products that nobody uses, so dead code goes after it. The analysis behind fold_masks
# costs more than all others together: it sees what they have left.
OPTIONAL: tuple[Pass, ...] = (
    fold_constants,
    simplify_algebra,
    merge_common,
    hoist_invariants,
    fuse_fma,
    eliminate_dead,
    fold_masks,
)
MAX_ROUNDS = 4


def pipeline() -> tuple[Pass, ...]:
    """All passes, in order."""
    return REQUIRED + OPTIONAL


def optimise(module: IRModule, noopt: bool = False, observe: Observer | None = None) -> IRModule:
    """The module after all passes, in rounds until none finds anything (at most MAX_ROUNDS).

    `noopt` leaves the optional passes out; `observe` hears of every pass that changed something.
    """
    passes = REQUIRED if noopt else pipeline()
    must_verify = config.verify() > 0
    idle = 0  # passes in a row that found nothing: once that is all of them, more is no use
    for run in passes * MAX_ROUNDS:
        if idle == len(passes):
            break
        before, module = module, run(module)
        idle = idle + 1 if module is before else 0
        if module is not before and must_verify:
            verify_after(run.__name__, module)
        if module is not before and observe is not None:
            observe(run.__name__, module)
    return module

