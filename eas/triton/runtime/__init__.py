"""`triton.runtime`: launching, tuning, and the device."""

from __future__ import annotations

from eas.triton.runtime.autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from eas.triton.runtime.driver import driver
from eas.triton.runtime.errors import InterpreterError, OutOfResources
from eas.triton.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    reinterpret,
)

__all__ = ["Autotuner", "Config", "Heuristics", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor", "OutOfResources", "TensorWrapper", "autotune", "driver", "heuristics", "reinterpret"]
