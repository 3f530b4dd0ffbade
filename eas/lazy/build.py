"""Makes nodes: promotion, broadcasting and shape rules, with errors at the user's line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import EasError, ShapeMismatch, TypeMismatch
from eas.lazy import ops
from eas.lazy.node import Node, Shape, place_here
from eas.lazy.ops import MAP, MOVE, Row

if TYPE_CHECKING:
    from eas.interop.devices import Device

class OutOfBounds(ShapeMismatch, IndexError):
    """An index that names no element."""


_known: dict[tuple[Row, str, str | None], tuple[DType, DType]] = {}


def _pair(row: Row, a: DType, b: DType | None) -> tuple[DType, DType]:
    key = (row, a.name, None if b is None else b.name)
    found = _known.get(key)
    if found is None:
        found = _known[key] = ops.dtypes_of(row, a, b)
    return found


def refuse(error: EasError) -> EasError:
    """The same error at the user's line."""
    from eas.ir import Loc

    place = place_here()
    return error if place is None else error.at(Loc((place,)))


def unary(row: Row, a: Node) -> Node:
    """One elementwise op of one node."""
    try:
        operand, result = _pair(row, a.dtype, None)
    except EasError as error:
        raise refuse(error) from None
    return Node(row, (a,), operand, a.shape, result, a.device, place_here())


def binary(row: Row, a: Any, b: Any) -> Node:
    """One elementwise op of two nodes, or of a node and a Python number."""
    try:
        if type(b) is not Node:
            operand, result = _weak(row, a.dtype, b)
            return Node(row, (a, b), operand, a.shape, result, a.device, place_here())
        if type(a) is not Node:
            operand, result = _weak(row, b.dtype, a)
            return Node(row, (a, b), operand, b.shape, result, b.device, place_here())
        operand, result = _pair(row, a.dtype, b.dtype)
    except EasError as error:
        raise refuse(error) from None
    if a.shape != b.shape:
        shape = broadcast_shape(row.name, a.shape, b.shape)
        a, b = expand(a, shape), expand(b, shape)
    return Node(row, (a, b), operand, a.shape, result, a.device if a.device is b.device else common_device(row.name, a, b), place_here())


def ternary(row: Row, a: Node, b: Any, c: Any) -> Node:
    """One elementwise op of a node and two others, which may be Python numbers."""
    given = (a, b, c)
    shape = broadcast_shape(row.name, *[x.shape for x in given if type(x) is Node])
    try:
        dtype = a.dtype
        for x in (b, c):
            dtype = dtypes.common(dtype, x.dtype) if type(x) is Node else dtypes.promote_weak(dtype, _checked(row, x))
        operand, result = _pair(row, dtype, None)
    except EasError as error:
        raise refuse(error) from None
    src = tuple([expand(x, shape) if type(x) is Node else x for x in given])
    return Node(row, src, operand, shape, result, common_device(row.name, *[x for x in given if type(x) is Node]), place_here())


def _checked(row: Row, number: Any) -> Any:
    if not isinstance(number, (int, float)):
        raise TypeMismatch(f"{row.name} of a tensor and a {type(number).__name__}", hint="operands are tensors, arrays and numbers")
    return number


def _weak(row: Row, dtype: DType, number: Any) -> tuple[DType, DType]:
    _checked(row, number)
    if row.rule == "shift" and number < 0:
        raise TypeMismatch(f"{row.name} by {number}", hint="shift by a whole number that is not negative")
    return _pair(row, dtypes.promote_weak(dtype, number), None)


def common_device(name: str, *nodes: Node) -> Device:
    """Where a result of these lies: shared memory, unless all are private."""
    first = nodes[0].device
    for node in nodes:
        if node.device.name != first.name:
            raise refuse(TypeMismatch(f"{name} got tensors on {nodes[0].device.name} and {node.device.name}", hint="move one of them with .to(device)"))
        first = node.device if first.storage == "private" else first
    return first


def select(cond: Node, a: Any, b: Any) -> Node:
    """a where cond holds, else b."""
    shapes = [x.shape for x in (cond, a, b) if type(x) is Node]
    shape = shapes[0]
    for other in shapes[1:]:
        shape = shape if other == shape else broadcast_shape("where", shape, other)
    nodes = [x for x in (a, b) if type(x) is Node]
    try:
        for x in (a, b):
            if type(x) is not Node:
                _checked(ops.SELECT, x)
        dtype = nodes[0].dtype if nodes else dtypes.weak_default(a)
        for x in (a, b):
            dtype = dtypes.common(dtype, x.dtype) if type(x) is Node else dtypes.promote_weak(dtype, x)
    except EasError as error:
        raise refuse(error) from None
    if not nodes:  # one operand says which dtype the numbers have
        a = cast(number_like(a, cond), dtype)
    a, b = (expand(x, shape) if type(x) is Node else x for x in (a, b))
    device = common_device("where", cond, *nodes)
    cond = cond if cond.dtype.is_bool else cast(cond, dtypes.bool_)
    return Node(ops.SELECT, (expand(cond, shape), a, b), dtype, shape, dtype, device, place_here())


