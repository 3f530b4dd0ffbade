"""The shape, order and creation functions of mk, judged by NumPy."""

# mypy: disable-error-code=arg-type

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from eas.base.errors import EasError, ModeMismatch, ShapeMismatch, TypeMismatch
from tests.unit.mk_kernels import lines_of, ptr, refusal, run, whole

rng = np.random.default_rng(11)
X = rng.permutation(24).astype(np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: mk.reshape(x, 4, -1), lambda x: x.reshape(4, 6)),
        (lambda x: x.view((6, 4)), lambda x: x.reshape(6, 4)),
        (lambda x: mk.permute(x, 2, 0, 1), lambda x: x.transpose(2, 0, 1)),
        (lambda x: mk.permute(x, (0, -1, 1)), lambda x: x.transpose(0, 2, 1)),
        (lambda x: x.T, lambda x: x.transpose(0, 2, 1)),
        (lambda x: mk.trans(x, 1, 0, 2), lambda x: x.transpose(1, 0, 2)),
        (
            lambda x: mk.broadcast_to(x[None], 2, 2, 3, 4),
            lambda x: np.broadcast_to(x, (2, 2, 3, 4)),
        ),
        (lambda x: mk.expand_dims(x, (0, -1)), lambda x: x[None, ..., None]),
        (lambda x: mk.unsqueeze(x, 1), lambda x: x[:, None]),
        (lambda x: mk.squeeze(x[:, None, :, None]), lambda x: x),
        (lambda x: mk.squeeze(x[None], 0), lambda x: x),
        (lambda x: x[..., None, :], lambda x: x[..., None, :]),
        (lambda x: mk.join(x, x + 1), lambda x: np.stack([x, x + 1], -1)),
        (lambda x: mk.split(x.reshape(12, 2))[1], lambda x: x.reshape(12, 2)[:, 1]),
        (lambda x: mk.cat(x, x * 2, 1), lambda x: np.concatenate([x, x * 2], 1)),
        (lambda x: mk.interleave(x, -x), lambda x: np.stack([x, -x], -1).reshape(2, 3, 8)),
        (lambda x: mk.flip(x), lambda x: np.flip(x, -1)),
        (lambda x: mk.flip(x, 0), lambda x: np.flip(x, 0)),
        (lambda x: mk.sort(x), lambda x: np.sort(x, -1)),
        (lambda x: mk.sort(x, 1, descending=True), lambda x: -np.sort(-x, 1)),
        (lambda x: mk.argsort(x, 0), lambda x: np.argsort(x, 0)),
        (lambda x: mk.topk(x, 2)[0], lambda x: -np.sort(-x, -1)[..., :2]),
        (lambda x: x.topk(1, axis=0, largest=False)[1], lambda x: np.argmin(x, 0)[None]),
        (lambda x: mk.gather(x, mk.cast(mk.argsort(x, 2), mk.i64), 2), lambda x: np.sort(x, 2)),
        (
            lambda x: mk.histogram(mk.to_i32(x.ravel()) % 5, 5),
            lambda x: np.bincount(x.ravel().astype(int) % 5),
        ),
        (lambda x: mk.histogram(mk.to_i32(x), 3, x < 2), lambda x: np.array([1, 1, 0])),
        (
            lambda x: mk.broadcast(x, mk.arange(4))[1],
            lambda x: np.broadcast_to(np.arange(4), x.shape),
        ),
    ],
)
def test_movements_agree_with_numpy(ours, numpys):
    want = numpys(X)
    np.testing.assert_array_equal(whole(ours, X, want.shape, np.float32), want)


def test_filled_blocks():
    def kernel(y):
        i = mk.arange(4)
        mk.store(y, i, mk.zeros(4) + mk.ones((4,), mk.i32) * mk.full([4], 2.5))
        mk.store(y, i + 4, mk.full((2, 2), mk.program_id(0) + 3, mk.f16).ravel())
        mk.store(y, i + 8, mk.full_like(i, 7) + mk.zeros_like(i, mk.f32))
        assert mk.full((4,), 1).dtype is mk.i32
        assert mk.full((4,), 2**40).dtype is mk.i64
        assert mk.full((4,), 1.0).dtype is mk.f32
        assert mk.zeros(()).shape == mk.zeros([]).shape == ()
        assert mk.zeros((), mk.bool).dtype is mk.bool
        assert mk.to_tensor(3).dtype is mk.i32

    y = np.zeros(12, np.float32)
    run(kernel, y)
    np.testing.assert_array_equal(y, [2.5] * 4 + [3] * 4 + [7] * 4)


