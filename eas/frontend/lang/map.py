"""Functions of one element, for every element of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.lang.shape import join, reshape, split
from eas.frontend.values import as_block, common_shape, emit_inst
from eas.ir import walk


def map_elementwise(scalar_fn: Callable[..., Any], *args: Operand, pack: int = 1) -> Any:
    """What a function of scalars gives for each element of blocks, which are broadcast to each other; it may branch and loop, and return a tuple. With `pack` it gets that many neighbours of each block at a time, and returns as many of each result."""
    builder = current("map_elementwise")
    if not callable(scalar_fn) or not args:
        raise TypeMismatch("map_elementwise needs a function and what to call it with", hint="mk.map_elementwise(fn, x, y)", loc=builder.here())
    blocks = [as_block(a, "an operand of map_elementwise") for a in args]
    shape = common_shape("map_elementwise", [b.shape for b in blocks])
    count = values.static_int(pack, "pack")
    if count < 1 or count & (count - 1) or (shape and shape[-1] % count) or (count > 1 and not shape):
        raise ShapeMismatch(f"map_elementwise got pack={pack} for blocks of shape {list(shape)}", hint="pass a power of two that divides the last axis", loc=builder.here())
    blocks = [values.broadcast_to(b, shape) for b in blocks]
    given = _call(scalar_fn, [each for b in blocks for each in _apart(b, count)])
    if not isinstance(given, tuple):
        return given if count == 1 else _together([given])
    if len(given) % count:
        raise TypeMismatch(f"the function of map_elementwise returned {len(given)} values with pack={count}", hint="return one for each of the packed elements", loc=builder.here())
    outs = tuple(_together(given[k : k + count]) for k in range(0, len(given), count))
    return outs if len(outs) > 1 or count == 1 else outs[0]


def _call(function: Callable[..., Any], blocks: Sequence[Block]) -> Any:
    """A `map` instruction whose region is what the function does; of scalars a plain call."""
    builder = current()
    traced = builder.helper(function)
    if not blocks[0].shape:
        return traced(*blocks)
    with builder.scope("function of map_elementwise", [Type(b.dtype) for b in blocks]) as scope:
        given = traced(*(Block(p) for p in scope.params))
        results = [as_block(x, "the result of map_elementwise's function") for x in (given if isinstance(given, (tuple, list)) else (given,))]
    region = builder.close(scope, [r.value for r in results])
    for inst in walk(region):
        if any(v.shape or (v.type.is_pointer and not v.type.is_scalar) for v in (*inst.operands, *inst.outs)):
            raise ShapeMismatch(f"the function of map_elementwise works on scalars, and uses {inst.op.name} of a block", hint="pass blocks as arguments: mk.map_elementwise(fn, x, block)", loc=inst.loc)
    outs = tuple(Block(out) for out in emit_inst("map", *blocks, regions=[region]).outs)
    return outs if isinstance(given, (tuple, list)) else outs[0]


def _apart(block: Block, count: int) -> list[Block]:
    """Every count-th element, from the first, from the second and so on."""
    if count == 1:
        return [block]
    halves = split(reshape(block, (*block.shape[:-1], block.shape[-1] // 2, 2)))
    even, odd = (_apart(half, count // 2) for half in halves)
    return [each for pair in zip(even, odd, strict=True) for each in pair]


def _together(parts: Sequence[Block]) -> Block:
    """The inverse of `_apart`."""
    if len(parts) == 1:
        return parts[0]
    both = join(_together(parts[::2]), _together(parts[1::2]))
    return reshape(both, (*both.shape[:-2], both.shape[-2] * 2))
