"""Kernels over a flat index that is divided into rows, columns and channels, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from benchmarks.held_kernels import channels_first, upsample
from eas import mk
from tests.backend.launches import launch

pytestmark = pytest.mark.every_width

BLOCK = 256


def numbers(n, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random(n, dtype=np.float32).astype(dtype) if np.dtype(dtype).kind == "f" else rng.integers(0, 100, n).astype(dtype)


@eas.kernel
def channels_last_kernel(x, out, n, C, HW, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    channel, pixel, image = i % C, (i // C) % HW, i // (C * HW)
    mk.store(out, i, mk.load(x, (image * C + channel) * HW + pixel, i < n), i < n)


@pytest.mark.parametrize(("images", "c", "hw"), [(2, 3, 49), (2, 40, 33), (1, 1, 100), (3, 64, 7), (2, 2, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_layouts_of_images(backend, images, c, hw, dtype):
    """Divisors below, at and above the width of a vector, and 1."""
    x = numbers(images * c * hw, dtype)
    first, last = x.reshape(images, c, hw), x.reshape(images, hw, c)
    out = np.zeros_like(x)
    launch(backend, channels_last_kernel, x, out, x.size, c, hw, grid=mk.cdiv(x.size, BLOCK), BLOCK=BLOCK)
    np.testing.assert_array_equal(out, first.transpose(0, 2, 1).reshape(-1))
    launch(backend, channels_first, x, out, x.size, c, hw, grid=mk.cdiv(x.size, BLOCK), BLOCK=BLOCK)
    np.testing.assert_array_equal(out, last.transpose(0, 2, 1).reshape(-1))


@eas.kernel
def stencil_kernel(x, out, n, H, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    inside, row, column = i < n, i // W, i % W
    up = mk.load(x, i - W, inside & (row > 0))
    down = mk.load(x, i + W, inside & (row < H - 1))
    left = mk.load(x, i - 1, inside & (column > 0))
    right = mk.load(x, i + 1, inside & (column < W - 1))
    mk.store(out, i, up + down + left + right, inside)


@eas.kernel
def taps_kernel(x, out, n, H, W, K, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    row, column = i // W, i % W
    total = mk.zeros([BLOCK])
    for a in range(K):
        for b in range(K):
            y, z = row + a - K // 2, column + b - K // 2
            inside = (i < n) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            total += mk.load(x, y * W + z, inside, other=0.0) * (a * K + b + 1.0)
    mk.store(out, i, total, i < n)


def filtered(x, k):
    """The same by NumPy: taps 1 to k * k, zeros around the image."""
    h, w = x.shape
    padded, out = np.pad(x, k // 2), np.zeros_like(x)
    for a in range(k):
        for b in range(k):
            out += padded[a : a + h, b : b + w] * np.float32(a * k + b + 1)
    return out


@pytest.mark.parametrize("w", [1, 3, 7, 23, 31, 33, 63, 64, 65, 100, 127, 128, 129, 200, 300])
def test_taps_of_rows_below_and_above_the_lanes_of_a_loop(backend, w):
    """Eight registers of sums are up to 128 lanes, which meet several rows, or one end of a row."""
    h, k = 1 + 1500 // w, 3
    x = numbers(h * w, np.float32).reshape(h, w).round(2)
    out = np.zeros_like(x)
    launch(backend, taps_kernel, x, out, x.size, h, w, k, grid=mk.cdiv(x.size, BLOCK), BLOCK=BLOCK)
    np.testing.assert_allclose(out, filtered(x, k), rtol=1e-5)


@eas.kernel
def stencil_thread_kernel(x, out, n, H, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        row, column = i // W, i % W
        total = mk.load(x, i - W, row > 0) + mk.load(x, i + W, row < H - 1)
        mk.store(out, i, total + mk.load(x, i - 1, column > 0) + mk.load(x, i + 1, column < W - 1))


@pytest.mark.parametrize("kernel", [stencil_kernel, stencil_thread_kernel])
@pytest.mark.parametrize(("h", "w"), [(1, 1), (5, 1), (1, 50), (9, 31), (20, 33), (3, 700)])
def test_stencil(backend, kernel, h, w):
    x = numbers(h * w, np.int32).reshape(h, w)
    out = np.zeros(h * w + 5, np.int32)
    launch(backend, kernel, x, out, x.size, h, w, grid=mk.cdiv(x.size, BLOCK), BLOCK=BLOCK)
    p = np.pad(x, 1)
    want = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    np.testing.assert_array_equal(out[: h * w].reshape(h, w), want)
    assert not out[h * w :].any()


@pytest.mark.parametrize("scale", [1, 2, 3, 40])
def test_upsample(backend, scale):
    """A division of a remainder, by a small and by a large number."""
    x = numbers(3 * 11, np.float32).reshape(3, 11)
    out = np.zeros((3 * scale, 11 * scale), np.float32)
    launch(backend, upsample, x, out, out.size, 11, scale, grid=mk.cdiv(out.size, BLOCK), BLOCK=BLOCK)
    np.testing.assert_array_equal(out, x.repeat(scale, 0).repeat(scale, 1))


@eas.kernel
def windows_kernel(x, out, n, H, W, OH, OW, K: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    rest = i % (OH * OW)
    y, z, t = rest // OW, rest % OW, i // (OH * OW)
    column, row, channel = t % K, (t // K) % K, t // (K * K)
    mk.store(out, i, mk.load(x, (channel * H + y + row) * W + z + column, i < n), i < n)


@pytest.mark.parametrize("w", [12, 70])
def test_windows(backend, w):
    """im2col, by way of a remainder that is divided once more."""
    c, h, k = 2, 9, 3
    x = numbers(c * h * w, np.float32).reshape(c, h, w)
    oh, ow = h - k + 1, w - k + 1
    out = np.zeros((c * k * k, oh * ow), np.float32)
    launch(backend, windows_kernel, x, out, out.size, h, w, oh, ow, grid=mk.cdiv(out.size, BLOCK), K=k, BLOCK=BLOCK)
    want = [x[a, r : r + oh, s : s + ow].reshape(-1) for a in range(c) for r in range(k) for s in range(k)]
    np.testing.assert_array_equal(out, want)


@eas.kernel
def row_sums_kernel(x, bias, out, n, W, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    values = mk.load(x, i, i < n) * mk.load(bias, i % W, i < n) + i // W
    mk.store(out, 0, mk.sum(values))


@pytest.mark.parametrize("w", [1, 3, 31, 45, 1000])
def test_sum_over_runs(backend, w):
    """The lanes of a reduction are carried through the runs."""
    x, bias, out = numbers(700, np.int32), numbers(w, np.int32, 1), np.zeros(1, np.int32)
    launch(backend, row_sums_kernel, x, bias, out, x.size, w, grid=1, BLOCK=1024)
    i = np.arange(1024)
    padded = np.zeros(1024, np.int64)
    padded[:700] = x * bias[i[:700] % w]
    assert out[0] == (padded + i // w).sum()


@eas.kernel
def divide_kernel(x, d, quotients, rests, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, i, i < n)
    mk.store(quotients, i, values // d, i < n)
    mk.store(rests, i, values % d, i < n)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 97, 2**31 - 1, 0, -1, -2, -97, -(2**31)])
def test_division_by_a_scalar_argument(backend, divisor):
    rng = np.random.default_rng(0)
    near = [k * divisor + e for k in (-3, -1, 1, 2) for e in (-1, 0, 1)]
    x = rng.integers(-(2**31), 2**31, 300).astype(np.int32)
    x[:20] = [-(2**31), 2**31 - 1, 0, 1, -1, 5, -5, 6, *(v for v in near if abs(v) < 2**31), *range(12)][:20]
    quotients, rests = np.empty_like(x), np.empty_like(x)
    launch(backend, divide_kernel, x, divisor, quotients, rests, x.size, grid=2, BLOCK=BLOCK)
    exact = [(int(v) // divisor, int(v) % divisor) if divisor else (0, 0) for v in x]
    for got, want in zip((quotients, rests), zip(*exact, strict=True), strict=True):
        np.testing.assert_array_equal(got, np.array(want, np.int64).astype(np.int32))


@eas.kernel
def narrow_kernel(x, out, D, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    short = (i + 3).to(mk.u8)
    mk.store(out, i, mk.load(x, short.to(mk.i32) // D, short < 100), short < 200)


def test_positions_in_short_integers_wrap(backend):
    x, out = numbers(256, np.float32), np.zeros(1024, np.float32)
    launch(backend, narrow_kernel, x, out, 40, grid=1, BLOCK=1024)
    short = (np.arange(1024) + 3) % 256
    np.testing.assert_array_equal(out, np.where(short < 100, x[short // 40], 0))


@eas.kernel
def divided(out, n, C, D, BLOCK: mk.constexpr):
    pid = mk.program_id(0)
    i = pid * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, i // C, i < n)
    mk.store(out + n, i, (i // C) % D, i < n)
    mk.store(out + 2 * n, i, i // (C * D), i < n)
    mk.store(out + 3 * n, i, pid // C + pid % D, i < n)


def test_positions_are_divided_by_numbers_of_any_sign(backend):
    n = 300
    i, pid = np.arange(n), np.arange(n) // 128
    for c in (-40, -1, 0, 1, 2, 3, 4, 37, 1000):
        for d in (-3, 0, 1, 5):
            out = np.zeros((4, n), np.int32)
            divided[3,](out, n, c, d, BLOCK=128)

            def floor(a, b):
                return a // b if b else a * 0

            def rest(a, b):
                return a % b if b else a * 0

            want = [floor(i, c), rest(floor(i, c), d), floor(i, c * d), floor(pid, c) + rest(pid, d)]
            assert np.array_equal(out, want), (c, d)


@eas.kernel
def rows_and_columns_kernel(x, s, out, n, W, C, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    by_row, by_column = mk.load(s, i // W, i < n), mk.load(s, i % W, i < n)
    mk.store(out, i, mk.load(x, i, i < n) * by_row + by_column - mk.load(s, (i // W) % C, i < n), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_divisors_around_the_width_of_registers(backend, dtype):
    """Lanes share elements of one register, or runs end with vectors that overlap or with single elements."""
    n = 701
    x, s = numbers(n, dtype), numbers(n, dtype, 1)
    i = np.arange(n)
    for w in (1, 2, 3, 5, 7, 8, 9, 20, 31, 32, 33, 67, 600):
        out = np.zeros(n + 9, dtype)
        launch(backend, rows_and_columns_kernel, x, s, out, n, w, 7, grid=mk.cdiv(n, BLOCK), BLOCK=BLOCK)
        want = x * s[i // w] + s[i % w] - s[i // w % 7]
        assert np.allclose(out[:n].astype(np.float64), want.astype(np.float64), rtol=1e-6, atol=1e-6), w
        assert not out[n:].any(), w


@eas.kernel
def some_rows_kernel(x, s, n, W, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    row, column = i // W, i % W
    value = mk.load(x, i, (i < n) & (row % 3 > 0) & (column > 1))
    mk.store(x, i, value + mk.load(s, row, i < n), (i < n) & (row % 5 > 1))


def test_rows_in_place_under_masks(backend):
    """Whole vectors that cross rows have quotients of their own; nothing is done twice."""
    n = 701
    i, s = np.arange(n), numbers(n, np.float32, 1)
    for w in (1, 5, 20, 33, 100):
        x = numbers(n + 9, np.float32)
        row, column = i // w, i % w
        value = np.where((row % 3 > 0) & (column > 1), x[:n], 0) + s[row]
        want = np.where(row % 5 > 1, value, x[:n])
        launch(backend, some_rows_kernel, x, s, n, w, grid=mk.cdiv(n, BLOCK), BLOCK=BLOCK)
        np.testing.assert_array_equal(x[:n], want)


@eas.kernel
def take_and_pad_kernel(x, rows, out, n, W, P, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    width = W + 2 * P
    row, column = mk.load(rows, i // width, i < n), i % width - P
    inside = (row >= 0) & (column >= 0) & (column < W) & (i < n)
    mk.store(out, i, mk.load(x, row * W + column, inside), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_rows_taken_by_number(backend, dtype):
    """In a run, the number of the row is one element for all lanes; masks are evaluated per vector."""
    rows = np.array([4, 0, -1, 2, 2, 5, 1, -1, 3], np.int32)
    for w in (3, 30, 50, 200):
        x = numbers(6 * w, dtype).reshape(6, w)
        out = np.zeros((9, w + 4), dtype)
        launch(backend, take_and_pad_kernel, x, rows, out, out.size, w, 2, grid=mk.cdiv(out.size, BLOCK), BLOCK=BLOCK)
        want = np.where(rows[:, None] >= 0, np.pad(x, ((0, 0), (2, 2)))[rows], 0)
        assert np.array_equal(out, want), w


@eas.kernel
def put_together_kernel(x, out, n, a, b, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    at = (i // a // b) * (a * b) + (i // a % b) * a + i % a
    mk.store(out, i, mk.load(x, at, i < n), i < n)


@pytest.mark.parametrize(("a", "b"), [(3, 4), (1, 5), (16, 1), (-3, 4), (3, -4), (-3, -4), (4, 0), (0, 4), (0, 0)])
def test_quotients_are_put_together_whatever_their_signs(backend, a, b):
    """What is left of a position by 0 is 0; of all other numbers the parts make the position again."""
    n = 300
    x, out, i = np.arange(n, dtype=np.float32), np.zeros(n, np.float32), np.arange(n)
    launch(backend, put_together_kernel, x, out, n, a, b, grid=-(-n // 128), BLOCK=128)
    np.testing.assert_array_equal(out, i if a and b else i % a if a else np.zeros(n))


@eas.kernel
def other_order_kernel(x, out, n, a, b, FIRST: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, FIRST + (i // b // a) * b + i // a % b, i < n), i < n)


def test_quotients_in_another_order(backend):
    """i // a // b is i // b // a of positive numbers only: of others the parts do not make i // a."""
    n, first = 300, 1000
    x, out, i = np.arange(2 * first, dtype=np.float32), np.zeros(n, np.float32), np.arange(n)
    for a, b in [(3, 4), (-3, 4), (3, -4), (-3, -4), (5, 0), (0, 5), (-1, 7), (7, -1), (1, -7)]:
        launch(backend, other_order_kernel, x, out, n, a, b, grid=-(-n // 128), FIRST=first, BLOCK=128)
        over = [np.zeros_like(i) if d == 0 else i // d for d in (a, b)]
        quotient = over[1] // a if a else np.zeros_like(i)
        np.testing.assert_array_equal(out - first, quotient * b + (over[0] % b if b else 0), f"{a}, {b}")


@eas.kernel
def divided_reads_kernel(x, out, width, STEPS: eas.constexpr, BLOCK: eas.constexpr):
    """Elements at quotients and remainders of what counts up by one, by more, and down: only of the first neighbours are neighbours."""
    i = mk.arange(0, BLOCK)
    for k, step in enumerate(STEPS):
        at = i * step if step > 0 else (BLOCK - 1 - i) * -step
        mk.store(out, 2 * k * BLOCK + i, mk.load(x, at // width))
        mk.store(out, (2 * k + 1) * BLOCK + i, mk.load(x, at % width))


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_reads_at_quotients_of_any_step(backend, dtype):
    steps, block = (1, 2, 3, 8, -1, -2), 64
    x = np.random.default_rng(3).integers(-99, 99, 8 * block).astype(dtype)
    for width in (1, 3, 5, 7, 8, 9, 31, 200):
        out = np.zeros((len(steps), 2, block), dtype)
        launch(backend, divided_reads_kernel, x, out, width, grid=1, STEPS=steps, BLOCK=block)
        for k, step in enumerate(steps):
            at = np.arange(block) * step if step > 0 else (block - 1 - np.arange(block)) * -step
            np.testing.assert_array_equal(out[k], [x[at // width], x[at % width]], f"step {step}, width {width}")
