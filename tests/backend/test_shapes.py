"""Functions that move elements: every dtype goes through every one, as values and as pointers."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from tests.backend.blocks import Step, run_steps
from tests.backend.formats import assert_identical, buffer, contents, edges, poison, sample
from tests.backend.launches import THOROUGH, launch, need_dtype

COVERS = {"broadcast", "reshape", "permute", "expand_dims", "join", "split", "cat", "flip", "gather"}
assert all(TABLE[op].dtypes == dtypes.ALL for op in COVERS)


def _gathered_last(x):
    return mk.gather(x, mk.broadcast_to((mk.arange(0, 7) * 3 + 4)[None, :] % 5, 3, 7), 1)


def _gathered_first(x):
    index = mk.reshape(2 - mk.arange(0, 10) // 5, (2, 5))
    return mk.gather(x, index, axis=0)


def _swapped_halves(x):
    low, high = mk.split(x)
    return mk.join(high, low)


def _with_itself_flipped(x):
    return mk.cat(x, mk.flip(x, 0), axis=0)


def _beside_itself(x):
    return mk.cat(x, mk.flip(x), axis=-1)


def _interleaved(x):
    return mk.interleave(x, mk.flip(x))


def _outer_broadcast(x):
    left, right = mk.broadcast(x[:, None], x[None, :])
    return mk.join(left, right)


# a function of a block, the same of an array, and the shape of the block
MOVES = [
    (lambda x: mk.reshape(x, 5, 3), lambda x: x.reshape(5, 3), (3, 5)),
    (lambda x: mk.view(x, (1, -1, 1)), lambda x: x.reshape(1, -1, 1), (33,)),
    (lambda x: mk.ravel(x), lambda x: x.ravel(), (2, 3, 7)),
    (lambda x: mk.trans(x), lambda x: x.T, (3, 5)),
    (lambda x: x.T, lambda x: x.swapaxes(1, 2), (2, 3, 5)),
    (lambda x: mk.permute(x, 2, 0, 1), lambda x: x.transpose(2, 0, 1), (2, 3, 5)),
    (lambda x: mk.permute(x, (1, 0, 3, 2)), lambda x: x.transpose(1, 0, 3, 2), (2, 1, 3, 2)),
    (lambda x: mk.expand_dims(x, (0, 2)), lambda x: np.expand_dims(x, (0, 2)), (7,)),
    (lambda x: x[None, :, None], lambda x: x[None, :, None], (7,)),
    (lambda x: x[..., None], lambda x: x[..., None], (3, 5)),
    (lambda x: mk.squeeze(x), lambda x: x.squeeze(), (1, 3, 1, 5)),
    (lambda x: mk.squeeze(x, 2), lambda x: x.squeeze(2), (1, 3, 1, 5)),
    (lambda x: mk.broadcast_to(x, 4, 3, 5), lambda x: np.broadcast_to(x, (4, 3, 5)), (3, 1)),
    (lambda x: mk.broadcast_to(x, (3, 7)), lambda x: np.broadcast_to(x, (3, 7)), (7,)),
    (_outer_broadcast, lambda x: np.stack(np.broadcast_arrays(x[:, None], x[None, :]), axis=-1), (5,)),
    (_swapped_halves, lambda x: x[..., ::-1], (3, 5, 2)),
    (_swapped_halves, lambda x: x[..., ::-1], (2,)),
    (_with_itself_flipped, lambda x: np.concatenate([x, x[::-1]]), (3, 5)),
    (_beside_itself, lambda x: np.concatenate([x, x[:, ::-1]], axis=1), (3, 5)),
    (_interleaved, lambda x: np.stack([x, x[..., ::-1]], axis=-1).reshape(3, 10), (3, 5)),
    (lambda x: mk.flip(x, 1), lambda x: x[:, ::-1], (2, 3, 5)),
    (lambda x: mk.flip(x), lambda x: x[::-1], (128,)),
    (lambda x: mk.flip(x), lambda x: x[::-1], (1,)),
    (_gathered_last, lambda x: x[:, (np.arange(7) * 3 + 4) % 5], (3, 5)),
    (_gathered_first, lambda x: np.stack([x[2], x[1]]), (3, 5)),
]


def values_of(dtype: DType):
    return lambda n: (edges(dtype) * n)[: n // 2] + sample(dtype, n - n // 2, 0)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_moves_agree_with_numpy(backend, dtype):
    need_dtype(backend, dtype)
    moves = MOVES if dtype in THOROUGH else MOVES[::3]  # which use every op
    steps = [Step(fn, meaning, shape, f"move {MOVES.index((fn, meaning, shape))}") for fn, meaning, shape in moves]
    for step, got, want in run_steps(backend, steps, values_of(dtype), dtype, dtype, COVERS):
        assert_identical(got, want, dtype, where=step.name)


@eas.kernel
def pointer_moves_kernel(x, y, ROWS: eas.constexpr, COLS: eas.constexpr):
    """Blocks of pointers move like any other."""
    r, c = mk.arange(0, ROWS), mk.arange(0, COLS)
    source = x + (r[:, None] * COLS + c[None, :])
    target = y + (c[:, None] * ROWS + r[None, :])
    mk.store(target, mk.load(mk.flip(mk.trans(source), 0)))
    last = mk.reshape(source, ROWS * COLS)
    mk.store(y + ROWS * COLS + mk.arange(0, ROWS * COLS), mk.load(mk.flip(last)))
    wide = mk.broadcast_to(source[:, :, None], ROWS, COLS, 2)
    mk.store(y + 2 * ROWS * COLS + mk.arange(0, 2 * ROWS * COLS), mk.load(mk.ravel(wide)))


def test_pointers_move_like_values(backend):
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    y = np.zeros(60, np.float32)
    launch(backend, pointer_moves_kernel, x, y, grid=1, ROWS=3, COLS=5)
    flat = x.ravel()
    want = [x.T[::-1].ravel(), flat[::-1], np.repeat(flat, 2)]
    np.testing.assert_array_equal(y, np.concatenate(want))


@eas.kernel
def transpose_kernel(x, y, H, W, B: eas.constexpr):
    r = mk.program_id(1) * B + mk.arange(0, B)
    c = mk.program_id(0) * B + mk.arange(0, B)
    tile = mk.load(x, r[:, None] * W + c[None, :], (r[:, None] < H) & (c[None, :] < W))
    mk.store(y, c[:, None] * H + r[None, :], mk.trans(tile), (c[:, None] < W) & (r[None, :] < H))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, np.int64])
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (17, 3)])
def test_tiled_transpose_with_masked_edges(backend, shape, dtype):
    x = np.arange(shape[0] * shape[1]).astype(dtype).reshape(shape)
    y = np.zeros(shape[::-1], dtype)
    launch(backend, transpose_kernel, x, y, *shape, grid=(-(-shape[1] // 8), -(-shape[0] // 8)), B=8)
    np.testing.assert_array_equal(y, x.T)


# --- filled blocks ----------------------------------------------------------------------------


@eas.kernel
def filled_kernel(y, D: eas.constexpr, FILLS: eas.constexpr):
    i = mk.arange(0, 7)
    mk.store(y, i, mk.zeros([7], D))
    mk.store(y, 7 + i, mk.ones(7, D))
    mk.store(y, 14 + i, mk.zeros_like(mk.load(y, i)))
    for k, fill in enumerate(FILLS):
        first = 21 + 15 * k
        mk.store(y, first + i, mk.full([7], fill, D))
        mk.store(y, first + 7 + i, mk.full_like(mk.zeros([7], D), fill))
        mk.store(y, first + 14, mk.full((), fill, D))


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if not d.is_storage_only], ids=str)
def test_constants_hold_every_dtype(backend, dtype):
    need_dtype(backend, dtype)
    fills = tuple(edges(dtype)[-4:])
    zero, one = (0.0, 1.0) if dtype.is_float else (0, 1)
    want = [zero] * 7 + [one] * 7 + [zero] * 7 + [fill for fill in fills for _ in range(15)]
    y = poison(len(want), dtype)
    launch(backend, filled_kernel, y, grid=1, D=dtype, FILLS=fills)
    assert_identical(contents(y), contents(buffer(want, dtype)), dtype)
