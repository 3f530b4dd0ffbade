"""Random well-typed modules: a seed gives one kernel and the arguments to run it with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Shape, Space, Type
from eas.ir import Arg, Inst, IRModule, Region, Value, make, verify
from eas.ops import TABLE

_USUAL = (dtypes.bool_, dtypes.i32, dtypes.f32)
DTYPES = (*_USUAL * 4, dtypes.i8, dtypes.u8, dtypes.u32, dtypes.i64, dtypes.f16, dtypes.bf16, dtypes.f64)
SHAPES: tuple[Shape, ...] = ((), (), (), (8,), (8,), (8,), (2, 4), (1, 4), (2, 1))
BUFFERS = (("p", dtypes.f32), ("q", dtypes.f32), ("i", dtypes.i32), ("h", dtypes.f16))
LENGTH = 32  # elements of every buffer; a power of two, so that `& (LENGTH - 1)` is inside
I32, BOOL = Type(dtypes.i32), Type(dtypes.bool_)

# The sign of a NaN is nobody's promise, and these would show it.
_SHOW_NAN_SIGN = ("signbit", "copysign", "bitcast")
_SHOW_ZERO_ORDER = ("fmin", "fmax")  # which zero is the smaller one is not said, see also `elementwise`
_ELEMENTWISE = tuple(op.name for op in TABLE.values() if op.family == "elementwise" and op.accuracy.is_exact and op.name not in (*_SHOW_NAN_SIGN, *_SHOW_ZERO_ORDER, "cast", "select", "fma"))
_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")
_LAWFUL = (*_COMPARES, "add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "not", "neg")  # many laws speak of these
_FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("nan"), float("inf"), float("-inf"), 3.25)
_COMBINES = {"int": ("add", "mul", "min", "max", "and", "xor"), "float": ("add", "max"), "bool": ("and", "or")}


class RandomKernel:
    """Builds one module; `rng` decides everything."""

    dtypes: Sequence[DType] = DTYPES
    shapes: Sequence[Shape] = SHAPES

    def __init__(self, seed: int, math: str = "safe") -> None:
        self.rng = random.Random(seed)
        self.blocks: list[list[Inst]] = [[]]
        self.scopes: list[list[Value]] = [[]]
        self.is_noalias = self.rng.random() < 0.5
        self.args: list[Arg] = []
        self.buffers = self.declare()
        self.pointers: list[list[Value]] = [[]]
        self.is_reached = True  # whether the code being made ever runs
        self.zero = Arg("zero", Value(I32, "zero"))  # always 0, which no pass can know
        for name, dtype in (("n", dtypes.i32), ("m", dtypes.i32), ("x", dtypes.f32), ("c", dtypes.bool_)):
            self.args.append(Arg(name, Value(Type(dtype), name)))
            self.scopes[0].append(self.args[-1].value)
        self.args.append(self.zero)
        self.math = math
        self.special = self.start()

    def declare(self) -> list[Value]:
        """Add the buffers to the arguments; those that are read and written anywhere."""
        return [self.buffer(name, dtype) for name, dtype in BUFFERS]

    def buffer(self, name: str, dtype: DType) -> Value:
        self.args.append(Arg(name, Value(Type(dtype, (), Space.DEVICE), name), (("noalias", True),) if self.is_noalias else ()))
        return self.args[-1].value

    def module(self, size: int = 14) -> IRModule:
        for _ in range(size):
            self.step(depth=0)
        for value in self.rng.sample(self.scopes[0], len(self.scopes[0]) // self.rng.choice((1, 2, 8))):
            self.show(value)
        self.add("yield")
        attrs = (("math", self.math),) if self.math != "safe" else ()
        return verify(IRModule("fuzz", tuple(self.args), Region((), tuple(self.blocks[0])), "spmd", attrs))

    # --- building blocks ---------------------------------------------------------------------

    def add(self, name: str, *operands: Value, regions: Sequence[Region] = (), **attrs: Any) -> Inst:
        hints = [self.rng.choice(("", "v", "w"))] * 2
        inst = make(name, operands, attrs, regions, hints=hints)
        self.blocks[-1].append(inst)
        self.scopes[-1] += [v for v in inst.outs if v.type.is_value]
        return inst

    def value(self, t: Type) -> Value:
        """A value of this type: one at hand, a constant, or one made from another type."""
        known = [v for scope in self.scopes for v in scope if v.type == t]
        if known and self.rng.random() < 0.7:
            return self.rng.choice(known[-6:])
        if t.shape and self.rng.random() < 0.4:
            return self.add("broadcast", self.value(Type(t.dtype)), shape=t.shape).out
        others = [v for scope in self.scopes for v in scope if v.shape == t.shape and v.dtype is not t.dtype]
        if others and self.rng.random() < 0.4:
            return self.add("cast", self.rng.choice(others[-6:]), type=t).out
        return self.constant(t)

    def constant(self, t: Type) -> Value:
        d = t.dtype
        number: Any = self.rng.choice((True, False))
        if d.is_float:
            number = self.rng.choice(_FLOATS)
        elif d.is_int:
            number = self.rng.choice((0, 0, 1, 1, 2, 3, d.min, d.max, self.rng.randint(d.min, d.max)))
        return self.add("const", value=number, type=t).out

    def type(self) -> Type:
        return Type(self.rng.choice(self.dtypes), self.rng.choice(self.shapes))

    def show(self, value: Value) -> None:
        self.add("device_print", value, prefix="")

    def start(self) -> Value:
        """The first instructions. A block that holds every number of `_FLOATS` when the kernel runs."""
        index = self.add("arange", start=0, end=len(_FLOATS)).out
        base = self.add("broadcast", self.buffers[0], shape=index.shape).out
        self.pointers[0] += [self.add("addptr", base, index).out, self.buffers[0], self.buffers[1]]
        return self.add("load", self.pointers[0][0]).out

    # --- instructions ------------------------------------------------------------------------

    def step(self, depth: int) -> None:
        choices = self.choices()
        if depth < 2:
            choices += [(1, lambda: self.loop(depth)), (1, lambda: self.branch(depth)), (1, lambda: self.while_loop(depth))]
        weights, actions = zip(*choices, strict=True)
        self.rng.choices(actions, weights)[0]()

    def choices(self) -> list[tuple[int, Callable[[], object]]]:
        """What a step may be, and how often."""
        return [
            (8, self.elementwise), (2, self.select), (2, self.cast), (3, self.shape_op), (1, self.reduction),
            (4, self.load), (4, self.store), (1, self.atomic), (1, self.repeat), (2, self.revisit), (2, self.tempt), (1, self.program_id), (2, self.negate),
        ]  # fmt: skip

    def elementwise(self) -> None:
        op = TABLE[self.rng.choice(self.rng.choice((_ELEMENTWISE, _LAWFUL)))]
        t = self.type()
        while t.dtype not in op.dtypes or (op.name in ("min", "max") and t.dtype.is_float):
            t = self.type()
        operands = [self.value(t) for _ in op.operands.split(",")]
        if self.rng.random() < 0.15:
            operands = operands[:1] * len(operands)
        elif self.rng.random() < 0.4:
            operands[-1] = self.constant(t)
        self.add(op.name, *operands)

    def tempt(self) -> None:
        """The neighbourhood of a law, where chance alone seldom comes."""
        t = self.special.type
        match self.rng.randrange(4):
            case 0:
                made = self.add(self.rng.choice(("add", "sub", "mul", "div")), self.special, self.constant(t))
            case 1:
                inverted = self.add("not", self.value(t.with_dtype(dtypes.bool_))).out
                made = self.add("select", inverted, self.special, self.value(t))
            case 2:
                made = self.add("cat", self.constant(t), self.value(t), axis=0)
            case _:
                row, column = (self.value(Type(dtypes.i32, shape)) for shape in ((1, 4), (2, 1)))
                wide = [self.add("broadcast", v, shape=(2, 4)).out for v in (row, column)]
                made = self.add("sub", *wide)
        self.show(made.out)

    def negate(self) -> None:
        name = self.rng.choice(_COMPARES)
        t = self.type()
        compare = self.add(name, self.value(t), self.value(t))
        self.add("not", compare.out)

    def select(self) -> None:
        t = self.type()
        self.add("select", self.value(t.with_dtype(dtypes.bool_)), self.value(t), self.value(t))

    def cast(self) -> None:
        x = self.value(self.type())
        wide = self.add("cast", x, type=x.type.with_dtype(self.dtype())).out
        self.add("cast", wide, type=x.type.with_dtype(self.dtype()))

    def dtype(self) -> DType:
        return self.rng.choice([d for d in dtypes.ALL if not d.is_storage_only])

    def program_id(self) -> None:
        self.add("program_id", axis=0)
        self.add("arange", start=0, end=8)

    def shape_op(self) -> None:
        x = self.value(self.type())
        match self.rng.randrange(6):
            case 0 if x.shape:
                self.add("permute", x, order=tuple(self.rng.sample(range(len(x.shape)), len(x.shape))))
            case 1 if x.type.size == 8:
                self.add("reshape", x, shape=self.rng.choice(((8,), (2, 4), (4, 2))))
            case 2 if x.shape:
                self.add("flip", x, axis=self.rng.randrange(len(x.shape)))
            case 3:
                target = {(): (8,), (1, 4): (2, 4), (2, 1): (2, 4)}.get(x.shape, x.shape)
                self.add("broadcast", x, shape=target)
            case 4 if x.type.rank < 2:
                self.add("expand_dims", x, axis=self.rng.randrange(x.type.rank + 1))
            case 5 if x.shape == (8,):
                halves = self.add("reshape", x, shape=(4, 2)).out
                first, second = self.add("split", halves).outs
                self.add("cat", first, second, axis=0)

    def repeat(self) -> None:
        """The same instruction once more, perhaps with its operands swapped."""
        known = [i for block in self.blocks for i in block if i.op.is_pure and i.operands and not i.regions]
        if not known:
            return
        inst = self.rng.choice(known)
        operands = inst.operands
        if len(operands) == 2 and operands[0].type == operands[1].type and self.rng.random() < 0.5:
            operands = operands[::-1]
        self.add(inst.op.name, *operands, **dict(inst.attrs))

    def reduction(self) -> None:
        x = self.value(self.type())
        if not x.shape:
            return
        kind = "float" if x.dtype.is_float else "bool" if x.dtype.is_bool else "int"
        a, b = Value(Type(x.dtype), "a"), Value(Type(x.dtype), "b")
        self.blocks.append([])
        self.scopes.append([])
        combined = self.add(self.rng.choice(_COMBINES[kind]), a, b).out
        self.add("yield", combined)
        self.scopes.pop()
        region = Region((a, b), tuple(self.blocks.pop()))
        self.add("reduce", x, regions=[region], axis=self.rng.randrange(len(x.shape)))

    # --- memory ------------------------------------------------------------------------------

    def pointer(self, shape: Shape) -> Value:
        """A block of addresses, inside of a buffer if anybody ever uses them."""
        known = [p for scope in self.pointers for p in scope if p.shape == shape]
        if known and self.rng.random() < 0.6:
            return self.rng.choice(known)
        base = self.rng.choice(self.buffers)
        pointer = self.add("broadcast", base, shape=shape).out if shape else base
        pointer = self.add("addptr", pointer, self.offset(shape)).out
        if self.rng.random() < 0.3:
            pointer = self.add("addptr", pointer, self.offset(shape)).out
        self.pointers[-1].append(pointer)
        return pointer

    def offset(self, shape: Shape) -> Value:
        if not self.is_reached:
            return self.add("const", value=LENGTH, type=Type(dtypes.i32, shape)).out
        if shape in ((8,), (2, 4)) and self.rng.random() < 0.5:
            return self.add("reshape", self.add("arange", start=0, end=8).out, shape=shape).out
        t = Type(self.rng.choice((dtypes.i32, dtypes.i32, dtypes.i64)), shape)
        mask = self.add("const", value=LENGTH // 2 - 1, type=t).out
        return self.add("and", self.value(t), mask).out

    def masks(self, shape: Shape) -> list[Value]:
        return [self.value(Type(dtypes.bool_, shape))] if self.rng.random() < 0.4 else []

    def load_from(self, pointer: Value, masks: list[Value]) -> None:
        other = [self.value(Type(pointer.dtype, pointer.shape))] if masks and self.rng.random() < 0.5 else []
        loaded = self.add("load", pointer, *masks, *other).out
        if self.rng.random() < 0.3:
            self.show(loaded)

    def load(self) -> None:
        shape = self.rng.choice(self.shapes)
        self.load_from(self.pointer(shape), self.masks(shape))

    def store(self) -> None:
        shape = self.rng.choice(self.shapes)
        pointer = self.pointer(shape)
        if self.rng.random() < 0.5:
            self.load_from(pointer, [])
        self.add("store", pointer, self.value(Type(pointer.dtype, shape)), *self.masks(shape))
        if self.rng.random() < 0.5:
            self.load_from(pointer, [])

    def revisit(self) -> None:
        """Show what is in memory where something has been read or written before, and perhaps change it."""
        pointer = self.rng.choice([p for scope in self.pointers for p in scope])
        loaded = self.add("load", pointer).out
        self.show(loaded)
        if self.rng.random() < 0.5:
            self.add("store", pointer, self.value(loaded.type))

    def atomic(self) -> None:
        pointer = self.add("addptr", self.buffers[2], self.offset(())).out
        self.add(self.rng.choice(("atomic_add", "atomic_max", "atomic_xchg")), pointer, self.value(I32), *self.masks(()))

    # --- control -----------------------------------------------------------------------------

    def region(self, params: Sequence[Value], depth: int, yields: Sequence[Type], kept: Sequence[Value] = ()) -> Region:
        """A few steps over `params`; now and then it yields one of them as it came."""
        self.blocks.append([])
        self.scopes.append(list(params))
        self.pointers.append([])
        if self.is_reached and self.rng.random() < 0.5:
            self.revisit()
        for _ in range(self.rng.randint(1, 3)):
            self.step(depth + 1)
        results = [self.value(t) for t in yields]
        for i, param in enumerate(kept):
            if self.rng.random() < 0.25:
                results[i] = param
        self.add("yield", *results)
        self.scopes.pop()
        self.pointers.pop()
        return Region(tuple(params), tuple(self.blocks.pop()))

    def carried(self) -> list[Value]:
        return [self.value(self.type()) for _ in range(self.rng.randint(0, 3))]

    def bound(self) -> Value:
        if self.rng.random() < 0.4:
            return self.scopes[0][self.rng.randrange(2)]
        return self.add("const", value=self.rng.randint(0, 3), type=I32).out

    def loop(self, depth: int) -> None:
        inits, was_reached = self.carried(), self.is_reached
        start, end = self.bound(), self.bound()
        if self.rng.random() < 0.2:
            start, self.is_reached = self.zero.value, False
            end = self.add("const", value=0, type=I32).out
        step = self.add("const", value=self.rng.choice((1, 1, 2, -1)), type=I32).out
        params = [Value(v.type, "k") for v in inits]
        body = self.region([Value(I32, "i"), *params], depth, [v.type for v in inits], params)
        self.add("for", start, end, step, *inits, regions=[body])
        self.is_reached = was_reached

    def branch(self, depth: int) -> None:
        types = [self.type() for _ in range(self.rng.randint(0, 2))]
        regions = [self.region([], depth, types) for _ in range(2)]
        self.add("if", self.value(BOOL), regions=regions)

    def while_loop(self, depth: int) -> None:
        """At most a few rounds: the first carried value counts up to a small constant."""
        inits = [self.add("const", value=0, type=I32).out, *self.carried()]
        test_params, params = ([Value(v.type, "w") for v in inits] for _ in range(2))
        self.blocks.append([])
        self.scopes.append(list(test_params))
        limit = self.add("const", value=self.rng.randint(0, 3), type=I32).out
        self.add("yield", self.add("lt", test_params[0], limit).out)
        self.scopes.pop()
        test = Region(tuple(test_params), tuple(self.blocks.pop()))
        body = self.region(params, depth, [v.type for v in inits[1:]], params[1:])
        one = make("const", (), {"value": 1, "type": I32})
        count = make("add", (params[0], one.out))
        last = make("yield", (count.out, *body.yields))
        body = Region(body.params, (*body.body[:-1], one, count, last))
        self.add("while", *inits, regions=[test, body])

    # --- arguments ---------------------------------------------------------------------------

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same for the same seed; `p` and `q` may be one array."""
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        arrays: list[Any] = []
        for _, dtype in BUFFERS:
            special = rng.permutation(np.resize(_FLOATS, LENGTH)) if dtype.is_float else rng.integers(-5, 5, LENGTH)
            special[: len(_FLOATS)] = _FLOATS if dtype.is_float else 1
            arrays.append(special.astype(dtype.np_storage))
        if not self.is_noalias and rng.random() < 0.5:
            arrays[1] = arrays[0]
        return [*arrays, int(rng.integers(0, 4)), int(rng.integers(0, 4)), float(rng.choice((0.0, -0.0, 1.5))), bool(rng.integers(2)), 0]
