"""A group as a program without sizes: instructions, and the numbers that a launch passes for its sizes and strides."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.lazy.group import Group, Request, sources_of
from eas.lazy.node import Node
from eas.lazy.ops import FIXED
from eas.lazy.view import Moves, View, apply, contiguous

MAX_ELEMENTS = 0x7FFFFFFF
Inst = tuple[Any, ...]


class CannotView(Exception):
    """Strides cannot say how a kernel sees this node: it has to be in memory first."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.node = node
        self.reason = reason


class Number(NamedTuple):
    """A Python number of the graph, by its position among those that a realisation passes."""

    position: int
    dtype: DType
    value: Any
    """Of one that is the same in every run of a plan, whose position is -1."""


class Axis(NamedTuple):
    """Neighbouring axes of the domain that every access walks as one."""

    size: int
    tag: str
    """k: one result each; r: reduced; m, n: rows and columns of a matrix product."""


class Program(NamedTuple):
    """What `emit` makes a kernel of (`spec` is hashable and knows no sizes), and what a launch passes."""

    template: str
    instructions: tuple[Inst, ...]
    outputs: tuple[Inst, ...]
    axes: tuple[Axis, ...]
    buffers: tuple[Node, ...]
    written: tuple[Node, ...]
    scalars: tuple[Any, ...]
    """Integers, and `Number`s."""
    scalar_types: tuple[DType, ...]
    places: tuple[Any, ...]
    """The user's line of each instruction."""
    strides: tuple[tuple[int, ...], ...]
    """Of each load, per axis: what block shapes are chosen by."""


def lower(group: Group, materialised: dict[Node, Group], numbers: dict[tuple[Node, int], int]) -> Program:
    """The program of a group; `CannotView` names a node that must be in memory."""
    described = _Description(group, materialised, numbers)
    outs = [described.value(node, Request(group, moves, is_base)) for node, moves, is_base in group.outputs]
    stores = [_resolved(node, Request(group, moves, is_base).full) for node, moves, is_base in group.outputs]
    return _Collapse(group, described, outs, stores).program()


def _resolved(node: Node, moves: Moves, view: View | None = None) -> View:
    seen = contiguous(node.shape) if view is None else view
    moved = None
    for move in moves:
        moved = move[2] if len(move) > 2 else moved
        found = apply(seen, move)
        if found is None:
            assert moved is not None, f"{node} cannot be seen through {moves}"
            raise CannotView(moved, f"its elements are read in an order that strides cannot describe ({move[0]} of {list(seen.shape)} to {list(move[1])})")
        seen = found
    return seen


