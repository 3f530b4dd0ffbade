"""Instructions of a program as block IR, through the Builder: accesses, masks, elementwise ops."""

from __future__ import annotations

from typing import Any

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Space, Type
from eas.frontend.block import Block
from eas.frontend.builder import Builder
from eas.frontend.values import broadcast_to, cast_to, common_shape, constant, emit, fit
from eas.ir import Loc
from eas.lazy.lower import Inst


class PlacedBuilder(Builder):
    """A builder whose instructions stand at the user's line of the node they compute."""

    loc: Loc | None = None

    def here(self) -> Loc | None:
        return self.loc


class Kernel:
    """What all templates share: the arguments, and where they are."""

    def __init__(self, builder: PlacedBuilder, spec: Any) -> None:
        self.builder = builder
        self.spec = spec
        self.outputs = [self._pointer(f"out{i}", out[1]) for i, out in enumerate(spec.outputs)]
        self.buffers = [self._pointer(f"in{i}", dtype) for i, dtype in enumerate(spec.buffer_types)]
        self.scalars = [Block(builder.add_arg(f"n{i}", Type(dtype))) for i, dtype in enumerate(spec.scalar_types)]
        self.sizes = self.scalars[: len(spec.tags)]
        self.others: dict[int, Any] = {}
        """What a load reads where its mask is off, if not 0."""

    def step(self, step: Inst) -> Block:
        """A stride: an argument, or a product of sizes."""
        if step[0] == "arg":
            return self.scalars[step[1]]
        product = self.sizes[step[1]]
        for axis in step[2:]:
            product = product * self.sizes[axis]
        return product

    def _pointer(self, name: str, dtype: DType) -> Block:
        return Block(self.builder.add_arg(name, Type(dtype, (), Space.DEVICE)))


