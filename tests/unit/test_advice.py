"""Warnings about kernels that compile and probably do not mean what they say."""

import random
import time
import warnings

import numpy as np
import pytest

import eas
from eas import mk
from eas.frontend import advice


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch):
    monkeypatch.setattr(advice, "_told", set())


RNG = np.random.default_rng(0)
X = np.arange(8, dtype=np.float32)


def warnings_of(kernel, *args, **options):
    """The lines and texts that compiling a kernel warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        kernel.compile(*args, **options)
        kernel.compile(*args[:-1], *args[-1:], **{**options, "AGAIN": 1})  # traced again, told once
    assert all(w.category is eas.KernelWarning and w.filename == __file__ for w in seen)
    return [(w.lineno - kernel.fn.__code__.co_firstlineno, str(w.message)) for w in seen]


@eas.kernel
def precedence(x, N, AGAIN: eas.constexpr = 0):
    i = mk.arange(0, 8)
    mk.store(x, i, 1.0, i < N & i > 2)


@eas.kernel
def precedence_of_a_mask(x, N, AGAIN: eas.constexpr = 0):
    i = mk.arange(0, 8)
    mask = i > 2
    mk.store(x, i, 1.0, mask & i < N)


@eas.kernel
def no_store(x, N, AGAIN: eas.constexpr = 0):
    mk.load(x, mk.arange(0, 8)) + N


@eas.kernel
def f_string(x, N, AGAIN: eas.constexpr = 0):
    value = mk.load(x, N)
    mk.device_print(f"value {value}")


@eas.kernel
def narrow_product(x, y, N, AGAIN: eas.constexpr = 0):
    row = mk.program_id(0)
    mk.store(y, 0, row * N + 1)
    mk.store(x + (row * N).to(mk.i64), 1.0)


def test_comparisons_that_bits_bind_apart():
    assert warnings_of(precedence, X, 8) == [(3, "`&` binds more tightly than a comparison; put each comparison in parentheses: (i < N) & (i > 2)")]
    ((line, text),) = warnings_of(precedence_of_a_mask, X, 8)
    assert line == 4
    assert text.startswith("`&` of bool[8] and i32[8] works on the bits of numbers")


def test_a_kernel_that_writes_nothing():
    assert warnings_of(no_store, X, 8) == [(1, "kernel no_store writes nothing; store its results with mk.store(buffer, offsets, value)")]


def test_an_f_string_shows_no_value():
    ((line, text),) = warnings_of(f_string, X, 0)
    assert line == 3
    assert "in which <value: f32> stands for a value that nobody knows yet" in text
    assert 'mk.device_print("x", x)' in text


def test_a_product_that_is_widened_too_late():
    found = warnings_of(narrow_product, X, np.zeros(1, np.int64), 8)
    assert [line for line, _ in found] == [3, 4]
    assert all("a product is computed in i32 and becomes i64 afterwards" in text for _, text in found)


def drawing(draw):
    @eas.kernel
    def kernel(x, N, AGAIN: eas.constexpr = 0):
        mk.store(x, 0, float(draw()))

    return kernel


@pytest.mark.parametrize(
    "draw", [random.random, random.Random(3).random, np.random.rand, RNG.standard_normal, time.time, time.perf_counter], ids=lambda f: f"{f.__name__}"
)
def test_chance_and_clocks_are_baked_in(draw):
    ((line, text),) = warnings_of(drawing(draw), X, 0)
    assert line == 2
    assert text.startswith(f"{draw.__name__}() runs once, when the kernel is traced: every launch then uses the same number")


def test_torch_numbers_are_baked_in():
    torch = pytest.importorskip("torch")

    def draw():
        return torch.rand(1).item()

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        drawing(draw).compile(X, 0)
    assert ["rand() runs once" in str(w.message) for w in seen] == [True]


def test_what_is_meant_is_not_warned_of():
    @eas.kernel
    def kernel(x, y, N, AGAIN: eas.constexpr = 0):
        i = mk.program_id(0) * 8 + mk.arange(0, 8)
        mask = (i < N) & (i > 2) & (0 <= (i & 7) < 9)
        odd = i & 1 == 0
        mk.store(x, i, 1.0, mask & odd)
        mk.store(y, i, i, mask)  # i64; the other factor is known
        wide = mk.program_id(0).to(mk.i64) * N
        mk.store(y, (i % 7) * (N % 7), wide, mask)
        mk.device_print("wide", wide)
        mk.store(y, i, (i % 7) * mk.clamp(N, 0, 9), mask)

    assert warnings_of(kernel, X, np.zeros(8, np.int64), 8) == []


def test_an_operator_that_writes_what_torch_does_not_know():
    torch = pytest.importorskip("torch")

    @eas.kernel
    def double(x, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(x, i, 2 * mk.load(x, i, i < N), i < N)

    def define(name, **options):
        @eas.torch_op(f"test_advice::{name}", fake=lambda x, scale: None, **options)
        def doubled(x: torch.Tensor, scale: float) -> None:
            double(x, x.numel(), BLOCK=8)

        return doubled

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        define("said", mutates_args=["x"])(torch.ones(4), 1.0)
        assert not seen
        silent = define("silent")
        for _ in range(2):
            silent(torch.ones(4), 1.0)
    (warning,) = seen
    assert "operator test_advice::silent writes its argument `x`" in str(warning.message)
    assert "mutates_args=['x']" in str(warning.message)
    assert warning.filename == __file__
