"""What lazy graphs call: functions of the library on arrays of one device, registered by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from eas import lib
from eas.interop.devices import Device
from eas.lazy.calls import LIBRARY
from eas.tensor import Tensor


def _tensors(arrays: list[Any], dtypes: list[Any], device: Device) -> list[Any]:
    return [Tensor._made(a, d, None, device) for a, d in zip(arrays, dtypes, strict=True)]


def _attention(out: Any, arrays: list[Any], dtypes: list[Any], device: Device, causal: bool, scale: float | None) -> None:
    q, k, v = _tensors(arrays, dtypes, device)
    target: Any = Tensor._made(np.swapaxes(out, -3, -2), dtypes[0], None, device)
    lib.attention(q, k, v, target, causal=causal, scale=scale)


def _conv2d(out: Any, arrays: list[Any], dtypes: list[Any], device: Device, **options: Any) -> None:
    given = _tensors(arrays, dtypes, device)
    target: Any = Tensor._made(out, dtypes[0], None, device)
    lib.conv2d(given[0], given[1], given[2] if len(given) > 2 else None, target, **options)


def _topk(out: Any, arrays: list[Any], dtypes: list[Any], device: Device, k: int, part: int) -> None:
    (x,) = _tensors(arrays, dtypes, device)
    found: Any = lib.topk(x, k)[part]
    target: Any = Tensor._made(out, found.dtype, None, device)
    target.copy_(found)


LIBRARY.update(attention=_attention, conv2d=_conv2d, topk=_topk)