def number_like(value: Any, like: Node) -> Node:
    """A number as a node of no axes, on the device of another."""
    zero = index_node((), 0, like)
    dtype = dtypes.weak_default(value)
    return Node(MAP["add"], (cast(zero, dtype if not dtype.is_bool else dtypes.i32), value), dtype if not dtype.is_bool else dtypes.i32, (), dtype, like.device, place_here())


def cast(a: Node, dtype: DType) -> Node:
    """The values in another dtype."""
    if a.dtype is dtype:
        return a
    return Node(ops.CAST, (a,), dtype, a.shape, dtype, a.device, place_here())


def bitcast(a: Node, dtype: DType) -> Node:
    """The bits in another dtype of the same width."""
    if a.dtype.is_bool or dtype.is_bool or a.dtype.bits != dtype.bits:
        raise refuse(TypeMismatch(f"bitcast needs two dtypes of one width, got {a.dtype} and {dtype}", hint="x.to(dtype) converts the values instead"))
    return a if a.dtype is dtype else Node(ops.BITCAST, (a,), a.dtype, a.shape, dtype, a.device, place_here())


def index_node(shape: Shape, axis: int, like: Node) -> Node:
    """The index of each element along an axis, i32."""
    return Node(ops.INDEX, (), axis, shape, dtypes.i32, like.device, place_here())


# --- movements ------------------------------------------------------------------------------------


def broadcast_shape(name: str, *shapes: Shape) -> Shape:
    """The NumPy broadcast of shapes."""
    rank = max(map(len, shapes))
    made = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if made[axis] not in (1, size):
                    listed = " and ".join(str(list(s)) for s in shapes)
                    raise refuse(ShapeMismatch(f"{name} got tensors of shapes {listed}, which do not broadcast", hint="sizes are equal or 1, counted from the last axis; x.reshape(...) adds axes of 1"))
                made[axis] = size
    return tuple(made)


def move(a: Node, name: str, arg: Any, shape: Shape) -> Node:
    """A movement of a node."""
    return Node(MOVE[name], (a,), arg, shape, a.dtype, a.device, place_here())


def copied(a: Node) -> Node:
    """A node of its own for the same values: what a function that changes nothing gives."""
    return move(a, "reshape", a.shape, a.shape)


