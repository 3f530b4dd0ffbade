"""Tiles that are read along one axis of memory and written along the other, without a word of transposing."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON
from tests.backend.launches import launch


@eas.kernel
def across(x, scale, y, rows, cols, T: mk.constexpr):
    r, c = mk.program_id(0) * T + mk.arange(0, T), mk.program_id(1) * T + mk.arange(0, T)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    tile = mk.load(x + r[:, None] * cols + c[None, :], mask=inside) * 2 + mk.load(scale + c, mask=c < cols)[None, :]
    mk.store(y + c[None, :] * rows + r[:, None], tile, mask=inside)


@pytest.mark.parametrize("kind", ["f4", "i1", "i8"])
@pytest.mark.parametrize(("rows", "cols", "tile"), [(64, 64, 32), (40, 70, 32), (17, 3, 16), (33, 128, 64)])
def test_stores_across_what_is_read(backend, kind, rows, cols, tile):
    x = np.random.default_rng(rows).integers(-30, 30, (rows, cols)).astype(kind)
    scale, y = np.arange(cols).astype(kind), np.full((cols, rows), 9, kind)
    launch(backend, across, x, scale, y, rows, cols, grid=(-(-rows // tile), -(-cols // tile)), T=tile)
    np.testing.assert_array_equal(y, (x * 2 + scale).astype(kind).T)


@eas.kernel
def in_place(x, T: mk.constexpr):
    r, c = mk.arange(0, T)[:, None], mk.arange(0, T)[None, :]
    mk.store(x + c * T + r, mk.load(x + r * T + c) + 1)


@eas.kernel
def both_ways(x, y, z, T: mk.constexpr):
    r, c = mk.arange(0, T)[:, None], mk.arange(0, T)[None, :]
    tile = mk.load(x + r * T + c)
    mk.store(y + c * T + r, tile)
    mk.store(z + r * T + c, tile - mk.load(y + r * T + c))


def test_a_square_over_itself_and_one_that_is_read_after(backend):
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    given, y, z = x.copy(), np.zeros_like(x), np.zeros_like(x)
    launch(backend, both_ways, x, y, z, grid=1, T=32)
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_array_equal(z, x - x.T)
    launch(backend, in_place, x, grid=1, T=32)
    np.testing.assert_array_equal(x, given.T + 1)


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=lambda t: t.name)
def test_squares_are_turned_in_registers(target):
    x, y = np.zeros((2, 64, 64), np.float32)
    compiled = across.compile(x, x[0], y, 64, 64, T=64)
    module = schedule(compiled.variant(frozenset(f for f in compiled.facts if f.kind == "disjoint")).module, target)
    names = [inst.op.name for inst in walk(module.body)]
    assert "vtranspose" in names
    assert "stride_store" not in names
