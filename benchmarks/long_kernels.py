"""Long kernels of many shapes, written as text: what compile times and the limits of the compiler are measured with."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HEAD = "import eas\nfrom eas import mk\n\n\ndef half(v, b):\n    return v * 0.5 + b\n\n\n@eas.kernel\ndef long_kernel(x, y, n, BLOCK: eas.constexpr):\n"
_BLOCK = ["i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)", "m = i < n", "v = mk.load(x, i, mask=m)"]
_STORE = ["mk.store(y, i, v, mask=m)"]
_THREAD = ["i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)", "v = mk.load(x, i)"]
_SCALAR = ["i = mk.program_id(0)", "v = mk.load(x, i)"]


def _times(n: int, *lines: str) -> list[str]:
    """Lines that count from 0 to n - 1 as {j}, up to 7 as {k}."""
    return [line.format(j=j // len(lines), k=j % 7) for j in range(0, n, len(lines)) for line in lines]


SHAPES: dict[str, Callable[[int], list[str]]] = {
    "chain": lambda n: [*_BLOCK, *_times(n, "v = v * 0.5 + {k}.0"), *_STORE],
    "where": lambda n: [*_BLOCK, *_times(n, "v = mk.where(v > {k}.25, v, {k}.5)"), *_STORE],
    "expression": lambda n: [*_BLOCK, "v = " + " + ".join(_times(n, "v * {k}.0")), *_STORE],
    "helpers": lambda n: [*_BLOCK, *_times(n, "v = half(v, {k}.0)"), *_STORE],
    "static range": lambda n: [*_BLOCK, f"for j in mk.static_range({n}):", "    v = v * 0.5 + j", *_STORE],
    "range": lambda n: [*_BLOCK, f"for j in range({n}):", "    v = v * 0.5 + j", *_STORE],
    "in a loop": lambda n: [*_BLOCK, "for t in range(n):", *("    " + line for line in _times(n, "v = v * 0.5 + {k}.0")), *_STORE],
    "if": lambda n: [*_BLOCK, *_times(n, "if n > {j}:", "    v = v * 0.5 + {k}.0"), *_STORE],
    "scalars": lambda n: [*_SCALAR, *_times(n, "v = v * 0.5 + {k}.0"), "mk.store(y, i, v)"],
    "integers": lambda n: [*_BLOCK[:2], "j = i", *_times(n, "j = (j * 3 + {k}) & 1023"), "mk.store(y, i, mk.load(x, j % n), mask=m)"],
    "masks": lambda n: [*_BLOCK, *_times(n, "m = m & (v > -{j}.5)"), *_STORE],
    "loads and stores": lambda n: [*_BLOCK, *_times(n, "mk.store(y, i + {j}, v, mask=m)", "v = v + mk.load(x, i + {j}, mask=m)")],
    "masked stores": lambda n: [*_BLOCK, *_times(n, "mk.store(y, i + {j}, v, mask=m & (i > {j}))")],
    "pointers": lambda n: [*_BLOCK, "p, step = x, mk.program_id(0)", *_times(n, "p = p + step", "v = v + mk.load(p)"), *_STORE],
    "reductions": lambda n: [*_BLOCK, *_times(n, "v = v - mk.max(v, axis=0) * {k}.0", "v = mk.exp(v)"), *_STORE],
    "threads": lambda n: [*_THREAD, *_times(n, "v = v * 0.5 + {k}.0"), "mk.store(y, i, v)"],
}


def source(shape: str, n: int) -> str:
    """A kernel of about n statements of one shape."""
    return _HEAD + "".join(f"    {line}\n" for line in SHAPES[shape](n))


def load(shape: str, n: int, folder: Path) -> Any:
    """The kernel of a source in a new file of a folder."""
    name = f"{shape.replace(' ', '_')}_{n}"
    path = folder / f"{name}.py"
    path.write_text(source(shape, n))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.long_kernel
