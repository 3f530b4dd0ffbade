"""Rows are read again after a reduction of them, unless somebody may have written them."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import constexpr, mk
from eas.base.facts import Fact
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.rewrite.reload_blocks import Body, reload_blocks
from eas.schedule.target import AVX2


@eas.kernel
def scale_by_max(x, y, n, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, mk.program_id(0) * n + cols, cols < n, other=-float("inf"))
    mk.store(y, mk.program_id(0) * n + cols, values * mk.max(values), cols < n)


def loads_of(dtype, facts, kernel=scale_by_max, *rows):
    x = np.ones(64, dtype)
    variant = kernel.compile(x, x, *rows, 64, BLOCK=64).variant(frozenset(facts))
    module, copies = reload_blocks(variant.module)
    return sum(inst.op.name == "load" for inst in walk(module.body)), len(copies)


def test_a_row_is_loaded_again_after_its_reduction():
    assert loads_of(np.float32, [Fact("disjoint")]) == (2, 1)


@eas.kernel
def scale_rows_by_max(x, y, m, n, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    for row in range(mk.program_id(0), m, mk.num_programs(0)):
        values = mk.load(x, row * n + cols, cols < n, other=-float("inf"))
        mk.store(y, row * n + cols, values * mk.max(values), cols < n)


def test_a_row_inside_a_loop_too():
    assert loads_of(np.float32, [Fact("disjoint")], scale_rows_by_max, 1) == (2, 1)


def test_memory_that_may_be_written_is_loaded_once():
    assert loads_of(np.float32, []) == (1, 0)


def test_a_format_that_needs_decoding_is_loaded_once():
    assert loads_of(np.float16, [Fact("disjoint")]) == (1, 0)


def test_in_place_and_apart_give_the_same():
    x = np.arange(300, dtype=np.float32).reshape(3, 100)
    want, out = x * x.max(axis=1, keepdims=True), np.empty_like(x)
    scale_by_max[3](x, out, 100, BLOCK=128)
    scale_by_max[3](x, x, 100, BLOCK=128)
    assert (out == want).all()
    assert (x == want).all()


def test_a_row_that_is_loaded_again_takes_no_scratch():
    x = np.ones(64, np.float32)
    variant = scale_by_max.compile(x, x, 64, BLOCK=64).variant(frozenset([Fact("disjoint")]))
    assert not [inst for inst in walk(schedule(variant.module, AVX2).body) if inst.op.name == "scratch"]


@eas.kernel
def sums_of_rows(x, y, n, ROWS: constexpr, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK])
    for row in mk.static_range(ROWS):
        total += mk.load(x, row * n + cols)
    mk.store(y, cols, total - mk.max(total))


def test_what_follows_the_last_user_of_a_block_is_not_looked_at(monkeypatch):
    asked = []

    class Needed(list):
        def __getitem__(self, at):
            asked.append(at)
            return super().__getitem__(at)

    plain = Body.__init__

    def counted(self, body):
        plain(self, body)
        self.needed = Needed(self.needed)

    monkeypatch.setattr(Body, "__init__", counted)
    x, y = np.ones(64 * 64, np.float32), np.ones(64, np.float32)
    _, copies = reload_blocks(sums_of_rows.compile(x, y, 64, ROWS=64, BLOCK=64).variant(frozenset([Fact("disjoint")])).module)
    assert not copies
    assert not asked, "no reduction stands between a row and its only user"


@eas.kernel
def centre_and_scale(x, y, n, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    mask = cols < n
    values = mk.load(x, mk.program_id(0) * n + cols, mask)
    centred = mk.where(mask, values - mk.sum(values) / n, 0.0)
    mk.store(y, mk.program_id(0) * n + cols, centred * mk.rsqrt(mk.sum(centred * centred)), mask)


@eas.kernel
def soften(x, y, n, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    e = mk.exp(mk.load(x, mk.program_id(0) * n + cols, cols < n, other=-float("inf")))
    mk.store(y, mk.program_id(0) * n + cols, e / mk.sum(e), cols < n)


@pytest.mark.parametrize(("kernel", "facts", "is_kept"), [(centre_and_scale, ["disjoint"], False), (centre_and_scale, [], True), (soften, ["disjoint"], True)])
def test_a_short_formula_of_a_row_takes_no_scratch(kernel, facts, is_kept):
    """Unless the row may be written meanwhile, or the formula is longer than a trip to memory."""
    x = np.ones(64, np.float32)
    variant = kernel.compile(x, x, 64, BLOCK=64).variant(frozenset(map(Fact, facts)))
    scheduled = schedule(variant.module, AVX2)
    assert bool([inst for inst in walk(scheduled.body) if inst.op.name == "scratch"]) == is_kept


def test_a_row_that_is_centred_twice_is_as_numpy_has_it():
    x = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    y = np.empty_like(x)
    centre_and_scale[5](x, y, 100, BLOCK=128)
    centred = x - x.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred * centred).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    centre_and_scale[5](x, x, 100, BLOCK=128)
    np.testing.assert_allclose(x, want, rtol=1e-5, atol=1e-6)
