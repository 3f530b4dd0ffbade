"""Facts of a launch at their edges: what is assumed of arguments is true of them, in Python's launches and in native ones."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.facts import EQUALS, Fact, holds
from eas.interop.views import view

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


@pytest.mark.parametrize(("size", "fits"), [(0, True), (2**31 - 1, True), (2**31, False), (2**33, False)])
def test_elements_that_32_bits_can_number(size, fits):
    extents = {name: view(array, name).extent for name, array in (("x", np.zeros(3, np.uint8)), ("y", np.broadcast_to(np.uint8(0), (size,))))}
    assert holds(Fact("fits_32"), None, extents, ()) == fits


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