def memory_view(array: Any) -> View:
    """The strides of an array in elements, from the lowest address that it reaches."""
    nbytes = array.itemsize
    strides = tuple([s // nbytes for s in array.strides])
    offset = -sum([s * (n - 1) for n, s in zip(array.shape, strides, strict=True) if s < 0])
    return View(array.shape, strides, offset)


class _Description:
    """Instructions of a group, each once per way in which it is seen; never recurses."""

    def __init__(self, group: Group, materialised: dict[Node, Group], numbers: dict[tuple[Node, int], int]) -> None:
        self.group = group
        self.materialised = materialised
        self.numbers = numbers
        self.instructions: list[Inst] = []
        self.places: list[Any] = []
        self.known: dict[tuple[Node, object], int] = {}
        self.buffers: dict[Node, int] = {}
        self.inner = {node for node, _, _ in group.outputs}

    def value(self, root: Node, request: Request) -> int:
        """The number of the instruction that computes a node as the domain sees it."""
        stack = [(root, request)]
        while stack:
            node, seen = stack[-1]
            key = (node, seen.order_of(node))
            if key in self.known:
                stack.pop()
                continue
            waiting = [] if self.is_leaf(node) else [(s, r) for s, r in sources_of(node, seen) if (s, r.order_of(s)) not in self.known and not self._is_table(node, s)]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            self.known[key] = self._instruction(node, seen)
        return self.known[root, request.order_of(root)]

    def is_leaf(self, node: Node) -> bool:
        return node.memory is not None or (node in self.materialised and node not in self.inner)

    def _is_table(self, node: Node, source: Node) -> bool:
        return node.op.kind == "gather" and source is node.src[0]

    def _add(self, place: Any, *parts: Any) -> int:
        self.instructions.append(parts)
        self.places.append(place)
        return len(self.instructions) - 1

    def _buffer(self, node: Node) -> int:
        return self.buffers.setdefault(node, len(self.buffers))

    def _instruction(self, node: Node, seen: Request) -> int:
        moves, kind, place = seen.full, node.op.kind, node.place
        if self.is_leaf(node):
            view = _resolved(node, moves, None if node.memory is None else memory_view(node.memory))
            return self._add(place, "load", self._buffer(node), node.dtype, view)
        found = [None if type(s) is not Node or self._is_table(node, s) else self.known[s, r.order_of(s)] for s, r in zip(node.src, _by_source(node, seen), strict=True)]
        if kind == "map":
            sources = tuple([self._number(node, i) if f is None else f for i, f in enumerate(found)])
            return self._add(place, "map", node.op.name, node.arg, node.dtype, sources)
        if kind == "move":
            return self._moved(node, found[0], moves)
        if kind == "index":
            strides = tuple([int(i == node.arg) for i in range(len(node.shape))])
            return self._add(place, "index", _resolved(node, moves, View(node.shape, strides)))
        if kind == "random":
            return self._add(place, "random", node.op.name, node.dtype, _resolved(node, moves), self._number(node, 0))
        if kind == "gather":
            return self._gather(node, found[1], moves)
        if kind == "matmul":
            return self._add(place, "dot", found[0], found[1], node.dtype)
        return self._add(place, "reduce" if kind == "reduce" else "scan", node.op.name, found[0], _accumulator(node), node.dtype)

    def _moved(self, node: Node, source: int | None, moves: Moves) -> int:
        assert source is not None
        if node.op.name != "pad":
            return source
        view = _resolved(node.src[0], (("pad", node.arg, node.src[0]), *moves))
        if not view.bounds:
            return source
        inside = self._add(node.place, "inside", View(view.shape, (0,) * len(view.shape), 0, view.bounds))
        zero = self._add(node.place, "const", 0, node.dtype)
        return self._add(node.place, "map", "select", node.dtype, node.dtype, (inside, source, zero))

    def _gather(self, node: Node, index: int | None, moves: Moves) -> int:
        table, axis = node.src[0], node.arg[0]
        own = memory_view(table.memory) if table.memory is not None else contiguous(table.shape)
        before, after = own.strides[:axis], own.strides[axis + 1 :]
        middle = len(node.shape) - len(before) - len(after)
        view = View(node.shape, (*before, *(0,) * middle, *after), own.offset)
        return self._add(node.place, "gather", self._buffer(table), node.dtype, _resolved(node, moves, view), index, own.strides[axis], table.shape[axis])

    def _number(self, node: Node, i: int) -> int:
        value = node.src[i]
        dtype = dtypes.i64 if node.op.kind == "random" else node.arg
        if is_fixed(value, dtype):
            return self._add(node.place, "const", value, dtype)
        position = self.numbers.get((node, i))  # a function's own numbers belong to the plan
        return self._add(node.place, "number", Number(position, dtype, None) if position is not None else Number(-1, dtype, value))


def is_fixed(value: Any, dtype: DType) -> bool:
    """Whether a number is compiled into the kernels that use it."""
    if dtype.is_bool or dtype is dtypes.u64:
        return True
    return value in FIXED and not (value == 0 and math.copysign(1, value) < 0)


def _by_source(node: Node, seen: Request) -> list[Request]:
    """The request for each source, numbers included."""
    nodes = iter(sources_of(node, seen))
    return [next(nodes)[1] if type(s) is Node else seen for s in node.src]


def _accumulator(node: Node) -> DType:
    """What a reduction adds or compares in."""
    source: DType = node.src[0].dtype
    if node.op.name in ("sum", "prod", "cumsum"):
        return dtypes.f32 if node.dtype.is_float and node.dtype.bits < 32 else node.dtype
    return source


class _Collapse:
    """Merges axes, and replaces sizes, strides and offsets by arguments."""

    def __init__(self, group: Group, described: _Description, outs: list[int], stores: list[View]) -> None:
        self.group = group
        self.described = described
        self.outs, self.stores = outs, stores
        self.views = [part for inst in described.instructions for part in inst if isinstance(part, View)]
        self.scalars: list[Any] = []
        self.types: list[DType] = []
        self.parts = self._merged()

    def _tags(self) -> list[tuple[str, int]]:
        rank, reduced = len(self.group.domain), self.group.reduced
        if self.group.template == "tile":
            return [*(("m", i) for i in range(rank - 2)), ("n", rank - 2), ("r", rank - 1)]
        kept = [("k", i) for i in range(rank) if i not in reduced]
        return kept + [("r", i) for i in reduced]

    def _merged(self) -> list[tuple[str, list[int]]]:
        domain, views = self.group.domain, [*self.views, *self.stores]
        parts: list[tuple[str, list[int]]] = []
        for tag, axis in self._tags():
            has_bounds = any(v.bounds and v.bounds[axis] is not None for v in views)
            if domain[axis] == 1 and not has_bounds and tag in "kr" and self.group.template != "tile":
                continue
            if parts and parts[-1][0] == tag and not has_bounds:
                last = parts[-1][1][-1]
                fits = all(v.strides[last] == v.strides[axis] * domain[axis] and not (v.bounds and v.bounds[last] is not None) for v in views)
                if fits:
                    parts[-1][1].append(axis)
                    continue
            parts.append((tag, [axis]))
        for tag in ("k", "r") if self.group.reduced and self.group.template != "tile" else () if self.group.template == "tile" else ("k",):
            if not any(t == tag for t, _ in parts):
                axes = [i for t, i in self._tags() if t == tag]
                parts.insert(len(parts) if tag == "r" else 0, (tag, axes[-1:]))
        return parts

    def _scalar(self, value: Any, dtype: DType = dtypes.i32) -> int:
        self.scalars.append(value)
        self.types.append(dtype)
        return len(self.scalars) - 1

    def _access(self, view: View) -> Inst:
        """(step per axis: 0, 1 or an argument; offset; bounds per axis) of an access."""
        steps: list[Any] = []
        bounds: list[Any] = []
        for _, axes in self.parts:
            step = view.strides[axes[-1]] if axes and self._size(axes) != 1 else 0
            steps.append(step if step in (0, 1) else self._product(axes[-1], step) or ("arg", self._scalar(step)))
            bound = view.bounds[axes[-1]] if view.bounds and axes else None
            bounds.append(None if bound is None else (self._scalar(bound[0]), self._scalar(bound[1])))
        offset = None if view.offset == 0 else self._scalar(view.offset)
        return tuple(steps), offset, tuple(bounds)

    def _product(self, axis: int, step: int) -> Inst | None:
        """A stride as the product of sizes of axes, as it is in memory without gaps: schedules then know that rows do not overlap."""
        later = [i for i, (_, axes) in enumerate(self.parts) if axes and axes[0] > axis]
        kept = [i for i in later if self.parts[i][0] != "r"]
        ends = [[i] for i in range(len(self.parts) - 1, max(-1, len(self.parts) - 3), -1) if axis not in self.parts[i][1]]
        for chosen in (kept, later, *ends):
            if chosen and math.prod([self._size(self.parts[i][1]) for i in chosen]) == step:
                return ("sizes", *chosen)
        return None

    def _size(self, axes: list[int]) -> int:
        return math.prod([self.group.domain[i] for i in axes])

    def program(self) -> Program:
        axes = tuple([Axis(self._size(axes), tag) for tag, axes in self.parts])
        for axis in axes:
            self._scalar(axis.size)
        if math.prod([a.size for a in axes]) > MAX_ELEMENTS and self.group.template != "tile":
            raise Unsupported(f"a lazy kernel over {list(self.group.domain)} has more than 2**31 elements", hint="compute it in parts")
        made = tuple([self._replaced(inst) for inst in self.described.instructions])
        outputs = tuple([(out, node.dtype, *self._access(view)) for out, (node, _, _), view in zip(self.outs, self.group.outputs, self.stores, strict=True)])
        strides = tuple([tuple([v.strides[axes[-1]] if axes else 0 for _, axes in self.parts]) for v in self.views])
        written = tuple([node for node, _, _ in self.group.outputs])
        return Program(self.group.template, made, outputs, axes, tuple(self.described.buffers), written, tuple(self.scalars), tuple(self.types), tuple(self.described.places), strides)

    def _replaced(self, inst: Inst) -> Inst:
        if inst[0] == "number":
            number = inst[1]
            given = number if number.position >= 0 else as_scalar(number.value, number.dtype)
            return ("number", self._scalar(given, scalar_type(number.dtype)), number.dtype)
        if inst[0] == "gather":
            _, buffer, dtype, view, index, step, count = inst
            return ("gather", buffer, dtype, *self._access(view), index, step if step == 1 else ("arg", self._scalar(step)), self._scalar(count))
        parts: list[Any] = []
        for part in inst:
            parts += self._access(part) if isinstance(part, View) else [part]
        return tuple(parts)


def scalar_type(dtype: DType) -> DType:
    """The dtype in which a number of this dtype is passed."""
    if dtype.is_float:
        return dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    return dtypes.i32 if dtype.bits < 32 or dtype is dtypes.i32 else dtypes.i64


def as_scalar(value: Any, dtype: Any) -> Any:
    """A number as a kernel of this operand dtype takes it."""
    if dtype.is_float:
        if dtype.bits < 32:
            return float(numerics.round_to(np.asarray(value, np.float64), dtype))
        return float(value)
    return int(value)
