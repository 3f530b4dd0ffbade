"""Runs kernels of the control-flow and error tests on the interpreter, and shows their errors as a user sees them."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import eas
from eas.frontend.builder import is_tracing

EAS = str(Path(eas.__file__).parent)


def run(fn: Any, *args: Any, out: Any = np.int32, size: int = 8, grid: Any = 1, **meta: Any) -> list[Any]:
    """What a kernel whose first parameter is the output writes into zeros."""
    kernel = fn if isinstance(fn, eas.Kernel) else eas.kernel(fn)
    y = np.zeros(size, out)
    kernel(y, *args, _grid=grid, **meta)
    values: list[Any] = y.tolist()
    return values


def first(fn: Any, *args: Any, **options: Any) -> Any:
    """The first element of what it writes."""
    return run(fn, *args, **options)[0]


def caught(kind: type[BaseException], fn: Any, *args: Any, **meta: Any) -> BaseException:
    """The error of a launch; no line of eas shows in its traceback, and nothing was left behind."""
    kernel = eas.kernel(fn) if isinstance(fn, FunctionType) else fn
    with pytest.raises(kind) as info:
        kernel(*args, **meta)
    shown = traceback.format_exception(info.value)
    ours = [line for line in shown if f'File "{EAS}' in line]
    assert not ours, "".join(shown)
    assert "During handling" not in "".join(shown)
    assert not is_tracing()
    return info.value


def refusal(kind: type[BaseException], fn: Any, *args: Any, **meta: Any) -> str:
    """The text of a refusal."""
    return str(caught(kind, fn, *args, **meta))


def relative(text: str, fn: Any) -> str:
    """A refusal with line numbers counted from the function's first line, as `+1`."""
    code = getattr(fn, "__wrapped__", fn).__code__
    name, start = Path(code.co_filename).name, code.co_firstlineno
    for offset in range(60, -1, -1):
        text = text.replace(f"{name}:{start + offset}", f"+{offset}")
    return text
