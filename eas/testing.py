"""Comparing results by what a dtype can hold; used by our own tests and open to a kernel's author."""

from __future__ import annotations

from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType


def ulp_distance(got: Any, want: Any, dtype: DType) -> np.ndarray:
    """How many representable numbers of `dtype` lie between two arrays; NaN equals NaN, inf equals inf."""
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        smallest = 2.0 ** (1 - dtype.bias - dtype.mantissa_bits)
        exponent = np.floor(np.log2(np.maximum(np.abs(b), 2.0 ** (1 - dtype.bias))))
        spacing = np.maximum(2.0 ** (exponent - dtype.mantissa_bits), smallest)
        distance = np.abs(a - b) / spacing
    distance = np.where(np.isnan(distance), np.inf, distance)
    return np.where(same, 0.0, distance)


def assert_close(got: Any, want: Any, dtype: DType | str, *, ulps: float | None = None, scale: float = 1.0) -> None:
    """Integers and bools exactly; floats within `ulps` (by default from the dtype) times `scale`.

    `scale` is for results of many roundings, such as sums: pass the square root of their number.
    Sums whose terms cancel are compared relative to the largest magnitude of `want`.
    """
    dtype = dtypes.parse(dtype) if isinstance(dtype, str) else dtype
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    if not dtype.is_float:
        np.testing.assert_array_equal(got, want)
        return
    distance = ulp_distance(got, want, dtype)
    allowed = (4.0 if ulps is None else ulps) * scale
    if scale > 1.0:
        finite = np.abs(np.where(np.isfinite(want), want, 0.0)).max(initial=0.0)
        near_zero = np.abs(np.asarray(got, np.float64) - want) <= allowed * finite * 2.0**-dtype.mantissa_bits
        distance = np.where(near_zero, 0.0, distance)
    worst = int(np.argmax(distance)) if distance.size else 0
    if distance.size and distance.flat[worst] > allowed:
        raise AssertionError(f"{dtype}: element {worst} is {got.flat[worst]!r}, expected {want.flat[worst]!r}: {distance.flat[worst]:.3g} ulp, {allowed:.3g} allowed")
