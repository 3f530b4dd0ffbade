"""Python's operators on traced values: promotion, broadcasting, pointers, and their refusals."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

from eas import mk
from eas.base.dtypes import DType
from eas.base.errors import EasError, ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.frontend import block
from eas.frontend.block import Block
from eas.frontend.operators import Methods
from tests.unit.mk_kernels import elementwise, lines_of, ptr, refusal, run

rng = np.random.default_rng(3)


def test_every_method_that_has_a_type_has_a_function():
    classes = {n.name: n for n in ast.walk(ast.parse(inspect.getsource(block))) if isinstance(n, ast.ClassDef)}
    typed = {n.name for n in classes["Operators"].body if isinstance(n, ast.FunctionDef)}
    assert typed == vars(Methods).keys() - {"__doc__", "__module__", "__slots__", "__hash__"}


def result_type(fn, *operands):
    """The type of fn over scalars of the given dtypes, or Python numbers."""
    seen = []

    def kernel(a, b):
        seen.append(fn(a, b).type)

    given = [Type(x) if isinstance(x, DType) else x for x in operands]
    lines_of(kernel, a=given[0], b=given[1])
    return str(seen[0])


@pytest.mark.parametrize(
    ("a", "b", "add", "div"),
    [
        (mk.f32, mk.f32, "f32", "f32"),
        (mk.f16, mk.bf16, "f32", "f32"),
        (mk.f16, mk.i32, "f16", "f16"),
        (mk.i8, mk.u8, "i16", "f32"),
        (mk.u32, mk.i32, "i64", "f32"),
        (mk.bool, mk.bool, "i32", "f32"),
        (mk.i64, 3, "i64", "f32"),
        (mk.i32, 0.5, "f32", "f32"),
        (mk.f16, 0.5, "f16", "f16"),
        (mk.bool, 2, "i32", "f32"),
        (mk.u8, True, "u8", "f32"),
    ],
)
def test_promotion(a, b, add, div):
    assert result_type(lambda x, y: x + y, a, b) == add
    assert result_type(lambda x, y: x - y, a, b) == add
    assert result_type(lambda x, y: x / y, a, b) == div
    assert result_type(lambda x, y: x < y, a, b) == "bool"


def test_reflected_operators_keep_their_order():
    def kernel(x, y):
        mk.store(y, mk.arange(6), mk.load(x, mk.arange(6)) * 0)
        v = mk.load(x, 0)
        for i, r in enumerate((7 - v, 7 / v, 7 // v, 7 % v, 2**v, np.float32(7) - v)):
            mk.store(y, i, r)

    x, y = np.array([2.0] * 6, np.float32), np.zeros(6, np.float32)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, [5, 3.5, 3, 1, 4, 5])


def test_integer_operators_agree_with_numpy():
    a = rng.integers(-50, 50, 64).astype(np.int32)
    b = rng.integers(1, 9, 64).astype(np.int32) * rng.choice([-1, 1], 64).astype(np.int32)
    for fn in (
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x // y,
        lambda x, y: x % y,
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: x ^ y,
        lambda x, y: ~x - -y + abs(x),
        lambda x, y: divmod(x, y)[0] + (+x),
        lambda x, y: x**3,
    ):
        np.testing.assert_array_equal(elementwise(fn, a, b, out=np.int32), fn(a, b))


def test_comparisons_give_bools():
    a, b = rng.integers(0, 3, (2, 32)).astype(np.float32)
    for fn in (
        lambda x, y: x == y,
        lambda x, y: x != y,
        lambda x, y: x < y,
        lambda x, y: x <= y,
        lambda x, y: x > y,
        lambda x, y: x >= y,
        lambda x, y: ~(x >= y),
    ):
        np.testing.assert_array_equal(elementwise(fn, a, b, out=np.bool_), fn(a, b))


def test_shifts_keep_the_dtype_of_the_left_operand():
    assert result_type(lambda x, y: x << y, mk.u8, mk.i64) == "u8"
    assert result_type(lambda x, y: x >> 3, mk.i16, mk.i64) == "i16"
    assert result_type(lambda x, y: 1 << y, mk.u8, mk.i64) == "i64"
    counts = np.array([0, 7, 8, 256, 300], np.int32)
    got = elementwise(lambda x, n: x << n, np.full(5, 3, np.uint8), counts, out=np.uint8)
    np.testing.assert_array_equal(got, [3, 128, 0, 0, 0])
    got = elementwise(lambda x, n: x >> n, np.full(5, -100, np.int8), counts, out=np.int8)
    np.testing.assert_array_equal(got, [-100, -1, -1, -1, -1])


def test_powers():
    x = np.array([-2, 0, 3], np.int32)
    for n in (0, 1, 2, 5, 8):
        np.testing.assert_array_equal(elementwise(lambda v, n=n: v**n, x, out=np.int32), x**n)
    f = np.array([0.5, 2, 3], np.float32)
    for p in (0, 1, 2, 3, 4, -1, 0.5):
        np.testing.assert_allclose(
            elementwise(lambda v, p=p: v**p, f, out=np.float32), f**p, rtol=1e-6
        )

    def squares(x):
        mk.store(x, 0, mk.load(x, 0) ** 2)

    assert "pow" not in " ".join(lines_of(squares, x=ptr(mk.f32)))


def test_broadcasting_by_new_axes():
    def kernel(x, y):
        i, j = mk.arange(4), mk.arange(8)
        grid = i[:, None] * 8 + j[None, :]
        mk.store(y, grid, mk.load(x + grid)[...] * 2)

    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, x * 2)


def test_pointer_arithmetic():
    def kernel(x, y, N):
        p = 2 + (x + mk.arange(4))
        mk.store(y + mk.arange(4), mk.load(p - 1) + mk.load(p - mk.full((4,), 2, mk.u32)))

    x, y = np.arange(8, dtype=np.int32), np.zeros(4, np.int32)
    run(kernel, x, y, 3)
    np.testing.assert_array_equal(y, [1, 3, 5, 7])


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (lambda x, v: x - x, TypeMismatch, "a pointer cannot be subtracted"),
        (lambda x, v: x + x, TypeMismatch, "two pointers cannot be added"),
        (lambda x, v: x * 2, TypeMismatch, "mul needs values, got the pointer"),
        (lambda x, v: x + 1.5, TypeMismatch, "pointer: offsets must be integers, got f32"),
        (lambda x, v: x[v], TypeMismatch, "mk.load(buffer, offsets) reads it"),
        (lambda x, v: v & v, TypeMismatch, "and needs an integer or bool operand, got f32"),
        (lambda x, v: v << 1, TypeMismatch, "shl needs an integer operand, got f32"),
        (lambda x, v: mk.program_id(0) << -1, TypeMismatch, "shl by -1"),
        (lambda x, v: mk.program_id(0) << v, TypeMismatch, "shl by f32"),
        (
            lambda x, v: mk.program_id(0) ** mk.program_id(0),
            TypeMismatch,
            "pow needs a float operand, got i32",
        ),
        (lambda x, v: mk.program_id(0) ** -1, TypeMismatch, "pow needs a float operand, got i32"),
        (lambda x, v: mk.program_id(0) + 2**40, TypeMismatch, "1099511627776 does not fit i32"),
        (lambda x, v: v - ["a"], TypeMismatch, "a table has numbers"),
        (lambda x, v: v + np.ones(300), ShapeMismatch, "pass a larger one as an argument"),
        (lambda x, v: v == None, TypeMismatch, "an operand of eq cannot be a NoneType"),  # noqa: E711
        (
            lambda x, v: mk.arange(4) + mk.arange(8),
            ShapeMismatch,
            "shapes [4] and [8], which do not broadcast",
        ),
        (lambda x, v: mk.arange(4)[4], ShapeMismatch, "index 4 of an axis of 4 elements"),
        (lambda x, v: mk.arange(4)[:, :], ShapeMismatch, "2 axes of a block with 1"),
        (lambda x, v: round(v, 2), TypeMismatch, "round to decimal digits"),
    ],
)
def test_refusals_name_the_rule(fn, kind, text):
    def kernel(x, F):
        F(x, mk.load(x, 0))

    assert text in refusal(kind, kernel, x=ptr(mk.f32), F=fn)


def test_hint_repeats_the_argument():
    def kernel(x):
        i = mk.load(x, 0)
        mk.exp(i + 3)

    text = refusal(TypeMismatch, kernel, x=ptr(mk.i32))
    assert text.startswith("exp needs a float operand, got i32\n")
    assert "    mk.exp(i + 3)\n    ^^^^^^^^^^^^^\n" in text
    assert text.endswith("hint: mk.cast(i + 3, mk.f32)")

    def method(x):
        mk.load(x, 0).exp()

    assert refusal(TypeMismatch, method, x=ptr(mk.i32)).endswith(
        "hint: mk.cast(mk.load(x, 0), mk.f32)"
    )


def test_methods_are_the_functions():
    for name in (
        "to",
        "cast",
        "sum",
        "max",
        "min",
        "argmax",
        "argmin",
        "prod",
        "any",
        "all",
        "xor_sum",
        "cumsum",
        "cumprod",
        "reduce",
        "associative_scan",
        "reshape",
        "view",
        "permute",
        "trans",
        "T",
        "broadcast_to",
        "expand_dims",
        "unsqueeze",
        "squeeze",
        "ravel",
        "flip",
        "gather",
        "sort",
        "topk",
        "histogram",
        "split",
        "abs",
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "sqrt",
        "rsqrt",
        "sigmoid",
        "erf",
        "floor",
        "ceil",
        "cdiv",
        "logical_and",
        "logical_or",
    ):
        assert hasattr(Block, name), name
    with pytest.raises(TypeError, match="unhashable"):
        hash(Block.__new__(Block))


def test_every_public_name_has_one_line_of_documentation():
    for name in mk.__all__:
        thing = getattr(mk, name)
        if callable(thing):
            doc = thing.__doc__ or ""
            assert doc, name
            assert "\n" not in doc.strip(), name
            assert doc.rstrip().endswith("."), name
            assert thing.__name__ in (name, "constexpr"), name


def test_functions_outside_of_a_kernel_say_so():
    with pytest.raises(EasError, match="can only be used inside a kernel"):
        mk.arange(4)
