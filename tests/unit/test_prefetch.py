"""Rows that a program reads again ask memory for the row of the next program, slow loops for what follows; nothing else does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir.text import print_module
from tests.unit.fixed_target import scheduled

pytest.importorskip("llvmlite")
ROWS, COLS = 8, 256


@eas.kernel
def centred(x, out, step, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    row = mk.load(x, mk.program_id(0) * step + cols)
    mk.store(out, mk.program_id(0) * BLOCK + cols, row - mk.sum(row, 0))


@eas.kernel
def same_row(x, out, step, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    row = mk.load(x, mk.program_id(1) * step + cols)
    mk.store(out, mk.program_id(0) * BLOCK + cols, row - mk.sum(row, 0))


@eas.kernel
def any_row(x, out, step, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    row = mk.load(x, mk.program_id(0) % 5 * step + cols)
    mk.store(out, mk.program_id(0) * BLOCK + cols, row - mk.sum(row, 0))


@eas.kernel
def once(x, out, step, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    mk.store(out, mk.program_id(0) * BLOCK + cols, mk.load(x, mk.program_id(0) * step + cols) + 1.0)


@eas.kernel
def slow(x, out, step, BLOCK: eas.constexpr):
    cols = mk.program_id(0) * step + mk.arange(0, BLOCK)
    mk.store(out, cols, mk.erf(mk.load(x, cols)))


@eas.kernel
def in_steps(x, out, step, BLOCK: eas.constexpr, FIRST: eas.constexpr = 0):
    """The second loop goes along the same elements if it starts with the first of them."""
    first, total = mk.program_id(0) * step, mk.zeros([], mk.f32)
    for at in range(0, step, 64):
        total += mk.sum(mk.load(x, first + at + mk.arange(0, 64)), 0)
    for at in range(FIRST, step, 64):
        cols = first + at + mk.arange(0, 64)
        mk.store(out, cols, mk.load(x, cols) - total)


def loops(kernel, block=COLS, **meta):
    """The scheduled IR of a launch whose arguments are apart."""
    x = np.zeros(ROWS * block, np.float32)
    return print_module(scheduled(kernel, x, np.empty_like(x), block, BLOCK=block, **meta))


@pytest.mark.parametrize(("block", "level"), [(COLS, 1), (1 << 13, 2)])
def test_the_next_row_is_prefetched_where_it_fits(block, level):
    found = re.findall(r"  prefetch %.*", loops(centred, block))
    assert found
    assert all(f"{{level={level}}}" in line for line in found)


def test_the_next_row_is_prefetched_in_a_second_loop():
    text = loops(in_steps)
    first, second = text.split("  for ", 2)[-2:]
    assert "  prefetch %" in second
    assert "  prefetch %" not in first
    assert re.search(r"= le %(.*\n){1,4}.*= select (.*\n){1,2}.*addptr .*\n +prefetch ", second)  # not if the row is too long


@pytest.mark.parametrize("kernel", [same_row, any_row, once])
def test_nothing_else_is(kernel):
    assert "  prefetch %" not in loops(kernel)


def test_loops_that_start_elsewhere_do_not_prefetch():
    assert "  prefetch %" not in loops(in_steps, FIRST=64)


def test_long_rows_are_not():
    assert "  prefetch %" not in loops(centred, 1 << 16)


def test_slow_loops_prefetch_what_follows():
    assert "  prefetch %" in loops(slow, 1 << 12)
    assert "  prefetch %" not in loops(slow, 1 << 8)
    assert "  prefetch %" not in loops(once, 1 << 12)


def test_behind_the_last_row_is_no_memory(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    x = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
    out = np.zeros_like(x)
    for step in (COLS, 1 << 28):  # nothing is read there: only the program after the last would
        rows = ROWS if step == COLS else 1
        centred[rows,](x, out, step, BLOCK=COLS)
        np.testing.assert_allclose(out[:rows], x[:rows] - x[:rows].sum(1, keepdims=True))
