"""Elementary functions of vectors as LLVM functions in text: `@eas_exp_f32_8` and its kin.

They lean on `llvm.fma`: right on every target, fast where the target has the instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

from eas.codegen.llvm.math import exp as exps
from eas.codegen.llvm.math import log as logs
from eas.codegen.llvm.math import special, trig
from eas.codegen.llvm.ssa_text import Ssa, Value

Float = Literal["f32", "f64"]
Request = tuple[str, Float, int]  # op, dtype, lanes
Body = Callable[..., Value]  # (Ssa, one Value per operand) -> result

ELEM: Mapping[Float, str] = {"f32": "float", "f64": "double"}

_NATIVE: dict[str, Body] = {
    "exp": exps.exp, "exp2": exps.exp2, "exp10": exps.exp10, "expm1": exps.expm1,
    "exp_of_negative": exps.exp_of_negative, "exp2_of_negative": exps.exp2_of_negative, "sigmoid": exps.sigmoid, "sinh": exps.sinh, "cosh": exps.cosh, "tanh": exps.tanh,
    "log": logs.log, "log2": logs.log2, "log10": logs.log10, "log1p": logs.log1p,
    "asinh": logs.asinh, "acosh": logs.acosh, "atanh": logs.atanh,
    "sin": trig.sin, "cos": trig.cos, "tan": trig.tan,
    "asin": trig.asin, "acos": trig.acos, "atan": trig.atan, "atan2": trig.atan2,
    "rsqrt": special.rsqrt, "cbrt": special.cbrt, "hypot": special.hypot,
}  # fmt: skip
_NATIVE_F32: dict[str, Body] = {
    "erf": special.erf_f32, "erfc": special.erfc_f32, "fmod": special.fmod_f32, "pow": logs.pow_f32,
}  # fmt: skip

# What calls libm's double function of the same name, lane by lane.
SCALARISED: dict[str, tuple[Float, ...]] = {
    "lgamma": ("f32", "f64"),
    "erf": ("f64",),
    "erfc": ("f64",),
    "fmod": ("f64",),
    "pow": ("f64",),
}
SUPPORTED: dict[str, tuple[Float, ...]] = dict.fromkeys(
    sorted({*_NATIVE, *_NATIVE_F32, *SCALARISED}), ("f32", "f64")
)
# Greatest distances seen by tests/unit/test_vector_math.py on 2**21 (f32) and 2**19 (f64) random bit
# patterns, dense ranges, multiples of pi/2 and special values; each is checked against the op's row.
MEASURED_ULPS: dict[str, dict[str, int]] = {
    "acos": {"f32": 1, "f64": 1},
    "acosh": {"f32": 2, "f64": 2},
    "asin": {"f32": 2, "f64": 2},
    "asinh": {"f32": 2, "f64": 2},
    "atan": {"f32": 2, "f64": 2},
    "atan2": {"f32": 2, "f64": 2},
    "atanh": {"f32": 2, "f64": 2},
    "cbrt": {"f32": 1, "f64": 1},
    "cos": {"f32": 2, "f64": 1},
    "cosh": {"f32": 2, "f64": 1},
    "erf": {"f32": 3, "f64": 1},
    "erfc": {"f32": 6, "f64": 2},
    "exp": {"f32": 2, "f64": 1},
    "exp10": {"f32": 2, "f64": 1},
    "exp2": {"f32": 2, "f64": 1},
    "exp2_of_negative": {"f32": 2, "f64": 1},
    "exp_of_negative": {"f32": 2, "f64": 1},
    "expm1": {"f32": 1, "f64": 1},
    "fmod": {"f32": 0, "f64": 0},
    "hypot": {"f32": 0, "f64": 1},
    "lgamma": {"f32": 0, "f64": 2},
    "log": {"f32": 1, "f64": 1},
    "log10": {"f32": 2, "f64": 1},
    "log1p": {"f32": 1, "f64": 1},
    "log2": {"f32": 2, "f64": 1},
    "pow": {"f32": 2, "f64": 1},
    "rsqrt": {"f32": 1, "f64": 1},
    "sigmoid": {"f32": 3, "f64": 3},
    "sin": {"f32": 2, "f64": 1},
    "sinh": {"f32": 2, "f64": 2},
    "tan": {"f32": 4, "f64": 2},
    "tanh": {"f32": 3, "f64": 2},
}
TWO_OPERANDS = frozenset({"atan2", "fmod", "hypot", "pow"})
_NEEDS_SYMBOL = frozenset({"sin", "cos", "tan"})  # they come with a function of their own


def callee(name: str, dtype: Float, lanes: int) -> str:
    """The symbol that `function` defines."""
    return f"@eas_{name}_{dtype}_{lanes}"


def function(name: str, dtype: Float, lanes: int) -> str:
    """The definition, with its private companions; one lane means scalar types."""
    return _built(name, dtype, lanes)[0]


def declarations(requests: Iterable[Request]) -> str:
    """The `declare` lines that these functions need together, each once."""
    return "".join(
        f"{line}\n"
        for line in sorted({line for request in requests for line in _built(*request)[1]})
    )


@cache
def _built(name: str, dtype: Float, lanes: int) -> tuple[str, frozenset[str]]:
    b = Ssa(ELEM[dtype], lanes)
    operands = [Value(b, b.elem, "%x"), Value(b, b.elem, "%y")][: 2 if name in TWO_OPERANDS else 1]
    is_scalarised = dtype in SCALARISED.get(name, ())
    if is_scalarised:
        result = b.libm(name, *operands)
    else:
        body = _NATIVE[name] if name in _NATIVE else _NATIVE_F32[name]
        extra = (callee(name, dtype, lanes)[1:],) if name in _NEEDS_SYMBOL else ()
        result = body(b, *operands, *extra)
    ty = b.type(b.elem)
    parameters = ", ".join(f"{ty} {v.text}" for v in operands)
    head = f"define internal {ty} {callee(name, dtype, lanes)}({parameters}) {'noinline' if is_scalarised else 'alwaysinline'} nounwind {{\nentry:\n"
    text = head + "".join(f"{line}\n" for line in b.lines) + f"  ret {ty} {result.text}\n}}\n"
    return text + "".join(f"\n{t}" for t in b.companions), frozenset(b.declared)
