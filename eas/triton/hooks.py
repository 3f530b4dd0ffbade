"""What the control flow, operators, attributes and assignments of a Triton kernel mean: a dialect of the front end."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from eas.base.errors import TypeMismatch
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.calls import callee
from eas.frontend.hooks import HOOKS, State, TracingHooks
from eas.frontend.loops import RuntimeRange
from eas.frontend.syntax.operators_as_calls import spell_operators
from eas.frontend.values import Undefined, emit, is_number
from eas.triton.language import creation, meaning
from eas.triton.language import math as triton_math
from eas.triton.language.methods import FIELDS, METHODS
from eas.triton.language.types import constexpr, constexpr_type, unwrapped


class Fixed:
    """A value that stays known while tracing although it is assigned: annotated constexpr, or counted by static_range."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_LINKS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class TritonHooks(TracingHooks):
    """The hooks of functions under `triton.jit`."""

    spell = staticmethod(spell_operators)

    # --- operators and names ----------------------------------------------------------------

    def binary(self, name: str, a: Any, b: Any) -> Any:
        """`a + b` and its kin."""
        for x in (a, b):
            if isinstance(x, Undefined):
                x.refuse()
        return meaning.binary(name, a, b)

    def unary(self, name: str, x: Any) -> Any:
        """`-x` and its kin."""
        return meaning.unary(name, x)

    def attribute(self, x: Any, name: str) -> Any:
        """`x.name`: a field or method of Triton's tensors, `.value` of what is known while tracing, else Python's own."""
        if isinstance(x, Block):
            if name in FIELDS:
                return FIELDS[name](x)
            if name in METHODS:
                return partial(METHODS[name], x)
            raise TypeMismatch(f"a tensor of Triton has no attribute {name!r}", hint=f"it has {', '.join(sorted({*FIELDS, *METHODS}))}", loc=current().here())
        if isinstance(x, Undefined):
            x.refuse()
        if name == "value" and (is_number(x) or x is None or isinstance(x, (str, tuple))):
            return x
        if name == "type" and is_number(x):
            return constexpr_type(x)
        return unwrapped(getattr(x, name))

    def outer(self, x: Any) -> Any:
        """A global, or a variable of an enclosing function."""
        return unwrapped(x)

    def constant(self, value: Any) -> Fixed:
        """`x: tl.constexpr = value`"""
        return Fixed(unwrapped(value))

    def named(self, shape: Any, value: Any) -> Any:
        if isinstance(value, Fixed):
            return value.value
        return super().named(shape, _typed(value))

    # --- truth ------------------------------------------------------------------------------

    def related(self, word: str, a: Any, b: Any) -> Any:
        return meaning.binary(_LINKS[word], a, b) if word in _LINKS else super().related(word, a, b)

    def not_(self, value: Any) -> Any:
        return emit("not", meaning.truth(value)) if isinstance(value, Block) else not unwrapped(value)

    def _connect(self, name: str, operands: Sequence[Callable[[], Any]]) -> Any:
        """Operands known while tracing may decide; all others are evaluated."""
        runtime: list[Block] = []
        for operand in operands:
            value = unwrapped(operand())
            if isinstance(value, Block):
                runtime.append(meaning.truth(value))
            elif (bool(value) is (name == "or") and not runtime) or (operand is operands[-1] and not runtime):
                return value
            elif bool(value) is (name == "or"):
                runtime.append(meaning.to_tensor(bool(value)))
        return reduce(lambda a, b: meaning.binary(name, a, b), runtime)

    # --- loops and calls --------------------------------------------------------------------

    def for_(self, items: Any, body: Callable[..., State], names: Sequence[str], state: State, stop: int | None) -> State:
        if isinstance(items, RuntimeRange):
            return super().for_(items, body, names, state, stop)
        return super().for_([Fixed(unwrapped(item)) for item in items], body, names, state, stop)

    def part(self, start: Any, stop: Any, step: Any) -> slice:
        """`start:stop:step` in brackets."""
        return slice(unwrapped(start), unwrapped(stop), unwrapped(step))

    def item(self, container: Any, index: Any) -> Any:
        """Tensors take None and `:` in brackets; other things what Python gives them."""
        if not isinstance(container, Block):
            return unwrapped(super().item(container, unwrapped(index)))
        parts = index if isinstance(index, tuple) else (index,)
        if not all(p is None or p == slice(None) for p in parts if not isinstance(p, Block)) or any(isinstance(p, Block) for p in parts):
            raise TypeMismatch(f"unsupported tensor index: {index!r}", hint="x[None, :] and x[:, None] have new axes, tl.gather(x, index, axis) takes elements", loc=current().here())
        return creation.expand_dims(container, [i for i, p in enumerate(parts) if p is None]) if None in parts else container

    def call(self, fn: Any) -> Callable[..., Any]:
        if (made := _BUILTINS.get(fn) if _is_hashable(fn) else None) is not None:
            return made
        static = getattr(fn, "__eas_constexpr_function__", None)
        if static is not None:
            return partial(_call_static, static)
        inner = getattr(fn, "__eas_kernel_function__", None)
        if inner is None:
            return callee(fn, self)  # type: ignore[no-any-return]
        if getattr(inner, "__eas_hooks__", HOOKS) is not self:  # a kernel of eas
            return HOOKS.call(inner)
        return partial(_call_helper, callee(inner, self))


def _is_hashable(fn: Any) -> bool:
    return isinstance(getattr(fn, "__hash__", None), Callable)  # type: ignore[arg-type]


def _typed(value: Any) -> Any:
    """What a variable holds: literals become typed scalars, in tuples too."""
    value = unwrapped(value)
    if is_number(value):
        return meaning.to_tensor(value)
    if type(value) is tuple:
        return tuple(_typed(x) for x in value)
    return value


def _call_helper(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """A function under triton.jit, called by a kernel."""
    return unwrapped(fn(*map(unwrapped, args), **{name: unwrapped(x) for name, x in kwargs.items()}))


def _call_static(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """A function under triton.constexpr_function: Python's own, of values known while tracing."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Block):
            x._need_static("an argument of a constexpr_function", "annotate it tl.constexpr")
    return unwrapped(fn(*map(unwrapped, args), **{name: unwrapped(x) for name, x in kwargs.items()}))


def _range(*bounds: Any) -> Any:
    return creation.range(*bounds)


def _isinstance(x: Any, kinds: Any) -> bool:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if constexpr in wanted and not isinstance(x, (Block, tuple)):
        return True
    return isinstance(x, tuple(k for k in wanted if k is not constexpr))


def _print(*args: Any, **options: Any) -> None:
    prefix = args[0] if args and isinstance(args[0], str) else ""
    creation.device_print(prefix, *args[1 if args and isinstance(args[0], str) else 0 :])


def _extreme(name: str) -> Callable[..., Any]:
    function = triton_math.maximum if name == "max" else triton_math.minimum

    def call(*operands: Any) -> Any:
        items = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
        return reduce(function, items)

    return call


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.range: _range,
    builtins.isinstance: _isinstance,
    builtins.print: _print,
    builtins.max: _extreme("max"),
    builtins.min: _extreme("min"),
    constexpr: unwrapped,
}

TRITON_HOOKS = TritonHooks()
