"""Traces small kernels written in `mk` and runs them on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Space, Type
from eas.frontend.trace import Static, trace
from eas.ir import IRModule, verify
from eas.ir.text import parse_module, print_module
from eas.runtime.interp import execute


def ptr(dtype: DType) -> Type:
    return Type(dtype, (), Space.DEVICE)


def module_of(fn: Any, **args: Any) -> IRModule:
    """The verified IR of a kernel; arguments are Types, all others are constexpr."""
    given = {k: v if isinstance(v, Type) else Static(v) for k, v in args.items()}
    module = verify(trace(fn, given).module)
    assert str(parse_module(print_module(module))) == str(module)
    return module


def lines_of(fn: Any, **args: Any) -> list[str]:
    """The body of a kernel's IR, a string per line, without the final yield."""
    return [line.strip() for line in str(module_of(fn, **args)).split("\n")[1:-3]]


def run(fn: Any, *arrays: Any, grid: tuple[int, int, int] = (1, 1, 1), **static: Any) -> None:
    """Run a kernel on NumPy arrays and Python scalars, in the order of its parameters."""
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    types = [
        ptr(dtypes.from_numpy(a.dtype)) if isinstance(a, np.ndarray) else Type(dtypes.of_scalar(a))
        for a in arrays
    ]
    module = module_of(fn, **dict(zip(names, types, strict=False)), **static)
    execute(module, list(arrays), grid)


def refusal(kind: type[Exception], fn: Any, **args: Any) -> str:
    """The text with which tracing a kernel is refused; every one shows a line and a next step."""
    with pytest.raises(kind) as caught:
        module_of(fn, **args)
    text = str(caught.value)
    assert "\n  at mk" in text or "\n  at test_mk" in text, text
    return text


def elementwise(fn: Any, *inputs: np.ndarray, out: Any) -> np.ndarray:
    """fn of whole blocks, run on the interpreter; all inputs have one length."""
    n = inputs[0].size
    result = np.zeros(n, out)

    def kernel(a, b, y, F, N):
        i = mk.arange(N)
        mk.store(y, i, F(mk.load(a, i), mk.load(b, i)))

    def unary_kernel(a, y, F, N):
        i = mk.arange(N)
        mk.store(y, i, F(mk.load(a, i)))

    run(kernel if len(inputs) == 2 else unary_kernel, *inputs, result, F=fn, N=n)
    return result


def whole(fn: Any, x: np.ndarray, shape: tuple[int, ...], out: Any) -> np.ndarray:
    """fn of x as one block of its shape, stored as a block of `shape`."""
    result = np.zeros(shape, out)

    def kernel(x, y, F, SHAPE, OUT, N, M):
        value = F(mk.load(x, mk.arange(N)).reshape(SHAPE))
        if OUT:
            mk.store(y, mk.arange(M), value.ravel())
        else:
            mk.store(y, 0, value)

    run(
        kernel,
        x.ravel(),
        result.reshape(-1),
        F=fn,
        SHAPE=x.shape,
        OUT=shape,
        N=x.size,
        M=result.size,
    )
    return result