def test_arange_counts_from_its_start():
    def kernel(y):
        mk.store(y, mk.arange(4), mk.arange(3, 7))

    y = np.zeros(4, np.int32)
    run(kernel, y)
    np.testing.assert_array_equal(y, [3, 4, 5, 6])


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (lambda x: mk.reshape(x, 3), ShapeMismatch, "changes the number of elements"),
        (lambda x: mk.reshape(x, 3, -1), ShapeMismatch, "8 elements are no multiple of 3"),
        (lambda x: mk.reshape(x, 0, 4), ShapeMismatch, "positive extents"),
        (
            lambda x: mk.reshape(x, mk.program_id(0)),
            TypeMismatch,
            "a shape must be known when the kernel is traced",
        ),
        (lambda x: mk.permute(x, 0, 0), ShapeMismatch, "does not name each axis of [8] once"),
        (lambda x: mk.trans(x), ShapeMismatch, "trans needs at least two axes"),
        (lambda x: mk.broadcast_to(x, 4), ShapeMismatch, "does not broadcast to [4]"),
        (
            lambda x: mk.expand_dims(x, 3),
            ShapeMismatch,
            "axis 3 does not exist in a block of rank 2",
        ),
        (lambda x: mk.squeeze(x, 0), ShapeMismatch, "squeeze of axis 0"),
        (lambda x: mk.split(x), ShapeMismatch, "split needs a last axis of 2 elements"),
        (lambda x: mk.cat(x, x[None]), ShapeMismatch, "cat of i32[8] and i32[1,8]"),
        (lambda x: mk.flip(x, 1), ShapeMismatch, "axis 1 does not exist"),
        (lambda x: mk.flip(x, 1.0), TypeMismatch, "the axis of flip must be an integer"),
        (lambda x: mk.gather(x, x * 1.0, 0), TypeMismatch, "gather index needs an integer"),
        (lambda x: mk.topk(x, 9), ShapeMismatch, "topk of 9 from an axis of 8"),
        (
            lambda x: mk.sort(mk.program_id(0)),
            ShapeMismatch,
            "sort needs a block, got the scalar i32",
        ),
        (lambda x: mk.histogram(x * 1.0, 4), TypeMismatch, "histogram needs an integer"),
        (lambda x: mk.arange(4, 4), ShapeMismatch, "arange(4, 4) is empty"),
        (lambda x: mk.arange(2**31, 2**31 + 4), TypeMismatch, "does not fit i32"),
        (lambda x: mk.arange(mk.program_id(0)), TypeMismatch, "the end of arange must be known"),
        (
            lambda x: mk.full((4,), 1.5, mk.i32),
            TypeMismatch,
            "the value of full is 1.5, which i32 cannot hold",
        ),
        (lambda x: mk.full((4,), 300, mk.u8), TypeMismatch, "300 does not fit u8"),
        (lambda x: mk.program_id(3), ShapeMismatch, "the grid has no axis 3"),
    ],
)
def test_refusals(fn, kind, text):
    def kernel(F):
        F(mk.arange(8))

    assert text in refusal(kind, kernel, F=fn)


@pytest.mark.parametrize(
    "fn",
    [
        lambda t: mk.zeros(4),
        lambda t: mk.full((2, 2), 0),
        lambda t: t[None],
        lambda t: mk.expand_dims(t, 0),
        lambda t: mk.reshape(t, 1),
        lambda t: mk.broadcast_to(t, 4),
        lambda t: mk.join(t, t),
    ],
)
def test_blocks_are_refused_in_thread_kernels(fn):
    def kernel(F):
        F(mk.tid(0, 32))

    text = refusal(ModeMismatch, kernel, F=fn)
    assert "thread kernels work on scalars (this one uses mk.tid at" in text

    def late(F):
        F(mk.program_id(0))
        mk.tid(0, 32)

    with pytest.raises(EasError, match=r"mk.tid cannot be used in a kernel that uses mk\.\w+"):
        lines_of(late, F=fn)


def test_scalars_are_fine_in_thread_kernels():
    def kernel(x):
        t = mk.tid(32)
        mk.store(x, t, mk.zeros(()) + mk.where(t < 3, 1.0, mk.full((), 2)))

    x = np.zeros(32, np.float32)
    run(kernel, x)
    np.testing.assert_array_equal(x, [1] * 3 + [2] * 29)
    assert ptr(mk.f32).is_pointer


@pytest.mark.parametrize("axes", [(0, 2), (2, 0), (1, 2), (-1, 0), (0, -1), (3, 1), [1, 0]])
def test_several_new_axes_stand_where_they_are_asked_for(axes):
    """Positions of the result, in whichever order."""
    shape = np.expand_dims(np.zeros((3, 4)), tuple(axes)).shape

    def kernel(y):
        x = mk.reshape(mk.arange(0, 12), 3, 4)
        wide = mk.expand_dims(x, axes)
        mk.static_assert(tuple(wide.shape) == shape)
        mk.store(y, mk.arange(0, 12), mk.ravel(wide))

    y = np.zeros(12, np.int32)
    run(kernel, y)
    assert y.tolist() == list(range(12))
