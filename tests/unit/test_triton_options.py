"""Options of Triton's functions: accepted where results do not depend on them, refused in our words elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk


@pytest.fixture(autouse=True)
def _interp(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


def run(body):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    eas.Kernel(body)(x, y, _grid=1)
    return x, y


def test_options_without_effect():
    def body(x, y):
        i = mk.arange(0, 16)
        v = mk.load(x + i, cache_modifier=".cg", eviction_policy="evict_last", volatile=False)
        mk.store(y + i, v, cache_modifier=".wb", eviction_policy="evict_first")
        mk.atomic_add(y + i, v, sem="relaxed", scope="gpu")
        tile = mk.reshape(mk.load(x + mk.arange(0, 64)), [8, 8])
        mk.dot(tile, tile, allow_tf32=True, input_precision="tf32")

    x, y = run(body)
    np.testing.assert_array_equal(y[:16], 2 * x[:16])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: mk.load(x + i, volatile=1), "mk.load got volatile=1; it takes False, True"),
        (lambda x, i: mk.load(x + i, eviction_policy="sometimes"), "mk.load got eviction_policy='sometimes'; it takes '', 'evict_first'"),
        (lambda x, i: mk.store(x + i, 1.0, cache_modifier="cg"), "mk.store got cache_modifier='cg'; it takes '', '.ca'"),
        (lambda x, i: mk.atomic_add(x + i, 1.0, sem="seq_cst"), "mk.atomic_add got sem='seq_cst'; it takes None, 'relaxed', 'acquire', 'release', 'acq_rel'"),
        (lambda x, i: mk.atomic_load(x + i, sem="release"), "mk.atomic_load got sem='release'; it takes None, 'relaxed', 'acquire'"),
        (lambda x, i: mk.atomic_store(x + i, 1.0, sem="acquire"), "mk.atomic_store got sem='acquire'; it takes None, 'relaxed', 'release'"),
        (lambda x, i: mk.atomic_cas(x + i, 0.0, 1.0, scope="warp"), "mk.atomic_cas got scope='warp'"),
    ],
)
def test_refusals(call, text):
    def body(x, y):
        call(x, mk.arange(0, 16))

    with pytest.raises(eas.Unsupported) as caught:
        run(body)
    assert text in str(caught.value)
    assert "hint: " in str(caught.value)
