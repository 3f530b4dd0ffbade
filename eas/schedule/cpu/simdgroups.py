"""CPU lowerings of what the 32 lanes of a simdgroup do together, after spreading."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis.combines import IDENTITIES
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.ops.simd import LANES
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.rows import cast, loop
from eas.schedule.elements.elements import I32, Index

_FOLDS = {
    "sum": "add",
    "product": "mul",
    "max": "max",
    "min": "min",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "all": "and",
    "any": "or",
}


def _groups(p: Lowering, threads: int, body: Callable[[Value, Value], None]) -> None:
    """body(first, end) for every simdgroup."""

    def one(group: Value) -> None:
        first = p.e.mul(group, LANES)
        end = p.e.emit("min", p.e.emit("add", first, p.e.const(LANES)), p.e.const(threads))
        body(first, end)

    p.counted(-(-threads // LANES), one)


def simd(p: Lowering, inst: Inst) -> None:
    word = inst.op.name.removeprefix("simd_")
    if word in _FOLDS or word == "ballot":
        _simd_fold(p, inst, word)
    elif word.startswith("prefix_"):
        _simd_prefix(p, inst, word)
    else:
        _simd_shuffle(p, inst, word)


def _accumulator(value: Value) -> Type:
    """Narrow floats are summed in f32 and rounded once."""
    return Type(dtypes.f32 if value.dtype in (dtypes.f16, dtypes.bf16) else value.dtype)


def _start(p: Lowering, op: str, type: Type) -> Value:
    return p.e.const(IDENTITIES[op](type.dtype), type)


def _simd_fold(p: Lowering, inst: Inst, word: str) -> None:
    x, slot = inst.operands[0], p.slot_for(inst.out)
    threads = inst.out.shape[0]
    op = "or" if word == "ballot" else _FOLDS[word]
    kind = Type(dtypes.u32) if word == "ballot" else _accumulator(x)

    def group(first: Value, end: Value) -> None:
        def step(i: Value, acc: Value) -> Sequence[Value]:
            value = cast(p, p.elements().at(x, (Index(i),)), kind)
            if word == "ballot":
                value = p.e.emit("shl", value, cast(p, p.e.emit("sub", i, first), kind))
            return [p.e.emit(op, acc, value)]

        (total,) = loop(p, first, end, [_start(p, op, kind)], step)
        total = cast(p, total, Type(inst.out.dtype))

        def write(i: Value) -> Sequence[Value]:
            p.e.inst("store", [p.elements().address(slot, (Index(i),))[0], total])
            return ()

        loop(p, first, end, [], write)

    _groups(p, threads, group)


def _simd_prefix(p: Lowering, inst: Inst, word: str) -> None:
    x, slot = inst.operands[0], p.slot_for(inst.out)
    op = "add" if word.endswith("sum") else "mul"
    kind = _accumulator(x)

    def group(first: Value, end: Value) -> None:
        def step(i: Value, acc: Value) -> Sequence[Value]:
            elements = p.elements()
            merged = p.e.emit(op, acc, cast(p, elements.at(x, (Index(i),)), kind))
            shown = merged if "inclusive" in word else acc
            p.e.inst(
                "store",
                [elements.address(slot, (Index(i),))[0], cast(p, shown, Type(inst.out.dtype))],
            )
            return [merged]

        start = (
            p.e.const(0 if op == "add" else 1, kind)
            if not kind.dtype.is_float
            else p.e.const(0.0 if op == "add" else 1.0, kind)
        )
        loop(p, first, end, [start], step)

    _groups(p, inst.out.shape[0], group)


def _simd_shuffle(p: Lowering, inst: Inst, word: str) -> None:
    x, operand = inst.operands
    slot = p.slot_for(inst.out)
    source = p.materialise(x)
    threads = inst.out.shape[0]

    def step(i: Value) -> None:
        elements = p.elements()
        lane = p.e.emit("and", i, p.e.const(LANES - 1))
        n = cast(p, elements.at(operand, (Index(i),)), I32)
        wanted = {
            "shuffle": lambda: n,
            "broadcast": lambda: n,
            "shuffle_xor": lambda: p.e.emit("xor", lane, n),
            "shuffle_up": lambda: p.e.emit("sub", lane, n),
            "shuffle_down": lambda: p.e.emit("add", lane, n),
        }[word]()
        target = p.e.emit("add", p.e.emit("sub", i, lane), wanted)
        inside = p.e.emit(
            "and", p.e.emit("ge", wanted, p.e.const(0)), p.e.emit("lt", wanted, p.e.const(LANES))
        )
        inside = p.e.emit("and", inside, p.e.emit("lt", target, p.e.const(threads)))
        chosen = p.e.emit("select", inside, target, i)
        p.e.inst(
            "store",
            [elements.address(slot, (Index(i),))[0], elements.read(source, (Index(chosen),))],
        )

    p.counted(threads, step)
