"""How far integers or pointers move: from neighbour to neighbour of a block, and from one iteration of a loop to the next."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from eas.analysis import region_definitions
from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Arg, Inst, IRModule, Trait, Value, walk

HINTS = frozenset({"multiple_of", "max_contiguous", "max_constancy"})
_VIEWS = frozenset({"broadcast", "expand_dims", "permute"})


class Apart(Enum):
    """A distance that is no known number."""

    POSITIVE = "the same positive number for all neighbours"
    EVEN = "the same number for all neighbours"
    UNEVEN = "unknown"


Step = int | Apart
Steps = dict[int, Step]  # of an axis; absent where all neighbours are equal


class AxisSteps:
    """The steps of all blocks of a module, found when they are asked for."""

    def __init__(self, module: IRModule) -> None:
        self.makers: Mapping[Value, Inst] = {out: i for i in walk(module.body) for out in i.outs}
        self.args: Mapping[Value, Arg] = {arg.value: arg for arg in module.args}
        self._found: dict[Value, Steps] = {}

    def along(self, value: Value, axis: int) -> Step:
        """The distance of neighbours along one axis."""
        return self.of(value).get(axis, 0)

    def of(self, value: Value) -> Steps:
        """The distances of neighbours along all axes."""
        return evaluate(self._compute, value, self._found)

    def _compute(self, value: Value) -> Definition[Value, Steps]:
        inst = self.makers.get(value)
        if value.type.is_scalar or (inst is not None and inst.op.name == "const"):
            return {}
        if inst is None or not inst.op.is_pure or inst.regions:
            return dict.fromkeys((k for k, n in enumerate(value.shape) if n > 1), Apart.UNEVEN)
        name = inst.op.name
        if name == "arange":
            return {0: 1}
        inner: list[Steps] = yield from every(inst.operands)
        if name in _VIEWS:
            return _moved(inst, inner[0])
        if not inst.op.has(Trait.ELEMENTWISE):
            return dict.fromkeys((k for k, n in enumerate(value.shape) if n > 1), Apart.UNEVEN)
        return self._combined(inst, inner)

    def _combined(self, inst: Inst, steps: list[Steps]) -> Steps:
        name = inst.op.name
        # Positions are assumed to fit 32 bits; shorter integers wrap on purpose.
        if name in HINTS or (name == "cast" and not inst.out.dtype.is_float and inst.out.dtype.bits >= 32):
            return steps[0]
        if name in ("add", "addptr", "sub"):
            sign = -1 if name == "sub" else 1
            total = {axis: _sum(steps[0].get(axis, 0), steps[1].get(axis, 0), sign) for axis in {**steps[0], **steps[1]}}
            return {axis: step for axis, step in total.items() if step != 0}
        if name == "mul" and not all(steps):
            which = 0 if steps[0] else 1
            return self._scaled(steps[which], inst.operands[1 - which])
        return {axis: Apart.UNEVEN for s in steps for axis in s}

    def _scaled(self, steps: Steps, factor: Value) -> Steps:
        number = self.literal(factor)
        if number == 0:
            return {}
        is_positive = number > 0 if number is not None else self._is_positive(factor)
        return {axis: _product(step, number, is_positive) for axis, step in steps.items()}

    def origin(self, value: Value) -> Value:
        """The scalar that all elements of a block are made of, if it is a view of one."""
        inst = self.makers.get(value)
        while inst is not None and inst.op.name in ("broadcast", "expand_dims", "reshape", "cast", *HINTS):
            value = inst.operands[0]
            inst = self.makers.get(value)
        return value

    def literal(self, value: Value) -> int | None:
        """The number behind a constant."""
        inst = self.makers.get(self.origin(value))
        return int(inst["value"]) if inst is not None and inst.op.name == "const" else None

    def _is_positive(self, value: Value) -> bool:
        arg = self.args.get(self.origin(value))
        least, _ = arg.attr("range", (0, 0)) if arg is not None else (0, 0)
        return bool(least > 0)


class LoopSteps(AxisSteps):
    """The same along the iterations of one `for`, which are an axis of what its body computes."""

    def __init__(self, steps: AxisSteps, loop: Inst) -> None:
        self.makers, self.args, self._found = steps.makers, steps.args, {}
        (body,) = loop.regions
        self._counter, self._inside = body.params[0], set(region_definitions(body))

    def each(self, value: Value) -> Step:
        """How far a value moves while the counter moves by 1."""
        return self.along(value, 0)

    def _compute(self, value: Value) -> Definition[Value, Steps]:
        if value is self._counter:
            return {0: 1}
        if value not in self._inside:
            return {}
        inst = self.makers.get(value)
        if inst is None or not inst.op.is_pure or inst.regions:
            return {0: Apart.UNEVEN}
        steps: list[Steps] = yield from every(inst.operands)
        if inst.op.name in _VIEWS:
            return steps[0]
        return self._combined(inst, steps)


def _sum(a: Step, b: Step, sign: int) -> Step:
    if isinstance(a, int) and isinstance(b, int):
        return a + sign * b
    if Apart.UNEVEN in (a, b):
        return Apart.UNEVEN
    if b == 0:
        return a
    is_positive = sign > 0 and all(s is Apart.POSITIVE or (isinstance(s, int) and s >= 0) for s in (a, b))
    return Apart.POSITIVE if is_positive else Apart.EVEN


def _product(step: Step, number: int | None, is_positive: bool) -> Step:
    if step is Apart.UNEVEN:
        return step
    if isinstance(step, int) and number is not None:
        return step * number
    is_up = step is Apart.POSITIVE or (isinstance(step, int) and step > 0)
    return Apart.POSITIVE if is_up and is_positive else Apart.EVEN


def _moved(inst: Inst, steps: Steps) -> Steps:
    """The axes of a view."""
    rank, source = len(inst.out.shape), inst.operands[0].shape
    if inst.op.name == "expand_dims":
        axis = inst["axis"] % rank
        return {k + (k >= axis): step for k, step in steps.items()}
    if inst.op.name == "permute":
        return {k: steps[axis % rank] for k, axis in enumerate(inst["order"]) if axis % rank in steps}
    new = rank - len(source)
    return {k + new: step for k, step in steps.items() if source[k] > 1}


__all__ = ["HINTS", "Apart", "AxisSteps", "LoopSteps", "Step"]
