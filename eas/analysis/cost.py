"""What one program moves and computes, as far as it can be told before the launch: an estimate for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eas.analysis.program import producers
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Space
from eas.ir import Inst, IRModule, Region, Trait, Value
from eas.ops import Call
from eas.ops import evaluate as evaluate_op
from eas.ops.simd import LANES


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of device memory that are read and written, and float operations; None where unknown.

    Every lane counts, also one that is masked off, and of a branch the dearer side. A function such
    as `exp` is one operation.
    """

    nbytes: int | None = 0
    flops: int | None = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(_sum(self.nbytes, other.nbytes), _sum(self.flops, other.flops))

    def times(self, n: int | None) -> Cost:
        """n times as much; None times something is unknown."""
        return Cost(_product(self.nbytes, n), _product(self.flops, n))

    def or_more(self, other: Cost) -> Cost:
        return Cost(_larger(self.nbytes, other.nbytes), _larger(self.flops, other.flops))


def program_cost(module: IRModule, scalars: Mapping[str, int] | None = None) -> Cost:
    """The cost of one program (thread mode: of one threadgroup) of an optimised module; integer arguments may be known."""
    given = scalars or {}
    known = _Known(module, {a.value: given[a.name] for a in module.args if a.name in given})
    cost = _region(module.body, known)
    return cost.times(module.attr("threads", 1)) if module.mode == "thread" else cost


def most_work(module: IRModule) -> int | None:
    """How many operations on elements one program does at most, whatever its arguments are; None: there is no bound."""
    work = _region_work(module.body, _Known(module, {}))
    return None if work is None else work * (module.attr("threads", 1) if module.mode == "thread" else 1)


def _region_work(region: Region, known: _Known) -> int | None:
    total = 0
    for inst in region.body:
        work = _inst_work(inst, known)
        if work is None:
            return None
        total += work
    return total


def _inst_work(inst: Inst, known: _Known) -> int | None:
    elements = max((v.type.size for v in (*inst.outs, *inst.operands)), default=1)
    inner = [_region_work(region, known) for region in inst.regions]
    if None in inner or inst.op.name in ("while", "inline_target"):  # the text of a target may do anything
        return None
    within = sum(work or 0 for work in inner)
    match inst.op.name:
        case "for":
            trips = _trips(inst, known)
            return None if trips is None else trips * (within + 1) + elements
        case "if":
            return within + elements
        case "dot":
            return inst.out.type.size * inst.operands[0].shape[-1]
        case "sort" | "topk":
            return elements * elements.bit_length() ** 2
    return elements * (within + max(inst.op.cost, 1))


class _Known:
    """Integers that follow from constants and known arguments."""

    def __init__(self, module: IRModule, numbers: dict[Value, int]) -> None:
        self._producers = producers(module)
        self._numbers: dict[Value, int | None] = dict(numbers)

    def number(self, value: Value) -> int | None:
        return evaluate(self._computed, value, self._numbers)

    def _computed(self, value: Value) -> Definition[Value, int | None]:
        inst = self._producers.get(value)
        if inst is None or value.type.shape or not value.type.is_value or value.dtype.is_float:
            return None
        if inst.op.name == "const":
            return int(inst["value"])
        if inst.regions or not inst.op.is_pure or not inst.op.has(Trait.ELEMENTWISE) or len(inst.outs) != 1:
            return None
        numbers: list[int | None] = yield from every(inst.operands)
        if None in numbers or inst.op.reference is None:
            return None
        types = tuple(v.type for v in inst.operands)
        arrays = [t.dtype.np_compute.type(n) for t, n in zip(types, numbers, strict=True)]
        return int(evaluate_op(inst.op, Call(types, (value.type,), dict(inst.attrs)), arrays)[0])


def _region(region: Region, known: _Known) -> Cost:
    cost = Cost()
    for inst in region.body:
        cost += _inst(inst, known)
    return cost


def _inst(inst: Inst, known: _Known) -> Cost:
    inner = [_region(region, known) for region in inst.regions]
    match inst.op.name:
        case "for":
            return inner[0].times(_trips(inst, known))
        case "while":
            return (inner[0] + inner[1]).times(None)
        case "if":
            return inner[0].or_more(inner[1])
        case "reduce":
            return inner[0].times(inst.operands[0].type.size - inst.outs[0].type.size)
        case "scan":
            return inner[0].times(inst.operands[0].type.size)
        case "dot":
            is_float = inst.operands[0].dtype.is_float
            return Cost(flops=2 * inst.out.type.size * inst.operands[0].shape[-1] if is_float else 0)
        case "mma":
            # One simdgroup multiplies two 8x8 matrices; this is the share of one thread.
            reads = (inst.operands[0], inst.operands[2])
            return Cost(sum(_nbytes(v, 64 // LANES) for v in reads), 2 * 8 * 8 * 8 // LANES)
        case "mma_store":
            return Cost(_nbytes(inst.operands[0], 64 // LANES))
    return Cost(_moved(inst), _lanewise_flops(inst))


def _moved(inst: Inst) -> int:
    """An atomic reads and writes."""
    ways = inst.op.has(Trait.READS) + inst.op.has(Trait.WRITES)
    return ways * _nbytes(inst.operands[0], inst.operands[0].type.size) if ways else 0


def _nbytes(pointer: Value, elements: int) -> int:
    return elements * pointer.dtype.nbytes if pointer.type.space is Space.DEVICE else 0


def _lanewise_flops(inst: Inst) -> int:
    if not inst.op.is_pure or not inst.op.has(Trait.ELEMENTWISE) or inst.op.cost == 0:
        return 0
    each = 2 if inst.op.name == "fma" else 1
    return sum(each * out.type.size for out in inst.outs if out.type.is_value and out.dtype.is_float)


def _trips(loop: Inst, known: _Known) -> int | None:
    """Iterations of a `for` whose range is known."""
    start, end, step = (known.number(v) for v in loop.operands[:3])
    if start is None or end is None or step is None:
        return None
    return len(range(start, end, step)) if step else 0


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _product(amount: int | None, n: int | None) -> int | None:
    if amount == 0:
        return 0
    return None if amount is None or n is None else amount * n


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
