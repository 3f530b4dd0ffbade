"""mk.load, mk.store and the atomics: both address forms, masks, conversions, refusals."""

# mypy: disable-error-code=arg-type

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eas import mk
from eas.base.errors import ShapeMismatch, TypeMismatch
from tests.unit.mk_kernels import lines_of, ptr, refusal, run


def test_buffer_and_pointer_forms_are_the_same():
    def sugar(x, y):
        i = mk.arange(4)
        mk.store(y, i, mk.load(x, i, i < 3, 1.0), i < 2)

    def pointers(x, y):
        i = mk.arange(4)
        v = mk.load(x + i, mask=i < 3, other=1.0)
        mk.store(y + i, v, mask=i < 2)

    args = {"x": ptr(mk.f32), "y": ptr(mk.f32)}
    assert sorted(line.split(" = ")[-1].split()[0] for line in lines_of(sugar, **args)) == sorted(
        line.split(" = ")[-1].split()[0] for line in lines_of(pointers, **args)
    )
    for kernel in (sugar, pointers):
        y = np.zeros(4, np.float32)
        run(kernel, np.arange(5, 9, dtype=np.float32), y)
        np.testing.assert_array_equal(y, [5, 6, 0, 0])


def test_masked_off_lanes_read_other():
    def kernel(x, y):
        i = mk.arange(4)
        mk.store(y, i, mk.load(x, i, i < 2, float("-inf")))
        mk.store(y, i + 4, mk.load(x, i, i < 2))
        mk.store(y, i + 8, mk.load(x, i, False, i * 1.0))
        mk.store(y, i + 12, mk.load(x, 0, True, 3))

    y = np.zeros(16, np.float32)
    run(kernel, np.array([1, 2, 3, 4], np.float32), y)
    inf = -np.inf
    np.testing.assert_array_equal(y, [1, 2, inf, inf, 1, 2, 0, 0, 0, 1, 2, 3, 1, 1, 1, 1])


def test_scalar_offsets_give_scalars():
    def kernel(x):
        v = mk.load(x, 3)
        assert v.shape == ()
        assert mk.load(x).shape == ()
        mk.store(x, v)

    assert lines_of(kernel, x=ptr(mk.i64))[1] == "%1 = addptr %x, %0 : ptr<i64>"


def test_masks_and_scalar_values_broadcast_to_the_offsets():
    def kernel(y):
        rows, cols = mk.arange(2)[:, None], mk.arange(4)[None, :]
        mk.store(y, rows * 4 + cols, 7, rows < 1)

    y = np.zeros(8, np.int32)
    run(kernel, y)
    np.testing.assert_array_equal(y, [7] * 4 + [0] * 4)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("f32", "f16"),
        ("i32", "i8"),
        ("i32", "f32"),
        ("bool", "f32"),
        ("bool", "i8"),
        ("f64", "f32"),
        ("i32", "bool"),
    ],
)
def test_store_converts_to_the_dtype_of_the_buffer(source, target):
    def kernel(y, TYPE):
        mk.store(y, 0, mk.cast(mk.program_id(0), TYPE))

    lines = lines_of(kernel, y=ptr(getattr(mk, target)), TYPE=source)
    assert any(line.endswith(f": {target}") and "cast" in line for line in lines)


