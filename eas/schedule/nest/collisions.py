"""Which blocks of addresses are surely all different, so that each element can be changed in place alone."""

from __future__ import annotations

from eas.analysis.motion import motion_of
from eas.ir import IRModule, Value


class Addresses:
    """What is known of the blocks of pointers of a module."""

    def __init__(self, module: IRModule) -> None:
        self.motion = motion_of(module)

    def offset(self, pointer: Value) -> Value | None:
        """What one `addptr` added to a buffer argument to make this block of pointers."""
        inst = self.motion.made.get(pointer)
        if inst is None or inst.op.name != "addptr":
            return None
        base = self.motion.made.get(inst.operands[0])
        is_argument = base is not None and base.op.name == "broadcast" and base.operands[0] in self.motion.args
        return inst.operands[1] if is_argument else None

    def are_different(self, pointer: Value) -> bool:
        """Whether no two elements of a block are the same."""
        shape, reach = pointer.shape, 0
        wide = [axis for axis, extent in enumerate(shape) if extent > 1]
        if len(wide) == 1 and self.motion.grows(pointer, wide[0]):
            return True
        known = {axis: abs(step) for axis in wide if (step := self.motion.step(pointer, axis)) is not None}
        if len(known) < len(wide):
            return False
        for axis in sorted(known, key=lambda axis: known[axis]):
            if known[axis] <= reach:
                return False
            reach += known[axis] * (shape[axis] - 1)
        return True


__all__ = ["Addresses"]
