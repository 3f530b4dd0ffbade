"""Rows that fill no whole vector, of 8 bits and more, and short integers that are compared with a number."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

pytestmark = pytest.mark.every_width


@eas.kernel
def shift_rows(x, out, N, S, BLOCK: mk.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(out, row * S + cols, mk.load(x, row * S + cols, cols < N) + 3, cols < N)


@eas.kernel
def last_is_other(x, out, N, S, BLOCK: mk.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    here = mk.load(x, row * S + cols, cols < N)
    after = mk.load(x, row * S + cols + 1, cols < N - 1, other=7)
    above = mk.load(x, (row - 1) * S + cols, (cols < N) & (row > 0), other=9)
    mk.store(out, row * S + cols, here + after + above, cols < N)


@eas.kernel
def compare(x, out, n, limit, KIND: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n)
    if KIND == "lt":
        result = value < limit
    elif KIND == "le":
        result = limit >= value
    elif KIND == "gt":
        result = value > limit
    elif KIND == "ge":
        result = limit <= value
    elif KIND == "eq":
        result = value == limit
    else:
        result = limit != value
    mk.store(out, i, mk.where(result, value, 1), i < n)


def rows_of(dtype, n, rows=3, stride=140):
    return np.random.default_rng(n).integers(0, 100, (rows, stride)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32], ids=["u8", "i16", "f32"])
def test_rows_of_every_length(backend, dtype):
    for n in (0, 1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 67, 127, 128, 130):
        x, out = rows_of(dtype, n), np.full((3, 140), 99, dtype)
        shift_rows[3,](x, out, n, 140, BLOCK=128)
        want, m = np.full((3, 140), 99, dtype), min(n, 128)
        want[:, :m] = x[:, :m] + dtype(3)
        assert np.array_equal(out, want), n


@pytest.mark.parametrize("dtype", [np.uint8, np.float32], ids=["u8", "f32"])
def test_rows_in_place_are_changed_once(backend, dtype):
    for n in (5, 33, 67):
        x = rows_of(dtype, n)
        want = x.copy()
        want[:, :n] += dtype(3)
        shift_rows[3,](x, x, n, 140, BLOCK=128)
        assert np.array_equal(x, want)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32], ids=["u8", "f32"])
def test_masks_that_end_at_different_elements(backend, dtype):
    for n in (1, 33, 67, 120):
        x, out = rows_of(dtype, n), np.zeros((3, 140), dtype)
        last_is_other[3,](x, out, n, 140, BLOCK=128)
        after = np.concatenate([x[:, 1:n], np.full((3, 1), 7, dtype)], axis=1)
        above = np.concatenate([np.full((1, n), 9, dtype), x[:2, :n]])
        assert np.array_equal(out[:, :n], x[:, :n] + after + above)
        assert not out[:, n:].any()


@pytest.mark.parametrize("kind", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16], ids=["u8", "i16"])
def test_short_integers_are_compared_with_any_number(backend, dtype, kind):
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, 0, 1, 50, 51, info.max - 1, info.max] * 9, dtype)
    for limit in (-(2**31), info.min - 1, info.min, 0, 50, info.max, info.max + 1, 2**31 - 1):
        out = np.zeros_like(x)
        compare[1,](x, out, x.size, limit, KIND=kind, BLOCK=128)
        holds = getattr(operator, kind)(x.astype(np.int64), limit)
        assert np.array_equal(out, np.where(holds, x, 1)), limit


@eas.kernel
def ragged_rows_kernel(x, lengths, out, low, n, FOLD: eas.constexpr, FORM: eas.constexpr, ROWS: eas.constexpr, BLOCK: eas.constexpr):
    """Rows of one tile of which each ends, or starts, elsewhere."""
    r, c = mk.arange(0, ROWS)[:, None], mk.arange(0, BLOCK)[None, :]
    if FORM == "shrinking":
        mask = c < n - r * 5
    elif FORM == "growing":
        mask = c < n - 60 + r * 5
    elif FORM == "below":
        mask = (c <= r * 7) & (c < n)
    elif FORM == "above":
        mask = (c >= r * 7) & (c < n)
    elif FORM == "between":
        mask = (c >= r) & (c < n - r * 3)
    else:
        mask = c < mk.load(lengths, r)
    v = mk.load(x, r * BLOCK + c, mask, low)
    mk.store(out, mk.arange(0, ROWS), FOLD(v, axis=1))


@pytest.mark.parametrize("form", ["shrinking", "growing", "below", "above", "between", "loaded"])
def test_rows_that_end_in_different_places(backend, form):
    rows, block = 12, 128
    x = np.random.default_rng(5).integers(-9, 9, (rows, block)).astype(np.float32)
    lengths = np.random.default_rng(6).integers(0, block + 1, rows).astype(np.int32)
    r, c = np.arange(rows)[:, None], np.arange(block)[None, :]
    for n in (0, 3, 31, 64, 77, 127, 128):
        mask = {
            "shrinking": c < n - r * 5, "growing": c < n - 60 + r * 5, "below": (c <= r * 7) & (c < n), "above": (c >= r * 7) & (c < n),
            "between": (c >= r) & (c < n - r * 3), "loaded": c < lengths[:, None],
        }[form]  # fmt: skip
        for fold, meaning in ((mk.sum, np.sum), (mk.max, np.max)):
            out = np.full(rows, 777, np.float32)
            launch(backend, ragged_rows_kernel, x, lengths, out, -20.0, n, grid=1, FOLD=fold, FORM=form, ROWS=rows, BLOCK=block)
            np.testing.assert_array_equal(out, meaning(np.where(mask, x, np.float32(-20)), axis=1), f"{n} {meaning}")
