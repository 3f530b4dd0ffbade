"""Launches with arguments that are more than memory and numbers: tuples, dtypes, functions, tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from eas.base.errors import ArgumentError
from eas.frontend.constexpr import constexpr
from eas.frontend.values import is_number
from eas.kernel import Kernel
from eas.triton.hooks import TRITON_HOOKS
from eas.triton.language.descriptors import make_tensor_descriptor
from eas.triton.language.types import unwrapped
from eas.triton.runtime.arguments import is_memory, memory
from eas.triton.tools.tensor_descriptor import TensorDescriptor

Rebuild = Callable[[Mapping[str, Any]], Any]
"""The argument of a kernel, of the flat ones."""


class _Flat:
    """The arguments of a kernel as flat ones: buffers and scalars, and what is known while tracing."""

    def __init__(self) -> None:
        self.runtime: dict[str, Any] = {}
        self.static: dict[str, Any] = {}
        self.key: list[Any] = []

    def add(self, name: str, value: Any, is_static: bool = False) -> Rebuild:
        value = unwrapped(value)
        if isinstance(value, TensorDescriptor):
            return self._descriptor(name, value)
        if isinstance(value, tuple) and not is_static:
            return self._tuple(name, value)
        known = is_static or not (is_number(value) or is_memory(value))
        self.key.append((name, known))
        if known:
            self.static[name] = value
        else:
            self.runtime[name] = memory(value)
        return lambda given: given[name]

    def _tuple(self, name: str, items: tuple[Any, ...]) -> Rebuild:
        make = getattr(type(items), "_make", tuple)
        self.key.append((name, type(items), len(items)))
        parts = [self.add(f"{name}__{i}", item) for i, item in enumerate(items)]
        return lambda given: make([part(given) for part in parts])

    def _descriptor(self, name: str, desc: TensorDescriptor) -> Rebuild:
        parts = self._tuple(name, (desc.base, tuple(desc.shape), tuple(int(n) for n in desc.strides)))
        block, padding = self.add(f"{name}__block", tuple(desc.block_shape), True), self.add(f"{name}__padding", desc.padding, True)
        self.key.append("descriptor")

        def rebuild(given: Mapping[str, Any]) -> Any:
            base, shape, strides = parts(given)
            return make_tensor_descriptor(base, shape, strides, block(given), padding(given))

        return rebuild


def flat_launch(jit: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Kernel, tuple[Any, ...], dict[str, Any]]:
    """The kernel that takes such arguments as flat ones, and these."""
    try:
        bound = jit.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{jit.__name__}: {error}", hint=f"its arguments are {', '.join(jit.arg_names)}") from None
    bound.apply_defaults()
    flat = _Flat()
    rebuild = {p.name: flat.add(p.name, bound.arguments[p.name], p.is_constexpr) for p in jit.params}
    key = tuple(flat.key)
    if key not in jit._kernels:
        jit._kernels[key] = _kernel(jit, flat, rebuild)
    kernel: Kernel = jit._kernels[key]
    return kernel, (), {**flat.runtime, **flat.static}


def _kernel(jit: Any, flat: _Flat, rebuild: Mapping[str, Rebuild]) -> Kernel:
    """A kernel with flat parameters that calls the one of the user."""
    names = [*flat.runtime, *flat.static]

    def call(given: Mapping[str, Any]) -> None:
        values = {name: made(given) for name, made in rebuild.items()}
        TRITON_HOOKS.call(jit)(**values)

    space: dict[str, Any] = {"__eas_call__": call}
    listed = ", ".join(f"{name!r}: {name}" for name in names)
    exec(f"def {jit.__name__}({', '.join(names)}):\n    __eas_call__({{{listed}}})\n", space)
    made: FunctionType = space[jit.__name__]
    user = jit.fn.__code__
    made.__code__ = made.__code__.replace(co_filename=user.co_filename, co_firstlineno=user.co_firstlineno)
    made.__module__, made.__qualname__ = jit.__module__, jit.__qualname__
    made.__annotations__ = dict.fromkeys(flat.static, constexpr)
    made.__dict__["__eas_hooks__"] = TRITON_HOOKS
    return Kernel(made)
