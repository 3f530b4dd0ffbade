"""Annotations of kernel parameters: the dtype of a number, of a buffer, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.plain_hooks import load_source

BACKENDS = ["cpu", "interp"]


@eas.kernel
def scaled(x, y, alpha, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < n) * alpha, i < n)


@eas.kernel
def in_f64(y, alpha: mk.f64, n: mk.i64):
    mk.store(y, 0, alpha)
    mk.store(y, 1, (n * 3_000_000_000 + 1) % 1000)


@eas.kernel
def halves(x: mk.ptr(mk.f16), y, k: int, s: float, flag: bool):
    mk.store(y, 0, mk.load(x, k) * s + (1 if flag else 0))


@pytest.fixture(params=BACKENDS, autouse=True)
def _on(request, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", request.param)


@pytest.mark.parametrize("count", [1, 6])  # six: the native launcher has learned it
def test_a_float_beside_f64_buffers_is_f64(count):
    x, y = np.arange(1.0, 9.0), np.zeros(8)
    for turn in range(count):
        scaled(x, y, 0.1 + turn, 8, BLOCK=8)
    np.testing.assert_array_equal(y, x * (0.1 + (count - 1)))


def test_a_float_beside_other_buffers_is_f32():
    for dtypes in ((np.float32, np.float64), (np.float64, np.float32), (np.int32, np.float32)):
        x, y = np.ones(8, dtypes[0]), np.zeros(8, dtypes[1])
        scaled(x, y, 0.1, 8, BLOCK=8)
        np.testing.assert_array_equal(y, np.float64(np.float32(0.1)).astype(dtypes[1]))


@pytest.mark.parametrize("count", [1, 6])
def test_declared_dtypes_hold(count):
    y = np.zeros(2)
    for turn in range(count):
        in_f64(y, 0.1, 7 + turn, _grid=1)
    assert y.tolist() == [0.1, 1]
    in_f64(y, 3, 1 << 40, _grid=1)
    assert y[0] == 3
    assert str(in_f64.compile(y, 1, 2).args[1].type) == "f64"
    assert str(in_f64.compile(np.zeros(2, np.float32), 1.0, 2).args[2].type) == "i64"


def test_numbers_of_python_are_checked():
    x, y = np.full(4, 2, np.float16), np.zeros(1, np.float32)
    halves(x, y, 1, 3, True, _grid=1)
    assert y[0] == 7
    for args, said in (
        ((x, y, 1.5, 3.0, True), "argument `k` is annotated int, got 1.5"),
        ((x, y, True, 3.0, True), "argument `k` is annotated int, got True"),
        ((x, y, 1, 3.0, 1), "argument `flag` is annotated bool, got 1"),
        ((y, y, 1, 3.0, True), "argument `x` is annotated mk.ptr(mk.f16), got a buffer of f32"),
        ((3, y, 1, 3.0, True), "argument `x` is annotated mk.ptr(mk.f16), got 3"),
        ((x, y, x, 3.0, True), "argument `k` is annotated int, got a buffer of f16"),
    ):
        with pytest.raises(eas.ArgumentError) as caught:
            halves(*args, _grid=1)
        assert caught.value.message == said
        assert caught.value.hint


def test_values_that_do_not_fit_are_refused_at_every_launch():
    names = load_source("@eas.kernel\ndef kernel(y, n: mk.u8):\n    mk.store(y, 0, n)\n", mk=mk, eas=eas)
    y = np.zeros(1, np.int32)
    for n in (3, 255, 7, 200):
        names["kernel"](y, n, _grid=1)
        assert y[0] == n
    for n in (256, -1):
        with pytest.raises(eas.ArgumentError, match=f"argument n is {n}, which is no u8"):
            names["kernel"](y, n, _grid=1)
    with pytest.raises(eas.ArgumentError, match=r"argument `n` is annotated u8, got the float 2\.5"):
        names["kernel"](y, 2.5, _grid=1)


def test_texts_that_name_nothing_of_a_kernel_are_left_alone():
    source = "from __future__ import annotations\n@eas.kernel\ndef kernel(y: Array, n: 'SomeName | None'):\n    mk.store(y, 0, n)\n"
    y = np.zeros(1, np.int32)
    load_source(source, mk=mk, eas=eas)["kernel"](y, 4, _grid=1)
    assert y[0] == 4
    wrong = load_source("from __future__ import annotations\n@eas.kernel\ndef kernel(y, n: mk.f65):\n    mk.store(y, 0, n)\n", mk=mk, eas=eas)["kernel"]
    with pytest.raises(eas.ArgumentError, match=r"parameter `n` of kernel kernel is annotated with mk\.f65"):
        wrong(y, 4, _grid=1)


def test_metal_refuses_f64():
    with pytest.raises(eas.Unsupported, match="f64"):
        in_f64.to_msl(np.zeros(2, np.float32), 0.5, 1)
