"""Facts of a launch at their edges: what is assumed of arguments is true of them, in Python's launches and in native ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import eas
from eas import mk
from eas.analysis.ranges import value_ranges
from eas.base.facts import EQUALS, Extent, Fact, holds
from eas.interop.views import view
from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.passes.specialise import specialise

LAUNCHES = 3  # the first by Python, later ones by the native launcher


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")


@pytest.mark.parametrize("n", [-17, -16, -1, 0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 32, 2**31 - 16])
def test_facts_of_numbers(n):
    def held(kind: str) -> bool:
        return holds(Fact(kind, "n"), n, {}, ())

    assert held("positive") == (n > 0)
    assert held("divisible_16") == (n in (-16, 0, 16, 32, 2**31 - 16))
    assert [held(kind) for kind in EQUALS] == [n == number for number in EQUALS.values()]


def test_what_is_said_of_a_number_is_true_of_it():
    """Every fact that holds of a number, in the words of the compiler."""
    module = verify(parse_module("kernel k(%x: ptr<f32>, %n: i32) spmd {\n%q = addptr %x, %n : ptr<f32>\n%v = load %q : f32\nstore %x, %v\nyield\n}"))
    for n in (-(2**31), -17, -16, -1, 0, 1, 2, 3, 4, 5, 15, 16, 17, 32, 2**31 - 16, 2**31 - 1):
        for kind in (*EQUALS, "positive", "divisible_16"):
            if holds(Fact(kind, "n"), n, {}, ()):
                special = specialise(module, [Fact(kind, "n")])
                arg = special.arg("n")
                lo, hi = arg.attr("range", (n, n))
                assert lo <= n <= hi, f"{n} {kind}"
                assert n % arg.attr("divisible", 1) == 0, f"{n} {kind}"
                assert arg.attr("equals", n) == n, f"{n} {kind}"
                offset = value_ranges(special)[next(i for i in walk(special.body) if i.op.name == "addptr").out]
                assert offset.lo <= n <= offset.hi, f"{n} {kind}"


@pytest.mark.parametrize(("size", "fits"), [(0, True), (2**31 - 1, True), (2**31, False), (2**33, False)])
def test_elements_that_32_bits_can_number(size, fits):
    extents = {name: view(array, name).extent for name, array in (("x", np.zeros(3, np.uint8)), ("y", np.broadcast_to(np.uint8(0), (size,))))}
    assert holds(Fact("fits_32"), None, extents, ()) == fits


def test_which_of_three_buffers_share_memory():
    """All places of three short buffers on a line, and all that a kernel may write of them."""
    places = [Extent(0, begin, nbytes, nbytes) for begin in range(4) for nbytes in (1, 2, 3)]
    for buffers in itertools.product(places, repeat=3):
        extents = dict(zip("xyz", buffers, strict=True))
        held = {n: set(range(e.begin, e.begin + e.nbytes)) for n, e in extents.items()}
        for writes in ("x", "yz", "xyz"):
            meets = [(a, b) for a in writes for b in "xyz" if a != b and held[a] & held[b]]
            assert holds(Fact("disjoint"), None, extents, writes) == (not meets), f"{buffers} {writes}"
            starts = [extents[a].begin == extents[b].begin for a, b in meets]
            assert holds(Fact("in_place"), None, extents, writes) == (bool(meets) and all(starts)), f"{buffers} {writes}"


@eas.kernel
def rows_kernel(x, out, n, stride, BLOCK: eas.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(out, row * stride + c, mk.load(x, row * stride + c, c < n) + 1, c < n)


def test_numbers_that_are_nearly_special():
    """A row of n elements: one that were taken for a multiple of 16, or for a positive number, would be longer."""
    x = np.arange(400, dtype=np.float32)
    for n in [*range(34), 40, 48, 56, 64, -1, -16]:
        for stride in (1, 2, 3, 4, 5, 8, 16, 24, 64, 72):
            for _ in range(LAUNCHES if stride in (1, 8, 64) else 1):
                out = np.zeros(400, np.float32)
                rows_kernel(x, out, n, stride, BLOCK=64, _grid=4)
                want = np.zeros(400, np.float32)
                for row in range(4):
                    want[row * stride : row * stride + max(n, 0)] = x[row * stride : row * stride + max(n, 0)] + 1
                np.testing.assert_array_equal(out, want, f"{n} {stride}")


@eas.kernel
def shifted_kernel(x, y, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    a = mk.load(x, i, i < n)
    mk.store(y, i, a + 1, i < n)
    b = mk.load(x, i, i < n)
    mk.store(y, i, a + b, i < n)


def test_views_that_touch_or_share_an_element():
    """In program order: the second load sees what was stored where the views meet, and only there."""
    n = 48
    for dtype in (np.float32, np.uint8):
        for shift in (-n - 1, -n, -n + 1, -8, -1, 0, 1, 8, n - 1, n, n + 1):
            for _ in range(LAUNCHES):
                memory = (np.arange(4 * n) % 50).astype(dtype)
                first = 2 * n - n // 2
                x, y = memory[first : first + n], memory[first + shift : first + shift + n]
                model = memory.copy()
                u, v = model[first : first + n], model[first + shift : first + shift + n]
                a = u.copy()
                v[:] = a + 1
                v[:] = a + u.copy()
                shifted_kernel(x, y, n, BLOCK=64, _grid=1)
                np.testing.assert_array_equal(memory, model, f"{np.dtype(dtype)} shift {shift}")


def test_alignment_is_that_of_the_address():
    """Code for aligned memory moves whole vectors: 32 bytes off, it would end the process on some machines and not on others."""
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 64
    for offset in range(0, 132, 4):
        array = memory[start + offset : start + offset + 64].view(np.float32)
        assert holds(Fact("aligned_64", "x"), None, {"x": view(array, "x").extent}, ()) == (offset % 64 == 0)


@eas.kernel
def far_steps_kernel(x, out, step: mk.i64, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    at = mk.cast(i, mk.i64) * step
    mk.store(out, i, mk.load(x, at, (at >= 0) & (at < n), -1))


def test_numbers_of_64_bits_are_special_as_a_whole():
    """2**32 + 1 is not 1, though its low half is."""
    x = np.arange(64, dtype=np.int32)
    for low in (0, 1, 2, 3, 4, 16):
        for step in (2**32 + low, low, 2**40 + low, 2**32 + low):
            for _ in range(LAUNCHES):
                out = np.zeros(8, np.int32)
                far_steps_kernel(x, out, step, 64, BLOCK=8, _grid=1)
                at = np.arange(8) * step
                assert out.tolist() == np.where(at < 64, at, -1).tolist(), step
