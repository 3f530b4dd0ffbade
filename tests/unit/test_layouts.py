"""Layouts: the columns mean what a brute-force walk over registers and threads says."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eas.schedule.gpu.layouts import (
    Conversion,
    Layout,
    Term,
    blocked,
    contiguous,
    conversion,
    fragment,
    reshape_keeps_bits,
)

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 16])
SHAPES = st.lists(EXTENTS, min_size=0, max_size=4).map(tuple)
THREADS = st.sampled_from([1, 32, 64, 128])


def _next_power(n: int) -> int:
    return 1 << (n - 1).bit_length()


@st.composite
def shuffled(draw: st.DrawFn, shape: tuple[int, ...] | None = None, threads: int | None = None) -> Layout:
    """Any layout: the bits of the elements in any order, copies, and columns that mix bits."""
    shape = draw(SHAPES) if shape is None else shape
    threads = draw(THREADS) if threads is None else threads
    bits = [1 << k for k in range(sum((e - 1).bit_length() for e in shape))]
    for _ in range(draw(st.integers(0, 2))):
        if len(bits) > 1:
            i, j = draw(st.permutations(range(len(bits))))[:2]
            bits[i] ^= bits[j]
    thread_bits = threads.bit_length() - 1
    columns = bits + [0] * draw(st.integers(0, thread_bits))
    columns += [0] * (thread_bits - len(columns))
    columns = draw(st.permutations(columns))
    thread, register = columns[:thread_bits], columns[thread_bits:]
    return Layout(shape, tuple(register), tuple(thread[:5]), tuple(thread[5:]))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Layout, Layout]:
    shape, threads = draw(SHAPES), draw(THREADS)
    return draw(shuffled(shape, threads)), draw(shuffled(shape, threads))


def brute_elements(layout: Layout) -> np.ndarray:
    found = np.zeros((layout.num_registers, layout.threads), np.int64)
    for r, t in itertools.product(range(layout.num_registers), range(layout.threads)):
        e = 0
        for k, c in enumerate(layout.register):
            e ^= c if r >> k & 1 else 0
        for k, c in enumerate((*layout.lane, *layout.simdgroup)):
            e ^= c if t >> k & 1 else 0
        found[r, t] = e
    return found


def held(layout: Layout, block: np.ndarray) -> np.ndarray:
    """What each register of each thread holds of a padded block."""
    return block.reshape(-1)[layout.elements()]


def convert(how: Conversion, source: Layout, target: Layout, values: np.ndarray) -> np.ndarray:
    """Run a conversion over the registers of all threads."""
    if how.kind == "threadgroup":
        memory = np.zeros(prod(source.padded), values.dtype)
        memory[source.elements()] = values
        return memory[target.elements()]
    threads = np.arange(source.threads)
    if how.kind == "registers":
        return values[list(how.registers)]
    lane, group = threads & 31, threads >> 5
    base = np.zeros_like(threads)
    for k, c in enumerate(how.lanes):
        base ^= np.where(lane >> k & 1, c, 0)
    for k, c in enumerate(how.simdgroups):
        base ^= np.where(group >> k & 1, c, 0)
    return np.stack([values[r, (group << 5) + (base ^ x)] for r, x in zip(how.registers, how.register_lanes, strict=True)])


@settings(deadline=None)
@given(shuffled())
def test_a_layout_is_the_xor_of_its_columns(layout):
    want = brute_elements(layout)
    assert (layout.elements() == want).all()
    assert set(want.ravel()) == set(range(prod(layout.padded))), "every element has a place"
    grid = np.indices(layout.padded).reshape(len(layout.shape), prod(layout.padded))
    coordinates = grid[:, want]
    assert (layout.coordinates() == coordinates).all()
    inside = np.ones(want.shape, bool)
    for c, extent in zip(coordinates, layout.shape, strict=True):
        inside &= c < extent
    assert (layout.is_inside() == inside).all()


@settings(deadline=None)
@given(shuffled())
def test_terms_and_registers_give_the_coordinates(layout):
    threads = np.arange(layout.threads)
    for axis, want in enumerate(layout.coordinates()):
        got = np.zeros_like(threads)
        for term in layout.thread_terms(axis):
            got ^= ((threads >> term.shift) & term.mask) * term.scale
        assert (got[None, :] ^ np.asarray(layout.register_coordinates(axis))[:, None] == want).all()


@settings(deadline=None)
@given(shuffled())
def test_effects_run_once_where_copies_are_switched_off(layout):
    running = (np.arange(layout.threads) & layout.replicated_threads) == 0
    assert set(layout.elements()[:, running].ravel()) == set(range(prod(layout.padded)))
    if layout.is_permutation and 0 not in layout.register:
        counts = np.bincount(layout.elements()[:, running].ravel())
        assert (counts == 1).all()


@settings(deadline=None)
@given(SHAPES, THREADS, st.sampled_from([1, 2, 4]))
def test_blocked_gives_neighbours_to_a_thread_then_to_lanes(shape, threads, vector):
    layout = blocked(shape, threads, vector)
    size = prod(layout.padded)
    vector = max(1, min(vector, size // threads))
    chunk = vector * threads
    want = [[(r // vector) * chunk + (t * vector) % min(size, chunk) + r % vector for t in range(threads)] for r in range(max(1, size // threads))]
    assert (layout.elements() == np.asarray(want)).all()


def test_blocked_follows_the_given_order():
    layout = blocked((64, 32), 32, 2, order=(0, 1))
    assert (layout.coordinates()[0, :, :] % 64 == (np.arange(32) * 2)[None, :] + np.asarray([0, 1] * 32)[:, None]).all()


@settings(deadline=None)
@given(SHAPES.filter(bool), THREADS, st.integers(0, 3))
def test_contiguous_threads_own_runs_in_order(shape, threads, axis):
    axis %= len(shape)
    layout = contiguous(shape, threads, axis)
    along = layout.coordinates()[axis]
    run = max(1, min(layout.padded[axis], prod(layout.padded) // threads))
    assert (along[:run] == along[0] + np.arange(run)[:, None]).all(), "a run per thread"
    per_row = layout.padded[axis] // run
    assert (along[0, : min(threads, per_row)] == np.arange(min(threads, per_row)) * run).all(), "runs in thread order"
    others = np.delete(layout.coordinates(), axis, 0)
    assert (others[:, :run] == others[:, :1]).all()


@pytest.mark.parametrize(
    ("shape", "split_m", "split_n"),
    [((8, 8), 1, 1), ((64, 64), 2, 2), ((32, 16), 4, 1), ((16, 64), 1, 8), ((24, 40), 2, 4), ((4, 16, 32), 2, 2)],
)
def test_fragment_is_the_map_of_simdgroup_matrices(shape, split_m, split_n):
    layout = fragment(shape, split_m, split_n)
    m, n = layout.padded[-2:]
    per_m, per_n = m // split_m, n // split_n
    tiles_m, tiles_n = per_m // 8, per_n // 8
    coordinates = layout.coordinates()
    for r, t in itertools.product(range(layout.num_registers), range(layout.threads)):
        lane, group = t % 32, t // 32
        tile, element = r // 2, r % 2
        row = (lane >> 4 & 1) * 4 + (lane >> 1 & 3)
        column = (lane >> 3 & 1) * 4 + (lane & 1) * 2 + element
        row += (tile // tiles_n % tiles_m) * 8 + group // split_n * per_m
        column += tile % tiles_n * 8 + group % split_n * per_n
        assert tuple(coordinates[-2:, r, t]) == (row, column)
        assert tuple(coordinates[:-2, r, t]) == ((tile // (tiles_n * tiles_m),) if len(shape) > 2 else ())


def test_rows_of_a_fragment_reduce_over_lanes_1_and_8():
    rows = fragment((16, 16), 1, 1).reduced(1)
    assert [k for k, c in enumerate(rows.lane) if not c] == [0, 3]
    assert rows.num_registers == 2


def test_spare_simdgroups_of_a_fragment_hold_copies():
    layout = fragment((8, 16), 1, 2, threads=256)
    assert layout.threads == 256
    assert layout.simdgroup[1:] == (0, 0)
    assert layout.replicated_threads == 0b11000000


@settings(deadline=None)
@given(shuffled().filter(lambda x: x.shape), st.data())
def test_edits_commute_with_the_element_map(layout, data):
    block = np.arange(prod(layout.padded)).reshape(layout.padded)
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    order = data.draw(st.permutations(range(len(layout.shape))))
    assert (held(layout, block) == held(layout.permuted(order), block.transpose(order))).all()
    assert (held(layout, block) == held(layout.expanded(axis), np.expand_dims(block, axis))).all()
    joined = np.stack([block, -block], axis=-1)
    halves = held(layout.joined(), joined)
    assert (halves[0::2] == held(layout, block)).all()
    assert (halves[1::2] == held(layout, -block)).all()
    if 0 not in layout.register:
        assert layout.joined().split() == layout


@settings(deadline=None)
@given(shuffled().filter(lambda x: x.shape), st.data())
def test_a_reduced_layout_covers_each_row_with_the_elements_it_came_from(layout, data):
    """Summing what the threads and registers of a row hold, each element once, is the row's sum."""
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    reduced = layout.reduced(axis)
    others = np.delete(layout.coordinates(), axis, 0)
    rows = np.ravel_multi_index(tuple(others), reduced.padded) if reduced.shape else np.zeros_like(layout.elements())
    # The rows of a thread after the reduction are those of which it held an element before.
    for t in range(layout.threads):
        assert set(reduced.elements()[:, t]) == set(rows[:, t])
        assert len(set(reduced.elements()[:, t])) == reduced.num_registers
    running = (np.arange(layout.threads) & layout.replicated_threads) == 0
    seen = {(int(row), int(e)) for row, e in zip(rows[:, running].ravel(), layout.elements()[:, running].ravel(), strict=True)}
    assert len(seen) == prod(layout.padded)


