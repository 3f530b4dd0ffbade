"""Functions made of nodes: activations, statistics, normalisations, and movements that are several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.lazy import ops
from eas.lazy.build import (
    OutOfBounds,
    axes_of,
    axis_of,
    binary,
    broadcast_shape,
    cast,
    common_device,
    expand,
    index_node,
    pad,
    permute,
    reduce,
    refuse,
    reshape,
    select,
    strided,
    ternary,
    unary,
)
from eas.lazy.node import Node, place_here
from eas.lazy.ops import MAP

ADD, SUB, MUL, DIV, MAX, MIN, NEG = (MAP[n] for n in ("add", "sub", "mul", "div", "max", "min", "neg"))


def wide(x: Node) -> Node:
    """x in f32, or f64 if it is: what functions of several steps compute in."""
    return cast(x, dtypes.f64 if x.dtype is dtypes.f64 else dtypes.f32)


def narrow(x: Node, like: Node) -> Node:
    """A result in the float dtype of what it came from."""
    return cast(x, dtypes.div_type(like.dtype))


# --- activations ------------------------------------------------------------------------------------


def relu(x: Node) -> Node:
    """max(x, 0)."""
    return binary(MAX, x, 0)


def leaky_relu(x: Node, slope: float = 0.01) -> Node:
    """x where it is positive, else slope * x."""
    v = wide(x)
    return narrow(select(binary(MAP["gt"], v, 0), v, binary(MUL, v, slope)), x)


def silu(x: Node) -> Node:
    """x * sigmoid(x)."""
    v = wide(x)
    return narrow(binary(MUL, v, unary(MAP["sigmoid"], v)), x)


def softplus(x: Node) -> Node:
    """log(1 + exp(x)), which does not overflow."""
    v = wide(x)
    tail = unary(MAP["log1p"], unary(MAP["exp"], unary(NEG, unary(MAP["abs"], v))))
    return narrow(binary(ADD, binary(MAX, v, 0), tail), x)


def gelu(x: Node, approximate: str = "none") -> Node:
    """x times the normal distribution at x."""
    if approximate not in ("none", "tanh"):
        raise refuse(TypeMismatch(f"gelu has no approximation {approximate!r}", hint='approximate="none" or "tanh"'))
    v = wide(x)
    if approximate == "tanh":
        cubed = binary(MUL, binary(MUL, binary(MUL, v, v), v), 0.044715)
        bell = unary(MAP["tanh"], binary(MUL, binary(ADD, v, cubed), 0.7978845608028654))  # sqrt(2 / pi)
    else:
        bell = unary(MAP["erf"], binary(MUL, v, 0.7071067811865476))  # sqrt(1 / 2)
    return narrow(binary(MUL, binary(MUL, v, 0.5), binary(ADD, bell, 1)), x)


# --- statistics -------------------------------------------------------------------------------------


def count_of(x: Node, axis: Any) -> int:
    """How many elements one result of a reduction has."""
    return math.prod([x.shape[i] for i in axes_of(x, axis)])


def mean(x: Node, axis: Any = None, keepdims: bool = False) -> Node:
    """The sum over the number of elements, in f32 at least."""
    total = reduce("sum", wide(x), axis, keepdims)
    return narrow(binary(DIV, total, float(count_of(x, axis)) if count_of(x, axis) else math.nan), x)


def var(x: Node, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Node:
    """The mean of squared distances from the mean; `correction` is taken from the number of elements."""
    v = wide(x)
    away = binary(SUB, v, mean(v, axis, keepdims=True))
    left = max(count_of(x, axis) - correction, 0)
    return narrow(binary(DIV, reduce("sum", binary(MUL, away, away), axis, keepdims), float(left)), x)


def std(x: Node, axis: Any = None, keepdims: bool = False, correction: float = 0) -> Node:
    """The square root of the variance."""
    return narrow(unary(MAP["sqrt"], var(wide(x), axis, keepdims, correction)), x)


def softmax(x: Node, axis: Any = -1) -> Node:
    """exp(x - max) over its sum."""
    powers = _powers(wide(x), axis)
    return narrow(binary(MUL, powers, binary(DIV, 1, reduce("sum", powers, axis, keepdims=True))), x)


def _powers(v: Node, axis: Any) -> Node:
    return unary(MAP["exp"], binary(SUB, v, reduce("max", v, axis, keepdims=True)))


def log_softmax(x: Node, axis: Any = -1) -> Node:
    """The logarithm of softmax, which does not lose small shares."""
    v = wide(x)
    apart = binary(SUB, v, reduce("max", v, axis, keepdims=True))
    total = reduce("sum", unary(MAP["exp"], apart), axis, keepdims=True)
    return narrow(binary(SUB, apart, unary(MAP["log"], total)), x)


def logsumexp(x: Node, axis: Any = None, keepdims: bool = False) -> Node:
    """log(sum(exp(x))), which does not overflow."""
    v = wide(x)
    top = reduce("max", v, axis, keepdims=True)
    finite = select(unary(MAP["isfinite"], top), top, 0.0)
    total = unary(MAP["log"], reduce("sum", unary(MAP["exp"], binary(SUB, v, finite)), axis, keepdims=True))
    made = narrow(binary(ADD, total, finite), x)
    axes = axes_of(x, axis)
    return made if keepdims else reshape(made, tuple([n for i, n in enumerate(x.shape) if i not in axes]))


def layer_norm(x: Node, weight: Any = None, bias: Any = None, eps: float = 1e-5, axis: Any = -1) -> Node:
    """(x - mean) / sqrt(var + eps), then times weight, plus bias."""
    v = wide(x)
    away = binary(SUB, v, mean(v, axis, keepdims=True))
    spread = binary(DIV, reduce("sum", binary(MUL, away, away), axis, keepdims=True), float(count_of(x, axis)))
    made = binary(MUL, away, unary(MAP["rsqrt"], binary(ADD, spread, eps)))
    made = made if weight is None else binary(MUL, made, weight)
    return narrow(made if bias is None else binary(ADD, made, bias), x)


def power(x: Any, exponent: Any) -> Node:
    """x ** exponent: products for whole numbers, else pow of floats."""
    if type(x) is not Node or type(exponent) is not int or exponent < 0:
        for side in (x, exponent):
            if type(side) is Node and side.dtype.is_int and (type(exponent) is Node or type(exponent) is int):
                raise refuse(TypeMismatch("an integer tensor to a power that is negative or a tensor", hint='cast the base: x.to("f32") ** y'))
        return binary(MAP["pow"], x, exponent)
    if x.dtype.is_float and not 1 <= exponent <= 3:
        return binary(MAP["pow"], x, float(exponent))
    made: Node | None = None
    x = cast(x, dtypes.i32) if x.dtype.is_bool else x
    base = x
    while exponent:
        if exponent & 1:
            made = base if made is None else binary(MUL, made, base)
        exponent >>= 1
        base = binary(MUL, base, base) if exponent else base
    return binary(ADD, binary(MUL, x, 0), 1) if made is None else made


# --- movements --------------------------------------------------------------------------------------


def indexed(x: Node, index: tuple[Any, ...]) -> Node:
    """Integers, slices, None and ... as NumPy reads them."""
    named = sum([i is not None and i is not ... for i in index])
    if named > len(x.shape):
        raise refuse(OutOfBounds(f"{named} indices for a tensor of shape {list(x.shape)}", hint="index each axis once"))
    at = index.index(...) if ... in index else len(index)
    rest = (slice(None),) * (len(x.shape) - named)
    spans: list[tuple[int, int, int]] = []
    shape: list[int] = []
    for part in (*index[:at], *rest, *index[at + 1 :]):
        if part is None:
            shape.append(1)
            continue
        size = x.shape[len(spans)]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            spans.append((start, step, len(range(start, stop, step))))
            shape.append(spans[-1][2])
        else:
            if not -size <= part < size:
                raise refuse(OutOfBounds(f"index {part} is out of bounds for axis {len(spans)} of size {size}", hint="indices go from -size to size - 1"))
            spans.append((part % size, 1, 1))
    return reshape(strided(x, tuple(spans)), tuple(shape))


def flip(x: Node, axis: Any = None) -> Node:
    """The elements in reverse order along axes."""
    axes = axes_of(x, axis)
    return strided(x, tuple([(n - 1, -1, n) if i in axes and n else (0, 1, n) for i, n in enumerate(x.shape)]))


def cat(nodes: Sequence[Node], axis: int = 0) -> Node:
    """Tensors one after another along an axis."""
    common_device("cat", *nodes)
    axis = axis_of(nodes[0], axis)
    rest = [n.shape[:axis] + n.shape[axis + 1 :] for n in nodes]
    if any(r != rest[0] for r in rest):
        raise refuse(ShapeMismatch(f"cat along axis {axis} of shapes {', '.join(str(list(n.shape)) for n in nodes)}", hint="the other axes must be equal"))
    dtype = nodes[0].dtype
    for n in nodes[1:]:
        dtype = dtypes.common(dtype, n.dtype)
    total = sum([n.shape[axis] for n in nodes])
    made: Node | None = None
    start = 0
    for n in nodes:
        before, size = start, n.shape[axis]
        start += size
        widths = tuple([(before, total - start) if i == axis else (0, 0) for i in range(len(n.shape))])
        placed = pad(cast(n, dtype), widths)
        if made is None:
            made = placed
        else:
            made = select(binary(MAP["ge"], index_node(placed.shape, axis, n), before), placed, made)
    assert made is not None
    return made


def roll(x: Node, shift: Any, axis: Any = None) -> Node:
    """Elements moved along an axis, or along several by as many shifts; those that leave come in at the other end."""
    if isinstance(axis, tuple):
        shifts = shift if isinstance(shift, tuple) else (shift,) * len(axis)
        if len(shifts) != len(axis):
            raise refuse(ShapeMismatch(f"roll by {len(shifts)} shifts along {len(axis)} axes", hint="give a shift for each axis"))
        made = x
        for one, along in zip(shifts, axis, strict=True):
            made = roll(made, one, along)
        return made
    if not isinstance(shift, int):
        raise refuse(TypeMismatch(f"roll by {shift!r}", hint="shift by whole numbers"))
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    axis = axis_of(x, axis)
    size = x.shape[axis]
    if not size or not shift % size:
        return x
    at = size - shift % size
    parts = [[(first, 1, count) if i == axis else (0, 1, n) for i, n in enumerate(x.shape)] for first, count in ((at, size - at), (0, at))]
    return cat([strided(x, tuple(p)) for p in parts], axis)


def take(table: Node, index: Node, axis: int | None = 0) -> Node:
    """Rows of a table by their numbers, or elements of all of it where axis is None; a number that names none gives 0."""
    if axis is None:
        return take(reshape(table, (-1,)), index, 0)
    axis = axis_of(table, axis)
    if not index.dtype.is_int:
        raise refuse(TypeMismatch(f"take needs integer indices, got {index.dtype}", hint='index.to("i32")'))
    shape = table.shape[:axis] + index.shape + table.shape[axis + 1 :]
    inner = (1,) * axis + index.shape + (1,) * (len(table.shape) - axis - 1)
    spread = expand(reshape(index, inner), shape)
    return Node(ops.GATHER, (table, spread), (axis, False), shape, table.dtype, table.device, place_here())


def gather(table: Node, axis: int, index: Node) -> Node:
    """table[i, index[i, j]] along an axis, as torch's gather and NumPy's take_along_axis; a number that names no element gives 0."""
    axis = axis_of(table, axis)
    fits = len(index.shape) == len(table.shape) and all(n <= m or i == axis for i, (n, m) in enumerate(zip(index.shape, table.shape, strict=False)))
    if not index.dtype.is_int or not fits:
        raise refuse(ShapeMismatch(f"gather along axis {axis} of a tensor of shape {list(table.shape)} by {index.dtype}{list(index.shape)}", hint="indices are integers, in as many axes, of which the others are no longer"))
    return Node(ops.GATHER, (table, index), (axis, True), index.shape, table.dtype, table.device, place_here())


def one_hot(x: Node, classes: int) -> Node:
    """1 at the number of each element, else 0; i32 along a new last axis."""
    if not x.dtype.is_int or not isinstance(classes, int) or classes < 0:
        raise refuse(TypeMismatch(f"one_hot of {x.dtype} among {classes!r} classes", hint="elements are integers, classes a number of them"))
    shape = (*x.shape, classes)
    column = expand(reshape(x, (*x.shape, 1)), shape)
    return cast(binary(MAP["eq"], column, index_node(shape, len(x.shape), x)), dtypes.i32)


def cumsum(x: Node, axis: int | None = -1) -> Node:
    """Sums of all elements up to each, along all of the tensor where axis is None; integers in 64 bits."""
    if axis is None:
        return cumsum(reshape(x, (-1,)), 0)
    axis = axis_of(x, axis)
    dtype = x.dtype if x.dtype.is_float else dtypes.i64 if x.dtype.is_signed or x.dtype.is_bool else dtypes.u64
    return Node(ops.CUMSUM, (x,), axis, x.shape, dtype, x.device, place_here())


def draw(kind: str, shape: tuple[int, ...], seed: int, dtype: DType, device: Any) -> Node:
    """Random numbers by counter: the same seed and shape give the same ones on every backend."""
    if not dtype.is_float or dtype.is_storage_only:
        raise refuse(TypeMismatch(f"random numbers are floats, got dtype {dtype}", hint='dtype="f32"'))
    if not isinstance(seed, int):
        raise refuse(TypeMismatch(f"a seed is a whole number, got {seed!r}", hint="seed=0"))
    return Node(ops.RANDOM[kind], (seed,), None, shape, dtype, device, place_here())


def fma(x: Node, y: Any, z: Any) -> Node:
    """x * y + z with one rounding."""
    return ternary(ops.FMA, x, y, z)


def clip(x: Node, low: Any = None, high: Any = None) -> Node:
    """x no less than `low` and no more than `high`."""
    made = x if low is None else binary(MAX, x, low)
    return made if high is None else binary(MIN, made, high)


__all__ = ["broadcast_shape", "cat", "permute"]
