"""MLX arrays as arguments: computed first, shared through DLPack, never written; a stand-in on the fake Metal, and MLX's CPU build."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

import eas
from eas import lib, mk
from tests.unit.fake_metal import NEEDS_EXTENSION

needs_metal = NEEDS_EXTENSION


@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


class LazyArray:
    """As MLX's: no memory before `mx.eval`, then an MTLBuffer, exported as writable."""

    def __init__(self, values):
        self._values, self._memory = values, None

    def evaluate(self):
        if self._memory is None:
            self._memory = eas.tensor(self._values, device="mps")

    def __dlpack_device__(self):
        return (8, 0)

    def __dlpack__(self, stream=None):
        assert self._memory is not None, "nobody called mx.eval"
        return self._memory.__dlpack__()


LazyArray.__module__ = "mlx.core"


@pytest.fixture
def mx(monkeypatch):
    core = ModuleType("mlx.core")
    core.eval = lambda *arrays: [a.evaluate() for a in arrays]
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    monkeypatch.setenv("EAS_METAL", "software")
    monkeypatch.setenv("EAS_BACKEND", "auto")


@needs_metal
def test_arrays_on_metal_are_shared_and_never_written(mx):
    x = np.arange(100, dtype=np.float32)
    a, out = LazyArray(x), eas.empty(100, device="mps")
    add_kernel(a, a, out, 100, BLOCK=64)
    assert np.array_equal(out.numpy(), 2 * x)
    shared = eas.tensor(a)
    assert shared.device == "mps"
    assert shared.numpy().ctypes.data == a._memory.numpy().ctypes.data, "no copy"
    with pytest.raises(eas.LostWrite, match="read-only"):
        add_kernel(out, out, a, 100, BLOCK=64)


@needs_metal
def test_library_makes_tensors_of_eas(mx):
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    made = lib.softmax(LazyArray(x))
    assert made.device == "mps"
    np.testing.assert_allclose(made.numpy(), np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-5)
    assert isinstance(lib.linear(LazyArray(x), weight=LazyArray(x)), eas.Tensor)


def test_arrays_of_the_cpu_build(monkeypatch):
    mx = pytest.importorskip("mlx.core")
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    x = mx.arange(10, dtype=mx.float32) * 2
    out = np.zeros(10, np.float32)
    add_kernel(x, x, out, 10, BLOCK=16)
    assert out.tolist() == [4.0 * i for i in range(10)]
    with pytest.raises(eas.LostWrite):
        add_kernel(out, out, x, 10, BLOCK=16)
    assert isinstance(lib.softmax(x.reshape(2, 5)), eas.Tensor)
    half = mx.ones((3,), dtype=mx.bfloat16)
    assert eas.tensor(half).dtype.name == "bf16"


def test_metal_arrays_say_what_is_missing(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "native")
    array = LazyArray(np.zeros(3, np.float32))
    array.evaluate = lambda: None
    core = ModuleType("mlx.core")
    core.eval = lambda *arrays: None
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    with pytest.raises(eas.ArgumentError, match=r"argument 'a'.*lives on Metal"):
        add_kernel(array, array, np.zeros(3, np.float32), 3, BLOCK=16)
