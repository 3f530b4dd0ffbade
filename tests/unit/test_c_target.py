"""CONTRIBUTING's recipe for a backend, followed once: kernels run as C, and agree with the interpreter."""

import numpy as np
import pytest

import eas
from eas import mk
from eas.base.backends import BACKENDS, Backend
from eas.runtime import get_runtime

ROW = Backend("c", "tests.unit.c_target:CRuntime", "C, by the compiler of the system", is_host=True, target="c")


@pytest.fixture
def c(monkeypatch):
    monkeypatch.setattr("eas.base.backends.BACKENDS", (*BACKENDS, ROW))
    monkeypatch.setattr("eas.runtime.BACKENDS", (*BACKENDS, ROW))
    if (why := get_runtime("c").why_unavailable()) is not None:
        pytest.skip(why)


@eas.kernel
def scaled_sum(x, y, out, alpha, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) * alpha + mk.load(y, i, i < n), i < n)


@eas.kernel
def softmax(x, out, n, BLOCK: eas.constexpr):
    row, i = mk.program_id(0), mk.arange(0, BLOCK)
    v = mk.load(x, row * n + i, i < n, other=-float("inf"))
    e = mk.exp(v - mk.max(v))
    mk.store(out, row * n + i, e / mk.sum(e), i < n)


@eas.kernel
def counts(x, out, n, most, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    found = mk.zeros([BLOCK], mk.i32)
    for limit in range(most):
        found = mk.where(mk.load(x, i, i < n) > limit, found + 1, found)
    mk.store(out, i, found, i < n)


@eas.kernel
def row_sums(x, out, n, BLOCK: eas.constexpr):
    row, total = mk.program_id(0), mk.zeros([BLOCK])
    for start in range(0, n, BLOCK):
        i = start + mk.arange(0, BLOCK)
        total += mk.load(x, row * n + i, i < n)
    mk.store(out, row, mk.sum(total))


RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 100), np.float32)
NUMBERS = RNG.integers(-5, 15, 700, np.int32)
CASES = {
    "scaled sum": (scaled_sum, (11,), (X.ravel(), X.ravel() + 1), X.ravel(), (2.5, 700)),
    "softmax": (softmax, (7,), (X.ravel(),), X.ravel(), (100,)),
    "counts": (counts, (11,), (NUMBERS,), NUMBERS, (700, 10)),
    "row sums": (row_sums, (7,), (X.ravel(),), X[:, 0], (100,)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kernels_run_as_c(c, monkeypatch, case):
    kernel, grid, given, like, numbers = case
    results = []
    for name in ("interp", "c"):
        monkeypatch.setenv("EAS_BACKEND", name)
        results.append(np.zeros_like(like))
        kernel[grid](*given, results[-1], *numbers, BLOCK=128 if kernel is softmax else 64)
    np.testing.assert_allclose(results[1], results[0], rtol=2e-6, atol=1e-6)


def test_what_it_cannot_spell_is_refused_at_its_line(c, monkeypatch):
    @eas.kernel
    def arcs(x, out, BLOCK: eas.constexpr):
        i = mk.arange(0, BLOCK)
        mk.store(out, i, mk.atan(mk.load(x, i)))

    monkeypatch.setenv("EAS_BACKEND", "c")
    with pytest.raises(eas.Unsupported, match=r"the C target has no spelling of atan(.|\n)*mk.atan\(mk.load\(x, i\)\)"):
        arcs[(1,)](X.ravel(), X.ravel().copy(), BLOCK=64)


def test_only_known_names_are_backends(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "c")
    with pytest.raises(eas.InvalidSetting, match="EAS_BACKEND='c' is not one of auto, cpu, mps, metal, interp, sim"):
        scaled_sum[(1,)](X.ravel(), X.ravel(), X.ravel().copy(), 1.0, 64, BLOCK=64)
