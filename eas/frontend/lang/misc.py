"""Checks, messages, hints to the compiler, loops that must or must not unroll, and target text."""

from __future__ import annotations

import builtins
from typing import Any

from eas.base.errors import StaticAssertion, TypeMismatch
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.advice import advise_on_text
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.lang.cast import spread
from eas.frontend.loops import RuntimeRange
from eas.frontend.values import (
    as_block,
    check_operands,
    common_shape,
    emit,
    emit_inst,
    is_number,
    plain,
    static_dtype,
    static_int,
    to_bool,
)

_TRITON_RANGE = frozenset(
    {
        "num_stages",
        "loop_unroll_factor",
        "disallow_acc_multi_buffer",
        "flatten",
        "warp_specialize",
        "disable_licm",
    }
)


def static_assert(cond: Any, msg: str = "") -> None:
    """Refuse to compile unless a condition that is known when tracing holds."""
    if isinstance(cond, Block):
        raise TypeMismatch(
            f"static_assert needs a condition known when the kernel is traced, got {cond!r}",
            hint="mk.device_assert(cond, msg) checks it when the kernel runs",
            loc=current().here(),
        )
    if not cond:
        raise StaticAssertion(
            msg or "mk.static_assert failed", loc=current("mk.static_assert").here()
        )


def static_print(*args: Any) -> None:
    """Print while tracing, once per compilation."""
    builder = current("mk.static_print")
    builder.need_each_time("static_print")
    if not builder.quiet:
        print(*args)


def device_print(prefix: str, *args: Operand) -> None:
    """Print `prefix` and values when the kernel runs, a line per program or threadgroup."""
    if not isinstance(prefix, str):
        raise TypeMismatch(
            f"device_print needs a text first, got {prefix!r}",
            hint='mk.device_print("x", x)',
            loc=current().here(),
        )
    advise_on_text("device_print", prefix)
    emit_inst("device_print", *(as_block(v) for v in args), prefix=prefix)


def device_assert(cond: Operand, msg: str = "", mask: Operand | None = None) -> None:
    """Fail the launch, naming this line, when a lane that is not masked off is false."""
    if is_number(cond) and plain(cond):
        return
    condition = to_bool(cond)
    operands = [condition] if mask is None else [condition, to_bool(mask)]
    shape = common_shape("device_assert", [x.shape for x in operands])
    emit_inst("device_assert", *(values.broadcast_to(x, shape) for x in operands), message=str(msg))


def assume(cond: Operand) -> None:
    """Let the compiler rely on a scalar condition; the interpreter checks it."""
    if not is_number(cond):
        emit_inst("assume", to_bool(cond))
    elif not plain(cond):
        raise StaticAssertion(
            "mk.assume was told something that does not hold", loc=current("mk.assume").here()
        )


def _hint(name: str, x: Any, n: Any) -> Any:
    items = n if isinstance(n, (tuple, list)) else (n,)
    if len(items) != 1:
        raise TypeMismatch(
            f"{name} takes one number, got {n!r}", hint=f"mk.{name}(x, 16)", loc=current().here()
        )
    number = static_int(items[0], f"the number of {name}")
    if not is_number(x):
        return emit(name, as_block(x), n=number)
    if name == "multiple_of" and number and plain(x) % number:
        raise StaticAssertion(
            f"mk.multiple_of: {plain(x)} is no multiple of {number}", loc=current().here()
        )
    return x


def multiple_of(x: Operand, n: Any) -> Any:
    """x, with the promise that it (of a block: the start of each contiguous run) is a multiple of n."""
    return _hint("multiple_of", x, n)


def max_contiguous(x: Operand, n: Any) -> Any:
    """x, with the promise that runs of n elements are consecutive integers."""
    return _hint("max_contiguous", x, n)


def max_constancy(x: Operand, n: Any) -> Any:
    """x, with the promise that runs of n elements are equal."""
    return _hint("max_constancy", x, n)


def range(
    start: Operand, end: Operand | None = None, step: Operand = 1, **options: Any
) -> RuntimeRange:
    """Python's range as a loop of the compiled kernel, never unrolled while tracing; Triton's options are accepted and have no effect."""
    unknown = sorted(set(options) - _TRITON_RANGE)
    if unknown:
        raise TypeMismatch(
            f"range got an unknown option {unknown[0]!r}",
            hint="known: " + ", ".join(sorted(_TRITON_RANGE)),
            loc=current().here(),
        )
    current("mk.range")
    return RuntimeRange(0, start, step) if end is None else RuntimeRange(start, end, step)


def static_range(start: int, end: int | None = None, step: int = 1) -> tuple[int, ...]:
    """Python's range over numbers known when tracing: the loop is unrolled."""
    first, last = (0, start) if end is None else (start, end)
    stride = static_int(step, "the step of static_range")
    if stride == 0:
        raise TypeMismatch(
            "static_range step must not be zero",
            hint="use a positive or negative step",
            loc=current().here(),
        )
    numbers = builtins.range(static_int(first, "the start of static_range"), static_int(last, "the end of static_range"), stride)
    return tuple(numbers)  # a long `range` may stay a loop


def inline(
    type: Any,
    *args: Operand,
    msl: str | None = None,
    llvm: str | None = None,
    numpy: str | None = None,
) -> Block:
    """An elementwise expression in each target's own text, where a0, a1, ... are the operands, and in LLVM's one instruction $0, $1, ... the same with their types; `type` is the result's dtype; a target without a text refuses the kernel."""
    check_operands("inline", args)
    texts = tuple(
        (k, v) for k, v in (("llvm", llvm), ("msl", msl), ("numpy", numpy)) if v is not None
    )
    if not texts:
        raise TypeMismatch(
            "inline needs the text of at least one target",
            hint="pass msl=, llvm= or numpy=",
            loc=current().here(),
        )
    blocks = [as_block(a) for a in args]
    dtype = type.dtype if isinstance(type, Type) else static_dtype(type)
    shape = common_shape("inline", [b.shape for b in blocks])
    return emit(
        "inline_target", *(spread(b, shape) for b in blocks), type=Type(dtype, shape), texts=texts
    )


def debug_barrier() -> None:
    """A barrier in thread kernels; nothing in spmd kernels, whose memory acts in program order."""
    if current("mk.debug_barrier").mode == "thread":
        emit_inst("barrier")


def to_tensor(x: Operand) -> Block:
    """A Python number as a runtime scalar (i32, i64 or f32); traced values stay as they are."""
    return as_block(x)