@pytest.mark.parametrize(
    ("fn", "kind", "texts"),
    [
        (
            lambda x, n, i: mk.store(n, i, i * 1.0),
            TypeMismatch,
            (
                "the value of store is f32 and does not become i32 without a cast",
                "mk.cast(x, mk.i32)",
            ),
        ),
        (
            lambda x, n, i: mk.store(n, i, 1.5),
            TypeMismatch,
            ("the value of store is 1.5, which i32 cannot hold", "whole number"),
        ),
        (
            lambda x, n, i: mk.load(n, i, i < 2, float("inf")),
            TypeMismatch,
            ("load's other is inf, which i32 cannot hold",),
        ),
        (lambda x, n, i: mk.store(n, i, 2**31), TypeMismatch, ("2147483648 does not fit i32",)),
        (
            lambda x, n, i: mk.load(x, i, None, 1.0),
            TypeMismatch,
            ("there is no mask", "pass mask="),
        ),
        (
            lambda x, n, i: mk.load(x, i < 2),
            TypeMismatch,
            ("load: offsets must be integers, got bool[4]", "mk.load(..., mask=mask)"),
        ),
        (
            lambda x, n, i: mk.load(x, i * 1.0),
            TypeMismatch,
            ("load: offsets must be integers, got f32[4]", "mk.cast(offsets, mk.i32)"),
        ),
        (
            lambda x, n, i: mk.load(x, i, i),
            TypeMismatch,
            ("load: the mask must be bool, got i32[4]", "x != 0"),
        ),
        (lambda x, n, i: mk.load(i), TypeMismatch, ("load needs a buffer or pointer, got i32[4]",)),
        (
            lambda x, n, i: mk.load(np.ones(3), i),
            TypeMismatch,
            ("the buffer of load cannot be a ndarray", "pass arrays as kernel arguments"),
        ),
        (
            lambda x, n, i: mk.store(x + i, mk.load(x + i), i < 2),
            TypeMismatch,
            ("got a bool block as its value", "mask=mask"),
        ),
        (
            lambda x, n, i: mk.store(x, 0, i * 1.0),
            ShapeMismatch,
            ("store of f32[4] through ptr<f32>", "the shape of the offsets"),
        ),
        (
            lambda x, n, i: mk.load(x, 0, i < 2),
            ShapeMismatch,
            ("load: the mask has shape [4], the offsets []", "same offsets"),
        ),
        (
            lambda x, n, i: mk.store(x, i, x),
            TypeMismatch,
            ("the value of store needs values, got the pointer",),
        ),
        (
            lambda x, n, i: mk.atomic_and(x, i, 1),
            TypeMismatch,
            ("atomic_and needs an integer operand",),
        ),
        (
            lambda x, n, i: mk.atomic_add(n, i, 0.5),
            TypeMismatch,
            ("the value of atomic_add is 0.5",),
        ),
    ],
)
def test_refusals_name_the_rule_and_a_next_step(fn, kind, texts):
    def kernel(x, n, F):
        F(x, n, mk.arange(4))

    text = refusal(kind, kernel, x=ptr(mk.f32), n=ptr(mk.i32), F=fn)
    assert all(t in text for t in texts), text
    assert "hint: " in text


def test_whole_floats_are_integers():
    def kernel(n):
        mk.store(n, 0, mk.load(n, 1, mk.program_id(0) > 5, 4.0) + 1)

    n = np.zeros(2, np.int32)
    run(kernel, n)
    assert n[0] == 5


@pytest.mark.parametrize("name", ["add", "max", "min", "and", "or", "xor", "xchg"])
def test_atomics_return_the_old_value(name):
    def kernel(x, y, F):
        i = mk.arange(4)
        mk.store(y, i, F(x, i, i + 3, i < 3))
        F(x + i, 1, mask=i == 3)

    x, y = np.array([5, 1, 9, 4], np.int32), np.full(4, -1, np.int32)
    expected = x.copy()
    updates: dict[str, Any] = {
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "xchg": lambda a, b: b,
    }
    fn = updates[name]
    expected[:3] = fn(x[:3], np.arange(3, 6))
    expected[3] = fn(np.int32(4), np.int32(1))
    old = x.copy()
    run(kernel, x, y, F=getattr(mk, f"atomic_{name}"))
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, [*old[:3], 0])


def test_compare_and_swap_in_both_forms():
    def kernel(x, y):
        mk.store(y, 0, mk.atomic_cas(x, 1, 7, 8))
        mk.store(y, 1, mk.atomic_cas(x, 9, 1))

    x, y = np.array([2, 7], np.int32), np.zeros(2, np.int32)
    run(kernel, x, y)
    np.testing.assert_array_equal(x, [2, 8])
    np.testing.assert_array_equal(y, [7, 2])


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="boundary_check"):
        lines_of(lambda x: mk.load(x, 0, boundary_check=(0,)), x=ptr(mk.f32))  # type: ignore[call-arg]
