"""Fixtures of the tests of eas.lib."""

import numpy as np
import pytest

from tests.backend.lib_arrays import F16, F32, F64, NAMES


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(params=[F32, F16, F64], ids=NAMES.get)
def dtype(request, backend):
    if request.param is F64 and backend in ("mps", "sim"):
        pytest.skip("Metal has no f64")
    return request.param
