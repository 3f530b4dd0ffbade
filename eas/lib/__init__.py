"""Kernels that everybody needs, written in `mk` as a user would: NumPy in, NumPy out, `out=` optional."""

from eas.lib.attention import attention
from eas.lib.elementwise import add, gelu
from eas.lib.matmul import matmul
from eas.lib.norms import layer_norm, rms_norm
from eas.lib.reductions import histogram, sum
from eas.lib.rows import argmax, cumsum
from eas.lib.softmax import softmax
from eas.lib.transpose import transpose

__all__ = [
    "add",
    "argmax",
    "attention",
    "cumsum",
    "gelu",
    "histogram",
    "layer_norm",
    "matmul",
    "rms_norm",
    "softmax",
    "sum",
    "transpose",
]
