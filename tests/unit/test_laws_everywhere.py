"""Every op behind every other one, with constants at the ends of their types: no pass and no math mode changes a bit that it may not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.types import Space, Type
from eas.ir import Arg, Inst, IRModule, Region, Value, make, verify
from eas.ops import TABLE, Call, Op, evaluate
from eas.passes import fold_constants, optimise, simplify_algebra
from eas.schedule.cpu_steps import prepared
from eas.schedule.rewrite.narrow_integers import narrow_integers

# The sign of a NaN, and which of two zeros is the smaller one, are nobody's promise.
_UNSAID = ("signbit", "copysign", "bitcast", "fmin", "fmax")
OPS = [op for op in TABLE.values() if op.family == "elementwise" and op.accuracy.is_exact and op.name not in (*_UNSAID, "cast", "select", "fma", "inline_target", "philox")]
MODES = ("safe", "relaxed", "fast")


def edges(dtype: DType) -> list[float | int | bool]:
    """Numbers at which laws begin and end to hold."""
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        return [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, float("inf"), float("-inf"), float("nan")]
    powers = {sign * ((1 << k) + d) for k in (7, 8, 11, 15, 16, 24, 31, 53) for d in (-1, 0, 1) for sign in (1, -1)}
    near = {0, 1, 2, 3, 7, -1, -2, dtype.bits - 1, dtype.bits, dtype.max, dtype.max - 1, dtype.min, dtype.min + 1}
    return sorted(n for n in near | (powers if dtype.bits < 32 else set()) if dtype.min <= n <= dtype.max)


def far(dtype: DType) -> list[float]:
    """Floats around the ends of integers and of narrower floats."""
    ends = (0.75, 127.5, 129.0, 255.5, 257.0, 32767.0, 65504.0, 65519.0, 65520.0, 2.0**31, 2.0**63, 1e30, 1e-7, 6e-8, 1e-40)
    return [sign * e for e in ends for sign in (1, -1)] if dtype.is_float else []


def arity(op: Op) -> int:
    return len(op.operands.split(","))


class Body:
    """Collects instructions whose results are all asked for."""

    def __init__(self, dtype: DType) -> None:
        self.numbers = [*edges(dtype), *far(dtype)]
        self.x = Value(Type(dtype, (len(self.numbers),)), "x")
        self.insts: list[Inst] = []
        self.results: list[Value] = []

    def const(self, number: float | int | bool, dtype: DType) -> Value:
        return self.add("const", value=number, type=Type(dtype, self.x.shape))

    def add(self, name: str, *operands: Value, **attrs: object) -> Value:
        self.insts.append(make(name, operands, attrs))
        return self.insts[-1].out

    def module(self, math: str) -> IRModule:
        """A kernel that prints all results; x is loaded, so that no pass knows it."""
        pointer = Value(Type(self.x.dtype, (), Space.DEVICE), "p")
        at = make("arange", (), {"start": 0, "end": len(self.numbers)})
        base = make("broadcast", [pointer], {"shape": self.x.shape})
        moved = make("addptr", [base.out, at.out])
        load = make("load", [moved.out])
        replaced = {self.x: load.out}
        body = [inst.with_operands([replaced.get(v, v) for v in inst.operands]) for inst in self.insts]
        shown = [make("device_print", [replaced.get(v, v)], {"prefix": str(k)}) for k, v in enumerate(self.results)]
        attrs = (("math", math),) if math != "safe" else ()
        return verify(IRModule("k", (Arg("p", pointer),), Region((), (at, base, moved, load, *body, *shown, make("yield"))), "spmd", attrs))


def shown(module: IRModule, x: np.ndarray) -> dict[str, np.ndarray]:
    """What a straight kernel prints, by prefix."""
    known: dict[Value, np.ndarray] = {}
    printed = {}
    for inst in module.body.body[:-1]:
        if inst.op.name == "load":
            known[inst.out] = x
        elif inst.op.name == "device_print":
            printed[inst["prefix"]] = known[inst.operands[0]]
        elif all(v in known for v in inst.operands) and not any(v.type.is_pointer for v in inst.outs):
            call = Call(tuple(v.type for v in inst.operands), tuple(v.type for v in inst.outs), dict(inst.attrs))
            known.update(zip(inst.outs, evaluate(inst.op, call, [known[v] for v in inst.operands]), strict=True))
    return printed


def differences(want: dict[str, np.ndarray], got: dict[str, np.ndarray], math: str, x: np.ndarray) -> list[str]:
    """The results with a bit that the mode does not give away: relaxed the sign of zero, fast also what is not finite."""
    wrong = []
    for name, a in want.items():
        b = got[name]
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind == "f" and math == "safe":
            same &= (np.signbit(a) == np.signbit(b)) | (a != a)
        if math == "fast" and x.dtype.kind == "f":
            same |= ~np.isfinite(x) | ~np.isfinite(a)
        if a.dtype != b.dtype or not same.all():
            wrong.append(name)
    return wrong


def check(body: Body, label: list[str], modes: tuple[str, ...], *passes: object) -> None:
    with np.errstate(over="ignore"):
        x = numerics.round_to(np.array(body.numbers, np.float64), body.x.dtype) if body.x.dtype.is_float else np.array(body.numbers, body.x.dtype.np_compute)
    x = x.astype(body.x.dtype.np_compute)
    for math in modes:
        module = body.module(math)
        want = shown(module, x)
        for run in passes:
            changed = verify(run(module))  # type: ignore[operator]
            wrong = differences(want, shown(changed, x), math, x)
            assert not wrong, f"{run.__name__} in {math} mode: {[label[int(k)] for k in wrong[:5]]}"  # type: ignore[attr-defined]


def applied(op: Op, body: Body, value: Value, numbers: list[float | int | bool]) -> Iterator[tuple[str, Value]]:
    """The op of a value alone, or with each number on either side, or with itself."""
    if arity(op) == 1:
        yield op.name, body.add(op.name, value)
        return
    for number in numbers:
        c = body.const(number, value.dtype)
        yield f"{op.name} x, {number}", body.add(op.name, value, c)
        yield f"{op.name} {number}, x", body.add(op.name, c, value)
    yield f"{op.name} x, x", body.add(op.name, value, value)


@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64, dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64], ids=str)
def test_laws_of_one_op(dtype):
    body, label = Body(dtype), []
    for op in OPS:
        if dtype in op.dtypes and arity(op) <= 2:
            for text, value in applied(op, body, body.x, edges(dtype)):
                label.append(text)
                body.results.append(value)
    check(body, label, MODES if dtype.is_float else ("safe",), simplify_algebra, fold_constants, optimise, prepared)


@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.u8, dtypes.i32, dtypes.f32], ids=str)
def test_laws_of_two_ops(dtype):
    """All pairs of ops; the second sees constants at which laws begin."""
    numbers: list[float | int | bool] = [0.0, -0.0, 1.0] if dtype.is_float else [False, True] if dtype.is_bool else [0, 1, dtype.max]
    body, label = Body(dtype), []
    inner = [pair for op in OPS if dtype in op.dtypes and arity(op) <= 2 for pair in applied(op, body, body.x, numbers)]
    for text, value in inner:
        for op in OPS:
            if value.dtype in op.dtypes and arity(op) <= 2:
                second: list[float | int | bool] = [True, False] if value.dtype.is_bool else numbers[:2]
                for more, result in itertools.islice(applied(op, body, value, second), 3):
                    label.append(f"{more} of {text}")
                    body.results.append(result)
    check(body, label, ("safe", "fast") if dtype.is_float else ("safe",), optimise)


SHORT = (dtypes.i8, dtypes.u8, dtypes.i16, dtypes.u16)
_ARITHMETIC = ("add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr")


def near_ends(short: DType, wide: DType) -> list[float | int | bool]:
    """Numbers around the ends of the short types, as far as the wide one has them."""
    ends = [end + d for d in (-1, 0, 1) for t in (short, dtypes.u8, dtypes.i16, dtypes.u16) for end in (t.min, t.max)]
    return sorted({n for n in (*ends, 2, 3, 9, 15, 16, wide.min, wide.max) if wide.min <= n <= wide.max})


@pytest.mark.parametrize("wide", [dtypes.i32, dtypes.u32], ids=str)
@pytest.mark.parametrize("short", SHORT, ids=str)
def test_short_integers_in_wide_arithmetic(short, wide):
    """What is computed of widened numbers, compared, and cut again: as short as it can be, but not shorter."""
    body, label = Body(short), []
    x = body.add("cast", body.x, type=Type(wide, body.x.shape))
    numbers = near_ends(short, wide)
    made = [("x", x), ("neg", body.add("neg", x)), ("abs", body.add("abs", x)), ("not", body.add("not", x)), ("x * x", body.add("mul", x, x)), ("x + x", body.add("add", x, x))]
    made += [pair for name in _ARITHMETIC for pair in applied(TABLE[name], body, x, numbers)]
    for k, (text, value) in enumerate(made):
        target = SHORT[k % 4]  # each form is cut to one type, compared and moved by one number
        cut = body.add("cast", value, type=Type(target, body.x.shape))
        shifted = body.add("cast", body.add("shr", value, body.const(k % 9, wide)), type=Type(SHORT[k // 4 % 2], body.x.shape))
        number = body.const(numbers[k % len(numbers)], wide)
        compared = body.add(("lt", "le", "gt", "ge", "eq", "ne")[k % 6], *((value, number) if k % 4 else (number, value)))
        again = body.add("cast", body.add(("add", "mul", "sub")[k % 3], value, x), type=Type(target, body.x.shape))
        chosen = body.add("select", compared, value, x)
        for what, result in (("cut", cut), ("shifted", shifted), ("compared", compared), ("again", again), ("chosen", chosen)):
            label.append(f"{what} {text} to {target} with {k}")
            body.results.append(result)
    for end, name in itertools.product(numbers, ("lt", "le", "gt", "ge", "eq", "ne")):
        for operands in ((x, body.const(end, wide)), (body.const(end, wide), x)):
            label.append(f"{name} {end}")
            body.results.append(body.add(name, *operands))
    check(body, label, ("safe",), narrow_integers, prepared)


def test_casts_of_casts():
    """Every way over a third type, of the numbers at the ends of all of them."""
    everything = [d for d in dtypes.ALL if not d.is_storage_only]
    for first in everything:
        body, label = Body(first), []
        for second, third in itertools.product(everything, everything):
            inner = body.add("cast", body.x, type=Type(second, body.x.shape))
            label.append(f"{first} to {second} to {third}")
            body.results.append(body.add("cast", inner, type=Type(third, body.x.shape)))
        check(body, label, ("safe",), simplify_algebra, narrow_integers)
