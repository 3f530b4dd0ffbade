"""Random kernels of integer arithmetic on blocks, with loops, branches, hints and memory accesses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from eas.base import dtypes
from eas.base.types import Space, Type
from eas.ir import Arg, IRModule, Region, Value, make, sorted_attrs, verify

SHAPES: tuple[tuple[int, ...], ...] = ((), (8,), (6,), (6, 8), (6, 1), (1, 8), (48,), (8, 6))
COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
_BINARY = (*("add",) * 6, *("sub",) * 3, *("mul",) * 5, "floordiv", "floordiv", "mod", "mod", "truncdiv", "truncmod", "min", "max", "shl", "shr", "and", "or", "xor")


class Writer:
    """Appends random instructions; `values` are the visible ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.values: list[Value] = []
        self.blocks: list[list[Any]] = [[]]

    def emit(self, name: str, *operands: Value, regions: Sequence[Region] = (), **attrs: Any) -> Value:
        inst = make(name, operands, attrs, regions)
        self.blocks[-1].append(inst)
        self.values += inst.outs
        return inst.outs[0] if inst.outs else operands[0]

    def const(self, value: int, t: Type) -> Value:
        return self.emit("const", value=value, type=t)

    def number(self) -> int:
        rng = self.rng
        return rng.choice((0, 1, 1, 2, 3, 4, 8, 16, -1, -2, 7, rng.randint(-40, 40), rng.randint(-(2**31), 2**31 - 1) if rng.random() < 0.03 else 5))

    def pick(self, t: Type) -> Value:
        """A visible value of the type, moved into its shape where needed."""
        same = [v for v in self.values if v.type == t]
        if same and self.rng.random() < 0.75:
            return self.rng.choice(same[-12:])
        smaller = [v for v in self.values if v.type.with_shape(()) == t.with_shape(()) and _broadcasts(v.shape, t.shape)]
        if smaller and t.shape and self.rng.random() < 0.8:
            return self.emit("broadcast", self.rng.choice(smaller[-12:]), shape=t.shape)
        if t.dtype.is_bool:
            a = self.pick(t.with_dtype(dtypes.i32))
            return self.emit(self.rng.choice(COMPARES), a, self.pick(a.type))
        if t.space is not Space.VALUE:
            buffer = next(v for v in self.values if v.type == t.with_shape(()))
            return self.emit("broadcast", buffer, shape=t.shape) if t.shape else buffer
        if len(t.shape) == 1 and self.rng.random() < 0.6 and t.dtype is dtypes.i32:
            start = self.rng.choice((0, 0, 0, 8, 3, -4))
            return self.emit("arange", start=start, end=start + t.shape[0])
        return self.const(max(t.dtype.min, min(t.dtype.max, self.number())), t)

    def int_type(self) -> Type:
        dtype = self.rng.choice((*(dtypes.i32,) * 12, dtypes.i64, dtypes.u8, dtypes.i16))
        return Type(dtype, self.rng.choice(SHAPES))

    def step(self) -> None:
        rng = self.rng
        t = self.int_type()
        match rng.choice(("tile",) * 8 + ("binary",) * 6 + ("unary", "bool", "bool", "select", "move", "move", "cast", "hint", "memory", "memory")):
            case "tile":
                self.tile()
            case "binary":
                self.emit(rng.choice(_BINARY), self.pick(t), self.pick(t))
            case "unary":
                self.emit(rng.choice(("neg", "abs", "not", "sign", "popcount")), self.pick(t))
            case "bool":
                b = t.with_dtype(dtypes.bool_)
                self.emit(rng.choice(("and", "and", "or", "xor")), self.pick(b), self.pick(b)) if rng.random() < 0.7 else self.emit("not", self.pick(b))
            case "select":
                self.emit("select", self.pick(t.with_dtype(dtypes.bool_)), self.pick(t), self.pick(t))
            case "move":
                self.move(self.pick(rng.choice((t, t.with_dtype(dtypes.bool_)))))
            case "cast":
                self.emit("cast", self.pick(t), type=Type(rng.choice((dtypes.i32, dtypes.i64, dtypes.u8, dtypes.i16)), t.shape))
            case "hint":
                self.emit(rng.choice(("multiple_of", "max_contiguous", "max_constancy")), self.pick(t), n=1)
            case "memory":
                self.memory()

    def tile(self) -> None:
        """Offsets and a mask as kernels write them: scalar * c + arange * stride < n, in one or two axes."""
        rng, i32 = self.rng, Type(dtypes.i32)
        length = rng.choice((6, 8))
        t = i32.with_shape((length,))
        block = self.emit("arange", start=0, end=length)
        if rng.random() < 0.5:
            block = self.emit("mul", block, self.pick(t))
        shift = self.emit("mul", self.pick(i32), self.const(rng.choice((1, 6, 8, 16)), i32))
        block = self.emit(rng.choice(("add", "add", "sub")), block, self.emit("broadcast", shift, shape=t.shape))
        mask = self.emit(rng.choice(COMPARES), block, self.emit("broadcast", self.pick(i32), shape=t.shape))
        axis = int(length == 6)
        for x in (block, mask):
            self.emit("broadcast", self.emit("expand_dims", x, axis=axis), shape=(6, 8))

    def move(self, x: Value) -> None:
        rng = self.rng
        match rng.choice(("expand_dims", "permute", "reshape", "flip")):
            case "expand_dims" if x.type.rank == 1:
                self.emit("expand_dims", x, axis=rng.choice((0, 1)))
            case "permute" if x.type.rank == 2:
                self.emit("permute", x, order=(1, 0))
            case "reshape":
                self.emit("reshape", x, shape=rng.choice([s for s in SHAPES if _size(s) == x.type.size]))
            case "flip" if x.type.rank:
                self.emit("flip", x, axis=x.type.rank - 1)

    def memory(self) -> None:
        rng = self.rng
        pointer = Type(dtypes.i32, rng.choice(SHAPES), Space.DEVICE)
        offset = self.pick(Type(rng.choice((dtypes.i32, dtypes.i32, dtypes.i64)), pointer.shape))
        address = self.emit("addptr", self.pick(pointer), offset)
        mask = self.pick(Type(dtypes.bool_, pointer.shape))
        if rng.random() < 0.5:
            self.emit("load", address, mask, self.pick(Type(dtypes.i32, pointer.shape)))
        else:
            self.blocks[-1].append(make("store", (address, self.pick(Type(dtypes.i32, pointer.shape)), mask)))

    def region(self, params: Sequence[Value], types: Sequence[Type], depth: int) -> Region:
        visible = len(self.values)
        self.values += params
        self.blocks.append([])
        self.body(self.rng.randint(2, 8), depth + 1)
        carried: Sequence[Value | None] = params[1:] or [None] * len(types)
        yields = [self.pick(t) if p is None or self.rng.random() < 0.3 else self.after(p) for p, t in zip(carried, types, strict=True)]
        self.blocks[-1].append(make("yield", yields))
        del self.values[visible:]
        return Region(tuple(params), tuple(self.blocks.pop()))

    def after(self, param: Value) -> Value:
        """The carried value plus something, which may or may not be loop-invariant."""
        if param.type.is_pointer:
            return self.emit("addptr", param, self.pick(Type(dtypes.i32, param.shape)))
        return self.emit(self.rng.choice(("add", "add", "sub")), param, self.pick(param.type))

    def carried(self) -> list[Value]:
        types = [self.int_type() for _ in range(self.rng.randint(0, 2))]
        if self.rng.random() < 0.5:
            types.append(Type(dtypes.i32, self.rng.choice(SHAPES), Space.DEVICE))
        return [self.pick(t) for t in types]

    def loop(self, depth: int) -> None:
        rng, i32 = self.rng, Type(dtypes.i32)
        start = self.const(rng.choice((0, 0, 3, -2)), i32)
        small = [v for v in self.values if v.hint in ("small", "tiny")]
        end = rng.choice(small) if rng.random() < 0.6 else self.const(rng.randint(-1, 9), i32)
        step = self.const(rng.choice((1, 1, 2, 3, 4, -1)), i32)
        carried = self.carried()
        params = [Value(i32, "iv"), *(Value(v.type, "carried") for v in carried)]
        body = self.region(params, [v.type for v in carried], depth)
        inst = make("for", (start, end, step, *carried), {}, (body,))
        self.blocks[-1].append(inst)
        self.values += inst.outs

    def branch(self, depth: int) -> None:
        condition = self.pick(Type(dtypes.bool_))
        types = [self.int_type() for _ in range(self.rng.randint(0, 2))]
        regions = [self.region((), types, depth) for _ in range(2)]
        inst = make("if", (condition,), {}, regions)
        self.blocks[-1].append(inst)
        self.values += inst.outs

    def body(self, size: int, depth: int) -> None:
        for _ in range(size):
            kind = self.rng.random()
            if kind < 0.08 and depth < 3:
                self.loop(depth)
            elif kind < 0.14 and depth < 3:
                self.branch(depth)
            elif kind < 0.16:
                self.blocks[-1].append(make("assume", (self.pick(Type(dtypes.bool_)),)))
            else:
                self.step()


