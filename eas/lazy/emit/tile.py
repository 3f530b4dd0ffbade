"""The tile template: a matrix product by `dot`, with what is cheap before it and what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eas import mk
from eas.frontend.block import Block
from eas.frontend.values import cast_to, constant
from eas.lazy.emit.map import outer_indices
from eas.lazy.emit.rows import _loop
from eas.lazy.emit.scope import Kernel, Scope
from eas.ops.dot import accumulator


def emit_tile(kernel: Kernel) -> None:
    """One program per tile of the result, a runtime loop over K."""
    spec, tags = kernel.spec, kernel.spec.tags
    bm, bn, bk = spec.shape.blocks
    rank = len(tags)
    rows, columns, inner = rank - 3, rank - 2, rank - 1
    batch = outer_indices(kernel, list(range(rows)), mk.program_id(2) if rows else None)
    row, column = mk.program_id(1) * bm + mk.arange(0, bm), mk.program_id(0) * bn + mk.arange(0, bn)
    at = next(i for i, inst in enumerate(spec.instructions) if inst[0] == "dot")
    _, left, right, dtype = spec.instructions[at]
    computed = _dtype_of(spec, left)
    acc = constant(0, accumulator(computed), (bm, bn))

    def side(value: int, line: Any, size: Any, k: Any, axis: int, is_turned: bool) -> Block:
        """An operand as [line, k], or turned as [k, line]."""
        index: list[Any] = [batch.get(i) for i in range(rank)]
        masks: list[Any] = [None] * rank
        index[axis], index[inner] = (line[None, :], k[:, None]) if is_turned else (line[:, None], k[None, :])
        masks[axis], masks[inner] = index[axis] < size, index[inner] < kernel.sizes[inner]
        block = cast_to(Scope(kernel, index, masks).value(value), computed)
        return mk.broadcast_to(block, [bk, len(line)] if is_turned else [len(line), bk])

    def body(first: Block, state: list[Block]) -> list[Block]:
        k = first + mk.arange(0, bk)
        turn_a, turn_b = spec.shape.turned
        a = side(left, row, kernel.sizes[rows], k, rows, turn_a)
        b = side(right, column, kernel.sizes[columns], k, columns, not turn_b)
        return [mk.dot(mk.trans(a) if turn_a else a, mk.trans(b) if turn_b else b, state[0])]

    (total,) = _loop(kernel, kernel.sizes[inner], bk, [acc], body)
    index: list[Any] = [batch.get(i) for i in range(rank)]
    index[rows], index[columns], index[inner] = row[:, None], column[None, :], constant_zero()
    masks: list[Any] = [None] * rank
    masks[rows], masks[columns] = index[rows] < kernel.sizes[rows], index[columns] < kernel.sizes[columns]
    scope = Scope(kernel, index, masks)
    scope.known[at] = cast_to(total, dtype)
    for i, out in enumerate(spec.outputs):
        scope.store(i, scope.value(out[0]))


def constant_zero() -> Block:
    """The index of an axis that the result does not have."""
    from eas.base import dtypes

    return constant(0, dtypes.i32)


def _dtype_of(spec: Any, i: int) -> Any:
    """The dtype of the value of an instruction."""
    inst = spec.instructions[i]
    return inst[3] if inst[0] == "map" else inst[2]


def tile_grid(sizes: Sequence[int], blocks: tuple[int, ...]) -> tuple[int, int, int]:
    """Programs of a launch."""
    bm, bn, _ = blocks
    batch = 1
    for size in sizes[:-3]:
        batch *= size
    return (-(-sizes[-2] // bn), -(-sizes[-3] // bm), batch)
