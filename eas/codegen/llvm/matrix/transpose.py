"""A square of lanes transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.text import Reg, Text


def transpose_lanes(t: Text, lines: Sequence[Reg]) -> list[Reg]:
    """Swap the off-diagonal halves of ever larger squares."""
    new, wide = list(lines), len(lines)
    size = 1
    while size < wide:
        for i in (i for i in range(wide) if not i & size):
            pair = new[i], new[i + size]
            for j, first in ((i, 0), (i + size, size)):
                lanes = [
                    x + first if not x & size else x - size + first + wide for x in range(wide)
                ]
                new[j] = t.shuffle(*pair, lanes)
        size *= 2
    return new
