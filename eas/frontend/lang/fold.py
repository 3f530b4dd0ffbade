"""Reductions and scans under any combine function: the region that targets inline per element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.builder import Builder, current
from eas.frontend.lang.cast import implicit
from eas.frontend.lang.shape import expand_dims, ravel, reshape, static_axis
from eas.frontend.values import as_block, emit_inst
from eas.ir import Inst, Region, Value, make
from eas.ops import Trait

Combine = Callable[..., Any]


def need_block(name: str, x: Any) -> Block:
    """x, unless it is a scalar: one element has nothing to meet."""
    block = as_block(x, f"the operand of {name}")
    if not block.type.is_value:
        values.refuse_pointer(name, block)
    if not block.shape:
        thread = current().mode == "thread"
        hint = (
            "threads meet in mk.simd_sum and its kin, or in threadgroup memory: mk.alloc_tg"
            if thread
            else "a scalar is its own reduction: leave it out"
        )
        raise ShapeMismatch(
            f"{name} needs a block, got the scalar {block.type}", hint=hint, loc=current().here()
        )
    return block


def fold(
    op: str, word: str, blocks: Sequence[Block], combine: Combine, **attrs: Any
) -> tuple[Block, ...]:
    """A `reduce` or `scan` instruction whose region is what `combine` does with two sets of scalars."""
    builder = current(word)
    scalars = [Type(b.dtype) for b in blocks]
    with builder.scope("combine function", scalars * 2) as scope:
        given = combine(*(Block(p) for p in scope.params))
        items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if len(items) != len(blocks):
            raise TypeMismatch(
                f"the combine function of {word} returned {len(items)} values for {len(blocks)} inputs",
                hint="return one value per input",
                loc=builder.here(),
            )
        results = [
            implicit(x, t.dtype, f"what {word} combines to")
            for x, t in zip(items, scalars, strict=True)
        ]
    body, scope.body = scope.body, []
    with builder.inside(scope):
        results = _as_scalars(builder, body, results)
    for inst in scope.body:
        _check_combine(word, inst)
    for result in results:
        if result.shape:
            raise ShapeMismatch(
                f"the combine function of {word} returned the block {result.type}",
                hint="it combines scalars: return a scalar",
                loc=builder.here(),
            )
    region: Region = builder.close(scope, [r.value for r in results])
    return tuple(Block(out) for out in emit_inst(op, *blocks, regions=[region], **attrs).outs)


def _as_scalars(builder: Builder, body: Sequence[Inst], results: Sequence[Block]) -> list[Block]:
    """Append a body in which blocks of one element, as Triton's constants of shape [1] make them, are what they hold."""
    known: dict[Value, Value] = {}
    for inst in body:
        operands = [known.get(v, v) for v in inst.operands]
        is_single = all(v.type.is_value and not v.shape for v in operands) and all(out.type.is_value and math.prod(out.shape) == 1 for out in inst.outs)
        if not is_single or inst.regions or not any(v.shape for v in (*inst.operands, *inst.outs)):
            builder.append(inst)
        elif inst.op.has(Trait.SHAPE) and len(operands) == 1:
            known[inst.out] = operands[0]
        else:
            attrs = dict(inst.attrs)
            if "type" in attrs:
                attrs["type"] = Type(inst.out.dtype)
            known.update(zip(inst.outs, builder.append(make(inst.op.name, operands, attrs, (), inst.loc)).outs, strict=True))
    return [Block(known[r.value]) if r.value in known and math.prod(r.shape) == 1 else r for r in results]


def _check_combine(word: str, inst: Inst) -> None:
    """Targets inline the region per element: only arithmetic on scalars can go there."""
    scalars = all(v.type.is_value and not v.shape for v in (*inst.operands, *inst.outs))
    if inst.op.is_pure and not inst.regions and scalars and not inst.op.has(Trait.CONVERGENT):
        return
    hint = (
        "write the choice as mk.where(cond, a, b) or as a if cond else b"
        if inst.op.name == "if"
        else "load, loop and work on blocks outside of it"
    )
    raise TypeMismatch(
        f"the combine function of {word} may only compute with scalars, not use {inst.op.name}",
        hint=hint,
        loc=inst.loc,
    )


def prepare(name: str, x: Any, axis: Any) -> tuple[Block, int]:
    """The block and the axis to reduce; None means all elements."""
    block = need_block(name, x)
    return (ravel(block), 0) if axis is None else (block, static_axis(name, axis, block.ndim))


def keep(out: Block, x: Any, axis: Any, keep_dims: bool) -> Block:
    if not keep_dims:
        return out
    rank = as_block(x).ndim
    return (
        reshape(out, (1,) * rank)
        if axis is None
        else expand_dims(out, static_axis("reduce", axis, rank))
    )


def reduce(input: Any, axis: int | None, combine_fn: Combine, keep_dims: bool = False) -> Any:
    """Combine all elements along an axis (None: all) by an associative function of scalars, in an unspecified but fixed order; a tuple of blocks gives a tuple, by combine_fn(*left, *right)."""
    blocks = _inputs("reduce", input)
    prepared = [prepare("reduce", b, axis) for b in blocks]
    outs = fold(
        "reduce", "reduce", [b for b, _ in prepared], _traced(combine_fn), axis=prepared[0][1]
    )
    kept = tuple(keep(out, b, axis, keep_dims) for out, b in zip(outs, blocks, strict=True))
    return kept if isinstance(input, (tuple, list)) else kept[0]


def associative_scan(input: Any, axis: int, combine_fn: Combine, reverse: bool = False) -> Any:
    """Inclusive prefixes along an axis under an associative function of scalars, from the end if `reverse`; a tuple of blocks gives a tuple."""
    blocks = _inputs("associative_scan", input)
    at = static_axis("associative_scan", axis, blocks[0].ndim)
    outs = fold(
        "scan", "associative_scan", blocks, _traced(combine_fn), axis=at, reverse=bool(reverse)
    )
    return outs if isinstance(input, (tuple, list)) else outs[0]


def _inputs(name: str, input: Any) -> list[Block]:
    items = input if isinstance(input, (tuple, list)) else (input,)
    if not items:
        raise ShapeMismatch(
            f"{name} of no blocks", hint="pass a block, or a tuple of blocks", loc=current().here()
        )
    return [need_block(name, x) for x in items]


def _traced(combine_fn: Any) -> Combine:
    """The function with its conditional expressions understood, as any helper of a kernel."""
    if not callable(combine_fn):
        raise TypeMismatch(
            f"the combine function is {combine_fn!r}",
            hint="pass a function of two scalars",
            loc=current().here(),
        )
    return current().helper(combine_fn)
