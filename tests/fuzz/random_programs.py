"""Random modules without races: lanes of a store never collide, and every program has memory of its own.

For targets whose sanitizer sees a collision, and whose programs run side by side. Everything else is as in
`random_ir`, with the blocks, dtypes and instructions that a schedule over threads has to place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.types import Shape, Type
from eas.ir import Inst, Region, Value
from tests.fuzz.random_ir import _FLOATS, I32, RandomKernel

SECTION = 604  # elements of a buffer that belong to one program: no multiple of 8, more than any block
MOST = 512  # elements of a block
INPUT = 1024  # elements of the buffer that nobody writes
OUTPUT = 1 << 13  # elements of one program that are shown, per dtype
COUNTERS = 64  # elements of a buffer that only atomics touch
OWN = (("p", dtypes.f32), ("q", dtypes.f32), ("i", dtypes.i32), ("h", dtypes.f16), ("b", dtypes.bf16), ("l", dtypes.i64), ("u", dtypes.u8), ("s", dtypes.i16))
READ_ONLY = (("r", dtypes.f32), ("t", dtypes.i8))
SHARED = (("a", dtypes.i32), ("f", dtypes.f32), ("n8", dtypes.u8))
DTYPES = (dtypes.i8, dtypes.u8, dtypes.i16, dtypes.u16, dtypes.u32, dtypes.i64, dtypes.u64, dtypes.f16, dtypes.bf16)
SHAPES: tuple[Shape, ...] = (
    (1,), (8,), (33,), (64,), (100,), (256,), (500,), (2, 4), (1, 4), (2, 1), (5, 7), (16, 16), (8, 32), (17, 9), (128, 3), (3, 5, 7), (2, 8, 4), (1, 16, 2), (32, 8), (4, 2),
)  # fmt: skip
_COMMUTATIVE = {"int": ("add", "mul", "min", "max", "and", "or", "xor"), "float": ("add", "max", "min"), "bool": ("and", "or", "xor")}
_FP8 = tuple(d for d in dtypes.ALL if d.is_storage_only)
_MATRIX = (8, 8, 16, 16, 32, 5, 3, 12, 1)


def _index(method: Callable[..., Any]) -> Callable[..., Any]:
    """What the method adds is index arithmetic."""

    def inner(self: RaceFreeKernel, *args: Any, **options: Any) -> Any:
        before, self.is_index = self.is_index, True
        found = method(self, *args, **options)
        self.is_index = before
        return found

    return inner


def grid_of(seed: int) -> tuple[int, int, int]:
    return ((1, 1, 1), (3, 1, 1), (2, 2, 1), (5, 1, 1))[seed % 4]


class RaceFreeKernel(RandomKernel):
    """Builds one module whose programs and lanes never meet, except in atomics that commute."""

    def declare(self) -> list[Value]:
        rng, self.is_index = self.rng, False
        self.dtypes = (dtypes.bool_, *(dtypes.i32, dtypes.f32) * 2, *rng.sample(DTYPES, 3))
        self.shapes = ((), (), *rng.sample(SHAPES, 3), rng.choice(SHAPES))
        own, self.read_only, self.counters = ([self.buffer(*b) for b in group] for group in (OWN, READ_ONLY, SHARED))
        self.outputs: dict[DType, tuple[Value, int]] = {}
        self.distinct: set[Value] = set()  # pointers whose lanes are different elements of the program's own section
        kinds = (_COMMUTATIVE["float" if v.dtype.is_float else "int"] for v in self.counters)
        self.update = {v: rng.choice([k for k in kind if k != "mul"]) for v, kind in zip(self.counters, kinds, strict=True)}
        return own

    def start(self) -> Value:
        ids = [self.add("program_id", axis=axis).out for axis in (0, 1)]
        wide = self.add("num_programs", axis=0).out
        self.program = self.add("add", ids[0], self.add("mul", ids[1], wide).out).out
        self.section = self.add("mul", self.program, self.number(SECTION)).out
        for buffer in self.buffers[:2]:
            self.remember(self.add("addptr", buffer, self.section).out, is_distinct=True)
        return self.add("load", self.at(self.buffers[0], self.linear((len(_FLOATS),)))).out

    def add(self, name: str, *operands: Value, regions: Sequence[Region] = (), **attrs: Any) -> Inst:
        """Index arithmetic is not offered as a value: there is much of it, and all alike."""
        inst = super().add(name, *operands, regions=regions, **attrs)
        if self.is_index and name != "load":
            kept = len(self.scopes[-1]) - sum(v.type.is_value for v in inst.outs)
            del self.scopes[-1][kept:]
        return inst

    # --- values --------------------------------------------------------------------------------

    @_index
    def number(self, value: int, shape: Shape = (), dtype: DType = dtypes.i32) -> Value:
        return self.add("const", value=value, type=Type(dtype, shape)).out

    @_index
    def linear(self, shape: Shape) -> Value:
        """0, 1, 2, ... in row-major order."""
        flat = self.add("arange", start=0, end=math.prod(shape)).out
        return flat if len(shape) == 1 else self.add("reshape", flat, shape=shape).out

    @_index
    def spread(self, scalar: Value, shape: Shape) -> Value:
        return self.add("broadcast", scalar, shape=shape).out if shape else scalar

    @_index
    def at(self, buffer: Value, offsets: Value) -> Value:
        """Addresses in the program's own section of a buffer."""
        section = self.spread(self.section, offsets.shape)
        if offsets.dtype is not dtypes.i32:
            section = self.add("cast", section, type=offsets.type).out
        pointer = self.spread(buffer, offsets.shape)
        if self.rng.random() < 0.5:
            return self.add("addptr", pointer, self.add("add", section, offsets).out).out
        return self.add("addptr", self.add("addptr", pointer, section).out, offsets).out

    def constant(self, t: Type) -> Value:
        """Constants are dull: most blocks are read from memory that nobody writes."""
        if not t.shape or math.prod(t.shape) > MOST or self.rng.random() < 0.3 or not self.is_reached:
            return super().constant(t)
        source = self.rng.choice(self.read_only)
        offsets = self.add("add", self.linear(t.shape), self.spread(self.number(self.rng.randrange(MOST)), t.shape)).out
        loaded = self.add("load", self.add("addptr", self.spread(source, t.shape), offsets).out).out
        return loaded if t.dtype is loaded.dtype else self.add("cast", loaded, type=t).out

    @_index
    def show(self, value: Value) -> None:
        """Write it to a place of its own."""
        dtype = value.dtype
        if self.rng.random() < 0.03:
            self.add("device_print", value, prefix="")
        if dtype not in self.outputs:
            self.outputs[dtype] = (self.buffer(f"o_{dtype}", dtype), 0)
        buffer, used = self.outputs[dtype]
        if used + value.type.size > OUTPUT or dtype.is_storage_only:
            return
        self.outputs[dtype] = (buffer, used + value.type.size)
        offset = self.add("add", self.add("mul", self.program, self.number(OUTPUT)).out, self.number(used)).out
        if value.shape:
            offset = self.add("add", self.spread(offset, value.shape), self.linear(value.shape)).out
        self.add("store", self.add("addptr", self.spread(buffer, value.shape), offset).out, value)

    def small(self, t: Type) -> Value:
        """Whole numbers from -2 to 2: their sums and products are exact in any order."""
        x = self.value(t)
        if not t.dtype.is_float:
            return x
        low, high, zero = (self.add("const", value=c, type=t).out for c in (-2.0, 2.0, 0.0))
        x = self.add("floor", self.add("max", self.add("min", x, high).out, low).out).out
        is_number = self.add("eq", x, x).out
        return self.add("add", self.add("select", is_number, x, zero).out, zero).out  # -0 + 0 = 0

    # --- instructions --------------------------------------------------------------------------

    def choices(self) -> list[tuple[int, Callable[[], object]]]:
        return [
            *super().choices(), (3, self.reduction), (2, self.scan), (2, self.dot), (1, self.sort), (1, self.histogram), (2, self.gather), (2, self.narrow),
            (1, self.philox), (2, self.count), (2, self.shape_op), (1, self.fused), (1, self.bits),
        ]  # fmt: skip

    def program_id(self) -> None:
        self.add("program_id", axis=self.rng.randrange(3))
        self.add("num_programs", axis=0)

    def fused(self) -> None:
        t = Type(dtypes.f32, self.rng.choice(self.shapes))
        self.add("fma", self.value(t), self.value(t), self.value(t))

    def bits(self) -> None:
        t = Type(*self.rng.choice(((dtypes.u32,), (dtypes.i32,))), self.rng.choice(self.shapes))
        self.add("bitcast", self.value(t), type=t.with_dtype(self.rng.choice((dtypes.f32, dtypes.i32, dtypes.u32))))

    def narrow(self) -> None:
        t = self.type()
        if t.dtype.is_float:
            self.add("cast", self.add("cast", self.value(t), type=t.with_dtype(self.rng.choice(_FP8))).out, type=t)

    def philox(self) -> None:
        t = Type(dtypes.u32, self.rng.choice(self.shapes))
        self.add("philox", *(self.value(t) for _ in range(6)))

    def dtype(self) -> DType:
        return self.rng.choice([d for d in dtypes.ALL if not d.is_storage_only and d is not dtypes.f64])

    def shape_op(self) -> None:
        x = self.value(self.type())
        if not x.shape:
            return
        rank, size = len(x.shape), x.type.size
        match self.rng.randrange(8):
            case 0:
                self.add("permute", x, order=tuple(self.rng.sample(range(rank), rank)))
            case 1:
                self.add("reshape", x, shape=self.factors(size))
            case 2:
                self.add("flip", x, axis=self.rng.randrange(rank))
            case 3:
                wide = tuple(self.rng.choice((2, 3, 4)) if e == 1 else e for e in x.shape)
                if math.prod(wide) <= MOST:
                    self.add("broadcast", x, shape=wide)
            case 4 if rank < 3:
                self.add("expand_dims", x, axis=self.rng.randrange(rank + 1))
            case 5 if 2 * size <= MOST and rank < 4:
                self.add("join", x, self.value(x.type))
            case 6 if size % 2 == 0:
                self.add("split", self.add("reshape", x, shape=(size // 2, 2)).out)
            case _ if 2 * size <= MOST:
                self.add("cat", x, self.value(x.type), axis=self.rng.randrange(rank))

    def factors(self, size: int) -> Shape:
        """A shape of so many elements."""
        shape: list[int] = []
        for _ in range(self.rng.randrange(3)):
            factor = self.rng.choice([d for d in range(1, min(size, 64) + 1) if size % d == 0])
            shape.append(factor)
            size //= factor
        return (*shape, size)

    # --- across elements -------------------------------------------------------------------------

    def combined(self, params: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]) -> Region:
        self.blocks.append([])
        self.scopes.append([])
        self.add("yield", *body(params))
        self.scopes.pop()
        return Region(tuple(params), tuple(self.blocks.pop()))

    def combine(self) -> tuple[list[Value], Region] | None:
        """Blocks and how their elements are combined: by an op, as argmax, or by functions that do not commute."""
        t = self.type()
        if not t.shape:
            return None
        scalar = Type(t.dtype)
        match self.rng.randrange(5):
            case 0 if t.dtype.is_int:  # composition of x -> m * x + b
                blocks = [self.value(t), self.value(t)]
                params = [Value(scalar, n) for n in ("m", "b", "m2", "b2")]
                return blocks, self.combined(params, lambda p: (self.add("mul", p[0], p[2]).out, self.add("add", self.add("mul", p[1], p[2]).out, p[3]).out))
            case 1:  # the last one, or the first
                keep = self.rng.randrange(2)
                return [self.value(t)], self.combined([Value(scalar, n) for n in "ab"], lambda p: (p[keep],))
            case 2 if not t.dtype.is_bool:
                return self.largest(t)
        kind = "float" if t.dtype.is_float else "bool" if t.dtype.is_bool else "int"
        name = self.rng.choice(_COMMUTATIVE[kind])
        if t.dtype is dtypes.bf16 and name == "add":  # 8 bits: sums of many would be rounded
            name = "max"
        return [self.small(t)], self.combined([Value(scalar, n) for n in "ab"], lambda p: (self.add(name, *p).out,))

    def largest(self, t: Type) -> tuple[list[Value], Region]:
        """The largest with its number, the lower number of equal ones."""
        params = [Value(Type(d), n) for n, d in (("a", t.dtype), ("i", dtypes.i32), ("b", t.dtype), ("j", dtypes.i32))]

        def body(p: Sequence[Value]) -> Sequence[Value]:
            a, i, b, j = p
            tied = self.add("and", self.add("eq", a, b).out, self.add("lt", i, j).out).out
            first = self.add("or", self.add("gt", a, b).out, tied).out
            return self.add("select", first, a, b).out, self.add("select", first, i, j).out

        return [self.small(t), self.linear(t.shape)], self.combined(params, body)

    def reduction(self) -> None:
        found = self.combine()
        if found is not None:
            blocks, region = found
            self.add("reduce", *blocks, regions=[region], axis=self.rng.randrange(len(blocks[0].shape)))

    def scan(self) -> None:
        found = self.combine()
        if found is not None:
            blocks, region = found
            self.add("scan", *blocks, regions=[region], axis=self.rng.randrange(len(blocks[0].shape)), reverse=self.rng.random() < 0.3)

    def dot(self) -> None:
        m, n, k = (self.rng.choice(_MATRIX) for _ in range(3))
        stack = (2,) if self.rng.random() < 0.2 else ()
        dtype = self.rng.choice((dtypes.f32, dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i8, dtypes.i32))
        total = Type(dtypes.f32 if dtype.is_float else dtypes.i32, (*stack, m, n))
        a, b = (self.matrix(dtype, (*stack, *shape)) for shape in ((m, k), (k, n)))
        acc = self.small(total)
        if self.rng.random() < 0.4:
            acc = self.dot_loop(a, b, acc)
        else:
            acc = self.add("dot", a, b, acc).out
        if self.rng.random() < 0.5:
            self.add(self.rng.choice(("add", "mul", "sub")), acc, self.value(total))

    def matrix(self, dtype: DType, shape: Shape) -> Value:
        """A block for a product, now and then a view of its transpose."""
        if self.rng.random() < 0.3:
            order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            return self.add("permute", self.matrix(dtype, tuple(shape[i] for i in order)), order=order).out
        return self.small(Type(dtype, shape))

    def dot_loop(self, a: Value, b: Value, acc: Value) -> Value:
        """A product per iteration, with or without something that happens to the sum in between."""
        params = [Value(I32, "k"), Value(acc.type, "acc")]
        self.blocks.append([])
        self.scopes.append(list(params))
        start = params[1]
        if self.rng.random() < 0.4:
            start = self.small(acc.type)
            start = self.add("add", start, params[1]).out
        if self.rng.random() < 0.5:
            left = self.add("select", self.spread(self.add("lt", params[0], self.number(1)).out, a.shape), a, self.small(a.type)).out
        else:
            left = a
        result = self.add("dot", left, b, start).out
        self.add("yield", result)
        self.scopes.pop()
        body = Region(tuple(params), tuple(self.blocks.pop()))
        return self.add("for", self.number(0), self.number(self.rng.randint(0, 3)), self.number(1), acc, regions=[body]).outs[0]

    def sort(self) -> None:
        t = self.type()
        if not t.shape or t.dtype.is_bool:
            return
        axis = self.rng.randrange(len(t.shape))
        if self.rng.random() < 0.4:
            self.add("topk", self.value(t), k=self.rng.randint(1, t.shape[axis]), axis=axis, largest=self.rng.random() < 0.5)
        else:
            payloads = [self.value(t.with_dtype(self.rng.choice(self.dtypes))) for _ in range(self.rng.randrange(2))]
            self.add("sort", self.value(t), *payloads, axis=axis, descending=self.rng.random() < 0.5)

    def histogram(self) -> None:
        t = Type(self.rng.choice((dtypes.i32, dtypes.u8, dtypes.i64)), self.rng.choice(self.shapes))
        if t.shape:
            self.add("histogram", self.value(t), *self.masks(t.shape), bins=self.rng.choice((1, 7, 16, 100)))

    def gather(self) -> None:
        t = self.type()
        if not t.shape:
            return
        axis = self.rng.randrange(len(t.shape))
        extent = t.shape[axis]
        shape = (*t.shape[:axis], self.rng.choice((extent, extent, 3)), *t.shape[axis + 1 :])
        index = self.value(Type(dtypes.i32, shape))
        index = self.add("mod", index, self.number(extent, shape)).out
        self.add("gather", self.value(t), index, axis=axis)

    # --- memory ----------------------------------------------------------------------------------

    def remember(self, pointer: Value, is_distinct: bool) -> Value:
        self.pointers[-1].append(pointer)
        if is_distinct:
            self.distinct.add(pointer)
        return pointer

    def pointer(self, shape: Shape) -> Value:
        known = [p for scope in self.pointers for p in scope if p.shape == shape and p in self.distinct]
        if known and self.rng.random() < 0.5:
            return self.rng.choice(known)
        return self.remember(self.at(self.rng.choice(self.buffers), self.offset(shape)), is_distinct=True)

    def load(self) -> None:
        """As anywhere, or a gather of elements that may be the same."""
        if self.rng.random() < 0.5 or not self.is_reached:
            super().load()
            return
        shape = self.rng.choice(self.shapes)
        inside = self.add("and", self.value(Type(dtypes.i32, shape)), self.number(MOST - 1, shape)).out
        if self.rng.random() < 0.5:
            pointer = self.add("addptr", self.spread(self.rng.choice(self.read_only), shape), inside).out
        else:
            pointer = self.remember(self.at(self.rng.choice(self.buffers), inside), is_distinct=not shape)
        self.load_from(pointer, self.masks(shape))

    @_index
    def offset(self, shape: Shape) -> Value:
        """Different for every lane, and inside of the program's section."""
        if not self.is_reached:
            return self.number(1 << 20, shape)
        size = math.prod(shape)
        first = self.first(SECTION - size)
        if not shape:
            return first
        line = self.walk(shape)
        offsets = self.add("add", line, self.spread(first, shape)).out
        if size <= MOST and self.rng.random() < 0.2:  # a permutation of 0 .. MOST - 1
            odd = self.number(self.rng.choice((3, 5, 77)), shape)
            offsets = self.add("and", self.add("mul", offsets, odd).out, self.number(MOST - 1, shape)).out
        if self.rng.random() < 0.2:
            offsets = self.add("cast", offsets, type=Type(dtypes.i64, shape)).out
        return offsets

    @_index
    def first(self, most: int) -> Value:
        """Where a block starts: a constant, or what only the launch knows."""
        if self.rng.random() < 0.5:
            return self.number(self.rng.choice((0, 0, 4, 16, self.rng.randint(0, most))) % (most + 1))
        mask = (1 << (most + 1).bit_length() - 1) - 1
        return self.add("and", self.value(I32), self.number(mask)).out

    @_index
    def walk(self, shape: Shape) -> Value:
        """0 .. size - 1, each once: along rows, along columns, or backwards."""
        match self.rng.randrange(5):
            case 0 if len(shape) > 1:
                turned = self.linear(shape[::-1])
                return self.add("permute", turned, order=tuple(reversed(range(len(shape))))).out
            case 1:
                return self.add("flip", self.linear(shape), axis=len(shape) - 1).out
            case 2:
                return self.add("sub", self.number(math.prod(shape) - 1, shape), self.linear(shape)).out
            case 3 if len(shape) == 2:
                row, column = (self.add("arange", start=0, end=e).out for e in shape)
                row, column = self.add("expand_dims", row, axis=1).out, self.add("expand_dims", column, axis=0).out
                row = self.add("mul", row, self.number(shape[1], row.shape)).out
                return self.add("add", *(self.spread(v, shape) for v in (row, column))).out
        return self.linear(shape)

    def masks(self, shape: Shape) -> list[Value]:
        if shape and self.rng.random() < 0.3:  # a bound, as at the end of a buffer
            bound = self.spread(self.first(math.prod(shape)), shape)
            return [self.add("lt", self.linear(shape), bound).out]
        return super().masks(shape)

    def revisit(self) -> None:
        pointer = self.rng.choice([p for scope in self.pointers for p in scope])
        loaded = self.add("load", pointer).out
        self.show(loaded)
        if pointer in self.distinct and self.rng.random() < 0.5:
            self.add("store", pointer, self.value(loaded.type))

    def atomic(self) -> None:
        """In the program's own section, where the order is that of the program and results may be used."""
        shape = self.rng.choice(self.shapes)
        pointer = self.at(self.buffers[self.rng.choice((0, 2, 2, 3, 6, 7))], self.offset(shape))
        t = Type(pointer.dtype, shape)
        names = ["add", "max", "min", "xchg", "cas", *([] if t.dtype.is_float else ["and", "or", "xor"])]
        if t.dtype.is_float:  # which zero is the larger one is not said
            names.remove("max")
            names.remove("min")
        name = self.rng.choice(names)
        expected = [self.value(t)] if name == "cas" and not t.dtype.is_float else []
        name = "xchg" if name == "cas" and not expected else name
        self.add(f"atomic_{name}", pointer, *expected, self.value(t), *self.masks(shape))

    def count(self) -> None:
        """Where lanes and programs collide, with an operation that commutes; nobody sees the order."""
        counter = self.rng.choice(self.counters)
        shape = self.rng.choice(self.shapes)
        inside = self.add("and", self.value(Type(dtypes.i32, shape)), self.number(COUNTERS - 1, shape)).out
        if not self.is_reached:
            return
        pointer = self.add("addptr", self.spread(counter, shape), inside).out
        inst = self.add(f"atomic_{self.update[counter]}", pointer, self.small(Type(counter.dtype, shape)), *self.masks(shape))
        self.scopes[-1].remove(inst.out)

    # --- arguments -------------------------------------------------------------------------------

    def arguments(self, grid: tuple[int, int, int]) -> list[Any]:
        """Fresh arguments for a grid, the same for the same seed; `p` and `q` may be one array."""
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        programs = math.prod(grid)
        arrays = {name: _numbers(rng, dtype, programs * SECTION) for name, dtype in OWN}
        arrays |= {name: _numbers(rng, dtype, INPUT) for name, dtype in READ_ONLY}
        arrays |= {name: np.zeros(COUNTERS, dtype.np_storage) for name, dtype in SHARED}
        arrays |= {f"o_{d}": np.zeros(programs * OUTPUT, d.np_storage) for d in self.outputs}
        for k in range(programs):
            arrays["p"][k * SECTION : k * SECTION + len(_FLOATS)] = _FLOATS
        if not self.is_noalias and rng.random() < 0.5:
            arrays["q"] = arrays["p"]
        scalars = {"n": int(rng.integers(0, 4)), "m": int(rng.integers(0, 4)), "x": float(rng.choice((0.0, -0.0, 1.5))), "c": bool(rng.integers(2)), "zero": 0}
        return [arrays[a.name] if a.name in arrays else scalars[a.name] for a in self.args]


def _numbers(rng: np.random.Generator, dtype: DType, count: int) -> np.ndarray:
    if dtype.is_float:
        values = np.where(rng.random(count) < 0.2, rng.choice(_FLOATS, count), rng.integers(-40, 40, count) / 4)
        return numerics.encode(numerics.round_to(values.astype(np.float32), dtype), dtype)
    return rng.integers(max(dtype.min, -100), 100, count).astype(dtype.np_storage)
