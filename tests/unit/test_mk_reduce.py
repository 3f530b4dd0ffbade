"""Reductions, scans and products of mk: accumulation dtypes, order, custom combine functions."""

# mypy: disable-error-code=arg-type

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Type
from tests.unit.mk_kernels import lines_of, ptr, refusal, run, whole

rng = np.random.default_rng(13)
X = rng.standard_normal((3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "name", ["sum", "max", "min", "prod", "mean", "any", "all", "argmax", "argmin"]
)
def test_reductions_agree_with_numpy(name, keep, axis):
    out = np.int32 if name.startswith("arg") else np.bool_ if name in ("any", "all") else np.float32
    want = np.asarray(getattr(np, name)(X, axis=axis, keepdims=keep))
    got = whole(lambda x: getattr(mk, name)(x, axis=axis, keep_dims=keep), X, want.shape, out)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_scans_agree_with_numpy():
    for axis in (0, 1, -1):
        np.testing.assert_allclose(
            whole(lambda x, a=axis: mk.cumsum(x, a), X, X.shape, np.float32),
            np.cumsum(X, axis),
            rtol=1e-5,
        )
        flipped = np.flip(np.cumprod(np.flip(X, axis), axis), axis)
        np.testing.assert_allclose(
            whole(lambda x, a=axis: x.cumprod(a, reverse=True), X, X.shape, np.float32),
            flipped,
            rtol=1e-5,
        )


def types_in(fn, dtype):
    """Dtype inside of the combine region, and dtype of the result."""
    seen = []

    def kernel(x, F):
        seen.append(F(mk.load(x, mk.arange(8))).dtype.name)

    lines = lines_of(kernel, x=ptr(dtype), F=fn)
    fold = next(line for line in lines if "reduce" in line or "scan" in line)
    return fold.split(" : ")[1].split()[0].split("[")[0], seen[0]


@pytest.mark.parametrize(
    ("dtype", "inside", "result"),
    [
        (mk.f16, "f32", "f16"),
        (mk.bf16, "f32", "bf16"),
        (mk.f32, "f32", "f32"),
        (mk.f64, "f64", "f64"),
        (mk.bool, "i32", "i32"),
        (mk.i8, "i32", "i32"),
        (mk.u16, "u32", "u32"),
        (mk.i32, "i32", "i32"),
        (mk.u64, "u64", "u64"),
    ],
)
def test_accumulation_types(dtype, inside, result):
    for fn in (mk.sum, mk.prod, mk.cumsum, mk.cumprod):
        assert types_in(fn, dtype) == (inside, result)
    assert types_in(mk.max, dtype) == (dtype.name, dtype.name)
    assert types_in(mk.min, dtype) == (dtype.name, dtype.name)
    assert types_in(mk.any, dtype)[1] == "bool"


def test_sum_in_a_given_dtype():
    assert types_in(lambda x: mk.sum(x, dtype=mk.i64), mk.i8) == ("i64", "i64")
    assert types_in(lambda x: mk.sum(x, dtype=mk.f16), mk.f32) == ("f32", "f16")
    assert types_in(mk.mean, mk.f16) == ("f32", "f16")
    assert types_in(mk.mean, mk.i32) == ("f32", "f32")
    assert types_in(mk.xor_sum, mk.u8) == ("u8", "u8")


def test_nan_wins_and_ties_go_to_the_lowest_index():
    x = np.array([1, np.nan, 3, np.nan, 3], np.float32)
    assert whole(mk.argmax, x, (), np.int32) == 1
    assert whole(mk.argmin, x, (), np.int32) == 1
    assert np.isnan(whole(mk.max, x, (), np.float32))
    y = np.array([1, 3, 0, 3, 0], np.int16)
    assert whole(mk.argmax, y, (), np.int32) == 1
    assert whole(mk.argmin, y, (), np.int32) == 2
    assert whole(mk.argmax, np.array([-0.0, 0.0, -1], np.float32), (), np.int32) == 0


def test_max_with_indices():
    for form in (lambda x: mk.max(x, 1, True), lambda x: mk.max(x, 1, return_indices=True), lambda x: x.max(axis=1, return_indices=True)):
        np.testing.assert_array_equal(
            whole(lambda x, f=form: f(x)[0], X[0], (4,), np.float32), X[0].max(1)
        )
        np.testing.assert_array_equal(
            whole(lambda x, f=form: f(x)[1], X[0], (4,), np.int32), X[0].argmax(1)
        )


def test_an_integer_after_a_block_is_refused_and_after_a_scalar_a_value():
    def kernel(x):
        i = mk.arange(8)
        assert i.max(0).shape == mk.max(i, axis=0).shape == mk.max(i, None).shape == ()
        assert mk.max(i, 0.0).shape == (8,)
        assert mk.max(i, i).shape == (8,)
        assert mk.maximum(i, 0).shape == (8,)
        assert mk.max(x, 0).shape == ()

    lines_of(kernel, x=Type(mk.i32))


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_with_one_integer_names_both_meanings(name):
    def kernel():
        v = mk.arange(8)
        getattr(mk, name)(v + 1, 0)

    with pytest.raises(TypeMismatch) as caught:
        lines_of(kernel)
    text = str(caught.value)
    assert "could reduce along axis 0, or compare each element with 0" in text
    assert f"axis=0) to reduce, mk.{name}imum(" in text


def test_the_words_of_numpy_and_torch_are_taken():
    for form in (
        lambda x: x.sum(dim=1, keepdim=True),
        lambda x: mk.sum(x, axis=1, keepdims=True),
        lambda x: x.sum(1, True),
    ):
        np.testing.assert_allclose(whole(form, X[0], (4, 1), np.float32), X[0].sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(whole(lambda x: mk.sort(x, dim=0), X[0], X[0].shape, np.float32), np.sort(X[0], 0))


def test_words_that_mean_nothing_get_a_hint():
    def twice(x):
        mk.sum(mk.arange(8), dim=0, axis=0)

    def unknown(x):
        mk.arange(8).sum(axsi=0)

    def triton(x):
        mk.load(x, mk.arange(8), boundary_check=(0,))

    for kernel, said in ((twice, "got dim and axis, which are the same"), (unknown, "x.sum has no parameter axsi"), (triton, "mk.load has no parameter boundary_check")):
        with pytest.raises(TypeMismatch, match=said):
            lines_of(kernel, x=ptr(mk.f32))


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("correction", [0, 1])
def test_variance(axis, correction):
    x = X[0] * 3 + 100
    for form, want in ((mk.var, x.astype(np.float64).var(axis, ddof=correction)), (mk.std, x.astype(np.float64).std(axis, ddof=correction))):
        got = whole(lambda v, f=form: f(v, axis, correction=correction), x, np.shape(want), np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert types_in(mk.var, mk.f16)[1] == "f16"


def test_log_of_sums():
    x = X[0] * 50
    wide = x.astype(np.float64)
    top = wide.max(1, keepdims=True)
    want = np.log(np.exp(wide - top).sum(1, keepdims=True)) + top
    np.testing.assert_allclose(whole(lambda v: mk.logsumexp(v, 1), x, (4,), np.float32), want[:, 0], rtol=1e-6)
    np.testing.assert_allclose(whole(lambda v: mk.log_softmax(v, 1), x, x.shape, np.float32), wide - want, rtol=1e-5, atol=1e-5)
    assert whole(mk.logsumexp, np.full(4, -np.inf, np.float32), (), np.float32) == -np.inf
    assert whole(mk.logsumexp, np.array([1, np.inf], np.float32), (), np.float32) == np.inf


def test_softmax():
    want = np.exp(X - X.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(
        whole(lambda x: mk.softmax(x, 1), X, X.shape, np.float32), want, rtol=1e-5
    )
    assert types_in(mk.softmax, mk.f16) == ("f32", "f16")


def larger_magnitude(a, b):
    return a if mk.abs(a) > mk.abs(b) else b


def test_custom_reduction_with_a_conditional_expression():
    x = np.array([3, -7, 5, 2], np.float32)
    assert whole(lambda v: mk.reduce(v, 0, larger_magnitude), x, (), np.float32) == -7
    assert (
        whole(
            lambda v: v.reshape(2, 2).reduce(None, larger_magnitude, keep_dims=True),
            x,
            (1, 1),
            np.float32,
        )
        == -7
    )


def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * (n_a * n_b / n), n


def test_tuple_reduction():
    x = rng.standard_normal(16).astype(np.float32)

    def variance(v):
        _, m2, n = mk.reduce((v, mk.zeros_like(v), mk.full_like(v, 1)), 0, welford)
        return m2 / n

    np.testing.assert_allclose(whole(variance, x, (), np.float32), x.var(), rtol=1e-5)


def test_linear_recurrence_by_associative_scan():
    def kernel(a, b, y):
        i = mk.arange(8)

        def step(a1, b1, a2, b2):
            return a1 * a2, b1 * a2 + b2

        _, h = mk.associative_scan((mk.load(a, i), mk.load(b, i)), 0, step)
        mk.store(y, i, h)

    a, b = rng.uniform(0.5, 1, (2, 8)).astype(np.float32)
    y, h = np.zeros(8, np.float32), 0.0
    run(kernel, a, b, y)
    for i in range(8):
        h = a[i] * h + b[i]
        np.testing.assert_allclose(y[i], h, rtol=1e-5)


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (
            lambda x, v: mk.reduce(v, 0, lambda a, b: a + mk.load(x, 0)),
            TypeMismatch,
            "the combine function of reduce may only compute with scalars, not use addptr",
        ),
        (
            lambda x, v: mk.reduce(v, 0, lambda a, b: a + v),
            TypeMismatch,
            "may only compute with scalars, not use broadcast",
        ),
        (
            lambda x, v: mk.reduce(v, 0, lambda a, b: mk.sum(v)),
            TypeMismatch,
            "may only compute with scalars, not use reduce",
        ),
        (
            lambda x, v: mk.reduce(v, 0, lambda a, b: (a, b)),
            TypeMismatch,
            "returned 2 values for 1 inputs",
        ),
        (lambda x, v: mk.reduce(v, 0, lambda a, b: v), ShapeMismatch, "returned the block f32[8]"),
        (
            lambda x, v: mk.reduce(mk.arange(8), 0, lambda a, b: a / b),
            TypeMismatch,
            "what reduce combines to is f32 and does not become i32",
        ),
        (
            lambda x, v: mk.reduce((v, mk.arange(4)), 0, lambda a, b, c, d: (a, b)),
            ShapeMismatch,
            "reduce got blocks of shapes [8] and [4]",
        ),
        (lambda x, v: mk.reduce(v, 0, 3), TypeMismatch, "the combine function is 3"),
        (
            lambda x, v: mk.sum(v, 1),
            ShapeMismatch,
            "sum: axis 1 does not exist in a block of rank 1",
        ),
        (
            lambda x, v: mk.sum(mk.program_id(0)),
            ShapeMismatch,
            "sum needs a block, got the scalar i32",
        ),
        (lambda x, v: mk.sum(x), TypeMismatch, "sum needs values, got the pointer"),
        (
            lambda x, v: mk.max(v, v, axis=0),
            TypeMismatch,
            "max got both an axis and further values",
        ),
        (lambda x, v: mk.xor_sum(v), TypeMismatch, "xor needs an integer or bool operand, got f32"),
        (lambda x, v: mk.cumsum(v, None), TypeMismatch, "the axis of cumsum must be an integer"),
    ],
)
def test_refusals(fn, kind, text):
    def kernel(x, F):
        F(x, mk.load(x, mk.arange(8)))

    assert text in refusal(kind, kernel, x=ptr(mk.f32), F=fn)


def test_a_branch_in_a_combine_function_is_refused_with_its_line():
    def pick(a, b):
        if a > b:
            return a
        return b

    def kernel(x):
        mk.reduce(mk.load(x, mk.arange(8)), 0, pick)

    text = refusal(TypeMismatch, kernel, x=ptr(mk.f32))
    assert "not use if" in text
    assert "if a > b:" in text
    assert "mk.where(cond, a, b)" in text


def test_reductions_in_thread_kernels_point_to_simd():
    def kernel():
        mk.sum(mk.tid(32))

    assert "mk.simd_sum" in refusal(ShapeMismatch, kernel)


# --- dot --------------------------------------------------------------------------------------


def test_dot_accumulates():
    a, b = (
        rng.standard_normal((4, 6)).astype(np.float16),
        rng.standard_normal((6, 8)).astype(np.float16),
    )

    def kernel(a, b, y):
        i, k, j = mk.arange(4), mk.arange(6), mk.arange(8)
        x = mk.load(a, i[:, None] * 6 + k[None, :])
        w = mk.load(b, k[:, None] * 8 + j[None, :])
        out = mk.dot(x, w, mk.ones((4, 8), mk.f16)) + x @ w + mk.dot(x, w, 1.0, out_dtype=mk.f32)
        assert out.dtype is mk.f32
        assert mk.dot(x, mk.cast(w, mk.f32), out_dtype=mk.bf16).dtype is mk.bf16
        mk.store(y, i[:, None] * 8 + j[None, :], out)

    y = np.zeros((4, 8), np.float32)
    run(kernel, a.ravel(), b.ravel(), y.reshape(-1))
    np.testing.assert_allclose(y, 3 * (a.astype(np.float64) @ b) + 2, rtol=1e-4, atol=1e-4)


def test_stacks_of_integer_matrices():
    def kernel(y):
        x = mk.cast(mk.arange(8).reshape(2, 2, 2), mk.i8)
        out = mk.dot(x, x)
        assert str(out.type) == "i32[2,2,2]"
        mk.store(y, mk.arange(8), out.ravel())

    y = np.zeros(8, np.int32)
    run(kernel, y)
    x = np.arange(8).reshape(2, 2, 2)
    np.testing.assert_array_equal(y, (x @ x).ravel())


@pytest.mark.parametrize("static", [True, False])
def test_strided_dot_of_blocks_and_scalars(static):
    a, b = (
        rng.standard_normal((4, 6)).astype(np.float32),
        rng.standard_normal((6, 8)).astype(np.float32),
    )

    def kernel(a, b, y, k, K):
        i, j = mk.arange(4)[:, None], mk.arange(8)[None, :]
        mk.store(y, i * 8 + j, mk.dot(a, i * 6, 1, b, j, 8, k if K is None else K))
        mk.store(y, 32, mk.dot(a, 0, 1, b, 0, 8, 0))

    y = np.full(33, 9, np.float32)
    run(kernel, a.ravel(), b.ravel(), y, 6, K=6 if static else None)
    np.testing.assert_allclose(y[:32].reshape(4, 8), a @ b, rtol=1e-5, atol=1e-6)
    assert y[32] == 0


def test_strided_dot_in_a_thread_kernel():
    a, b = np.arange(6, dtype=np.int8), np.arange(48, dtype=np.int8)

    def kernel(a, b, y):
        t = mk.tid(8)
        s = mk.dot(a, 0, 1, b, t, 8, 6)
        assert s.dtype is mk.i32
        mk.store(y, t, s)

    y = np.zeros(8, np.int32)
    run(kernel, a, b, y)
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.reshape(6, 8).astype(np.int32))


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (lambda x, v: mk.dot(v, mk.arange(3)), ShapeMismatch, "dot"),
        (
            lambda x, v: mk.dot(v.reshape(2, 4), v.reshape(2, 4)),
            ShapeMismatch,
            "dot of shapes [2, 4] and [2, 4]",
        ),
        (lambda x, v: mk.dot(x, 0, 1, x, 0), TypeMismatch, "dot got 5 positional arguments"),
        (lambda x, v: mk.dot(v, 0, 1, x, 0, 1, 4), TypeMismatch, "dot needs a buffer or pointer"),
        (
            lambda x, v: mk.dot(v.reshape(2, 4), v.reshape(4, 2), v),
            TypeMismatch,
            "the accumulator is f32[8], it must be f32[2,2]",
        ),
        (lambda x, v: mk.dot(x, x), TypeMismatch, "dot needs values, got the pointer"),
    ],
)
def test_dot_refusals(fn, kind, text):
    def kernel(x, F):
        F(x, mk.load(x, mk.arange(8)))

    assert text in refusal(kind, kernel, x=ptr(mk.f32), F=fn)
