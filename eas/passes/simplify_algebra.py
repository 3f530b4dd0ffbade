"""Replace what can be said more simply, by laws that hold bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite
from eas.ops import Op
from eas.passes.algebra_laws import fast_law, relaxed_law, value_law
from eas.passes.memory_laws import check_law, mask_law, pointer_law
from eas.passes.shape_laws import shape_law, splat_law

Law = Callable[[Inst, Rewriter], Value | Sequence[Value] | None]


def simplify_algebra(module: IRModule) -> IRModule:
    """No law of this pass applies to an instruction of the input any more.

    In textbooks: peephole simplification.

        %a = mul %x, 1; %b = add %a, 0
        store %p, %b
        ->
        store %p, %x
    """
    math = module.attr("math", "safe")

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        for law in _laws(inst.op, math):
            found = law(inst, rw)
            if found is not None:
                return (found,) if isinstance(found, Value) else found
        return None

    return rewrite(module, rule)


@cache
def _laws(op: Op, math: str) -> tuple[Law, ...]:
    """The laws that can say something about an op, cheapest result first."""
    match op.family:
        case "elementwise":
            return (value_law, *_float_laws(math), splat_law)
        case "shape":
            return (shape_law,)
        case "memory" | "atomic":
            return (pointer_law,) if op.name == "addptr" else (mask_law,)
    return (mask_law, check_law) if op.name in ("device_assert", "assume") else ()


def _float_laws(math: str) -> tuple[Law, ...]:
    """Laws that change bits, as far as the kernel's author allows."""
    return {"relaxed": (relaxed_law,), "fast": (relaxed_law, fast_law)}.get(math, ())
