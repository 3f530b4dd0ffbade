"""Assignment to a tensor that is not computed yet: it becomes another graph, in which the new elements are selected."""

from __future__ import annotations

import operator
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from eas.base.errors import EasError
from eas.interop.memory import allocate
from eas.interop.pending import pin
from eas.interop.pool import Lease
from eas.lazy import ops
from eas.lazy.build import (
    copied,
    expand,
    number_filled,
    pad,
    permute,
    refuse,
    reshape,
    select,
    strided,
)
from eas.lazy.functions import flip, indexed
from eas.lazy.handle import LazyTensor, moves_from
from eas.lazy.node import PENDING, STATE, Node

MAX_WRITES = 8
"""Into one graph: each is a select over the whole tensor, so that past it memory is cheaper."""
SMALL = 1 << 16
SHARE = 8
"""Of a tensor in memory with more elements than SMALL, a write of less than this share of them is done at once."""


def written_lazily(tensor: Any, index: object, value: object) -> bool:
    """Whether the write is part of the graph now; else it wants memory: too many of them, places by arrays, or something wrong."""
    parts = index if isinstance(index, tuple) else (index,)
    if tensor._is_lazy:
        return _written(tensor, parts, value)
    if not any(isinstance(x, LazyTensor) and x._is_lazy for x in (*parts, value)) or not _is_alone(tensor):
        return False
    memory, owner, leaf = tensor._memory, tensor._owner, tensor._lazy()
    done = False
    tensor._memory, tensor._owner, tensor._node, tensor._writes = None, None, copied(leaf), 0
    try:
        done = _written(tensor, parts, value, SHARE if leaf.size > SMALL else 0)
    finally:
        if done:
            STATE[tensor._node] = ref(tensor)
        else:
            tensor._memory, tensor._owner, tensor._node = memory, owner, pin(leaf)
    return done


def _is_alone(tensor: Any) -> bool:
    """Whether nobody else sees the memory of a tensor: neither views, nor NumPy, nor torch; readers in graphs keep what it holds now."""
    memory = tensor._memory
    if not isinstance(memory.base, Lease) or tensor.device != "cpu":
        return False
    if not _ALONE:
        _ALONE.append(_references(tensor._made(allocate((1,), tensor.dtype), tensor.dtype)))
    readers = sum([leaf is not None and leaf.memory is memory for leaf in [r() for r in list(PENDING)]])
    del memory
    seen, leases = _references(tensor)
    return (seen - readers, leases) == _ALONE[0]


_ALONE: list[tuple[int, int]] = []


def _references(tensor: Any) -> tuple[int, int]:
    return getrefcount(tensor._memory), getrefcount(tensor._memory.base)


def _written(tensor: Any, parts: tuple[Any, ...], value: object, share: int = 0) -> bool:
    base = tensor if tensor._base is None else tensor._base
    if base._writes >= MAX_WRITES:
        return False
    is_mask = len(parts) == 1 and _is_mask(parts[0])
    if not is_mask and not all(_is_plain(p) for p in parts):
        return False
    seen = tensor._lazy()
    if any(move.op is ops.MOVE["expand"] for move in moves_from(base._node, seen)):
        return False  # who writes memory says that it is read-only
    try:
        given = tensor._wrapped(value, tensor.dtype)._lazy()
    except EasError as error:
        raise refuse(error) from None
    made = _masked(tensor, base._node, seen, parts[0], given) if is_mask else _sliced(base._node, seen, parts, given, share)
    if made is None:
        return False
    if made is not base._node:
        base._rewritten(copied(made) if made is given else made)  # not the memory of the value
    return True


def _is_plain(part: Any) -> bool:
    return part is None or part is ... or isinstance(part, slice) or (isinstance(part, int | np.integer) and not isinstance(part, bool))


def _is_mask(part: Any) -> bool:
    return (isinstance(part, np.ndarray) and part.dtype == np.bool_) or (isinstance(part, LazyTensor) and part.dtype.is_bool)


def _sliced(whole: Node, seen: Node, parts: tuple[Any, ...], given: Node, share: int) -> Node | None:
    """The tensor with other elements where integers and slices name them; None if they do not fit, or are too few."""
    target = indexed(seen, tuple([operator.index(p) if isinstance(p, np.integer) else p for p in parts]))
    shape = given.shape[max(0, len(given.shape) - len(target.shape)) :]
    if given.size != _size(shape) or any(n not in (1, m) for n, m in zip(reversed(shape), reversed(target.shape), strict=False)):
        return None
    if target.size * share < whole.size * bool(share):
        return None
    if not target.size:
        return whole
    placed = back(expand(reshape(given, shape), target.shape), whole, target)
    if target.size == whole.size:
        return placed
    return select(back(number_filled(target, True), whole, target), placed, whole)


def _masked(tensor: Any, whole: Node, seen: Node, mask: Any, given: Node) -> Node | None:
    """The tensor with one other element where a mask holds; None where each place has its own."""
    where: Node = tensor._wrapped(mask)._lazy()
    if given.size != 1 or where.shape != seen.shape[: len(where.shape)]:
        return None
    there = expand(reshape(where, (*where.shape, *(1,) * (len(seen.shape) - len(where.shape)))), seen.shape)
    return select(back(there, whole, seen), expand(reshape(given, ()), whole.shape), whole)


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def back(values: Node, whole: Node, view: Node) -> Node:
    """Elements of a view where they are in the whole; 0 elsewhere."""
    for move in reversed(moves_from(whole, view)):
        before = move.src[0].shape
        if move.op.name == "reshape":
            values = reshape(values, before)
        elif move.op.name == "permute":
            values = permute(values, [move.arg.index(i) for i in range(len(before))])
        else:
            values = _spread(values, before, move.arg)
    return values


def _spread(values: Node, shape: tuple[int, ...], spans: tuple[tuple[int, int, int], ...]) -> Node:
    """Elements of a slice at their places: in order, with gaps for steps, and what comes before and after."""
    values = flip(values, tuple([i for i, (_, step, _) in enumerate(spans) if step < 0]))
    widths = []
    for axis, (n, (start, step, count)) in enumerate(zip(shape, spans, strict=True)):
        first, gap = (start, step) if step > 0 else (start + step * (count - 1), -step)
        length = (count - 1) * gap + 1
        if gap > 1 and count > 1:
            sizes = values.shape
            values = reshape(values, (*sizes[: axis + 1], 1, *sizes[axis + 1 :]))
            values = pad(values, tuple([(0, gap - 1) if i == axis + 1 else (0, 0) for i in range(len(values.shape))]))
            values = reshape(values, (*sizes[:axis], count * gap, *sizes[axis + 1 :]))
            values = strided(values, tuple([(0, 1, length if i == axis else m) for i, m in enumerate(values.shape)]))
        widths.append((first, n - first - length))
    return pad(values, tuple(widths))


__all__ = ["written_lazily"]
