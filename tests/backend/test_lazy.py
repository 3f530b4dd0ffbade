"""Lazy arithmetic on every backend: values of NumPy, in as few kernels as the graph allows."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import eas
from eas import mk
from eas.lazy import realise
from eas.lazy.ops import MAP
from eas.lazy.realise import plan_of
from eas.ops.table import TABLE, Trait

erf = np.vectorize(math.erf)


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def check(lazy, want, kernels=1, tolerance=1e-5):
    plan = plan_of(lazy)
    assert [s.name for s in plan.kernels][kernels:] == [], [c.reason for c in plan.cuts]
    assert len(plan.kernels) == kernels
    assert lazy.shape == np.shape(want)
    np.testing.assert_allclose(lazy.numpy(), want, rtol=tolerance, atol=tolerance)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def test_dot_of_two_lists_is_one_kernel(backend):
    a, b = eas.Tensor([1, 2]), eas.Tensor([3, 4])
    lazy = a.dot(b)
    assert [s.name for s in plan_of(lazy).kernels] == ["r_2_sum_mul"]
    assert lazy.numpy() == 11
    assert lazy.dtype is eas.base.dtypes.i32


CASES = {
    "chain": lambda a, b, w: ((a * 2 + b).relu() * b).sum(1),
    "row vector": lambda a, b, w: a + w,
    "column": lambda a, b, w: a * a.sum(1, keepdims=True),
    "sum of rows": lambda a, b, w: a.sum(0),
    "turned": lambda a, b, w: (a + 1).T * 2,
    "steps": lambda a, b, w: (a + 1)[1:, ::2] - b[:-1, 1::2],
    "where": lambda a, b, w: (a > b).where(a, 0.5),
    "variance": lambda a, b, w: a.var(1),
    "largest": lambda a, b, w: a.argmax(1),
    "smallest of columns": lambda a, b, w: a.argmin(0),
    "prefix": lambda a, b, w: a.cumsum(1),
}
NUMPY = {
    "chain": lambda a, b, w: (np.maximum(a * 2 + b, 0) * b).sum(1),
    "turned": lambda a, b, w: (a + 1).T * 2,
    "where": lambda a, b, w: np.where(a > b, a, np.float32(0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_expression_is_one_kernel(backend, name):
    given = arrays((33, 70), (33, 70), (70,))
    want = NUMPY.get(name, CASES[name])(*given)
    check(CASES[name](*map(eas.tensor, given)), want, tolerance=1e-4)


def test_softmax_is_one_kernel_along_any_axis(backend):
    (x,) = arrays((17, 130))
    for axis in (0, 1):
        check(eas.tensor(x).softmax(axis), softmax(x, axis))
        check(eas.tensor(x).log_softmax(axis), np.log(softmax(x, axis)), tolerance=1e-4)


def test_rows_longer_than_a_block_are_walked(backend):
    (x,) = arrays((2, 40_000))
    check(eas.tensor(x).softmax(), softmax(x, 1))
    check(eas.tensor(x).argmax(1), x.argmax(1))
    check(eas.tensor(x).cumsum(1), x.cumsum(1, dtype=np.float64), tolerance=1e-2)


def test_layer_norm_is_one_kernel(backend):
    x, w, b = arrays((20, 96), (96,), (96,))
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b
    check(eas.tensor(x).layer_norm(eas.tensor(w), eas.tensor(b)), want, tolerance=1e-4)


def test_matmul_takes_what_follows_it(backend):
    x, w, b, stack = arrays((50, 40), (40, 96), (96,), (3, 10, 40))
    lx, lw, lb = map(eas.tensor, (x, w, b))
    check((lx @ lw + lb).gelu(), gelu(x @ w + b), tolerance=1e-4)
    check(lx @ eas.tensor(np.ascontiguousarray(w.T)).T, x @ w, tolerance=1e-4)
    check(eas.tensor(stack) @ lw + lb, stack @ w + b, tolerance=1e-4)
    check(lx @ lw[:, 3], x @ w[:, 3], tolerance=1e-4)


def test_movements_are_read_in_place(backend):
    (x,) = arrays((4, 6, 8))
    lazy = eas.tensor(x) + 1
    check(lazy.pad(((1, 2), (0, 0), (0, 3)), 7.0), np.pad(x + 1, ((1, 2), (0, 0), (0, 3)), constant_values=7))
    check(lazy.roll(3, 1).flip(2), np.roll(x + 1, 3, 1)[:, :, ::-1])
    check(lazy.reshape(4, 6, 2, 4).permute(0, 2, 1, 3) * 2, (x + 1).reshape(4, 6, 2, 4).transpose(0, 2, 1, 3) * 2)
    check(lazy.permute(1, 0, 2).reshape(6, 32) * 2, (x + 1).transpose(1, 0, 2).reshape(6, 32) * 2, kernels=2)


def test_gathers_and_one_hot(backend):
    (x,) = arrays((9, 5))
    numbers = np.array([3, 1, 8, -1], np.int32)
    check(eas.tensor(x).take(eas.tensor(numbers)) * 2, x[numbers] * 2)
    check(eas.tensor(x).take(eas.tensor(np.array([0, 4], np.int32)), axis=1), x[:, [0, 4]])
    along = np.array([[0, 4, -1], [2, 2, 1]], np.int32)
    check((eas.tensor(x) + 1).realize().gather(1, eas.tensor(along)) * 2, np.take_along_axis(x[:2] + 1, along, 1) * 2)
    check(eas.tensor(np.array([1, 0, 3], np.int32)).one_hot(5), np.eye(5, dtype=np.int32)[[1, 0, 3]])


def test_many_operands_are_few_kernels(backend):
    given = arrays(*[(6, 5)] * 45)
    lazy, want = eas.tensor(given[0]).T * 1.5, given[0].T * np.float32(1.5)
    for i, x in enumerate(given[1:]):
        lazy, want = lazy + eas.tensor(x).T * (i + 2.5), want + x.T * np.float32(i + 2.5)
    check(lazy, want, kernels=3, tolerance=1e-4)


def test_a_reshape_of_strided_memory_is_a_copy(backend):
    (x,) = arrays((6, 8))
    check(eas.tensor(x.T)[1:].reshape(21, 2) * 2, x.T[1:].reshape(21, 2) * 2)
    lazy = eas.tensor(x.T)
    lazy = lazy.roll(1, 0).reshape(2, 24) + lazy.flip(0).reshape(2, 24)
    np.testing.assert_allclose(lazy.numpy(), np.roll(x.T, 1, 0).reshape(2, 24) + x.T[::-1].reshape(2, 24))


def test_a_reader_keeps_what_it_saw(backend):
    x = eas.tensor(np.arange(4, dtype=np.float32).copy())
    reader = x + 10
    x[:1] = 9
    assert reader.tolist() == [10, 11, 12, 13]
    assert x.tolist() == [9, 1, 2, 3]


def test_a_view_of_a_lazy_tensor_writes_through(backend):
    x = eas.tensor(np.arange(6, dtype=np.float32))
    y = x + 1
    head, reader = y[:2], y * 2
    of_head = head * 3
    y[0] = 7
    assert head.tolist() == [7, 2]
    head[1] = 8
    assert y.tolist() == [7, 8, 3, 4, 5, 6]
    assert reader.tolist() == [2, 4, 6, 8, 10, 12]
    assert of_head.tolist() == [3, 6]


@eas.kernel
def fill_kernel(x, value, n, BLOCK: eas.constexpr):
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(x, offsets, value, offsets < n)


def test_a_reader_keeps_what_a_kernel_overwrites(backend):
    x = eas.tensor(np.arange(4, dtype=np.float32).copy())
    for _ in range(5):  # the last ones go through a native launcher
        reader, before = x + 10, x.numpy().copy()
        fill_kernel(x, float(len(before)), 4, BLOCK=16, _grid=1)
        assert reader.tolist() == (before + 10).tolist()
        x[:] = before + 1


def test_a_reader_keeps_what_is_overwritten_through_other_arrays_on_its_memory(backend):
    """Parts, turned and reinterpreted ones: what counts is where the bytes are."""
    memory = np.arange(8, dtype=np.float32)
    ways = [lambda: memory, lambda: memory[2:6], lambda: memory[::-1][:4], lambda: memory.reshape(2, 4)[1], lambda: memory.view(np.int32).view(np.float32)[1:5]]
    for way in ways:
        memory[:] = np.arange(8)
        reader = eas.tensor(memory) + 10
        written = way()
        fill_kernel(written, -1.0, written.size, BLOCK=16, _grid=1)
        assert (memory == -1).sum() == written.size
        assert reader.tolist() == list(range(10, 18))


def test_a_reader_sees_launches_that_are_under_way(backend):
    x = eas.tensor(np.zeros(64, np.float32))
    for i in range(5):
        fill_kernel(x, float(i), 64, BLOCK=64, _grid=1, _sync=False)
        reader = x + 1
        fill_kernel(x, -1.0, 64, BLOCK=64, _grid=1, _sync=False)
        assert reader.tolist() == [i + 1] * 64
    eas.synchronize()


def test_a_kernel_takes_a_lazy_tensor(backend):
    x = eas.tensor(np.zeros(4, np.float32)) + 1
    for _ in range(5):
        lazy = x * 2
        fill_kernel(lazy, 3.0, 2, BLOCK=16, _grid=1)
        assert lazy.tolist() == [3, 3, 2, 2]


def test_library_calls_are_part_of_a_graph(backend):
    q, k, v = arrays((2, 3, 10, 8), (2, 3, 12, 8), (2, 3, 12, 8))
    lazy = (eas.tensor(q) * 2).attention(eas.tensor(k), eas.tensor(v), causal=False)
    want = softmax(q * 2 @ k.swapaxes(-1, -2) / math.sqrt(8), -1) @ v
    check(lazy + 1, want + 1, kernels=3, tolerance=1e-4)
    (x,) = arrays((3, 20))
    values, places = (eas.tensor(x) + 1).topk(4)
    np.testing.assert_allclose(values.numpy(), np.sort(x + 1)[:, ::-1][:, :4], rtol=1e-6)
    np.testing.assert_array_equal(places.numpy(), np.argsort(-x)[:, :4])
    np.testing.assert_allclose(eas.tensor(x).sort().numpy(), np.sort(x), rtol=1e-6)
    image, weight = arrays((1, 2, 6, 6), (3, 2, 3, 3))
    assert eas.tensor(image).conv2d(eas.tensor(weight), padding=1).relu().numpy().shape == (1, 3, 6, 6)


def test_random_numbers_are_those_of_a_kernel(backend):
    a, b = (eas.Tensor.uniform(300, seed=7).numpy() for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert 0 <= a.min() < 0.1 < 0.9 < a.max() < 1
    normal = (eas.Tensor.normal(2000, seed=3) * 2 + 1).numpy()
    assert abs(normal.mean() - 1) < 0.2
    assert abs(normal.std() - 2) < 0.2
    parts = eas.Tensor.uniform(20, 15, seed=7)
    np.testing.assert_array_equal(parts.numpy().reshape(-1), a)


@pytest.mark.parametrize("name", ["f16", "bf16", "i8", "u16", "i64", "bool"])
def test_dtypes_are_those_of_kernels(backend, name, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    dtype = eas.base.dtypes.parse(name)
    numbers = np.random.default_rng(0).integers(0, 2 if name == "bool" else 7, (5, 20))
    x, y = (eas.tensor(n.astype(np.float32)).to(name) for n in (numbers, numbers[::-1]))
    assert (x + y).dtype is (eas.base.dtypes.i32 if dtype.is_bool else dtype)
    np.testing.assert_array_equal((x + y).to("f32").numpy(), numbers + numbers[::-1])
    assert x.sum(1).dtype is (dtype if dtype.is_float else eas.base.dtypes.u64 if name == "u16" else eas.base.dtypes.i64)
    np.testing.assert_array_equal(x.sum(1).to("f32").numpy(), numbers.sum(1))
    np.testing.assert_array_equal(x.max(0).to("f32").numpy(), numbers.max(0))
    np.testing.assert_allclose(x.softmax().to("f32").numpy(), softmax(numbers.astype(np.float32), 1), rtol=1e-2)
    product = (numbers @ numbers[::-1].T).astype(dtype.np_compute)  # integers wrap, as NumPy's
    np.testing.assert_allclose((x @ y.T).to("f32").numpy(), product, rtol=5e-3)


def test_operators_in_place_write_through(backend):
    x = eas.tensor(np.arange(4, dtype=np.float32))
    view, reader, same = x[1:3], x * 2, x
    x += 1
    x[2:] *= 10
    assert same is x
    assert x.tolist() == [1, 2, 30, 40]
    assert view.tolist() == [2, 30]
    assert reader.tolist() == [0, 2, 4, 6]
    with pytest.raises(eas.EasError, match="in place of i32 gives f32"):
        eas.tensor([1, 2]).__iadd__(0.5)


def test_a_reader_keeps_what_numpy_overwrites_later(backend):
    x = eas.tensor(np.arange(3, dtype=np.float32).copy())
    reader = x + 1
    x.numpy()[0] = 50  # asked for after the reader was built
    assert reader.tolist() == [1, 2, 3]
    assert (x + 1).tolist() == [51, 2, 3]


def test_numpy_still_computes_with_tensors(backend):
    x = eas.tensor(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(np.exp2(x), [1, 2, 4])
    made = np.ones(3, np.float32) + x
    assert isinstance(made, eas.Tensor)
    assert made.tolist() == [1, 2, 3]


def test_tensors_realised_together_share_a_kernel(backend):
    (x,) = arrays((8, 70))
    lazy = eas.tensor(x)
    total, shares, again = lazy.sum(1, keepdims=True), lazy / lazy.sum(1, keepdims=True), lazy.sum(1, keepdims=True)
    total.realize(shares, again)
    np.testing.assert_allclose(shares.numpy(), x / x.sum(1, keepdims=True), rtol=1e-3)
    again[:] = 0
    np.testing.assert_allclose(total.numpy(), x.sum(1, keepdims=True), rtol=1e-3, atol=1e-4)


def test_every_row_of_the_op_table_has_a_method():
    hints = {"addptr", "load", "store", "device_assert", "multiple_of", "max_contiguous", "max_constancy", "inline_target", "exp_of_negative", "exp2_of_negative", "philox", "int_to_ptr", "ptr_to_int"}
    assert {name for name, row in TABLE.items() if Trait.ELEMENTWISE in row.traits} - hints == set(MAP)
    operators = {"floordiv", "and", "or", "xor", "not", "shl", "shr"}
    spelled = {"max": "maximum", "min": "minimum", "truncdiv": "div_trunc", "truncmod": "rem", "select": "where", "cast": "to"}
    assert [name for name in MAP if name not in operators and not hasattr(eas.Tensor, spelled.get(name, name))] == []


def test_functions_of_bits_and_of_three_operands(backend, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    n = np.array([1, 6, -8, 255, 0, 1 << 30], np.int32)
    t = eas.tensor(n)
    made = eas.Tensor.stack([t.popcount(), t.clz(), t.ctz(), t.bit_reverse().bit_reverse(), t.div_trunc(-4), t.rem(-4), t.mulhi(1 << 30), t.bitcast("f32").bitcast("i32")])
    want = [[1, 2, 29, 8, 0, 1], [31, 29, 0, 24, 32, 1], [0, 1, 3, 0, 32, 30], n, [0, -1, 2, -63, 0, -(1 << 28)], [1, 2, 0, 3, 0, 0], [0, 1, -2, 63, 0, 1 << 28], n]
    np.testing.assert_array_equal(made.numpy(), want)
    x, y, z = arrays((5,), (1,), (3, 1))
    np.testing.assert_allclose(eas.tensor(x).fma(eas.tensor(y), eas.tensor(z)).numpy(), x * y + z, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(eas.tensor(x).exp10().fma(2, 0.5).numpy(), 10.0**x * 2 + 0.5, rtol=1e-5)
    gaps = np.array([np.nan, 2, 3], np.float32)
    np.testing.assert_array_equal(eas.tensor(gaps).fmax(2.5).numpy(), [2.5, 2.5, 3])
    assert eas.tensor([1, 5]).fmin(3).tolist() == [1, 3]


@pytest.mark.parametrize("name", ["ifloordiv", "imod", "ilshift", "irshift", "ipow", "ixor"])
def test_each_operator_in_place_is_seen_by_views(backend, name):
    n = np.arange(1, 7, dtype=np.int32)
    t = eas.tensor(n.copy()) + 0
    seen, view = n[2:], t[2:]
    getattr(operator, name)(n, 3)
    getattr(operator, name)(t, 3)
    np.testing.assert_array_equal(view.numpy(), seen)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_flips_and_expansions_are_views(backend, is_lazy):
    x = eas.tensor(np.arange(4, dtype=np.float32))
    x = x + 0 if is_lazy else x
    turned, wide, kept = x.flip(0), x.expand(2, -1), x.reshape(2, 2).T.reshape(4)
    reader = turned + wide[1]
    x[0] = 9
    turned[0] = 7
    assert x.tolist() == [9, 1, 2, 7]
    assert turned.tolist() == [7, 2, 1, 9]
    assert wide.tolist() == [[9, 1, 2, 7]] * 2
    assert kept.tolist() == [0, 2, 1, 3]  # strides cannot say it: a copy, as NumPy's
    assert reader.tolist() == [3, 3, 3, 3]
    with pytest.raises(eas.EasError, match=r"read-only(.|\n)*test_lazy.py:"):
        wide[0] = 1


def test_several_axes_and_none(backend):
    (x,) = arrays((3, 4, 5))
    t = eas.tensor(x)
    for lazy, want in [
        (t.flip(0, 2), np.flip(x, (0, 2))), (t.roll((1, -2), (0, 1)), np.roll(x, (1, -2), (0, 1))), (t.transpose(), x.T), (t.transpose(2, 0, 1), x.transpose(2, 0, 1)),
        (t.sort(axis=1), np.sort(x, 1)), (t.take([[2, 0]], 1), np.take(x, [[2, 0]], 1)), (t.take([7, 2], None), np.take(x, [7, 2])), (+t, x), (divmod(t, 2)[1], x % 2),
    ]:  # fmt: skip
        np.testing.assert_allclose(lazy.numpy(), want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(t.cumsum(None).numpy(), np.cumsum(x), rtol=1e-4, atol=1e-5)


def test_what_is_the_same_along_a_row_is_not_read_past_its_end(backend, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    x, m = arrays((5, 40), (5, 1))
    t, u = eas.tensor(x), eas.tensor(np.abs(m) + 1)
    np.testing.assert_allclose(t.maximum(u).sum().numpy(), np.maximum(x, u.numpy()).sum(), rtol=1e-5)
    np.testing.assert_allclose(u.expand(5, 40).sum().numpy(), u.numpy().sum() * 40, rtol=1e-5)


WRITES = {
    "rows": lambda t: t.__setitem__(slice(1, 3), 5), "columns": lambda t: t.__setitem__((slice(None), slice(None, None, 2)), -1), "back": lambda t: t.__setitem__((slice(None, None, -2), slice(5, None, -3)), 7),
    "mask": lambda t: t.__setitem__(t > 10, 0), "mask of rows": lambda t: t.__setitem__(t[:, 0] > 6, 3), "row": lambda t: t.__setitem__(2, t[0] * 2), "overlap": lambda t: t.__setitem__(slice(1, None), t[:-1]),
    "turned": lambda t: t.T.__setitem__(0, t[0, :4] + 1), "reshaped": lambda t: t.reshape(2, 12).__setitem__((0, slice(0, 3)), 77), "view of views": lambda t: t[1:][:, ::2].T.__setitem__(0, 55),
    "in place": lambda t: t[1:].__iadd__(t[:-1]), "whole": lambda t: t.__setitem__(..., t * 2), "nothing": lambda t: t.__setitem__(slice(2, 2), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_a_lazy_tensor_is_part_of_its_graph(backend, name, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    t = eas.tensor(a.copy()) + 0
    pairs = [(t, a), (t[1:, ::2].T, a[1:, ::2].T), (t + 1, a + 1)]
    WRITES[name](t)
    WRITES[name](a)
    assert not t._is_realised
    for lazy, want in pairs:
        np.testing.assert_array_equal(lazy.numpy(), want)
    t[0, 0] = 100  # memory now, which its views share
    assert pairs[0][0].numpy()[0, 0] == 100


def test_a_lazy_write_takes_values_not_memory(backend):
    x, y = eas.tensor(np.zeros(3, np.float32)) + 1, eas.tensor(np.arange(3, dtype=np.float32))
    x[...] = y
    x[0] = 9
    assert (x.tolist(), y.tolist()) == ([9, 1, 2], [0, 1, 2])
    for i in range(30):
        x = x + 0 if i % 15 == 0 else x
        x[i % 3] = i
    assert x.tolist() == [27, 28, 29]


INDICES = [
    np.s_[[2, 0, -1]], np.s_[:, [3, 1]], np.s_[[0, 2], [1, -4]], np.s_[[[0], [2]], :, [1, 2]], np.s_[1, :, [0, 4]], np.s_[..., [0, 1], None],
    np.s_[::-2, [1, 1], 1:], np.s_[[]], np.s_[np.eye(3, 4, dtype=bool)], np.s_[[True, False, True], 1], np.s_[0, [True, False, False, True], :, None], np.s_[[0, 1], ..., np.arange(5) < 2],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_arrays_and_masks_in_brackets_are_numpys(index, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    (x,) = arrays((3, 4, 5))
    lazy = eas.tensor(x)
    for got, want in [(lazy[index] * 2, x[index] * 2), ((lazy + 1).T.T[index], (x + 1)[index])]:
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)


def test_indices_may_be_lazy_and_readers_keep_what_they_saw(monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    (x,) = arrays((6, 5))
    lazy, at = eas.tensor(x.copy()), np.array([4, 1])
    best, seen, positive = lazy[np.arange(6), lazy.argmax(1)], lazy[at], lazy[lazy > 0]
    past = lazy[eas.tensor([5, 9]) + 0]  # only known when it runs
    lazy[:] = 0
    at[:] = 0
    for got, want in [(best, x.max(1)), (seen, x[[4, 1]]), (positive, x[x > 0]), (past, [x[5], 0 * x[0]])]:
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize(("m", "k", "n"), [(7, 5, 9), (33, 70, 65)])
def test_products_reduce_the_rows_of_their_operands_first(m, k, n, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    a, b, c = arrays((m, k), (k, n), (n, m))
    x, w, turned = eas.tensor(a), eas.tensor(b), eas.tensor(np.ascontiguousarray(b.T)).T
    away = a - a.mean(1, keepdims=True)
    check(x.softmax(1) @ w, softmax(a, 1) @ b, tolerance=1e-4)
    check(x.layer_norm() @ turned + 1, away / np.sqrt((away * away).mean(1, keepdims=True) + 1e-5) @ b + 1, tolerance=1e-4)
    check((x.softmax(1) @ turned.softmax(0)).T + eas.tensor(c), (softmax(a, 1) @ softmax(b, 0)).T + c, tolerance=1e-4)
    check(((x - x.max(1, keepdims=True)) * 0.5) @ w + x.max(1, keepdims=True), (a - a.max(1, keepdims=True)) * 0.5 @ b + a.max(1, keepdims=True), tolerance=1e-3)
    check((x - x.mean(0, keepdims=True)) @ w, (a - a.mean(0, keepdims=True)) @ b, kernels=2, tolerance=1e-3)  # other rows than those of the product


def test_a_product_writes_in_the_order_in_which_it_is_read(monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    a, b, c = arrays((2, 6, 16), (16, 12), (12, 2, 6))
    made = (eas.tensor(a) @ eas.tensor(b)).permute(2, 0, 1)
    check(made * 2 + eas.tensor(c), (a @ b).transpose(2, 0, 1) * 2 + c, tolerance=1e-4)
    check(made.reshape(12, 12), (a @ b).transpose(2, 0, 1).reshape(12, 12), tolerance=1e-4)


def test_writes_of_graphs_into_memory_are_part_of_the_graph(monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    (a,) = arrays((4, 5))
    x, y = eas.zeros(4, 5), eas.tensor(a)
    before = x + 10
    x[1:] = y[1:] * 2
    x[x > 1] = -1
    want = np.concatenate([np.zeros((1, 5), np.float32), a[1:] * 2])
    want[want > 1] = -1
    assert x._is_lazy
    total = (x * 3).sum()
    assert len(plan_of(total).kernels) == 1
    np.testing.assert_allclose(total.item(), (want * 3).sum(), rtol=1e-5)
    assert not x._is_lazy  # kept by the graph that computed it
    np.testing.assert_array_equal(x.numpy(), want)
    np.testing.assert_array_equal(before.numpy(), np.full((4, 5), 10))


def test_writes_into_memory_that_others_see_are_done_at_once():
    (a,) = arrays((4, 5))
    for share in (lambda x: x.numpy(), lambda x: x[...], lambda x: np.from_dlpack(x)):
        x = eas.zeros(4, 5)
        other = share(x)
        x[1:] = eas.tensor(a)[1:] * 2
        assert not x._is_lazy
        np.testing.assert_array_equal(np.asarray(other)[1:], a[1:] * 2)
    large = eas.zeros(1000, 1000)
    large[3, :5] = eas.tensor(a)[0] * 2
    assert not large._is_lazy  # few elements of many: to compute all of them again would cost more
    np.testing.assert_array_equal(large.numpy()[3, :5], a[0] * 2)
    with pytest.raises(eas.EasError, match="cannot assign shape"):
        x[:3] = eas.tensor(a) * 2
    assert not x._is_lazy


def test_steps_that_write_a_tensor_do_not_grow_its_graph():
    (a,) = arrays((100,))
    x, y = eas.zeros(100), eas.tensor(a)
    for step in range(1, 30):
        x -= y * 0.5
        assert x._lazy().depth < 40
        if step % 3 == 0:
            np.testing.assert_allclose((x * x).sum().item(), (a * a * 0.25 * step**2).sum(), rtol=1e-4)
    np.testing.assert_allclose(x.numpy(), -0.5 * 29 * a, rtol=1e-4)


def test_lanes_do_not_race_where_products_reduce_rows(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_SANITIZE", "1")
    a, b = arrays((16, 20), (20, 8))
    np.testing.assert_allclose(((eas.tensor(a) * 2).softmax(1) @ eas.tensor(b)).numpy(), softmax(a * 2, 1) @ b, rtol=1e-4, atol=1e-4)
