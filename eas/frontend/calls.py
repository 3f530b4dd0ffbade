"""What a kernel calls instead of what it names: rewritten helpers, builtins that take runtime values, refusals."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable, Iterable
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from eas.base import dtypes
from eas.base.errors import TypeMismatch
from eas.frontend.advice import advise_on_call
from eas.frontend.block import Block, BufferShape
from eas.frontend.builder import current
from eas.frontend.loops import MappedRange, RuntimeRange, nth, trips
from eas.frontend.our_frames import is_internal
from eas.frontend.syntax.rewrite import Hooks, rewrite
from eas.frontend.values import Undefined, cast_to, lanewise, to_bool


def callee(fn: Any, hooks: Hooks) -> Any:
    """The function to call in place of `fn`."""
    try:
        replacement = _BUILTINS.get(fn)
    except TypeError:  # an unhashable callable
        replacement = None
    if replacement is not None:
        return replacement
    if isinstance(fn, Block):
        raise TypeMismatch(f"{fn!r} is a value and cannot be called", hint="index blocks with x[:, None], read memory with mk.load", loc=current().here())
    inner = getattr(fn, "__eas_kernel_function__", None)
    if inner is not None:  # a kernel used as a helper of another one
        return callee(inner, hooks)
    own = getattr(fn, "__eas_hooks__", hooks) if isinstance(fn, FunctionType) else hooks
    if own is not hooks:  # of another language
        return own.call(fn)
    if isinstance(fn, functools.partial):
        return functools.partial(callee(fn.func, hooks), *fn.args, **fn.keywords)
    if isinstance(fn, (FunctionType, MethodType)) and _is_rewritable(fn):
        return _helper(fn, hooks)
    if any(fn is known for known in _CALLS_BACK):
        return _calling_back(fn, hooks)
    method = getattr(type(fn), "__call__", None)  # noqa: B004  # of an object; what calling it would run
    if isinstance(method, FunctionType) and _is_rewritable(method):
        return _helper(MethodType(method, fn), hooks)
    advise_on_call(fn)
    if isinstance(fn, BuiltinMethodType) and isinstance(fn.__self__, (list, dict, set)):
        current("a helper").note_change(fn.__self__)
    if _library(fn) not in ("eas", *_HOST_MATH) and not any(fn is known for known in _PURE):
        current("a helper").need_each_time("a call of what is not traced")  # print, next, ...
    return _of_host_values(fn) if _library(fn) in _HOST_MATH else fn


_PURE = (len, isinstance, tuple, zip, enumerate, reversed, type, getattr, hasattr)

# --- helpers ------------------------------------------------------------------------------------

# Their functions work on host data, and nobody writes kernels in them.
_FOREIGN = (frozenset({"numpy", "torch", "llvmlite", "jax", "builtins"}) | sys.stdlib_module_names) - {"__main__"}


def _is_rewritable(fn: FunctionType | MethodType) -> bool:
    """User functions only: neither eas itself nor a library."""
    return not is_internal(fn.__code__.co_filename) and _library(fn) not in _FOREIGN


def _library(fn: Any) -> str:
    module = getattr(fn, "__module__", None) or ("numpy" if type(fn).__name__ == "ufunc" else "")
    return str(module).partition(".")[0]


def _helper(fn: FunctionType | MethodType, hooks: Hooks) -> Any:
    builder = current("a helper")
    builder.on_helper(fn)
    made = rewrite(fn, hooks)
    if not made.rewritten:
        builder.not_rewritten[fn.__code__] = made.reason
    return made.fn


# Python's own functions that call a function of the kernel's author.
_CALLS_BACK: tuple[Any, ...] = (map, filter, sorted, functools.reduce)


def _calling_back(fn: Any, hooks: Hooks) -> Any:
    def traced(x: Any) -> Any:
        return callee(x, hooks) if callable(x) and not isinstance(x, Block) else x

    return lambda *args, **options: fn(*map(traced, args), **{k: traced(v) for k, v in options.items()})


# --- functions of host numbers ------------------------------------------------------------------

_HOST_MATH = frozenset({"numpy", "math", "torch"})
_OUR_NAME = {"absolute": "abs", "fabs": "abs", "power": "pow", "clip": "clamp", "matmul": "dot", "concatenate": "cat", "multiply": "x * y"}


def _of_host_values(fn: Any) -> Any:
    """A function of NumPy or `math`, which can compute with trace-time numbers but not with traced values."""

    def call(*args: Any, **options: Any) -> Any:
        for x in (*args, *options.values()):
            if isinstance(x, Undefined):
                x.refuse()
            if isinstance(x, Block):
                _refuse_host_math(fn, x)
            if isinstance(x, BufferShape):
                x.refuse()
        return fn(*args, **options)

    return call


def _refuse_host_math(fn: Any, x: Block) -> None:
    from eas import mk  # the language is built on this

    place = current().here()
    text = place.source() if place else ""
    name = _OUR_NAME.get(fn.__name__, fn.__name__)
    known = getattr(mk, name, None)
    given = text[text.find("(") + 1 : -1] if text.endswith(")") and "(" in text else "..."
    if isinstance(known, dtypes.DType):
        hint = f"mk.cast({given}, mk.{known})"
    else:
        hint = f"mk.{name}({given})" if callable(known) else "use the functions of mk on traced values"
    raise TypeMismatch(f"{_library(fn)}.{fn.__name__} takes host numbers, got the runtime value {x!r}", hint=hint, loc=place)


# --- builtins that understand runtime values ------------------------------------------------------


def _range(*bounds: Any) -> Any:
    for b in bounds:
        if isinstance(b, Undefined):
            b.refuse()
    if not any(isinstance(b, Block) for b in bounds) or len(bounds) > 3:
        return range(*bounds)
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return RuntimeRange(start, end, step)


def _items(name: str, values: Any) -> list[Any]:
    """What a builtin is to look at; one block would be taken apart, which only a reduction can do."""
    if isinstance(values, Block):
        raise TypeMismatch(f"{name}() of one traced value {values!r}", hint=f"mk.{name}(x) reduces a block", loc=current().here())
    return list(values)


def _extreme(name: str, fallback: Callable[..., Any]) -> Callable[..., Any]:
    def replacement(*values: Any, **options: Any) -> Any:
        items = _items(name, values[0] if len(values) == 1 else values)
        if options or not any(isinstance(v, Block) for v in items):
            return fallback(items, **options)
        return functools.reduce(lambda a, b: lanewise(name, a, b), items)

    return replacement


def _quantifier(name: str, row: str, fallback: Callable[[Iterable[Any]], bool]) -> Callable[..., Any]:
    def replacement(values: Any) -> Any:
        items = _items(name, values)
        if not any(isinstance(v, Block) for v in items):
            return fallback(items)
        return functools.reduce(lambda a, b: lanewise(row, a, b), [to_bool(v) for v in items])

    return replacement


def _converter(kind: type, dtype: dtypes.DType) -> Callable[..., Any]:
    def replacement(*args: Any, **options: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], Block):
            keeps = args[0].dtype.kind is dtype.kind or (dtype.is_int and args[0].dtype.is_int)
            return args[0] if keeps else cast_to(args[0], dtype)
        return kind(*args, **options)

    return replacement


def _print(*values: Any, **options: Any) -> None:
    if not current("print").quiet:
        print(*values, **options)


def _enumerate(items: Any, start: Any = 0) -> Any:
    if not isinstance(items, RuntimeRange | MappedRange):
        return enumerate(items, start)
    counts, of = _counted(items)
    return MappedRange(counts, lambda k: (lanewise("add", k, start), of(k)))


def _zip(*columns: Any, strict: bool = False) -> Any:
    if not any(isinstance(c, RuntimeRange | MappedRange) for c in columns):
        return zip(*columns, strict=strict)
    for column in columns:
        if not isinstance(column, RuntimeRange | MappedRange | range):
            raise TypeMismatch(f"zip of a runtime range and a {type(column).__name__}", hint="a runtime loop counts: index the list or block with the number, or use mk.static_range", loc=current().here())
    if strict:
        raise TypeMismatch("zip(strict=True) of a runtime range", hint="leave strict out: nobody can tell while the kernel is traced", loc=current().here())
    found = [_counted(RuntimeRange(c.start, c.stop, c.step) if isinstance(c, range) else c) for c in columns]
    ends = [counts.end for counts, _ in found]
    shortest = functools.reduce(lambda a, b: lanewise("min", a, b), ends)
    return MappedRange(RuntimeRange(0, shortest), lambda k: tuple(of(k) for _, of in found))


def _reversed(items: Any) -> Any:
    if not isinstance(items, RuntimeRange | MappedRange):
        return reversed(items)
    counts, of = _counted(items)
    return MappedRange(counts, lambda k: of(lanewise("sub", lanewise("sub", counts.end, 1), k)))


def _counted(items: RuntimeRange | MappedRange) -> tuple[RuntimeRange, Callable[[Block], Any]]:
    """A range from 0 of as many numbers, and what stands at each."""
    if isinstance(items, MappedRange):
        return items.counts, items.of
    return RuntimeRange(0, trips(items)), lambda k: nth(items, k)


def _len(x: Any) -> Any:
    if isinstance(x, BufferShape):
        x.refuse()
    return x.shape[0] if isinstance(x, Block) and isinstance(x.shape, BufferShape) else len(x)


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: _len,
    builtins.enumerate: _enumerate,
    builtins.zip: _zip,
    builtins.reversed: _reversed,
    builtins.print: _print,
    builtins.range: _range,
    builtins.min: _extreme("min", min),
    builtins.max: _extreme("max", max),
    builtins.any: _quantifier("any", "or", any),
    builtins.all: _quantifier("all", "and", all),
    builtins.int: _converter(int, dtypes.i32),
    builtins.float: _converter(float, dtypes.f32),
    builtins.bool: _converter(bool, dtypes.bool_),
}
