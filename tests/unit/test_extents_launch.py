"""Extents of buffers through every way of launching: natively repeated, on tensors, captured, asynchronous."""

import math

import numpy as np
import pytest

import eas
from eas import mk


@eas.kernel
def sums(x, out, BLOCK: eas.constexpr):
    rows, cols = x.shape
    at = mk.arange(0, BLOCK)
    row = mk.program_id(0)
    if row < rows:
        mk.store(out, row, mk.sum(mk.load(x, row * cols + at, at < cols)) + 1000.0 * len(out))


def check(make, read, x):
    """The launches of one kind, of changing shapes, with copies between them that are no longer contiguous."""
    for m, n in ((3, 4), (2, 6), (3, 4), (5, 2)) * 3:
        array = x[:m, :n].copy()
        out = make(np.zeros(m, np.float32))
        sums[8](make(array), out, BLOCK=8)
        assert read(out).tolist() == (array.sum(1) + 1000 * m).tolist()
    whole = make(x)
    for m, n in ((3, 4), (2, 6)) * 3:  # strided: seen as its logical copy
        out = make(np.zeros(m, np.float32))
        sums[8](whole[:m, :n], out, BLOCK=8)
        assert read(out).tolist() == (x[:m, :n].sum(1) + 1000 * m).tolist()


X = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_numpy_arrays():
    check(lambda a: a, lambda a: a, X)


def test_tensors_of_eas():
    check(eas.tensor, lambda t: t.numpy(), X)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    check(torch.from_numpy, lambda t: t.numpy(), X)


def test_one_compiled_kernel_serves_all_extents():
    out = np.zeros(8, np.float32)
    assert sums.compile(X, out, BLOCK=8) is sums.compile(X[:2].copy(), out, BLOCK=8)
    assert len({str(sums.compile(X[:m].copy(), out, BLOCK=8).ir) for m in range(1, 8)}) == 1


def test_graphs_and_asynchronous_launches():
    out, other = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with eas.capture(out=out) as graph:
        sums[8](X, out, BLOCK=8)
    graph.replay()
    graph.replay(out=other)
    want = (X.sum(1) + 8000).tolist()
    assert out.tolist() == other.tolist() == want
    for _ in range(6):
        out[:] = 0
        sums[8](X, out, BLOCK=8, _sync=False)
        eas.synchronize()
        assert out.tolist() == want


def test_texts_have_the_extents_as_scalars():
    text = sums.to_msl(X, np.zeros(8, np.float32), BLOCK=8)
    assert "x_shape1" in text


def test_other_things_have_no_extents():
    def of_offset(x, n):
        mk.store(x, 0, (x + 1).shape[0])

    def of_scalar(x, n):
        mk.store(x, 0, len(n))

    def part(x, n):
        mk.store(x, 0, x.shape[:1][0])

    def count_axes(x, n):
        mk.store(x, 0, float(len(x.shape)))

    def rank(x, n):
        mk.store(x, 0, float(x.ndim))

    def product(x, n):
        mk.store(x, 0, float(math.prod(x.shape)))

    def listed(x, n):
        mk.store(x, 0, float(len(list(x.shape))))

    def over_axes(x, n):
        for _extent in x.shape:
            mk.store(x, 0, 1.0)

    for fn in (count_axes, rank, product, listed, over_axes):
        with pytest.raises(eas.TypeMismatch, match="does not know how many axes a buffer has"):
            eas.kernel(fn).compile(X, 3)
    for fn, said in ((of_offset, "shape asks a buffer argument of the kernel"), (of_scalar, "a scalar has no length"), (part, "a part of a buffer's shape")):
        with pytest.raises(eas.TypeMismatch, match=said):
            eas.kernel(fn).compile(X, 3)

    @eas.kernel
    def third(x, n):
        mk.store(x, 0, mk.cast(x.shape[2], mk.f32))

    with pytest.raises(eas.ArgumentError, match=r"asks for x.shape\[2\], but argument 'x' has shape \(8, 8\)"):
        third(X.copy(), 3)


def test_positions_that_do_not_fit_i32_are_refused_unless_an_index_is_i64():
    @eas.kernel
    def put(x, WIDE: eas.constexpr):
        i = mk.arange(0, 1)
        x[i.to(mk.i64) if WIDE else i, 0] = 7.0

    x = np.zeros(8, np.float32)
    far = np.lib.stride_tricks.as_strided(x, (2, 2), (4 * 2**31 - 4, 4))
    for small in (x.reshape(2, 4), far[:1]):
        put[1](small, WIDE=False)
        assert small[0, 0] == 7
    with pytest.raises(eas.ArgumentError, match="computes positions in 'x' in i32, but its last element is 2147483648 behind the first") as error:
        put[1](far, WIDE=False)
    assert "hint: index it with an i64: x[i.to(mk.i64), j]" in str(error.value)
    x[0] = 0
    put[1](far, WIDE=True)
    assert x[0] == 7
