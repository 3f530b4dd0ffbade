"""Calls: nodes that one function of the kernel library computes, on arrays that are in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.loading import load
from eas.interop.memory import allocate
from eas.lazy import ops
from eas.lazy.build import axis_of, common_device, copied, permute, refuse
from eas.lazy.functions import flip
from eas.lazy.group import Group
from eas.lazy.node import Node, place_here
from eas.lazy.view import moved_array

Library = Callable[..., None]
"""fn(out, arrays, dtypes, device, **options) writes `out`; all are arrays in storage form."""
LIBRARY: dict[str, Library] = {}
"""What the kernel library has registered; it is above us, and loaded when the first call runs."""
PROVIDER = "eas.lib.lazy_calls"


def call(name: str, sources: tuple[Node, ...], shape: tuple[int, ...], dtype: Any, **options: Any) -> Node:
    """A node that a library function computes."""
    device = common_device(name, *sources)
    if any(source.device is not device for source in sources):
        raise refuse(TypeMismatch(f"{name} got tensors in private and in shared storage of {device.name}", hint='move one of them with .to("mps", storage="private")'))
    return Node(ops.CALL, sources, (name, tuple(sorted(options.items()))), shape, dtype, sources[0].device, place_here())


def attention(q: Node, k: Node, v: Node, causal: bool = False, scale: float | None = None) -> Node:
    """softmax(q @ k.T * scale) @ v of [..., heads, n, D]; the result lies in memory as [..., n, heads, D], as the next layer wants it."""
    if len(q.shape) < 3 or k.shape != v.shape or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
        raise refuse(ShapeMismatch(f"attention of shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}", hint="q is [..., heads, n, D], k and v are [..., heads, m, D]"))
    if not q.dtype.is_float or not q.dtype is k.dtype is v.dtype:
        raise refuse(TypeMismatch(f"attention of {q.dtype}, {k.dtype} and {v.dtype}", hint="give all of them one float dtype"))
    *batch, heads, n, d = q.shape
    rank = len(q.shape)
    made = call("attention", (q, k, v), (*batch, n, heads, d), q.dtype, causal=causal, scale=scale)
    return permute(made, [*range(rank - 3), rank - 2, rank - 3, rank - 1])


def conv2d(x: Node, weight: Node, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Node:
    """Cross-correlation of [..., C, H, W] with [O, C / groups, KH, KW], plus bias, as torch's conv2d."""
    if len(x.shape) < 3 or len(weight.shape) != 4 or x.shape[-3] != weight.shape[1] * groups or x.dtype is not weight.dtype or not x.dtype.is_float:
        raise refuse(ShapeMismatch(f"conv2d of {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)} in {groups} groups", hint="x is [..., C, H, W], the weight [O, C / groups, KH, KW]"))
    sizes = []
    for size, taps, step, pad, gap in zip(x.shape[-2:], weight.shape[-2:], _pair(stride), _pair(padding), _pair(dilation), strict=True):
        sizes.append((size + 2 * pad - gap * (taps - 1) - 1) // step + 1)
    if min(sizes) < 1:
        raise refuse(ShapeMismatch(f"conv2d of {list(x.shape)} with filters {list(weight.shape)} has no pixel", hint="pad the image"))
    sources = (x, weight) if bias is None else (x, weight, bias)
    return call("conv2d", sources, (*x.shape[:-3], weight.shape[0], *sizes), x.dtype, stride=_pair(stride), padding=_pair(padding), dilation=_pair(dilation), groups=groups)


def _pair(x: Any) -> tuple[int, int]:
    return (int(x), int(x)) if isinstance(x, int) else (int(x[0]), int(x[1]))


def topk(x: Node, k: int, part: int) -> Node:
    """The values (part 0) or indices (part 1, i32) of the k largest along the last axis, the largest first."""
    if not x.shape or not 1 <= k <= x.shape[-1]:
        raise refuse(ShapeMismatch(f"topk of {k} elements of a tensor of shape {list(x.shape)}", hint="k is from 1 to the length of the last axis"))
    return call("topk", (x,), (*x.shape[:-1], k), dtypes.i32 if part else x.dtype, k=k, part=part)


def sort(x: Node, descending: bool, axis: int) -> Node:
    """The elements along an axis in order."""
    axis = axis_of(x, axis)
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    turned = permute(x, order)
    largest = topk(turned, x.shape[axis], 0) if x.shape[axis] else turned
    made = permute(largest if descending else flip(largest, -1), [order.index(i) for i in range(len(order))])
    return copied(made) if made is x else made


class CallStep:
    """A call as a step of a plan; has what a kernel's step has, but no IR of its own."""

    __slots__ = ("bytes", "dead", "flops", "inputs", "moves", "name", "nodes", "outputs", "seconds", "template", "what")

    def __init__(self, group: Group, slots: dict[Node, int], sources: list[tuple[Node, tuple[Any, ...]]]) -> None:
        node = self.what = group.outputs[0][0]
        self.template = "call"
        self.name = "_".join(["c", *[str(n) for n in node.shape if n != 1], node.arg[0]])
        self.nodes = list(reversed(group.members))
        self.inputs = [slots[s] for s, _ in sources]
        self.moves = [moves for _, moves in sources]
        self.outputs = [slots[node]]
        self.dead: list[int] = []
        self.bytes = sum([s.size * s.dtype.nbytes for s, _ in sources]) + node.size * node.dtype.nbytes
        self.flops = 2 * node.size * math.prod(node.src[-1].shape[-1:])
        self.seconds: float | None = None

    @property
    def module(self) -> None:
        """A library function compiles its own kernels."""
        return

    def run(self, values: list[Any], numbers: list[Any], is_timed: bool = False) -> None:
        """Launch the library's kernels on views of the sources."""
        node = self.what
        begin = time.perf_counter() if is_timed else 0.0
        arrays = []
        for slot, moves in zip(self.inputs, self.moves, strict=True):
            array = values[slot]
            for move in moves:
                array = moved_array(array, move, node.device)
            arrays.append(array)
        made = values[self.outputs[0]] = allocate(node.shape, node.dtype, node.device)
        name, options = node.arg
        library(name)(made, arrays, [s.dtype for s in node.src], node.device, **dict(options))
        if is_timed:
            self.seconds = time.perf_counter() - begin
        for slot in self.dead:
            values[slot] = None


def library(name: str) -> Library:
    """A function that the kernel library has registered."""
    if name not in LIBRARY:
        load(PROVIDER)
    return LIBRARY[name]


__all__ = ["LIBRARY", "CallStep", "attention", "call", "conv2d", "library", "sort", "topk"]
