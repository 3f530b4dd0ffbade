"""Programs that read the same blocks and run together, rows of a tile that share what they read, short loops written out."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from benchmarks import convolution_kernels as user
from eas import mk
from tests.backend.launches import launch
from tests.unit.fixed_target import scheduled

# Programs are joined on the CPU, and compiled for long elsewhere.
on_the_cpu = pytest.mark.left_out(lambda backend: backend not in ("cpu", "interp"))
modes_of_the_cpu = pytest.mark.left_out(lambda backend, mode: backend != "cpu" and mode)


@pytest.fixture(params=["", "EAS_NOOPT", "EAS_CHECK_BOUNDS", "EAS_NUM_THREADS"])
def mode(request, backend, monkeypatch):
    if request.param:
        monkeypatch.setenv(request.param, "1")
    return request.param


def numbers(*shape, dtype=np.float32):
    """Small ones, of which sums are exact."""
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(dtype)


def convolved(x, f, step=1, gap=1):
    """Tap by tap, with zeros around."""
    size, pad = f.shape[-1], f.shape[-1] // 2 * gap
    rows, cols = ((n + 2 * pad - gap * (size - 1) - 1) // step + 1 for n in x.shape[2:])
    wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    parts = [np.einsum("nchw,oc->nohw", wide[:, :, i * gap :, j * gap :][:, :, : step * rows : step, : step * cols : step], f[:, :, i, j]) for i in range(size) for j in range(size)]
    return sum(parts)


@on_the_cpu
@modes_of_the_cpu
@pytest.mark.left_out(lambda mode, form: mode == "EAS_CHECK_BOUNDS" and form in ("flat", "tiles"))  # the same as rows then, and slow to compile
@pytest.mark.parametrize("form", ["rows", "loops", "flat", "tiles"])
def test_convolutions_of_one_channel_per_program(backend, mode, form):
    n, c, h, w = 1, 2, 5, 21
    for outs, size in ((9, 3), (3, 2))[: 2 if form == "loops" else 1]:
        x, y = numbers(n, c, h, w), np.full((n, outs, h, w), 9, np.float32)
        f = numbers(outs, c, size, size)
        if form == "rows":
            launch(backend, user.rows, x, f, y, c, h, w, outs, grid=(h, outs, n), SIZE=size, BLOCK=32)
        elif form == "loops":
            launch(backend, user.loops, x, f, y, c, h, w, outs, size, grid=(h, outs, n), BLOCK=32)
        elif form == "flat":
            launch(backend, user.flat, x, f, y, c, h, w, outs, grid=(mk.cdiv(h * w, 64), outs, n), SIZE=size, BLOCK=64)
        else:
            launch(backend, user.tiles, x, f, y, c, h, w, outs, grid=(3 * 2, outs, n), SIZE=size, BM=2, BN=16)
        np.testing.assert_array_equal(y, convolved(x, f)[:, :, :h, :w])


@eas.kernel
def strided(x, f, y, C, H, W, OUT, OH, OW, S, D, FIRST: mk.constexpr, SIZE: mk.constexpr, BLOCK: mk.constexpr):
    """Which axis of the grid counts the output channels is a choice."""
    ids = [mk.program_id(k) for k in range(3)]
    o = ids.pop(FIRST)
    r, n = ids
    c, acc = mk.arange(0, BLOCK), mk.zeros([BLOCK], mk.f32)
    for ci in range(C):
        for i in range(SIZE):
            for j in mk.static_range(SIZE):
                row, col = r * S + (i - SIZE // 2) * D, c * S + (j - SIZE // 2) * D
                inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
                acc += mk.load(x, ((n * C + ci) * H + row) * W + col, inside, 0.0) * mk.load(f, ((o * C + ci) * SIZE + i) * SIZE + j)
    mk.store(y, ((n * OUT + o) * OH + r) * OW + c, acc, c < OW)


@on_the_cpu
@pytest.mark.parametrize(("axis", "step", "gap"), [(0, 2, 1), (1, 3, 1), (2, 1, 2), (2, 2, 1)])
def test_strides_and_gaps_along_any_axis_of_the_grid(backend, axis, step, gap):
    n, c, hw, outs, size = 1, 2, 17, 6, 3
    x, f = numbers(n, c, hw, hw), numbers(outs, c, size, size)
    want = convolved(x, f, step, gap)
    oh = want.shape[2]
    y, grid = np.full(want.shape, 9, np.float32), [oh, n]
    grid.insert(axis, outs)
    launch(backend, strided, x, f, y, c, hw, hw, outs, oh, oh, step, gap, grid=tuple(grid), FIRST=axis, SIZE=size, BLOCK=32)
    np.testing.assert_array_equal(y, want)


@eas.kernel
def pixels(x, f, y, C, H, W, OUT, SIZE: mk.constexpr, BLOCK: mk.constexpr):
    """Channels last: a program makes all channels of a pixel, and pixels share the filters."""
    c, r, o = mk.program_id(0), mk.program_id(1), mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], x.dtype)
    for i in mk.static_range(SIZE):
        for j in mk.static_range(SIZE):
            row, col = r + i - SIZE // 2, c + j - SIZE // 2
            inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
            for ci in range(C):
                acc += mk.load(x, (row * W + col) * C + ci, inside, 0) * mk.load(f, ((i * SIZE + j) * C + ci) * OUT + o, o < OUT)
    mk.store(y, (r * W + c) * OUT + o, acc, o < OUT)


@on_the_cpu
@modes_of_the_cpu
@pytest.mark.left_out(lambda mode, dtype: mode and dtype is not np.float32)  # one dtype is enough
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_channels_last(backend, mode, dtype):
    h, w, c, outs = 3, 10, 5, 19
    x, f, y = numbers(h, w, c, dtype=dtype), numbers(2, 2, c, outs, dtype=dtype), np.zeros((h, w, outs), dtype)
    launch(backend, pixels, x, f, y, c, h, w, outs, grid=(w, h), SIZE=2, BLOCK=32)
    want = convolved(x.transpose(2, 0, 1)[None], f.transpose(3, 2, 0, 1))[0].transpose(1, 2, 0)[:h, :w]
    np.testing.assert_array_equal(y, want)


@eas.kernel
def several(x, f, y, C, W, OUT, OTHER: mk.constexpr, BO: mk.constexpr, BLOCK: mk.constexpr):
    """Outer products: rows of a tile are output channels."""
    o, c = mk.program_id(0) * BO + mk.arange(0, BO), mk.arange(0, BLOCK)
    acc = mk.zeros([BO, BLOCK], mk.f32)
    for ci in range(C):
        for j in mk.static_range(3):
            col = c + j - 1
            v = mk.load(x, ci * W + col, (col >= 0) & (col < W), OTHER)
            acc += mk.load(f, (o * C + ci) * 3 + j, o < OUT, 0.0)[:, None] * v[None, :]
    mk.store(y, o[:, None] * W + c[None, :], acc, (o[:, None] < OUT) & (c[None, :] < W))


@on_the_cpu
@modes_of_the_cpu
@pytest.mark.parametrize("bo", [2, 3, 8])
def test_rows_of_a_tile_share_what_they_read(backend, mode, bo):
    c, w, outs = 4, 45, 7
    for other in (0.0, 2.0)[: 1 if mode else 2]:
        x, f, y = numbers(c, w), numbers(outs, c, 3), np.full((outs, w), 9, np.float32)
        launch(backend, several, x, f, y, c, w, outs, grid=mk.cdiv(outs, bo), OTHER=other, BO=bo, BLOCK=64)
        wide = np.pad(x, ((0, 0), (1, 1)), constant_values=other)
        want = sum(f[:, :, j] @ wide[:, j : j + w] for j in range(3))
        np.testing.assert_array_equal(y, want)


@eas.kernel
def alone(x, f, y, C, W, SIZE: mk.constexpr, BLOCK: mk.constexpr):
    """Every program reads rows of its own."""
    o, c = mk.program_id(0), mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], mk.f32)
    for ci in range(C):
        for j in mk.static_range(SIZE):
            acc += mk.load(x, (o * C + ci) * W + c + j, c < W - SIZE + 1) * mk.load(f, o * SIZE + j)
    mk.store(y, o * W + c, acc, c < W - SIZE + 1)


def test_only_programs_that_read_the_same_are_joined():
    x, f, y = numbers(2, 3, 7, 21), numbers(4, 3, 3, 3), np.zeros((2, 4, 7, 21), np.float32)
    sizes = (3, 7, 21, 4)
    assert scheduled(user.rows, x, f, y, *sizes, SIZE=3, BLOCK=32).attr("joined") == (1, 4)
    assert scheduled(user.rows, x, f, y, *sizes, SIZE=3, BLOCK=32, facts=()).attr("joined") is None
    assert scheduled(alone, x, f, y, 3, 21, SIZE=3, BLOCK=32).attr("joined") is None
