"""A graph by NumPy, op by op, as the rows of the op table say: for arrays too small, or too seldom seen, to compile for."""

from __future__ import annotations

from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.types import Type
from eas.interop.memory import stored
from eas.lazy.node import Node
from eas.lazy.view import moved_array
from eas.ops.table import TABLE, Call, apply
from eas.runtime import synchronize

CAN = frozenset({"map", "move", "reduce", "matmul", "index", "gather", "scan"})
"""Kinds of nodes that are computed here."""


def evaluate(order: list[Node], roots: list[Node]) -> list[Any]:
    """The memory of the roots of a graph whose nodes are listed sources first."""
    synchronize()  # kernels wait for launches that write what they read; NumPy does not
    values: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for node in order:
            values[node] = numerics.decode(_seen(node), node.dtype) if node.memory is not None else _value(node, [values.get(s) if type(s) is Node else s for s in node.src])
        return [stored(np.asarray(numerics.encode(np.asarray(values[r]), r.dtype)), r.dtype, r.device) for r in roots]


def _seen(node: Node) -> Any:
    """The memory of a leaf where the CPU sees it."""
    return node.memory if node.device.copy is None else node.device.seen(node.memory)


def _value(node: Node, given: list[Any]) -> Any:
    kind = node.op.kind
    if kind == "map":
        return _mapped(node, given)
    if kind == "move":
        return moved_array(given[0], (node.op.name, node.arg))
    if kind == "reduce":
        return _reduced(node, given[0])
    if kind == "matmul":
        return _product(node, given)
    if kind == "index":
        shape = [1] * len(node.shape)
        if not shape:
            return np.zeros((), np.int32)
        shape[node.arg] = node.shape[node.arg]
        return np.broadcast_to(np.arange(node.shape[node.arg], dtype=np.int32).reshape(shape), node.shape)
    if kind == "gather":
        return _gathered(node, *given)
    assert kind == "scan", kind
    wide = dtypes.f32 if node.dtype.is_float and node.dtype.bits < 32 else node.dtype
    return _cast(np.cumsum(_cast(given[0], node.src[0].dtype, wide), node.arg, dtype=wide.np_compute), wide, node.dtype)


def _cast(x: Any, source: DType, target: DType) -> Any:
    return x if source is target else numerics.cast(np.asarray(x), source, target)


def _number(value: Any, dtype: DType) -> Any:
    if dtype.is_float:
        return numerics.round_to(np.asarray(value, np.float64), dtype)
    return np.asarray(value, dtype.np_compute)


def _mapped(node: Node, given: list[Any]) -> Any:
    name, dtype = node.op.name, node.arg
    if name == "cast":
        return _cast(given[0], node.src[0].dtype, dtype)
    if name in ("floor", "ceil", "trunc", "round") and not dtype.is_float:
        return given[0]
    first = 1 if name == "select" else 0
    operands = [_cast(x, s.dtype, dtype) if type(s) is Node else _number(x, dtype) for x, s in zip(given[first:], node.src[first:], strict=True)]
    operands = given[:first] + [np.broadcast_to(x, node.shape) for x in operands]
    types = tuple([Type(dtypes.bool_, node.shape)] * first + [Type(dtype, node.shape)] * (len(operands) - first))
    call = Call(types, (Type(node.dtype, node.shape),), {})
    return apply(TABLE[name], call, operands)[0]


_FOLDS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


def _reduced(node: Node, x: Any) -> Any:
    name, source = node.op.name, node.src[0].dtype
    if name in ("argmax", "argmin"):
        found = (np.argmax if name == "argmax" else np.argmin)(x, axis=node.arg[0])
        return np.asarray(found).astype(np.int32)
    wide = source
    if name in ("sum", "prod"):
        wide = dtypes.f32 if node.dtype.is_float and node.dtype.bits < 32 else node.dtype
    x = _cast(x, source, wide)
    kind = None if name in ("any", "all") else wide.np_compute
    return _cast(np.asarray(_FOLDS[name].reduce(x, axis=node.arg, dtype=kind)), wide, node.dtype)


def _product(node: Node, given: list[Any]) -> Any:
    wide = dtypes.f32 if node.dtype.is_float and node.dtype.bits < 32 else node.dtype
    a, b = (_cast(x, s.dtype, wide) for x, s in zip(given, node.src, strict=True))
    return _cast(np.matmul(a, b), wide, node.dtype)


def _gathered(node: Node, table: Any, index: Any) -> Any:
    axis, is_along = node.arg
    if is_along:
        return _gathered_along(node, table, index, axis)
    before, after = axis, len(node.src[0].shape) - axis - 1
    rows = index[(0,) * before + (...,) + (0,) * after] if node.size else np.zeros(node.shape[before : len(node.shape) - after], np.int64)
    n = node.src[0].shape[axis]
    at = np.where(rows < 0, rows + n, rows).astype(np.int64)
    exists = (at >= 0) & (at < n)
    if not n:
        return np.zeros(node.shape, table.dtype)
    found = np.take(table, np.where(exists, at, 0), axis)
    return np.where(exists.reshape((1,) * before + exists.shape + (1,) * after), found, np.zeros((), table.dtype))


def _gathered_along(node: Node, table: Any, index: Any, axis: int) -> Any:
    n = table.shape[axis]
    at = np.where(index < 0, index + n, index).astype(np.int64)
    exists = (at >= 0) & (at < n)
    if not n or not at.size:
        return np.zeros(node.shape, table.dtype)
    part = table[tuple([slice(None) if i == axis else slice(0, m) for i, m in enumerate(index.shape)])]
    return np.where(exists, np.take_along_axis(part, np.where(exists, at, 0), axis), np.zeros((), table.dtype))
