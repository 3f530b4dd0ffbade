"""The row of the counter-based random number generator."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base import dtypes, numerics
from eas.base.types import Type
from eas.ops.rules import need_dtype, need_same
from eas.ops.table import Attrs, Op, RegionSig, Trait, register


def _philox_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    for t in types:
        need_dtype("philox", t, (dtypes.u32,))
    return (need_same("philox", types),) * 4


register(Op("philox", "random", "c0, c1, c2, c3, k0, k1", _philox_rule, "Philox-4x32-10: four random words of a 128-bit counter under a 64-bit key.", Trait.PURE | Trait.ONE_BY_ONE | Trait.REGISTERS | Trait.ELEMENTWISE, lambda call, *xs: numerics.philox4x32(*xs), cost=64))
