"""Which blocks of addresses are surely all different, so that each element can be changed in place alone."""

from __future__ import annotations

from collections.abc import Mapping

from eas.ir import Arg, Inst, IRModule, Value, walk

_SAME = frozenset({"multiple_of", "max_contiguous", "max_constancy"})
_UNKNOWN = 0  # a step that is not known, but positive
Steps = dict[int, int]  # axis -> how far neighbours are apart; absent where they are not


class Addresses:
    """How far neighbours along the axes of a block of integers or pointers are apart."""

    def __init__(self, module: IRModule) -> None:
        self.makers: Mapping[Value, Inst] = {out: i for i in walk(module.body) for out in i.outs}
        self.args: Mapping[Value, Arg] = {arg.value: arg for arg in module.args}

    def offset(self, pointer: Value) -> Value | None:
        """What one `addptr` added to a buffer argument to make this block of pointers."""
        inst = self.makers.get(pointer)
        if inst is None or inst.op.name != "addptr":
            return None
        base = self.makers.get(inst.operands[0])
        is_argument = base is not None and base.op.name == "broadcast" and base.operands[0] in self.args
        return inst.operands[1] if is_argument else None

    def are_different(self, pointer: Value) -> bool:
        """Whether no two elements of a block are the same."""
        steps = self._steps(pointer)
        shape = pointer.shape
        wide = [axis for axis, extent in enumerate(shape) if extent > 1]
        if steps is None or any(axis not in steps for axis in wide):
            return False
        if any(steps[axis] == _UNKNOWN for axis in wide):
            return len(wide) == 1
        reach = 0
        for axis in sorted(wide, key=lambda axis: abs(steps[axis])):
            if abs(steps[axis]) <= reach:
                return False
            reach += abs(steps[axis]) * (shape[axis] - 1)
        return True

    def _steps(self, value: Value) -> Steps | None:
        """None where a block does not go on evenly."""
        if value.type.is_scalar:
            return {}
        inst = self.makers.get(value)
        if inst is None:
            return None
        name = inst.op.name
        if name == "arange":
            return {0: 1}
        if name == "const":
            return {}
        inner = [self._steps(v) for v in inst.operands]
        found = [s for s in inner if s is not None]
        if len(found) < len(inner) or not inst.op.is_pure or inst.regions:
            return None
        return _moved(inst, found[0]) if name in ("broadcast", "expand_dims") else self._combined(inst, found)

    def _combined(self, inst: Inst, steps: list[Steps]) -> Steps | None:
        name = inst.op.name
        if not any(steps):
            return {}
        if name in _SAME or (name == "cast" and not inst.out.dtype.is_float and inst.out.dtype.bits >= 32):
            return steps[0]
        if name in ("add", "addptr"):
            return _sum(steps[0], steps[1], 1)
        if name == "sub":
            return _sum(steps[0], steps[1], -1)
        if name == "mul" and not all(steps):
            which = 0 if steps[0] else 1
            return self._scaled(steps[which], inst.operands[1 - which])
        return None

    def _scaled(self, steps: Steps, factor: Value) -> Steps | None:
        number = self._literal(factor)
        if number is not None:
            is_known = all(step != _UNKNOWN for step in steps.values()) or number > 0
            return {axis: step * number for axis, step in steps.items()} if number and is_known else None
        is_positive = self._is_positive(factor) and all(step >= 0 for step in steps.values())
        return dict.fromkeys(steps, _UNKNOWN) if is_positive else None

    def _origin(self, value: Value) -> Value:
        inst = self.makers.get(value)
        while inst is not None and inst.op.name in ("broadcast", "expand_dims", "reshape", "cast", *_SAME):
            value = inst.operands[0]
            inst = self.makers.get(value)
        return value

    def _literal(self, value: Value) -> int | None:
        inst = self.makers.get(self._origin(value))
        return int(inst["value"]) if inst is not None and inst.op.name == "const" else None

    def _is_positive(self, value: Value) -> bool:
        arg = self.args.get(self._origin(value))
        least, _ = arg.attr("range", (0, 0)) if arg is not None else (0, 0)
        return bool(least > 0)


def _moved(inst: Inst, steps: Steps) -> Steps:
    """The axes of a view."""
    rank, source = len(inst.out.shape), inst.operands[0].shape
    if inst.op.name == "expand_dims":
        axis = inst["axis"] % rank
        return {k + (k >= axis): step for k, step in steps.items()}
    new = rank - len(source)
    return {k + new: step for k, step in steps.items() if source[k] > 1}


def _sum(a: Steps, b: Steps, sign: int) -> Steps | None:
    total = dict(a)
    for axis, step in b.items():
        if step == _UNKNOWN or total.get(axis) == _UNKNOWN:
            if sign < 0 or total.get(axis, step) < 0 or step < 0:
                return None
            total[axis] = _UNKNOWN
        else:
            total[axis] = total.get(axis, 0) + sign * step
            if not total[axis]:
                del total[axis]
    return total


__all__ = ["Addresses"]
