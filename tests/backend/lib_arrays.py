"""Arrays for the tests of eas.lib, and how near their results must be."""

from __future__ import annotations

import numpy as np

from eas.testing import assert_close

F16, F32, F64 = np.float16, np.float32, np.float64
NAMES = {F16: "f16", F32: "f32", F64: "f64"}


def normal(rng, shape, dtype=F32):
    return rng.standard_normal(shape).astype(dtype)


def close(got, want, dtype=F32, ulps=8.0, scale=2.0):
    assert got.dtype == dtype
    assert_close(np.asarray(got), np.asarray(want).astype(dtype), NAMES[dtype], ulps=ulps, scale=scale)
