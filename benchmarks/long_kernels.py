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
_TILE = [
    "r, c = mk.arange(0, 16), mk.arange(0, 32)",
    "at, m = (r * n)[:, None] + c[None, :], (r < n)[:, None] & (c < n)[None, :]",
    "v = mk.load(x, at, mask=m)",
]
_MATRIX = ["r = mk.arange(0, 16)", "at = (r * 16)[:, None] + r[None, :]", "v = mk.load(x, at)"]
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
    "stores of other rows": lambda n: [*_BLOCK, *_times(n, "mk.store(y, i + {j} * n, v, mask=m & (v > {k}.0))")],
    "stores of columns": lambda n: [*_BLOCK, *_times(n, "mk.store(y, i * 512 + {j}, v, mask=m & (v > {k}.0))")],
    "scattered stores": lambda n: [*_BLOCK, *_times(n, "mk.store(y, (i * i + {j}) % 100, v, mask=m)")],
    "stores of tiles": lambda n: [*_TILE, *_times(n, "mk.store(y, at + {j}, v, mask=m)")],
    "stores in a loop": lambda n: [*_BLOCK, "for t in range(n):", *("    " + line for line in _times(n, "mk.store(y, i + {j} + t, v, mask=m)"))],
    "pointers": lambda n: [*_BLOCK, "p, step = x, mk.program_id(0)", *_times(n, "p = p + step", "v = v + mk.load(p)"), *_STORE],
    "blocks of pointers": lambda n: [*_BLOCK, "p = x + i", *_times(n, "v = v + mk.load(p, mask=m)", "p = p + 16"), *_STORE],
    "reductions": lambda n: [*_BLOCK, *_times(n, "v = v - mk.max(v, axis=0) * {k}.0", "v = mk.exp(v)"), *_STORE],
    "reductions side by side": lambda n: [*_BLOCK, *_times(n, "mk.store(y, {j}, mk.sum(v * {k}.0 - {j}.0))")],
    "scans": lambda n: [*_BLOCK, *_times(n, "v = mk.cumsum(v, axis=0) * 0.{k}"), *_STORE],
    "dots": lambda n: [*_MATRIX, *_times(n, "v = mk.dot(v, v) * 0.{k}"), "mk.store(y, at, v)"],
    "atomics": lambda n: [*_BLOCK, *_times(n, "mk.atomic_add(y, i + {j}, v, mask=m)")],
    "casts": lambda n: [*_BLOCK, *_times(n, "v = v.to(mk.f16).to(mk.f32) + {k}.0"), *_STORE],
    "functions": lambda n: [*_BLOCK, *_times(n, "v = mk.sin(v) + mk.exp(v * 0.{k})"), *_STORE],
    "nested where": lambda n: [*_BLOCK, "v = " + "".join(_times(n, "mk.where(v > {k}.25, v + {j}.0, ")) + "v" + ")" * n, *_STORE],
    "elif": lambda n: [*_BLOCK, "if n == 0:", "    v = v + 0.5", *_times(n, "elif n == {j}:", "    v = v + {k}.0"), *_STORE],
    "loops": lambda n: [*_BLOCK, *_times(n, "for t in range(n):", "    v = v * 0.5 + {k}.0"), *_STORE],
    "nearest centroid": lambda n: [*_BLOCK, "best, which = v * 0 + 1e30, i * 0", *_times(n, "d = (v - mk.load(y, {j})) * (v - mk.load(y, {j}))", "which = mk.where(d < best, {j}, which)", "best = mk.where(d < best, d, best)"), "mk.store(y, i, which.to(mk.f32), mask=m)"],
    "gathers": lambda n: [*_BLOCK, *_times(n, "v = v + mk.load(x, (i * {k} + {j}) % 100, mask=m)"), *_STORE],
    "scalar stores": lambda n: ["i = mk.program_id(0)", *_times(n, "mk.store(y, i + {j}, mk.load(x, i + {j}) * {k}.0)")],
    "asserts": lambda n: [*_BLOCK, *_times(n, "mk.device_assert(v > -{j}.5, 'small')"), *_STORE],
    "while": lambda n: [*_BLOCK, "t = n", *_times(n, "while t > {j}:", "    t = t - 7"), "mk.store(y, i, v * t, mask=m)"],
    "ifs with stores": lambda n: [*_BLOCK, *_times(n, "if n > {j}:", "    mk.store(y, i + {j}, v * {k}.0, mask=m)")],
    "different loops": lambda n: [*_BLOCK, *_times(n, "mk.store(y, i * {k} + {j}, v * {j}.5, mask=m & (i % ({k} + 2) > 0) & (v > {j}.0))", "v = v + mk.sum(mk.load(x, i * ({k} + 1), mask=m))", "mk.store(y, i // ({j} + 1) + {j}, v, mask=m)")],
    "transposes": lambda n: [*_MATRIX, *_times(n, "v = mk.trans(v) * 0.{k} + {j}.0"), "mk.store(y, at, v)"],
    "sorts": lambda n: [*_BLOCK, *_times(n, "v = mk.sort(v * 0.{k}5)"), *_STORE],
    "extremes": lambda n: [*_BLOCK, *_times(n, "mk.store(y, {j}, mk.argmax(v * {k}.5, axis=0).to(mk.f32))"), *_STORE],
    "divisions": lambda n: [*_BLOCK[:2], "j = i", *_times(n, "j = (j + {j}) // ({k} + 3) + j % 17"), "mk.store(y, i, j.to(mk.f32), mask=m)"],
    "shifts": lambda n: [*_BLOCK[:2], "j = i", *_times(n, "j = ((j << {k}) ^ (j >> 3)) + {j}"), "mk.store(y, i, j.to(mk.f32), mask=m)"],
    "random numbers": lambda n: [*_BLOCK, *_times(n, "v = v + mk.rand({j}, i)"), *_STORE],
    "bf16": lambda n: [*_BLOCK, "v = v.to(mk.bf16)", *_times(n, "v = v * 0.5 + {k}.0"), *_STORE],
    "breaks": lambda n: [*_BLOCK, *_times(n, "for t in range(n):", "    if t > {j}:", "        break", "    v = v * 0.5 + {k}.0"), *_STORE],
    "combines": lambda n: [*_BLOCK, "def larger(a, i, b, j):", "    is_first = (a > b) | ((a == b) & (i < j))", "    return mk.where(is_first, a, b), mk.where(is_first, i, j)", *_times(n, "best, at = mk.reduce((v * {k}.5, i), 0, larger)", "mk.store(y, {j}, best + at)")],
    "gathers of lanes": lambda n: [*_BLOCK, *_times(n, "v = v + mk.gather(v, (i + {j}) % BLOCK, 0)"), *_STORE],
    "histograms": lambda n: [*_BLOCK, *_times(n, "v = v + mk.sum(mk.histogram((v + {j}.0).to(mk.i32) & 15, 16)).to(mk.f32)"), *_STORE],
    "sums in loops": lambda n: [*_BLOCK, *_times(n, "for t in range(n):", "    v = v + mk.sum(mk.load(x, i + t * {k}, mask=m))"), *_STORE],
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
