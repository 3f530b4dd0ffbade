"""JAX: jitted, on arrays of its own; it cannot write into memory that it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from benchmarks.registry import Call


def jitted(fn: Callable[..., Any], *arrays: Any) -> Call:
    run = jax.jit(fn)
    ready = [jax.device_put(a) for a in arrays]
    return lambda: run(*ready).block_until_ready()
