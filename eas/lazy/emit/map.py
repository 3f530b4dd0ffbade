"""The map template: one program per block of the result."""

from __future__ import annotations

from typing import Any

from eas import mk
from eas.lazy.emit.scope import Kernel, Scope


def outer_indices(kernel: Kernel, axes: list[int], program: Any) -> dict[int, Any]:
    """The index of each of several axes from the number of a program; the last runs fastest."""
    found: dict[int, Any] = {}
    for axis in reversed(axes[1:]):
        found[axis] = program % kernel.sizes[axis]
        program = program // kernel.sizes[axis]
    if axes:
        found[axes[0]] = program
    return found


def block_index(program: Any, size: Any, length: int, at: int, rank: int) -> tuple[Any, Any]:
    """(index, mask) of a block along one of `rank` block axes."""
    line = mk.arange(0, length)
    if rank > 1:
        line = mk.reshape(line, [length if i == at else 1 for i in range(rank)])
    index = line if program is None else program * length + line
    return index, index < size


def emit_map(kernel: Kernel) -> None:
    """Compute and store every output."""
    spec, rank = kernel.spec, len(kernel.spec.tags)
    form, blocks = spec.shape.form, spec.shape.blocks
    index: list[Any] = [None] * rank
    masks: list[Any] = [None] * rank
    turned: Scope | None = None
    if form == "tiles":
        lines = [mk.program_id(1 - at) * length + mk.arange(0, length) for at, length in enumerate(blocks)]
        index[-2:] = [lines[0][:, None], lines[1][None, :]]
        masks[-2:] = [at < size for at, size in zip(index[-2:], kernel.sizes[-2:], strict=True)]
    else:
        index[-1], masks[-1] = block_index(mk.program_id(1 if form == "rows" else 0), kernel.sizes[-1], blocks[0], 0, 1)
        if form == "rows":
            index[-2] = mk.program_id(0)
    outer = list(range(rank - (1 if form == "flat" else 2)))
    for axis, at in outer_indices(kernel, outer, mk.program_id(2) if outer else None).items():
        index[axis] = at
    if form == "tiles":
        across = [*index[:-2], lines[0][None, :], lines[1][:, None]]
        turned = Scope(kernel, across, [*masks[:-2], *(at < size for at, size in zip(across[-2:], kernel.sizes[-2:], strict=True))])
    scope = Scope(kernel, index, masks, turned=turned)
    for i, out in enumerate(spec.outputs):
        scope.store(i, scope.value(out[0]))


def map_grid(sizes: list[int], form: str, blocks: tuple[int, ...]) -> tuple[int, int, int]:
    """Programs of a launch."""
    inner = -(-sizes[-1] // blocks[-1])
    if form == "flat":
        return (inner, 1, 1)
    outer = 1
    for size in sizes[:-2]:
        outer *= size
    return (sizes[-2], inner, outer) if form == "rows" else (inner, -(-sizes[-2] // blocks[0]), outer)