@settings(deadline=None)
@given(SHAPES, THREADS, st.data())
def test_reshape_keeps_the_elements_in_row_major_order(shape, threads, data):
    layout = data.draw(shuffled(shape, threads))
    factors = [f for e in shape for f in _factors(e)]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(factors), max_size=len(factors)))
    new = [1]
    for factor, cut in zip(factors, cuts, strict=True):
        if cut:
            new.append(factor)
        else:
            new[-1] *= factor
    reshaped = layout.reshaped(tuple(new))
    if all(e == _next_power(e) for e in shape):
        assert reshaped is not None
    if reshaped is None:
        return
    numbers = np.full(layout.padded, -1)
    numbers[tuple(slice(e) for e in shape)] = np.arange(prod(shape)).reshape(shape)
    renumbered = np.full(reshaped.padded, -1)
    renumbered[tuple(slice(e) for e in new)] = np.arange(prod(shape)).reshape(new)
    assert (held(layout, numbers) == held(reshaped, renumbered)).all()


def _factors(n: int) -> list[int]:
    for p in (2, 3, 5, 7):
        if n % p == 0:
            return [p, *_factors(n // p)]
    return []


@pytest.mark.parametrize(
    ("old", "new", "keeps"),
    [
        ((6, 8), (6, 2, 4), True),
        ((6, 4), (3, 8), True),
        ((24,), (3, 8), True),
        ((6, 5), (1, 6, 5, 1), True),
        ((6, 5), (30,), False),
        ((8, 3), (24,), False),
        ((2, 3), (3, 2), False),
        ((), (1, 1), True),
    ],
)
def test_reshape_says_when_bits_do_not_map(old, new, keeps):
    assert reshape_keeps_bits(old, new) is keeps
    assert reshape_keeps_bits(new, old) is keeps


@settings(deadline=None, max_examples=300)
@given(pairs())
def test_conversion_moves_every_element_and_back(layouts):
    a, b = layouts
    block = np.arange(prod(a.padded))
    moved = convert(conversion(a, b), a, b, held(a, block))
    assert (moved == held(b, block)).all()
    assert (convert(conversion(b, a), b, a, moved) == held(a, block)).all()


def padded_block(layout: Layout, block: np.ndarray) -> np.ndarray:
    """The block with -1 where it has no elements."""
    wide = np.full(layout.padded, -1)
    wide[tuple(slice(e) for e in layout.shape)] = block
    return wide


def _pairs_in_registers(layout):
    """Whether registers 2 * i and 2 * i + 1 of every thread hold the two elements of a pair, in this order."""
    first, *others = (*layout.register, *layout.lane, *layout.simdgroup)
    return bool(layout.register) and first == 1 and 0 not in layout.register and not any(c & 1 for c in others)


@settings(deadline=None, max_examples=60)
@given(shuffled(threads=32).filter(lambda x: x.shape and prod(x.padded) <= 512), st.data())
def test_chains_of_edits_and_conversions_follow_the_block(layout, data):
    """What the registers hold, moved only as each step says, stays what NumPy says the block is."""
    block = np.arange(prod(layout.shape)).reshape(layout.shape)
    values = held(layout, padded_block(layout, block))
    for step in data.draw(st.lists(st.sampled_from(["permute", "expand", "reshape", "join", "split", "reduce", "convert"]), max_size=7)):
        rank = block.ndim
        if step == "permute":
            order = data.draw(st.permutations(range(rank)))
            layout, block = layout.permuted(order), block.transpose(order)
        elif step == "expand" and rank < 5:
            axis = data.draw(st.integers(0, rank))
            layout, block = layout.expanded(axis), np.expand_dims(block, axis)
        elif step == "reshape":
            shape = tuple(data.draw(st.permutations([f for e in block.shape for f in _factors(e)])))
            shape = shape if rank > 1 else (prod(block.shape),)
            reshaped = layout.reshaped(shape)
            if reshaped is not None:
                layout, block = reshaped, block.reshape(shape)
        elif step == "join" and block.size < 512 and rank < 5:
            other = held(layout, padded_block(layout, block + 7))
            layout, block = layout.joined(), np.stack([block, block + 7], axis=-1)
            values = np.stack([values, other], axis=1).reshape(-1, values.shape[1])
        elif step == "split" and layout.shape[-1:] == (2,) and _pairs_in_registers(layout):
            half = data.draw(st.integers(0, 1))
            layout, block, values = layout.split(), block[..., half], values[half::2]
        elif step == "reduce" and rank:
            axis = data.draw(st.integers(0, rank - 1))
            layout, block = layout.reduced(axis), block.max(axis)
            values = held(layout, padded_block(layout, block))
        elif step == "convert":
            target = data.draw(shuffled(layout.shape, layout.threads))
            there = convert(conversion(layout, target), layout, target, values)
            assert (convert(conversion(target, layout), target, layout, there) == values).all(), "A -> B -> A"
            layout, values = target, there
        assert (values == held(layout, padded_block(layout, block))).all(), step
    assert (layout.elements() == brute_elements(layout)).all()


@settings(deadline=None)
@given(shuffled(), st.randoms())
def test_conversion_needs_no_lanes_where_only_registers_move(layout, random):
    register = list(layout.register)
    random.shuffle(register)
    other = Layout(layout.shape, tuple(register), layout.lane, layout.simdgroup)
    assert conversion(layout, other).kind == "registers"


def test_conversion_within_a_simdgroup_is_a_shuffle():
    rows = blocked((8, 32), 256, 1)
    reversed_lanes = Layout(rows.shape, rows.register, rows.lane[::-1], rows.simdgroup)
    assert conversion(rows, reversed_lanes).kind == "shuffle"
    assert not conversion(rows, reversed_lanes).is_xor


def test_conversion_across_simdgroups_goes_through_memory():
    assert conversion(blocked((32, 32), 128, 1), blocked((32, 32), 128, 1, order=(0, 1))).kind == "threadgroup"


def test_spreading_copies_over_more_threads_reads_one_lane():
    """A row sum that all lanes hold needs no exchange; one that lane 0 .. 31 hold is broadcast by a shuffle."""
    sums = Layout((2,), (1,), (0,) * 5, ())
    assert conversion(sums, sums) == Conversion("registers", (0, 1))
    one_each = Layout((32,), (), (1, 2, 4, 8, 16), ())
    everywhere = Layout((32,), (1, 2, 4, 8, 16), (0,) * 5, ())
    how = conversion(one_each, everywhere)
    assert how.kind == "shuffle"
    assert how.register_lanes == tuple(range(32))


def test_local_registers_finds_what_the_thread_holds():
    layout = blocked((4, 64), 64, 1)
    row_two = np.arange(64)[None, :] + 2 * 64
    assert layout.local_registers(row_two) == (2,)
    assert layout.local_registers(row_two ^ 1) is None


def test_terms_join_neighbouring_bits():
    layout = blocked((16, 64), 128, 4)
    assert layout.thread_terms(1) == (Term(0, 15, 4),)
    assert layout.thread_terms(0) == (Term(4, 7, 1),)


def test_layouts_print_for_people():
    layout = fragment((16, 16), 2, 1)
    assert str(layout) == "[16,16] register (0,1) (0,8); lane (0,2) (1,0) (2,0) (0,4) (4,0); simdgroup (8,0)"
    assert layout.describe() == (
        "[16, 16] on 64 threads, 4 registers each\n"
        "  axis 0: ((t >> 1) & 3) + (t >> 4) * 4\n"
        "  axis 1: (t & 1) * 2 + ((t >> 3) & 1) * 4 + {0, 1, 8, 9}"
    )
    assert str(blocked((2,), 32)) == "[2] lane (1) - - - -"
    assert "16 copies" in blocked((2,), 32).describe()
    assert str(blocked((), 1)) == "[] one thread"


def test_a_layout_that_loses_elements_is_a_bug():
    with pytest.raises(AssertionError, match="no place"):
        Layout((4,), (), (1, 0, 0, 0, 0), ())


def test_terms_of_all_mixtures_of_three_bits():
    """Columns of several bits are no multiples of each other's: their sum is no exclusive or."""
    for thread in itertools.product(range(8), repeat=3):
        if len({a ^ b ^ c for a in (0, thread[0]) for b in (0, thread[1]) for c in (0, thread[2])}) < 8:
            continue
        layout = Layout((8,), (), thread, ())
        got = np.zeros(8, int)
        for term in layout.thread_terms(0):
            got ^= ((np.arange(8) >> term.shift) & term.mask) * term.scale
        assert got.tolist() == layout.coordinates()[0, 0].tolist(), str(layout)