class Scope:
    """Values of instructions where every axis has an index: a scalar, or a block that lies along one block axis."""

    def __init__(self, kernel: Kernel, index: list[Any], masks: list[Any], outer: Scope | None = None, turned: Scope | None = None) -> None:
        self.kernel = kernel
        self.turned = turned
        """The same places with the two block axes swapped, for memory that runs along the other one."""
        self.index = index
        self.masks = masks
        self.known: dict[int, Any] = {}
        self.outer = outer

    def find(self, i: int) -> Any:
        """A value that this scope or one around it has."""
        scope: Scope | None = self
        while scope is not None:
            if i in scope.known:
                return scope.known[i]
            scope = scope.outer
        return None

    def value(self, root: int) -> Block:
        """The value of an instruction; those that it needs are emitted first."""
        stack = [root]
        while stack:
            i = stack[-1]
            if self.find(i) is not None:
                stack.pop()
                continue
            waiting = [s for s in operands(self.kernel.spec.instructions[i]) if self.find(s) is None]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.kernel.builder.loc = self.kernel.spec.loc(i)
            self.known[i] = self._emitted(self.kernel.spec.instructions[i], self.kernel.others.get(i))
        found: Block = self.find(root)
        return found

    def _emitted(self, inst: Inst, other: Any = None) -> Any:
        name = inst[0]
        if name == "map":
            return mapped(inst[1], [self.find(s) for s in inst[4]], inst[2], inst[3])
        if name == "load":
            return self.load(self.kernel.buffers[inst[1]], inst[3], inst[4], inst[5], other)
        if name == "const":
            return constant(inst[1], inst[2])
        if name == "number":
            return cast_to(self.kernel.scalars[inst[1]], inst[2])
        if name == "index":
            return self.offset(inst[1], inst[2])
        if name == "inside":
            return self.inside(inst[3])
        if name == "random":
            draw = mk.rand if inst[1] == "uniform" else mk.randn
            return cast_to(draw(self.find(inst[6]), self.offset(inst[3], inst[4])), inst[2])
        assert name == "gather", name
        return self._gathered(inst)

    def _gathered(self, inst: Inst) -> Block:
        _, buffer, _, steps, offset, bounds, index, step, count = inst
        at = self.find(index)
        n = self.kernel.scalars[count]
        at = mk.where(at < 0, at + cast_to(n, at.dtype), at)
        exists = (at >= 0) & (at < n)
        away = self.offset(steps, offset) + at * (1 if step == 1 else self.kernel.scalars[step[1]])
        mask = self._mask([i for i, s in enumerate(steps) if s != 0])
        for more in (mask, self.inside(bounds)):
            exists = exists if more is None else exists & more
        shape = common_shape("load", [away.shape, exists.shape])
        return mk.load(self.kernel.buffers[buffer], broadcast_to(away, shape), broadcast_to(exists, shape))

    def offset(self, steps: tuple[Any, ...], offset: int | None) -> Any:
        """offset + sum(index * step), as a scalar or a block."""
        total: Any = None if offset is None else self.kernel.scalars[offset]
        for at, step in zip(self.index, steps, strict=True):
            if step != 0:
                part = at if step == 1 else at * self.kernel.step(step)
                total = part if total is None else total + part
        return constant(0, dtypes.i32) if total is None else total

    def _mask(self, axes: Any) -> Any:
        found: Any = None
        for axis in axes:
            mask = self.masks[axis]
            if mask is not None:
                found = mask if found is None else found & mask
        return found

    def inside(self, bounds: tuple[Any, ...]) -> Any:
        """Whether indices are in bounds; None if there are none."""
        found: Any = None
        for at, bound in zip(self.index, bounds, strict=True):
            if bound is not None:
                inside = (at >= self.kernel.scalars[bound[0]]) & (at < self.kernel.scalars[bound[1]])
                found = inside if found is None else found & inside
        return found

    def load(self, buffer: Block, steps: tuple[Any, ...], offset: int | None, bounds: tuple[Any, ...], other: Any = None) -> Block:
        if self.turned is not None and steps[-2] == 1 and steps[-1] not in (0, 1):
            return mk.trans(self.turned.load(buffer, steps, offset, bounds))
        mask, inside = self._mask([i for i, step in enumerate(steps) if step != 0]), self.inside(bounds)
        if inside is not None:
            mask = inside if mask is None else mask & inside
        where = self.offset(steps, offset)
        if mask is not None and mask.shape != where.shape:
            shape = common_shape("load", [mask.shape, where.shape])
            where, mask = broadcast_to(where, shape), broadcast_to(mask, shape)
        return mk.load(buffer, where, mask, None if mask is None or not other else other)

    def store(self, out: int, value: Block) -> None:
        """Write an output where its axes have an index."""
        inst = self.kernel.spec.outputs[out]
        steps, offset = inst[2], inst[3]
        where = self.offset(steps, offset)
        mask = self._mask([i for i, step in enumerate(steps) if step != 0])
        if value.shape and common_shape("store", [value.shape, where.shape]) != where.shape:
            mask = self._mask(range(len(steps)))  # along an axis of one element the other lanes have nothing to store
        shape = common_shape("store", [where.shape, value.shape, () if mask is None else mask.shape])
        value, where = broadcast_to(value, shape), broadcast_to(where, shape)
        mk.store(self.kernel.outputs[out], where, cast_to(value, inst[1]), mask)


def mapped(name: str, blocks: list[Block], operand: DType, result: DType) -> Block:
    """An elementwise op on blocks of any dtype, as NumPy would have it in the operand dtype."""
    if name == "cast":
        return cast_to(blocks[0], operand)
    if name == "bitcast":
        return mk.cast(blocks[0], result, bitcast=True)
    if name == "select":
        cond, a, b = blocks
        a, b = fit("where", [cast_to(a, operand), cast_to(b, operand)], operand)
        shape = common_shape("where", [cond.shape, a.shape])
        return emit("select", broadcast_to(cond, shape), broadcast_to(a, shape), broadcast_to(b, shape))
    if name in ("floor", "ceil", "trunc", "round") and not operand.is_float:
        return cast_to(blocks[0], result)
    return cast_to(emit(name, *fit(name, blocks, operand)), result)


def operands(inst: Inst) -> tuple[int, ...]:
    """The instructions that one needs."""
    name = inst[0]
    if name == "map":
        return tuple(inst[4])
    if name in ("reduce", "scan"):
        return (inst[2],)
    if name == "dot":
        return (inst[1], inst[2])
    if name == "gather":
        return (inst[6],)
    return (inst[6],) if name == "random" else ()
