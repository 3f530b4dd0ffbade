"""The elementwise functions of mk, judged by NumPy, and their conversions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from eas import mk
from eas.base.errors import TypeMismatch
from eas.base.types import Type
from tests.unit.mk_kernels import elementwise, lines_of, ptr, refusal, run

rng = np.random.default_rng(5)

UNARY: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: 10.0**x, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": lambda x: np.arccosh(x), "atanh": np.arctanh, "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc), "lgamma": np.vectorize(math.lgamma), "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sign": np.sign,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_float_functions(name):
    x = rng.uniform(0.05, 0.95, 32).astype(np.float32) + (1 if name == "acosh" else 0)
    np.testing.assert_allclose(
        elementwise(getattr(mk, name), x, out=np.float32),
        UNARY[name](x.astype(np.float64)),
        rtol=2e-6,
    )


@pytest.mark.parametrize("name", UNARY)
def test_float_functions_are_methods(name):
    def kernel(x):
        v = mk.load(x, 0)
        assert getattr(v, name)().type == getattr(mk, name)(v).type

    lines_of(kernel, x=ptr(mk.f32))


ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0), "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x), "softplus": lambda x: np.logaddexp(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)), "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, dtype):
    x = np.array([-90, -7.5, -1, -0.1, 0, 0.2, 1, 3, 80], dtype)
    want = ACTIVATIONS[name](x.astype(np.float64))
    rtol = {np.float16: 2e-3, np.float32: 4e-6, np.float64: 1e-13}[dtype]
    atol = {np.float16: 1e-4, np.float32: 1e-7, np.float64: 1e-14}[dtype]
    for form in (getattr(mk, name), lambda v: getattr(v, name)()):
        np.testing.assert_allclose(elementwise(form, x, out=dtype), want, rtol=rtol, atol=atol)


def test_gelu_by_tanh():
    x = np.linspace(-4, 4, 9).astype(np.float32)
    want = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(elementwise(lambda v: mk.gelu(v, approximate="tanh"), x, out=np.float32), want, rtol=1e-5, atol=1e-6)


def test_float_predicates_and_bit_functions():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1.5], np.float32)
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        np.testing.assert_array_equal(
            elementwise(getattr(mk, name), x, out=np.bool_), getattr(np, name)(x)
        )
    n = np.array([0, 1, 12, 2**31], np.uint32)
    np.testing.assert_array_equal(elementwise(mk.popcount, n, out=np.uint32), [0, 1, 2, 1])
    np.testing.assert_array_equal(elementwise(mk.clz, n, out=np.uint32), [32, 31, 28, 0])
    np.testing.assert_array_equal(elementwise(mk.ctz, n, out=np.uint32), [32, 0, 2, 31])
    np.testing.assert_array_equal(
        elementwise(mk.bit_reverse, n, out=np.uint32), [0, 2**31, 3 << 28, 1]
    )


def test_binary_functions():
    a, b = rng.uniform(0.5, 4, (2, 32)).astype(np.float32)
    for fn, want in (
        (mk.pow, np.power),
        (mk.atan2, np.arctan2),
        (mk.hypot, np.hypot),
        (mk.fmod, np.fmod),
        (mk.fdiv, np.divide),
        (lambda x, y: mk.copysign(x, -y), lambda x, y: -x),
        (lambda x, y: mk.fma(x, y, 1.0), lambda x, y: x.astype(np.float64) * y + 1),
        (lambda x, y: mk.clamp(x, 1.0, y), lambda x, y: np.minimum(np.maximum(x, 1), y)),
        (mk.min, np.minimum),
        (lambda x, y: mk.max(x, y, 2.0), lambda x, y: np.maximum(np.maximum(x, y), 2)),
    ):
        np.testing.assert_allclose(elementwise(fn, a, b, out=np.float32), want(a, b), rtol=2e-6)


def test_integer_divisions():
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    np.testing.assert_array_equal(elementwise(mk.div_trunc, a, b, out=np.int32), [3, -3, -3, 3, 0])
    np.testing.assert_array_equal(elementwise(mk.rem, a, b, out=np.int32), [1, -1, 1, -1, 0])
    np.testing.assert_array_equal(elementwise(mk.cdiv, a, b, out=np.int32), [4, -3, -2, 5, 0])
    big = np.array([2**31 - 1, -1], np.int32)
    np.testing.assert_array_equal(elementwise(mk.mulhi, big, big, out=np.int32), [2**30 - 1, 0])
    np.testing.assert_array_equal(
        elementwise(mk.umulhi, big, big, out=np.uint32), [2**30 - 1, 2**32 - 2]
    )


def test_nan_in_minimum_and_maximum():
    a, b = np.array([np.nan, 1], np.float32), np.array([2, np.nan], np.float32)
    assert np.isnan(elementwise(mk.maximum, a, b, out=np.float32)).all()
    np.testing.assert_array_equal(
        elementwise(lambda x, y: mk.minimum(x, y, propagate_nan=False), a, b, out=np.float32),
        [2, 1],
    )


def test_python_numbers_stay_python_numbers():
    assert mk.cdiv(1031, 256) == 5
    assert [mk.next_power_of_2(n) for n in (0, 1, 2, 3, 5, 1024, 1025)] == [
        1,
        1,
        2,
        4,
        8,
        1024,
        2048,
    ]

    def kernel(N):
        assert mk.max(3, 4, 2) == 4
        assert mk.minimum(N, 4) == 4
        assert mk.clamp(N, 1, 5) == 5
        assert mk.logical_and(True, 1) is True
        assert mk.logical_not(0) is True
        mk.zeros(mk.max(N, 2))

    lines_of(kernel, N=8)


def test_python_numbers_are_weak_floats():
    def kernel(y):
        mk.store(y, 0, mk.sqrt(4))
        mk.store(y, 1, mk.where(True, 3, 0.5))
        mk.store(y, 2, mk.where(mk.program_id(0) == 0, 1, 0))

    y = np.zeros(3, np.float32)
    run(kernel, y)
    np.testing.assert_array_equal(y, [2, 3, 1])


def test_where_promotes_and_broadcasts():
    def kernel(y):
        i = mk.arange(4)
        v = mk.where(i[:, None] < 2, mk.arange(2)[None, :], 0.5)
        assert str(v.type) == "f32[4,2]"
        mk.store(y, mk.arange(8), v.ravel())
        small = mk.cast(i, mk.f8e4m3)
        assert mk.where(i < 2, small, small).dtype is mk.f8e4m3

    y = np.zeros(8, np.float32)
    run(kernel, y)
    np.testing.assert_array_equal(y, [0, 1, 0, 1, 0.5, 0.5, 0.5, 0.5])


def test_casts():
    f = np.array([1.9, -1.9, np.nan, 3e10], np.float32)
    np.testing.assert_array_equal(elementwise(mk.to_i32, f, out=np.int32), [1, -1, 0, 2**31 - 1])
    np.testing.assert_array_equal(
        elementwise(lambda x: x.to(mk.u32, bitcast=True), f, out=np.uint32), f.view(np.uint32)
    )
    np.testing.assert_array_equal(elementwise(lambda x: mk.to_bool(x), f, out=np.bool_), [True] * 4)

    def numbers(y):
        assert mk.cast(3.7, mk.i32).dtype is mk.i32
        mk.store(y, 0, mk.cast(0.1, mk.f64))
        mk.store(y, 1, mk.cast(-1, "u8"))
        mk.store(y, 2, mk.cast(2.0**40, np.int32))

    y = np.zeros(3, np.float64)
    run(numbers, y)
    np.testing.assert_array_equal(y, [0.1, 255, 2**31 - 1])


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda x, i: mk.exp(x), "exp needs a value, got the pointer ptr<f32>"),
        (lambda x, i: mk.where(i, x, x), "where needs values, got the pointer"),
        (lambda x, i: mk.popcount(i * 1.0), "popcount needs an integer operand, got f32"),
        (lambda x, i: mk.fma(i, i, i), "fma needs a float operand, got i32"),
        (lambda x, i: mk.cast(i, mk.f64, bitcast=True), "bitcast needs two types of one width"),
        (lambda x, i: mk.cast(i, "f99"), "there is no dtype named 'f99'"),
        (lambda x, i: mk.cast(i, mk.f8e4m3) + 1, "f8e4m3 is a storage type"),
        (lambda x, i: mk.sum(mk.cast(mk.arange(4), mk.f8e5m2)), "fp8 is a storage type"),
        (lambda x, i: mk.cdiv(4, 0), "cdiv by 0"),
        (lambda x, i: mk.next_power_of_2(i), "must be known when the kernel is traced"),
    ],
)
def test_refusals(fn, text):
    def kernel(x, F):
        F(x, mk.program_id(0))

    assert text in refusal(TypeMismatch, kernel, x=ptr(mk.f32), F=fn)


def test_dtype_names():
    assert mk.bool is mk.bool_ is mk.int1
    assert (mk.float32, mk.float16, mk.bfloat16, mk.float64) == (mk.f32, mk.f16, mk.bf16, mk.f64)
    assert (mk.int8, mk.uint64) == (mk.i8, mk.u64)
    assert mk.constexpr(3) == 3


def test_logical_functions_take_any_value():
    def kernel(a, b):
        assert mk.logical_and(a, b).dtype is mk.bool
        assert mk.logical_or(a, 0).dtype is mk.bool
        assert mk.logical_not(a).dtype is mk.bool

    lines_of(kernel, a=Type(mk.i32), b=Type(mk.f32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, np.float32, np.bool_])
def test_powers_known_when_tracing(dtype):
    """Products for integers, and for the squares and cubes of floats; 1 for nothing."""
    x = np.array([0, 1, 2, 3, 5, 11], np.int64).astype(dtype)
    for count in (*range(6), 9):
        out = np.int32 if dtype is np.bool_ else dtype
        want = np.power(x.astype(out), out(count))
        np.testing.assert_array_equal(elementwise(lambda v, count=count: v**count, x, out=out), want, f"to the {count}")
