"""How kernels and tensors look in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from eas.compiler import CompiledKernel

_EDGE = 5  # rows and columns that are shown at each end


def kernel_html(fn: Callable[..., Any], names: Sequence[str], compiled: Sequence[CompiledKernel]) -> str:
    """The source of a kernel, and what it was compiled for so far."""
    import inspect  # tensors need neither

    try:
        source = inspect.getsource(fn)
    except (OSError, TypeError):
        source = f"def {fn.__name__}({', '.join(names)}): ..."
    rows = "".join(f"<tr><td>{escape(', '.join(f'{a.name}: {a.type}' for a in each.args))}</td><td>{each.launch_mode}</td><td>{len(each._variants)}</td></tr>" for each in compiled)
    table = f"<table><tr><th>compiled for</th><th>mode</th><th>variants</th></tr>{rows}</table>" if rows else "<em>not compiled yet</em>"
    return f"<div><b>eas.kernel</b> <code>{escape(fn.__qualname__)}</code><pre>{escape(source)}</pre>{table}</div>"


def tuned_html(kernel: str, configs: list[str], chosen: str) -> str:
    """The page of a kernel, the configs that autotune tries for it, and the one that it chose last."""
    rows = "".join(f"<tr><td>{escape(config)}</td><td>{'chosen' if config == chosen else ''}</td></tr>" for config in configs)
    return f"{kernel}<table><tr><th>autotune</th><th></th></tr>{rows}</table>"


def tensor_html(tensor: Any) -> str:
    """Shape, dtype and device of a tensor, and the corners of its last two axes."""
    values, dtype, device = tensor._values(), str(tensor.dtype), str(tensor.device)
    shape = " x ".join(map(str, values.shape)) or "a scalar"
    head = f"<b>eas.Tensor</b> {shape}, {escape(dtype)}, {escape(device)}"
    if values.ndim == 0 or values.size == 0:
        return f"<div>{head}<pre>{escape(str(values))}</pre></div>"
    plane = values.reshape(1, -1) if values.ndim == 1 else values[(0,) * (values.ndim - 2)]
    rows, cols = (_shown(n) for n in plane.shape)
    cells = "".join("<tr>" + "".join(f"<td>{'...' if r is None or c is None else escape(_number(plane[r, c]))}</td>" for c in cols) + "</tr>" for r in rows)
    return f"<div>{head}{' (the first matrix)' if values.ndim > 2 else ''}<table>{cells}</table></div>"


def _shown(count: int) -> list[int | None]:
    return [*range(count)] if count <= 2 * _EDGE + 1 else [*range(_EDGE), None, *range(count - _EDGE, count)]


def _number(x: Any) -> str:
    return f"{float(x):.5g}" if np.issubdtype(np.asarray(x).dtype, np.floating) else str(x)
