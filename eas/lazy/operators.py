"""Operators and methods of lazy tensors: one mixin that turns tensors into nodes and nodes into tensors."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.interop.targets import as_dtype
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


def _named(row: Row, whole: Row | None = None) -> Callable[[Any, Any], Any]:
    """A method of a tensor and another operand, which must be one; `whole` is the row for integers, if they have their own."""

    def method(self: Any, other: Any) -> Any:
        a, b = self._lazy(), given(self, other, row.name)
        has_float = a.dtype.is_float or (b.dtype.is_float if type(b) is Node else type(b) is float)
        return self._of(binary(row if has_float or whole is None else whole, a, b))

    method.__name__ = row.name
    method.__doc__ = f"{row.name} of each pair of elements."
    return method


def given(like: Any, value: Any, name: str) -> Any:
    """A node or a Python number; what is neither is refused."""
    found = operand(like, value)
    if found is NotImplemented:
        raise refuse(TypeMismatch(f"{name} of a tensor and a {type(value).__name__}", hint="operands are tensors, arrays and numbers"))
    return found


def _in_place(name: str, make: Callable[[Node, Any], Node]) -> Callable[[Any, Any], Any]:
    """x op= y: the elements change, so views of x see it."""

    def method(self: Any, other: Any) -> Any:
        b = operand(self, other)
        if b is NotImplemented:
            return NotImplemented
        made = self._of(make(self._lazy(), b))
        if made.shape != self.shape:
            raise refuse(ShapeMismatch(f"{name} in place of shape {list(self.shape)} gives shape {list(made.shape)}", hint="write x = x + y"))
        if (made.dtype.is_float, made.dtype.is_bool) != (self.dtype.is_float, self.dtype.is_bool) and not (self.dtype.is_float and not made.dtype.is_float):
            raise refuse(TypeMismatch(f"{name} in place of {self.dtype} gives {made.dtype}", hint="write x = x + y"))
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


def _several(cls: Any, tensors: Any, name: str) -> tuple[Any, list[Node]]:
    """(the first of some tensors, the nodes of all)."""
    found = list(tensors)
    if not found or not all(isinstance(t, cls) for t in found):
        what = ", ".join(type(t).__name__ for t in found) or "nothing"
        raise refuse(TypeMismatch(f"{name} of {what}", hint=f"Tensor.{name}([x, y]) takes a list of tensors"))
    return found[0], [t._lazy() for t in found]


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
    __iadd__, __isub__, __imul__, __itruediv__, __ifloordiv__, __imod__ = (_in_place(n, partial(binary, MAP[n])) for n in ("add", "sub", "mul", "div", "floordiv", "mod"))
    __iand__, __ior__, __ixor__, __ilshift__, __irshift__ = (_in_place(n, partial(binary, MAP[n])) for n in ("and", "or", "xor", "shl", "shr"))
    __ipow__, __imatmul__ = _in_place("pow", functions.power), _in_place("matmul", build.matmul)
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not")
    add, sub, mul, div, mod, neg = (*(_named(MAP[n]) for n in ("add", "sub", "mul", "div", "mod")), _unary("neg"))
    eq, ne, lt, le, gt, ge = (_named(MAP[n]) for n in ("eq", "ne", "lt", "le", "gt", "ge"))
    maximum, minimum, fmod = (_named(MAP[n]) for n in ("max", "min", "fmod"))
    fmax, fmin = _named(MAP["fmax"], MAP["max"]), _named(MAP["fmin"], MAP["min"])
    atan2, hypot, copysign = (_named(MAP[n]) for n in ("atan2", "hypot", "copysign"))
    div_trunc, rem, mulhi = (_named(MAP[n]) for n in ("truncdiv", "truncmod", "mulhi"))
    popcount, clz, ctz, bit_reverse = (_unary(n) for n in ("popcount", "clz", "ctz", "bit_reverse"))

    abs, sign, sqrt, rsqrt, cbrt = _unary("abs"), _unary("sign"), _unary("sqrt"), _unary("rsqrt"), _unary("cbrt")
    exp, exp2, exp10, expm1, log, log2, log10, log1p = (_unary(n) for n in ("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p"))
    sin, cos, tan, asin, acos, atan = (_unary(n) for n in ("sin", "cos", "tan", "asin", "acos", "atan"))
    sinh, cosh, tanh, asinh, acosh, atanh = (_unary(n) for n in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
    erf, erfc, lgamma, sigmoid = (_unary(n) for n in ("erf", "erfc", "lgamma", "sigmoid"))
    floor, ceil, trunc, round = (_unary(n) for n in ("floor", "ceil", "trunc", "round"))
    isnan, isinf, isfinite, signbit = (_unary(n) for n in ("isnan", "isinf", "isfinite", "signbit"))

    relu, leaky_relu, silu, softplus, gelu = (_function(f) for f in (functions.relu, functions.leaky_relu, functions.silu, functions.softplus, functions.gelu))
    sum, prod, max, min, any, all, argmax, argmin = (_reduction(n) for n in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"))
    mean, var, std, logsumexp = (_function(f) for f in (functions.mean, functions.var, functions.std, functions.logsumexp))
    softmax, log_softmax, layer_norm, cumsum = (_function(f) for f in (functions.softmax, functions.log_softmax, functions.layer_norm, functions.cumsum))
    roll, clip, clamp, fma = (_function(f) for f in (functions.roll, functions.clip, functions.clip, functions.fma))
    one_hot, gather, _take = _function(functions.one_hot), _function(functions.gather), _function(functions.take)
    attention, conv2d = _function(calls.attention), _function(calls.conv2d)

    def __pow__(self, other: Any) -> Any:
        b = operand(self, other)
        return NotImplemented if b is NotImplemented else self._of(functions.power(self._lazy(), b))

    def __rpow__(self, other: Any) -> Any:
        a = operand(self, other)
        return NotImplemented if a is NotImplemented else self._of(functions.power(a, self._lazy()))

    pow = __pow__

    def __pos__(self) -> Any:
        return self._of(build.copied(self._lazy()))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

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

    def bitcast(self, dtype: Any) -> Any:
        """The same bits as another dtype of the same width."""
        return self._of(build.copied(build.bitcast(self._lazy(), as_dtype(dtype))))

    def take(self, index: Any, axis: int | None = 0) -> Any:
        """Rows of this tensor by their numbers; a number that names none gives 0. With axis None: elements of all of it."""
        return self._take(self._wrapped(index) if isinstance(index, (list, tuple, int)) else index, axis)

    dot = matmul

    def where(self, a: Any, b: Any) -> Any:
        """`a` where this tensor holds, else `b`."""
        return self._of(build.select(self._lazy(), given(self, a, "where"), given(self, b, "where")))

    def topk(self, k: int) -> tuple[Any, Any]:
        """(values, indices) of the k largest along the last axis, the largest first."""
        node = self._lazy()
        return self._of(calls.topk(node, k, 0)), self._of(calls.topk(node, k, 1))

    def sort(self, descending: bool = False, axis: int = -1) -> Any:
        """The elements along an axis in order; NaN counts as the largest."""
        return self._of(calls.sort(self._lazy(), descending, axis))

    def pad(self, widths: Any, value: Any = 0) -> Any:
        """(before, after) of every axis, filled with `value`."""
        return self._of(build.copied(build.pad(self._lazy(), tuple([(int(a), int(b)) for a, b in widths]), value)))

    @classmethod
    def cat(cls, tensors: Any, axis: int = 0) -> Any:
        """Tensors one after another along an axis."""
        first, nodes = _several(cls, tensors, "cat")
        return first._of(build.copied(functions.cat(nodes, axis)))

    @classmethod
    def stack(cls, tensors: Any, axis: int = 0) -> Any:
        """Tensors of one shape along a new axis."""
        first, nodes = _several(cls, tensors, "stack")
        rank = len(nodes[0].shape) + 1
        if not -rank <= axis < rank:
            raise refuse(ShapeMismatch(f"stack along axis {axis} of tensors of {rank - 1} axes", hint=f"use an axis from {-rank} to {rank - 1}"))
        if any(n.shape != nodes[0].shape for n in nodes):
            raise refuse(ShapeMismatch(f"stack of shapes {', '.join(str(list(n.shape)) for n in nodes)}", hint="they must be equal"))
        nodes = [build.reshape(n, (*n.shape[:axis % rank], 1, *n.shape[axis % rank:])) for n in nodes]
        return first._of(functions.cat(nodes, axis % rank))

    def split(self, sizes: Any, axis: int = 0) -> list[Any]:
        """Parts along an axis: of one size, or of each of several."""
        node = self._lazy()
        axis = build.axis_of(node, axis)
        total = node.shape[axis]
        if isinstance(sizes, int) and sizes < 1:
            raise refuse(ShapeMismatch(f"split of an axis of {total} into parts of {sizes}", hint="a part has at least one element"))
        given = [min(sizes, total - i) for i in range(0, total, sizes)] if isinstance(sizes, int) else list(sizes)
        if builtins.sum(given) != total:
            raise refuse(ShapeMismatch(f"split of an axis of {total} into {given}", hint="the parts add up to the axis"))
        index: Any = self
        ends = list(itertools.accumulate(given))
        return [index[(slice(None),) * axis + (slice(end - n, end),)] for n, end in zip(given, ends, strict=True)]
