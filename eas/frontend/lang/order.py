"""Sorting, selecting and counting the elements of a block."""

from __future__ import annotations

from typing import Any

from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.lang.cast import spread
from eas.frontend.lang.fold import need_block
from eas.frontend.lang.reduce import positions
from eas.frontend.lang.shape import static_axis
from eas.frontend.values import as_block, emit, emit_inst, is_number, plain, static_int, to_bool


def sort(x: Operand, axis: int = -1, descending: bool = False, payload: Any = None) -> Any:
    """x sorted along an axis, smallest first unless told; NaN counts as the largest, equal elements keep their order. With `payload`, a block or a tuple of blocks that move along, a tuple of all."""
    block = need_block("sort", x)
    moved = () if payload is None else payload if isinstance(payload, tuple | list) else (payload,)
    others = [spread(as_block(each, "the payload of sort"), block.shape) for each in moved]
    inst = emit_inst("sort", block, *others, axis=static_axis("sort", axis, block.ndim), descending=bool(descending))
    return Block(inst.out) if payload is None else tuple(Block(out) for out in inst.outs)


def argsort(x: Operand, axis: int = -1, descending: bool = False) -> Block:
    """The indices (i32) that sort x along an axis; equal elements keep their order, NaN counts as the largest."""
    block = need_block("argsort", x)
    at = static_axis("argsort", axis, block.ndim)
    inst = emit_inst("sort", block, positions(block, at), axis=at, descending=bool(descending))
    return Block(inst.outs[1])


def topk(x: Operand, k: int, axis: int = -1, largest: bool = True) -> tuple[Block, Block]:
    """The k largest (or smallest) elements along an axis, in order, and their indices (i32); the lowest index wins a tie."""
    block = need_block("topk", x)
    count, at = static_int(k, "the k of topk"), static_axis("topk", axis, block.ndim)
    value, index = emit_inst("topk", block, k=count, axis=at, largest=bool(largest)).outs
    return Block(value), Block(index)


def histogram(x: Operand, bins: int, mask: Operand | None = None) -> Block:
    """How often (i32) each of 0 .. bins-1 occurs among the integers x; other values and masked-off elements do not count."""
    block = need_block("histogram", x)
    masks = _masks(block, mask)
    return emit("histogram", block, *masks, bins=static_int(bins, "the bins of histogram"))


def _masks(block: Block, mask: Any) -> list[Block]:
    current("mk.histogram")
    if mask is None or (is_number(mask) and plain(mask)):
        return []
    return [spread(to_bool(mask), block.shape)]
