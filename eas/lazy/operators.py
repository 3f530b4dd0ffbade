"""Operators and methods of lazy tensors: one mixin that turns tensors into nodes and nodes into tensors."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.lazy import build, calls, functions
from eas.lazy.build import binary, refuse, unary
from eas.lazy.node import Node, place_here
from eas.lazy.ops import MAP, Row

MAX_RESULTS = 4096


def operand(like: Any, value: Any) -> Any:
    """A node, a Python number, or NotImplemented for what is neither."""
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        return value
    if isinstance(value, Operators):
        return value._lazy()
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, (np.ndarray, list, tuple)):
        return like._wrapped(value)._lazy()
    return NotImplemented


def _binary(row: Row) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        b = operand(self, other)
        return NotImplemented if b is NotImplemented else self._of(binary(row, self._lazy(), b))

    return method


def _reflected(row: Row) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        a = operand(self, other)
        return NotImplemented if a is NotImplemented else self._of(binary(row, a, self._lazy()))

    return method


def _in_place(row: Row) -> Callable[[Any, Any], Any]:
    """x op= y: the elements change, so views of x see it."""

    def method(self: Any, other: Any) -> Any:
        b = operand(self, other)
        if b is NotImplemented:
            return NotImplemented
        made = self._of(binary(row, self._lazy(), b))
        if made.shape != self.shape:
            raise refuse(ShapeMismatch(f"{row.name} in place of shape {list(self.shape)} gives shape {list(made.shape)}", hint="write x = x + y"))
        if (made.dtype.is_float, made.dtype.is_bool) != (self.dtype.is_float, self.dtype.is_bool) and not (self.dtype.is_float and not made.dtype.is_float):
            raise refuse(TypeMismatch(f"{row.name} in place of {self.dtype} gives {made.dtype}", hint="write x = x + y"))
        self[...] = made
        return self

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    row = MAP[name]

    def method(self: Any) -> Any:
        return self._of(unary(row, self._lazy()))

    method.__name__ = name
    method.__doc__ = f"{name} of each element."
    return method


_results: dict[Any, tuple[Any, Any]] = {}
"""By function, arguments and operand types: the shape and dtype of what it makes."""


def _function(fn: Callable[..., Node]) -> Callable[..., Any]:
    """A method that makes one node, which becomes the nodes of `fn` when a plan is made."""
    row = Row(fn.__name__, "function", cost=1000)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = self._lazy()
        src = [node]
        given = tuple([_argument(self, a, src) for a in args])
        named = tuple([(k, _argument(self, v, src)) for k, v in kwargs.items()]) if kwargs else ()
        key = (fn, given, named, *[(n.shape, n.dtype.name, n.device.name) for n in src])
        known = _results.get(key)
        if known is None:
            made = called(fn, src, given, named)
            if len(_results) >= MAX_RESULTS:
                _results.clear()
            known = _results[key] = (made.shape, made.dtype)
        return self._of(Node(row, tuple(src), (fn, given, named), known[0], known[1], node.device, place_here()))

    method.__name__ = fn.__name__
    method.__doc__ = fn.__doc__
    return method


class Slot(int):
    """An argument of a function that is one of its source nodes, by its position among them."""

    __slots__ = ()
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return type(other) is Slot and int(self) == int(other)


def called(fn: Callable[..., Node], src: Sequence[Node], given: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Node:
    """What a function makes of its sources and other arguments."""
    args = [src[int(a)] if type(a) is Slot else a for a in given]
    return fn(src[0], *args, **{k: src[int(a)] if type(a) is Slot else a for k, a in named})


def _argument(self: Any, value: Any, src: list[Node]) -> Any:
    """An argument as a key can hold it; tensors become sources."""
    if isinstance(value, np.ndarray):
        value = self._wrapped(value)
    if isinstance(value, Operators):
        src.append(value._lazy())
        return Slot(len(src) - 1)
    return tuple(value) if type(value) is list else value


def _reduction(name: str) -> Callable[..., Any]:
    def method(self: Any, axis: Any = None, keepdims: bool = False) -> Any:
        node = self._lazy()
        made = build.reduce(name, node, axis, keepdims)
        return self._of(build.copied(made) if made is node else made)

    method.__name__ = name
    method.__doc__ = f"{name} over axes, or of all elements."
    return method


class Operators:
    """What arithmetic on a tensor is: each call makes one node, or a few, and computes nothing."""

    __slots__ = ()
    __hash__ = object.__hash__

    def _lazy(self) -> Node:
        raise NotImplementedError

    def _of(self, node: Node) -> Any:
        raise NotImplementedError

    def _wrapped(self, value: Any, dtype: Any = None) -> Any:
        raise NotImplementedError

    __add__, __radd__ = _binary(MAP["add"]), _reflected(MAP["add"])
    __sub__, __rsub__ = _binary(MAP["sub"]), _reflected(MAP["sub"])
    __mul__, __rmul__ = _binary(MAP["mul"]), _reflected(MAP["mul"])
    __truediv__, __rtruediv__ = _binary(MAP["div"]), _reflected(MAP["div"])
    __floordiv__, __rfloordiv__ = _binary(MAP["floordiv"]), _reflected(MAP["floordiv"])
    __mod__, __rmod__ = _binary(MAP["mod"]), _reflected(MAP["mod"])
    __and__, __rand__ = _binary(MAP["and"]), _reflected(MAP["and"])
    __or__, __ror__ = _binary(MAP["or"]), _reflected(MAP["or"])
    __xor__, __rxor__ = _binary(MAP["xor"]), _reflected(MAP["xor"])
    __lshift__, __rlshift__ = _binary(MAP["shl"]), _reflected(MAP["shl"])
    __rshift__, __rrshift__ = _binary(MAP["shr"]), _reflected(MAP["shr"])
    __lt__, __le__, __gt__, __ge__ = _binary(MAP["lt"]), _binary(MAP["le"]), _binary(MAP["gt"]), _binary(MAP["ge"])
    __eq__, __ne__ = _binary(MAP["eq"]), _binary(MAP["ne"])  # a tensor of bools, not one
    __iadd__, __isub__, __imul__, __itruediv__ = (_in_place(MAP[n]) for n in ("add", "sub", "mul", "div"))
    __iand__, __ior__, __ixor__ = (_in_place(MAP[n]) for n in ("and", "or", "xor"))
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not")
    maximum, minimum, fmod = _binary(MAP["max"]), _binary(MAP["min"]), _binary(MAP["fmod"])
    atan2, hypot, copysign = _binary(MAP["atan2"]), _binary(MAP["hypot"]), _binary(MAP["copysign"])

    abs, sign, sqrt, rsqrt, cbrt = _unary("abs"), _unary("sign"), _unary("sqrt"), _unary("rsqrt"), _unary("cbrt")
    exp, exp2, expm1, log, log2, log10, log1p = (_unary(n) for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"))
    sin, cos, tan, asin, acos, atan = (_unary(n) for n in ("sin", "cos", "tan", "asin", "acos", "atan"))
    sinh, cosh, tanh, asinh, acosh, atanh = (_unary(n) for n in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
    erf, erfc, lgamma, sigmoid = (_unary(n) for n in ("erf", "erfc", "lgamma", "sigmoid"))
    floor, ceil, trunc, round = (_unary(n) for n in ("floor", "ceil", "trunc", "round"))
    isnan, isinf, isfinite, signbit = (_unary(n) for n in ("isnan", "isinf", "isfinite", "signbit"))

    relu, leaky_relu, silu, softplus, gelu = (_function(f) for f in (functions.relu, functions.leaky_relu, functions.silu, functions.softplus, functions.gelu))
    sum, prod, max, min, any, all, argmax, argmin = (_reduction(n) for n in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"))
    mean, var, std, logsumexp = (_function(f) for f in (functions.mean, functions.var, functions.std, functions.logsumexp))
    softmax, log_softmax, layer_norm, cumsum = (_function(f) for f in (functions.softmax, functions.log_softmax, functions.layer_norm, functions.cumsum))
    flip, roll, clip, clamp = (_function(f) for f in (functions.flip, functions.roll, functions.clip, functions.clip))
    one_hot, take, gather = _function(functions.one_hot), _function(functions.take), _function(functions.gather)
    attention, conv2d = _function(calls.attention), _function(calls.conv2d)

    def __pow__(self, other: Any) -> Any:
        b = operand(self, other)
        return NotImplemented if b is NotImplemented else self._of(functions.power(self._lazy(), b))

    def __rpow__(self, other: Any) -> Any:
        a = operand(self, other)
        return NotImplemented if a is NotImplemented else self._of(functions.power(a, self._lazy()))

    pow = __pow__

    def __matmul__(self, other: Any) -> Any:
        b = operand(self, other)
        if b is NotImplemented or type(b) is not Node:
            return NotImplemented
        return self._of(build.matmul(self._lazy(), b))

    def __rmatmul__(self, other: Any) -> Any:
        a = operand(self, other)
        if a is NotImplemented or type(a) is not Node:
            return NotImplemented
        return self._of(build.matmul(a, self._lazy()))

    def matmul(self, other: Any) -> Any:
        """The matrix product, with NumPy's rules for vectors and stacks."""
        made = self.__matmul__(other)
        if made is NotImplemented:
            raise refuse(TypeMismatch(f"matmul with a {type(other).__name__}", hint="pass a tensor"))
        return made

    dot = matmul

    def where(self, a: Any, b: Any) -> Any:
        """`a` where this tensor holds, else `b`."""
        return self._of(build.select(self._lazy(), operand(self, a), operand(self, b)))

    def topk(self, k: int) -> tuple[Any, Any]:
        """(values, indices) of the k largest along the last axis, the largest first."""
        node = self._lazy()
        return self._of(calls.topk(node, k, 0)), self._of(calls.topk(node, k, 1))

    def sort(self, descending: bool = False) -> Any:
        """The elements along the last axis in order; NaN counts as the largest."""
        node = self._lazy()
        largest = calls.topk(node, node.shape[-1] if node.shape else 0, 0)
        return self._of(largest if descending else functions.flip(largest, -1))

    def expand(self, *shape: Any) -> Any:
        """Broadcast to a shape, without a copy."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self._of(build.copied(build.expand(self._lazy(), tuple(sizes))))

    broadcast_to = expand

    def pad(self, widths: Any, value: Any = 0) -> Any:
        """(before, after) of every axis, filled with `value`."""
        return self._of(build.copied(build.pad(self._lazy(), tuple([(int(a), int(b)) for a, b in widths]), value)))

    @classmethod
    def cat(cls, tensors: Any, axis: int = 0) -> Any:
        """Tensors one after another along an axis."""
        first = tensors[0]
        return first._of(build.copied(functions.cat([t._lazy() for t in tensors], axis)))

    @classmethod
    def stack(cls, tensors: Any, axis: int = 0) -> Any:
        """Tensors of one shape along a new axis."""
        first = tensors[0]
        rank = len(first._lazy().shape) + 1
        if not -rank <= axis < rank:
            raise refuse(ShapeMismatch(f"stack along axis {axis} of tensors of {rank - 1} axes", hint=f"use an axis from {-rank} to {rank - 1}"))
        nodes = [t._lazy() for t in tensors]
        nodes = [build.reshape(n, (*n.shape[:axis % rank], 1, *n.shape[axis % rank:])) for n in nodes]
        return first._of(functions.cat(nodes, axis % rank))

    def split(self, sizes: Any, axis: int = 0) -> list[Any]:
        """Parts along an axis: of one size, or of each of several."""
        node = self._lazy()
        axis = build.axis_of(node, axis)
        total = node.shape[axis]
        given = [min(sizes, total - i) for i in range(0, total, sizes)] if isinstance(sizes, int) else list(sizes)
        if builtins.sum(given) != total:
            raise refuse(ShapeMismatch(f"split of an axis of {total} into {given}", hint="the parts add up to the axis"))
        index: Any = self
        ends = list(itertools.accumulate(given))
        return [index[(slice(None),) * axis + (slice(end - n, end),)] for n, end in zip(given, ends, strict=True)]
