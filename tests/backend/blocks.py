"""One kernel for functions of whole blocks: each step loads a block, applies a function, stores the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import eas
from eas import mk
from eas.base.dtypes import DType
from tests.backend.formats import buffer, contents, poison
from tests.backend.launches import launch, op_names


@dataclass(frozen=True)
class Step:
    """`fn` of a block of `shape`, and what it should be; steps of one kernel share dtypes."""

    fn: Callable[..., Any]  # in the kernel, of a block
    meaning: Callable[..., Any]  # on the host, of an array
    shape: tuple[int, ...]
    name: str = ""


@eas.kernel
def steps_kernel(x, y, FNS: eas.constexpr, SHAPES: eas.constexpr, OUTS: eas.constexpr):
    first = last = 0
    for fn, shape, out in zip(FNS, SHAPES, OUTS, strict=True):
        size, count = math.prod(shape), math.prod(out)
        result = fn(mk.reshape(mk.load(x, first + mk.arange(0, size)), shape))
        assert tuple(result.shape) == out, f"{fn.__name__} of {shape} gives {result.shape}, NumPy {out}"
        if out:
            mk.store(y, last + mk.arange(0, count), mk.ravel(result))
        else:
            mk.store(y, last, result)
        first, last = first + size, last + count


def run_steps(backend, steps: list[Step], values: Callable[[int], list], dtype: DType, out: DType, covers: set[str]) -> list[tuple[Step, np.ndarray, np.ndarray]]:
    """(step, got, wanted) of every step, from one launch over `values(number of elements)`."""
    sizes = [math.prod(s.shape) for s in steps]
    x = buffer(values(sum(sizes)), dtype)
    parts = np.split(contents(x), np.cumsum(sizes)[:-1])
    want = [np.asarray(s.meaning(part.reshape(s.shape))) for s, part in zip(steps, parts, strict=True)]
    counts = [w.size for w in want]
    y = poison(sum(counts) + 1, out)
    meta = {"FNS": tuple(s.fn for s in steps), "SHAPES": tuple(s.shape for s in steps), "OUTS": tuple(w.shape for w in want)}
    launch(backend, steps_kernel, x, y, grid=1, **meta)
    missing = covers - op_names(steps_kernel, x, y, **meta)
    assert not missing, f"the kernel does not use {missing}"
    got = np.split(contents(y)[:-1], np.cumsum(counts)[:-1])
    return [(s, g.reshape(w.shape), w) for s, g, w in zip(steps, got, want, strict=True)]