def reshape(a: Node, shape: Shape) -> Node:
    """The elements in another shape; one size may be -1."""
    if -1 in shape:
        known = -math.prod(shape)
        if shape.count(-1) > 1 or known <= 0 or a.size % known:
            raise _no_reshape(a, shape)
        shape = tuple([a.size // known if n == -1 else n for n in shape])
    if shape == a.shape:
        return a
    if math.prod(shape) != a.size or min(shape, default=0) < 0:
        raise _no_reshape(a, shape)
    return move(a, "reshape", shape, shape)


def _no_reshape(a: Node, shape: Shape) -> EasError:
    return refuse(ShapeMismatch(f"cannot reshape a tensor of shape {list(a.shape)} into {list(shape)}", hint=f"it has {a.size} elements"))


def expand(a: Node, shape: Shape) -> Node:
    """Broadcast to a shape."""
    if a.shape == shape:
        return a
    if broadcast_shape("expand", a.shape, shape) != shape:
        raise refuse(ShapeMismatch(f"cannot expand shape {list(a.shape)} to {list(shape)}", hint="only axes of size 1 are expanded"))
    full = (1,) * (len(shape) - len(a.shape)) + a.shape
    return move(reshape(a, full), "expand", shape, shape)


def permute(a: Node, axes: Sequence[int]) -> Node:
    """The axes in another order."""
    rank = len(a.shape)
    order = tuple([axis_of(a, x) for x in axes])
    if sorted(order) != list(range(rank)):
        raise refuse(ShapeMismatch(f"permute got axes {tuple(axes)} for a tensor of {rank} axes", hint="name each axis once"))
    if order == tuple(range(rank)):
        return a
    return move(a, "permute", order, tuple([a.shape[i] for i in order]))


def strided(a: Node, spans: tuple[tuple[int, int, int], ...]) -> Node:
    """(start, step, count) of every axis."""
    if all(span == (0, 1, n) for span, n in zip(spans, a.shape, strict=True)):
        return a
    return move(a, "slice", spans, tuple([n for _, _, n in spans]))


def pad(a: Node, widths: tuple[tuple[int, int], ...], value: Any = 0) -> Node:
    """Elements of `value` before and after every axis."""
    if len(widths) != len(a.shape) or any(min(w) < 0 for w in widths):
        raise refuse(ShapeMismatch(f"pad of a tensor of shape {list(a.shape)} by {[list(w) for w in widths]}", hint="(before, after) of every axis, none of them negative; slices take elements away"))
    if all(w == (0, 0) for w in widths):
        return a
    shape = tuple([n + x + y for n, (x, y) in zip(a.shape, widths, strict=True)])
    if value is not False and value != 0:
        inside = pad(number_filled(a, True), widths)
        return select(inside, pad(a, widths), value)
    return move(a, "pad", widths, shape)


def number_filled(like: Node, value: Any) -> Node:
    """A number in the shape of another node."""
    return expand(cast(number_like(value, like), dtypes.weak_default(value)), like.shape)


def axis_of(a: Node, axis: Any) -> int:
    """A possibly negative axis as its index."""
    rank = len(a.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise refuse(ShapeMismatch(f"axis {axis!r} does not exist in a tensor of shape {list(a.shape)}", hint=f"use an axis from {-rank} to {rank - 1}" if rank else "a tensor of no axes has none"))
    return axis % rank


# --- reductions and products ------------------------------------------------------------------------


def axes_of(a: Node, axis: Any) -> tuple[int, ...]:
    """The axes that a reduction names: None is all."""
    if axis is None:
        return tuple(range(len(a.shape)))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted([axis_of(a, x) for x in given]))
    if len(set(axes)) != len(axes):
        raise refuse(ShapeMismatch(f"axes {tuple(given)} name one axis twice", hint="name each axis once"))
    return axes


def reduce(name: str, a: Node, axis: Any = None, keepdims: bool = False, dtype: DType | None = None) -> Node:
    """A reduction over axes; sums of integers are in 64 bits, as NumPy has them."""
    axes = axes_of(a, axis)
    if a.dtype.is_storage_only:
        raise refuse(TypeMismatch(f"{name} of {a.dtype}: it is a storage type", hint='x.to("f32")'))
    empty = 0 in [a.shape[i] for i in axes]
    if empty and name in ("max", "min", "argmax", "argmin"):
        raise refuse(ShapeMismatch(f"{name} of no elements: the tensor has shape {list(a.shape)}", hint="reduce over axes that have elements"))
    if name in ("any", "all"):
        a = cast(a, dtypes.bool_)
    made = dtype or _reduced_dtype(name, a.dtype)
    if a.dtype.is_bool and name in ("max", "min"):
        name = "any" if name == "max" else "all"
    kept = tuple([n for i, n in enumerate(a.shape) if i not in axes])
    node: Node
    if not axes:
        node = cast(a, made)
    elif name in ("argmax", "argmin") and len(axes) > 1:
        node = reduce(name, reshape(permute(a, [i for i in range(len(a.shape)) if i not in axes] + list(axes)), (*kept, math.prod([a.shape[i] for i in axes]))), -1)
    else:
        node = Node(ops.REDUCE[name], (a,), axes, kept, made, a.device, place_here())
    return reshape(node, tuple([1 if i in axes else n for i, n in enumerate(a.shape)])) if keepdims else node


def _reduced_dtype(name: str, dtype: DType) -> DType:
    if name in ("sum", "prod"):
        if dtype.is_float:
            return dtype
        return dtypes.i64 if dtype.is_signed or dtype.is_bool else dtypes.u64
    if name in ("any", "all"):
        return dtypes.bool_
    return dtypes.i32 if name.startswith("arg") else dtype


def matmul(a: Node, b: Node) -> Node:
    """The matrix product with NumPy's rules for vectors and stacks."""
    for x in (a, b):
        if not x.shape:
            raise refuse(ShapeMismatch("matmul of a tensor of no axes", hint="use * for numbers"))
    device = common_device("matmul", a, b)
    try:
        dtype = dtypes.promote(a.dtype, b.dtype)
    except EasError as error:
        raise refuse(error) from None
    if dtype.is_bool:
        return cast(matmul(cast(a, dtypes.i32), cast(b, dtypes.i32)), dtypes.bool_)
    drop_row, drop_column = len(a.shape) == 1, len(b.shape) == 1
    a = reshape(a, (1, *a.shape)) if drop_row else a
    b = reshape(b, (*b.shape, 1)) if drop_column else b
    if a.shape[-1] != b.shape[-2]:
        raise refuse(ShapeMismatch(f"matmul of shapes {list(a.shape)} and {list(b.shape)}", hint="the last axis of a must equal the last but one of b"))
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    a, b = expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if min(m, n, k) <= 1:
        made = _summed_products(a, b, dtype)
    else:
        made = Node(ops.MATMUL, (cast(a, dtype), cast(b, dtype)), None, (*batch, m, n), dtype, device, place_here())
    shape = (*batch, *(() if drop_row else (m,)), *(() if drop_column else (n,)))
    return reshape(made, shape)


def _summed_products(a: Node, b: Node, dtype: DType) -> Node:
    """The product of thin matrices: a sum of elementwise products, which is read once."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    wide = dtypes.f32 if dtype.is_float and dtype.bits < 32 else dtype
    rank = len(batch)
    left = expand(reshape(cast(a, wide), (*batch, m, 1, k)), (*batch, m, n, k))
    turned = permute(cast(b, wide), [*range(rank), rank + 1, rank])
    right = expand(reshape(turned, (*batch, 1, n, k)), (*batch, m, n, k))
    return cast(reduce("sum", binary(MAP["mul"], left, right), -1, dtype=wide), dtype)
