"""Loops until no element wants to go on: where stopped elements stay as they are, and where they do not."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.cpu_steps import prepared
from eas.schedule.rewrite.element_loops import is_each, mark_element_loops
from tests.backend.launches import launch

N = 99  # of blocks of 128: the last lanes are masked off


@eas.kernel
def collatz_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=1)
    steps = mk.zeros([BLOCK], mk.i32)
    while mk.any(v > 1):
        go = v > 1
        v = mk.where(go, mk.where(v % 2 == 0, v // 2, 3 * v + 1), v)
        steps += go.to(mk.i32)
    mk.store(out, i, steps, i < n)


def collatz(x, limit):
    def steps(v):
        count = 0
        while v > 1:
            v, count = v // 2 if v % 2 == 0 else 3 * v + 1, count + 1
        return count

    return [steps(int(v)) for v in x]


@eas.kernel
def limited_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=0)
    go = v > 3
    k = 0
    while k < limit and mk.any(go):
        v = mk.where(go, v - 3, v)
        go &= v > 3
        k += 1
    mk.store(out, i, v, i < n)


def limited(x, limit):
    return [v - 3 * min(limit, max(0, -(-(v - 3) // 3))) for v in x.tolist()]


@eas.kernel
def done_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=0)
    done = v <= limit
    total = mk.zeros([BLOCK], mk.f32)
    while mk.any(~done):
        total += mk.where(done, 0.0, 0.5)
        v = mk.where(done, v, v // 2)
        done |= v <= limit
    mk.store(out, i, (2 * total).to(mk.i32), i < n)


def halvings(x, limit):
    return [max(0, int(v).bit_length() - limit.bit_length()) for v in x]


@eas.kernel
def square_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK // 16)[:, None] * 16 + mk.arange(0, 16)[None, :]
    v = mk.load(x, i, i < n, other=0)
    while mk.any(v > limit):
        v = mk.where(v > limit, v - limit, v)
    mk.store(out, i, v, i < n)


@eas.kernel
def search_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    """Where each number of 0 .. n-1 would be inserted into the sorted x: loads that the loop decides."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    low, high = mk.zeros([BLOCK], mk.i32), mk.zeros([BLOCK], mk.i32) + n
    while mk.any(low < high):
        middle = (low + high) // 2
        go = low < high
        right = mk.load(x, middle, go, other=0) < i
        low, high = mk.where(go & right, middle + 1, low), mk.where(go & ~right, middle, high)
    mk.store(out, i, low, i < n)


@eas.kernel
def together_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    """Elements that want to stop are changed as long as one wants to go on."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=0)
    while mk.any(v > limit):
        v -= limit
    mk.store(out, i, v, i < n)


def together(x, limit):
    return x - limit * max(0, -(-(int(x.max()) - limit) // limit))


@eas.kernel
def returning_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    """A scalar of the loop decides: elements that stopped go on later."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=0)
    k = 0
    while mk.any((v + k) % 8 != 0):
        v = mk.where((v + k) % 8 != 0, v + 1, v)
        k = 1 - k if mk.sum(v) < limit else 0
    mk.store(out, i, v, i < n)


def returning(x, limit):
    v, k = np.pad(x, (0, 128 - len(x))), 0
    while ((v + k) % 8 != 0).any():
        v = np.where((v + k) % 8 != 0, v + 1, v)
        k = 1 - k if v.sum() < limit else 0
    return v[: len(x)]


FORMS = {
    collatz_kernel: (collatz, True),
    limited_kernel: (limited, True),
    done_kernel: (halvings, True),
    square_kernel: (lambda x, limit: [v if v <= limit else (v - 1) % limit + 1 for v in x.tolist()], True),
    search_kernel: (lambda x, limit: np.searchsorted(x, np.arange(len(x))), True),
    together_kernel: (together, False),
    returning_kernel: (returning, False),
}


@pytest.mark.parametrize("kernel", FORMS, ids=lambda kernel: kernel.__name__)
def test_elements_stop(backend, kernel):
    x = np.sort(np.random.default_rng(3).integers(0, 300, N).astype(np.int32))
    out = np.zeros(N, np.int32)
    launch(backend, kernel, x, out, N, 7, grid=1, BLOCK=128)
    np.testing.assert_array_equal(out, FORMS[kernel][0](x, 7))


@pytest.mark.parametrize("kernel", FORMS, ids=lambda kernel: kernel.__name__)
def test_which_loops_stop_for_each_element(kernel):
    x = np.zeros(N, np.int32)
    module = mark_element_loops(prepared(kernel.compile(x, x, N, 7, BLOCK=128).ir))
    assert any(map(is_each, walk(module.body))) == FORMS[kernel][1]


@eas.kernel
def sums_kernel(x, out, n, FIRST: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    v = mk.load(x, i, i < n, other=0)
    total = mk.full([BLOCK], FIRST, mk.f32)
    while mk.any(v > 0):
        total += mk.where(v > 0, 1.0, 0.0)
        v = mk.where(v > 0, v - 1, v)
    mk.store(out, i, total, i < n)


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_a_sum_of_zeros_keeps_its_sign(backend, first):
    x, out = np.arange(N, dtype=np.int32) // 9, np.full(N, np.nan, np.float32)
    launch(backend, sums_kernel, x, out, N, grid=1, FIRST=first, BLOCK=128)
    np.testing.assert_array_equal(out, x)
    assert not np.signbit(out).any()  # also of those that never ran: others did, and added 0.0


@eas.kernel
def thread_kernel(x, out, n, limit, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        v = mk.load(x, i)
        k = 0
        while v > 1 and k < limit:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            k += 1
        mk.store(out, i, k)


@pytest.mark.parametrize("limit", [0, 5, 1000])
def test_threads_stop(backend, limit):
    x = np.random.default_rng(4).integers(1, 300, 300).astype(np.int32)
    out = np.zeros_like(x)
    launch(backend, thread_kernel, x, out, 300, limit, grid=5, BLOCK=64)
    np.testing.assert_array_equal(out, np.minimum(collatz(x, None), limit))
