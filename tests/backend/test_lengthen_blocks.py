"""Loops that go along a row in short blocks: how the row is cut is not seen in what they do."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis import producers
from eas.base.facts import Fact
from eas.ir import walk
from eas.runtime.interp import execute
from eas.schedule.cpu_steps import prepared

LENGTHS = (0, 1, 63, 64, 100, 2048, 2049, 4200)


@eas.kernel
def softmax(x, y, n, BLOCK: eas.constexpr):
    best, total = mk.full([], -float("inf"), mk.f32), mk.zeros([], mk.f32)
    for first in range(0, n, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        best = mk.maximum(best, mk.max(mk.load(x, cols, cols < n, other=-float("inf"))))
    for first in range(0, n, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        total += mk.sum(mk.exp(mk.load(x, cols, cols < n, other=-float("inf")) - best))
    for first in range(0, n, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mk.store(y, cols, mk.exp(mk.load(x, cols, cols < n) - best) / total, cols < n)


@pytest.mark.parametrize(("n", "block"), [*((n, 64) for n in LENGTHS), (100, 16), (4200, 256)])
def test_three_walks_along_a_row(backend, n, block):
    x = np.linspace(-5, 5, max(n, 1), dtype=np.float32)
    y = np.full_like(x, 7)
    softmax[1,](x, y, n, BLOCK=block)
    exps = np.exp(x.astype(np.float64) - x[:n].max()) if n else x
    np.testing.assert_allclose(y, exps / exps.sum() if n else [7.0], rtol=2e-6)


@eas.kernel
def padded(x, y, sums, n):
    """What lanes behind the end add counts as often as there are such lanes in short blocks."""
    total, least = mk.zeros([], mk.i32), mk.full([], 100, mk.i32)
    for first in range(0, n, 32):
        cols = first + mk.arange(0, 32)
        values = mk.load(x, cols, cols < n, other=3)
        total += mk.sum(values)
        least = mk.minimum(least, mk.min(values - 1))
        mk.store(y, cols, values)
    mk.store(sums, 0, total)
    mk.store(sums, 1, least)


@pytest.mark.parametrize("n", LENGTHS)
def test_lanes_behind_the_end(backend, n):
    x = np.arange(5, 5 + max(n, 1), dtype=np.int32)
    up = -n % 32
    y, sums = np.zeros(n + up + 40, np.int32), np.zeros(2, np.int32)
    padded[1,](x, y, sums, n)
    expected = np.concatenate([x[:n], np.full(up, 3, np.int32)])
    assert sums.tolist() == [expected.sum(), min(100, *(expected - 1)) if n else 100]
    np.testing.assert_array_equal(y, np.pad(expected, (0, 40)))  # and nothing behind the last short block


@eas.kernel
def split_addresses(x, y, n):
    """The sum of counter and position in parts, in 64 bits, and behind pointers."""
    for first in range(64, n, 64):
        lanes = mk.arange(0, 64)
        far = first.to(mk.i64) + lanes.to(mk.i64) - 64
        mk.store(y + first + lanes, 0, mk.load(x + far, 0) * (first + lanes - 1))


def test_sums_in_parts(backend):
    n = 3000 // 64 * 64
    x, y = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    split_addresses[1,](x, y, n)
    i = np.arange(64, n)
    np.testing.assert_array_equal(y, np.concatenate([np.zeros(64), x[i - 64] * (i - 1)]))


@eas.kernel
def by_position(x, y, n):
    """Depends on the position in the block: blocks of 64 are what the user asked for."""
    lanes = mk.arange(0, 64)
    scale = mk.load(x, lanes)
    for first in range(0, n, 64):
        mk.store(y, first + lanes, scale + lanes * 1000 + first)


@eas.kernel
def by_block(x, y, n):
    """Counts blocks, and carries what depends on the block."""
    count, weighted = mk.zeros([], mk.i32), mk.zeros([], mk.i32)
    for first in range(0, n, 64):
        values = mk.load(x, first + mk.arange(0, 64))
        count += 1
        weighted = weighted * 2 + mk.sum(values)
    mk.store(y, 0, count)
    mk.store(y, 1, weighted)


@eas.kernel
def prefix(x, n):
    """Reads what the block before has stored."""
    for first in range(64, n, 64):
        cols = first + mk.arange(0, 64)
        mk.store(x, cols, mk.load(x, cols - 64) + mk.load(x, cols))


@eas.kernel
def collide(y, n):
    """The last of the blocks that store to one element wins."""
    for first in range(0, n, 64):
        cols = first + mk.arange(0, 64)
        mk.store(y, cols % 64, cols)


def test_what_depends_on_blocks_is_as_written(backend):
    n = 64 * 40
    x, y = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    by_position[1,](x, y, n)
    i = np.arange(n)
    np.testing.assert_array_equal(y, i % 64 * 1001 + i // 64 * 64)
    by_block[1,](x, y, n)
    weighted = np.int32(0)
    with np.errstate(over="ignore"):
        for part in x.reshape(-1, 64):
            weighted = np.int32(weighted * np.int32(2)) + np.int32(part.sum())
    assert y[:2].tolist() == [n // 64, int(weighted)]
    expected = np.cumsum(x.reshape(-1, 64), 0).ravel()
    prefix[1,](x, n)
    np.testing.assert_array_equal(x, expected)
    collide[1,](y, n)
    np.testing.assert_array_equal(y[:64], np.arange(n - 64, n))


@eas.kernel
def in_place(x, n):
    for first in range(0, n, 64):
        cols = first + mk.arange(0, 64)
        mk.store(x, cols, mk.load(x, cols, cols < n) * 2, cols < n)


@eas.kernel
def shifted(x, y, n):
    for first in range(0, n, 64):
        cols = first + mk.arange(0, 64)
        mk.store(y, cols, mk.load(x, cols, cols < n) + 1, cols < n)


@eas.kernel
def read_before(y, s, n):
    by = mk.load(s, mk.zeros([64], mk.i32))
    for first in range(0, n, 64):
        cols = first + mk.arange(0, 64)
        mk.store(y, cols, cols + by, cols < n)


def test_what_is_read_before_a_row_is_not_read_again(backend):
    memory = np.full(5000, 7, np.int32)
    read_before[1,](memory, memory[40:41], 5000)
    np.testing.assert_array_equal(memory, np.arange(5000) + 7)


def test_arrays_that_overlap(backend):
    x = np.arange(3000, dtype=np.int32)
    in_place[1,](x, 2999)
    np.testing.assert_array_equal(x, np.arange(3000) * 2 - np.where(np.arange(3000) == 2999, 2999, 0))
    memory = np.zeros(3000 + 64, np.int32)
    shifted[1,](memory[:3000], memory[64:], 3000)  # each block reads what the one before has stored
    np.testing.assert_array_equal(memory, np.arange(3064) // 64)


@pytest.mark.parametrize(
    ("kernel", "arrays", "is_long"),
    [(softmax, 2, True), (padded, 3, True), (in_place, 1, True), (split_addresses, 2, True), (by_position, 2, False), (by_block, 2, False), (prefix, 1, False), (collide, 1, False), (read_before, 2, False)],
)
def test_which_loops_take_long_blocks(kernel, arrays, is_long):
    x = np.zeros(64, np.float32 if kernel is softmax else np.int32)
    compiled = kernel.compile(*[x] * arrays, 64, **({"BLOCK": 64} if kernel is softmax else {}))
    module = prepared(compiled.variant(frozenset([Fact("disjoint")])).module)
    made = producers(module)
    steps = {made[inst.operands[2]]["value"] for inst in walk(module.body) if inst.op.name == "for"}
    assert steps == {2048 if is_long else 64}


def plus(a, b):
    return a + b


@eas.kernel
def narrow_rows(x, sums, n, BLOCK: eas.constexpr):
    total, top = mk.zeros([], x.dtype), mk.full([], -100, x.dtype)
    for first in range(0, n, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        total += mk.reduce(mk.load(x, cols, cols < n), 0, plus)
        top = mk.maximum(top, mk.max(mk.load(x, cols, cols < n)))
    mk.store(sums, 0, total)
    mk.store(sums, 1, top)


def test_sums_of_narrow_floats_keep_their_blocks():
    """Each is rounded: 2048 and many halves are 2048 if they come one by one, in blocks they are more."""
    n, block = 700, 64
    x = np.full(n, 0.5, np.float16)
    x[0] = 2048
    compiled = narrow_rows.compile(x, x, n, BLOCK=block)
    module = compiled.variant().module
    found = []
    for form in (module, prepared(module)):
        sums = np.zeros(2, np.float16)
        execute(form, [x, sums, n], (1, 1, 1))
        found.append(sums.tolist())
    assert found[0] == found[1]
