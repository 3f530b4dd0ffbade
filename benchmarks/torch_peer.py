"""torch on the memory of the NumPy inputs: eager, or compiled by inductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.registry import Call

torch.set_grad_enabled(False)


def tensors(*arrays: Any) -> list[torch.Tensor]:
    return [torch.from_numpy(a) for a in arrays]


def compiled(fn: Callable[..., Any], *arrays: Any) -> Call:
    run = torch.compile(fn, dynamic=False)
    ready = tensors(*arrays)
    return lambda: run(*ready)