def _size(shape: tuple[int, ...]) -> int:
    return Type(dtypes.i32, shape).size


def _broadcasts(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    aligned = (1,) * (len(target) - len(source)) + source
    return source != target and len(aligned) == len(target) and all(a in (1, b) for a, b in zip(aligned, target, strict=True))


ARGUMENTS: tuple[tuple[str, Type, dict[str, Any]], ...] = (
    ("p", Type(dtypes.i32, (), Space.DEVICE), {}),
    ("n", Type(dtypes.i32), {}),
    ("s", Type(dtypes.i32), {"range": (-64, 64)}),
    ("d", Type(dtypes.i32), {"divisible": 16, "range": (0, 1024)}),
    ("m", Type(dtypes.i32), {"divisible": 4, "range": (1, 100)}),
    ("one", Type(dtypes.i32), {"equals": 1}),
    ("small", Type(dtypes.i32), {"range": (0, 7)}),
    ("tiny", Type(dtypes.i32), {"range": (-3, 3)}),
    ("wide", Type(dtypes.i64), {}),
)


def random_module(seed: int, size: int = 40) -> IRModule:
    writer = Writer(seed)
    args = tuple(Arg(name, Value(t, name), sorted_attrs(attrs)) for name, t, attrs in ARGUMENTS)
    writer.values += [a.value for a in args]
    writer.emit("program_id", axis=0)
    writer.body(size, 0)
    writer.blocks[-1].append(make("yield"))
    return verify(IRModule("k", args, Region((), tuple(writer.blocks[-1]))))


def random_arguments(rng: random.Random) -> dict[str, int]:
    """Numbers that obey the attributes of the arguments."""
    values = {}
    for name, t, attrs in ARGUMENTS:
        lo, hi = attrs.get("range", (t.dtype.min, t.dtype.max) if rng.random() < 0.03 else (-50, 300))
        multiple = attrs.get("divisible", 1)
        values[name] = attrs.get("equals", rng.randint(-(-lo // multiple), hi // multiple) * multiple)
    return values
