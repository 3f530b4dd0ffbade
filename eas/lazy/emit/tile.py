"""The tile template: a matrix product by `dot`, with what is cheap before it and what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eas import mk
from eas.frontend.block import Block
from eas.frontend.values import cast_to, constant
from eas.lazy.emit.map import outer_indices
from eas.lazy.emit.rows import Stages, fold, identity, joined, loop, masked
from eas.lazy.emit.scope import Kernel, Scope, operands
from eas.ops.dot import accumulator


class Side(NamedTuple):
    """An operand of the product: where its lines are, and how its blocks lie."""

    value: int
    axis: int
    line: Block
    size: Block
    is_turned: bool
    """As [k, line] instead of [line, k]."""
    reduced: dict[int, Block]
    """One value per line of each reduction over K."""

    @property
    def across(self) -> tuple[int, int]:
        """The shape of one value per line beside the blocks of this operand."""
        return (1, len(self.line)) if self.is_turned else (len(self.line), 1)


class _Tile:
    """One program: a tile of the result, and the passes over K that make it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        spec, rank = kernel.spec, len(kernel.spec.tags)
        bm, bn, self.bk = spec.shape.blocks
        self.rows, self.columns, self.inner = rank - 3, rank - 2, rank - 1
        self.batch = outer_indices(kernel, list(range(self.rows)), mk.program_id(2) if self.rows else None)
        row, column = mk.program_id(1) * bm + mk.arange(0, bm), mk.program_id(0) * bn + mk.arange(0, bn)
        self.product = next(i for i, inst in enumerate(spec.instructions) if inst[0] == "dot")
        _, left, right, self.dtype = spec.instructions[self.product]
        self.computed = _dtype_of(spec, left)
        turn_a, turn_b = spec.shape.turned
        self.sides = (Side(left, self.rows, row, kernel.sizes[self.rows], turn_a, {}), Side(right, self.columns, column, kernel.sizes[self.columns], not turn_b, {}))

    def scope(self, side: Side, k: Block) -> tuple[Scope, Block]:
        """Where an operand is seen from K = k, and which k exist."""
        rank = len(self.kernel.spec.tags)
        index: list[Any] = [self.batch.get(i) for i in range(rank)]
        masks: list[Any] = [None] * rank
        index[side.axis], index[self.inner] = (side.line[None, :], k[:, None]) if side.is_turned else (side.line[:, None], k[None, :])
        masks[side.axis], masks[self.inner] = index[side.axis] < side.size, index[self.inner] < self.kernel.sizes[self.inner]
        scope = Scope(self.kernel, index, masks)
        scope.known.update(side.reduced)
        return scope, masks[self.inner]

    def shape(self, side: Side) -> list[int]:
        return [self.bk, len(side.line)] if side.is_turned else [len(side.line), self.bk]

    def reduce(self, side: Side, stage: list[int]) -> None:
        """A pass over an operand for what is reduced along its lines."""
        instructions = self.kernel.spec.instructions

        def body(first: Block, state: list[Block]) -> list[Block]:
            scope, inside = self.scope(side, first + mk.arange(0, self.bk))
            made = []
            for i, so_far in zip(stage, state, strict=True):
                _, name, source, dtype, _ = instructions[i]
                block = masked(scope.value(source), name, dtype, inside, self.shape(side))
                folded = mk.reshape(fold(name, block, 0 if side.is_turned else 1), list(side.across))
                made.append(joined(name, so_far, folded, dtype))
            return made

        starts = [constant(identity(instructions[i][1], instructions[i][3]), instructions[i][3], side.across) for i in stage]
        left = loop(self.kernel, self.kernel.sizes[self.inner], self.bk, starts, body)
        side.reduced.update({i: cast_to(total, instructions[i][4]) for i, total in zip(stage, left, strict=True)})

    def operand(self, side: Side, k: Block) -> Block:
        """A block of an operand; past the end of K nothing that a sum of products would notice, if the other operand is 0 there."""
        scope, inside = self.scope(side, k)
        block = mk.broadcast_to(cast_to(scope.value(side.value), self.computed), self.shape(side))
        return mk.where(mk.broadcast_to(inside, self.shape(side)), block, constant(0, self.computed)) if side.reduced else block


def emit_tile(kernel: Kernel) -> None:
    """One program per tile of the result: passes for reductions of operands, then a runtime loop over K."""
    tile = _Tile(kernel)
    bm, bn, bk = kernel.spec.shape.blocks
    a, b = tile.sides
    needed = [_behind(kernel.spec, side.value) for side in tile.sides]
    for stage in Stages(kernel.spec).stages:
        for side, behind in zip(tile.sides, needed, strict=True):
            if own := [i for i in stage if i in behind]:
                tile.reduce(side, own)

    def body(first: Block, state: list[Block]) -> list[Block]:
        k = first + mk.arange(0, bk)
        left, right = tile.operand(a, k), tile.operand(b, k)
        return [mk.dot(mk.trans(left) if a.is_turned else left, right if b.is_turned else mk.trans(right), state[0])]

    (total,) = loop(kernel, kernel.sizes[tile.inner], bk, [constant(0, accumulator(tile.computed), (bm, bn))], body)
    rank = len(kernel.spec.tags)
    index: list[Any] = [tile.batch.get(i) for i in range(rank)]
    index[tile.rows], index[tile.columns], index[tile.inner] = a.line[:, None], b.line[None, :], constant_zero()
    masks: list[Any] = [None] * rank
    masks[tile.rows], masks[tile.columns] = index[tile.rows] < a.size, index[tile.columns] < b.size
    scope = Scope(kernel, index, masks)
    scope.known[tile.product] = cast_to(total, tile.dtype)
    scope.known.update({i: mk.reshape(found, [bm, 1]) for i, found in a.reduced.items()} | {i: mk.reshape(found, [1, bn]) for i, found in b.reduced.items()})
    for i, out in enumerate(kernel.spec.outputs):
        scope.store(i, scope.value(out[0]))


def _behind(spec: Any, root: int) -> set[int]:
    """The instructions that a value is made of."""
    stack, seen = [root], set[int]()
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack += operands(spec.instructions[i])
    return seen


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
