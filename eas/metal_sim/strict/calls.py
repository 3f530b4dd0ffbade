"""Which functions of a Metal text call themselves, directly or through others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eas.metal_sim.outline import Function, Outline
from eas.metal_sim.tokens import Token

# Functions of Metal that programs overload for types of their own: such a call may mean Metal's.
OVERLOADED = frozenset(
    ["abs", "absdiff", "acos", "acosh", "all", "any", "as_type", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "clamp", "clz",
     "copysign", "cos", "cosh", "cospi", "cross", "ctz", "determinant", "distance", "distance_squared", "divide", "dot", "exp", "exp10",
     "exp2", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "fract", "frexp", "isfinite", "isinf", "isnan", "isnormal", "ldexp",
     "length", "length_squared", "log", "log10", "log2", "max", "max3", "median3", "min", "min3", "mix", "modf", "normalize", "popcount",
     "pow", "powr", "reflect", "refract", "rint", "round", "rsqrt", "saturate", "select", "sign", "signbit", "simd_broadcast",
     "simd_max", "simd_min", "simd_product", "simd_shuffle", "simd_shuffle_and_fill_down", "simd_shuffle_and_fill_up",
     "simd_shuffle_down", "simd_shuffle_rotate_down", "simd_shuffle_rotate_up", "simd_shuffle_up", "simd_shuffle_xor", "simd_sum",
     "simd_prefix_exclusive_product", "simd_prefix_exclusive_sum", "simd_prefix_inclusive_product", "simd_prefix_inclusive_sum", "sin",
     "sincos", "sinh", "sinpi", "smoothstep", "sqrt", "step", "tan", "tanh", "tanpi", "transpose", "trunc"]
)  # fmt: skip


def recursive_call(tokens: Sequence[Token], outline: Outline) -> tuple[Token, list[str]] | None:
    """The first call that closes a circle, and the names around it.

    Only names that one function has, and Metal none, can be told apart without types. A template may end at compile time:
    it is looked into unless it says `constexpr`, and calls that name other template arguments do not count.
    """
    counts = Counter(f.name for f in outline.functions)
    plain = {f.name: f for f in outline.functions if counts[f.name] == 1 and f.name != "operator" and not _is_overload(tokens, outline, f) and not _may_end(tokens, f)}
    calls = {name: _calls(tokens, f, plain.keys()) for name, f in plain.items()}
    for name in plain:
        path = _path_back(name, calls)
        if path is not None:
            return calls[path[-2]][path[-1]], path
    return None


def _is_overload(tokens: Sequence[Token], outline: Outline, function: Function) -> bool:
    """Whether a function of Metal is given a type of the program's own."""
    return function.name in OVERLOADED and any(t.text in outline.type_names for t in tokens[function.parameters[0] : function.parameters[1]])


def _may_end(tokens: Sequence[Token], function: Function) -> bool:
    """Whether a template could stop calling itself at compile time."""
    _first, last = function.body
    return bool(function.template_names) and any(t.text in ("constexpr", "enable_if_t", ".") for t in tokens[function.start : last])


def _calls(tokens: Sequence[Token], function: Function, names: object) -> dict[str, Token]:
    """Called name -> the first token that calls it."""
    assert hasattr(names, "__contains__")
    found: dict[str, Token] = {}
    first, last = function.body
    for i in range(first + 1, last):
        token = tokens[i]
        if token.kind != "word" or token.text not in names or tokens[i + 1].text != "(":
            continue
        before = tokens[i - 1]
        if before.text in (".", "->") and tokens[i - 2].text != "this":
            continue
        if before.text == "::" and tokens[i - 2].kind == "word":  # another namespace's function
            continue
        if before.kind == "word" and before.text not in ("return", "else", "do"):  # declares a variable
            continue
        found.setdefault(token.text, token)
    return found


def _path_back(start: str, calls: dict[str, dict[str, Token]]) -> list[str] | None:
    """A way from a function to itself."""
    stack = [[start]]
    seen: set[str] = set()
    while stack:
        path = stack.pop()
        for name in calls[path[-1]]:
            if name == start:
                return [*path, name]
            if name not in seen:
                seen.add(name)
                stack.append([*path, name])
    return None
