"""The functions of eas.lib that networks are made of, against NumPy: odd sizes, leading shapes, narrow floats."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import eas
from eas import lib
from eas.lib.linear import INT8_COLS, int8_tiles
from tests.backend import lib_arrays
from tests.backend.lib_arrays import F16, F32, F64, normal

close = functools.partial(lib_arrays.close, ulps=16.0)


def softmax(x):
    e = np.exp(x.astype(F64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf)

# --- leading shapes ---------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(0,), (2, 0)])
def test_no_elements(backend, rng, leading):
    """Arrays without elements give arrays without elements, of the right shape."""
    x, w = np.ones((*leading, 6), np.float32), np.ones(6, np.float32)
    for made in (lib.softmax(x), lib.layer_norm(x, w, w), lib.rms_norm(x, w), lib.gelu(x), lib.bias_gelu(x, w), lib.silu(x), lib.dropout(x, 0.5, 1), lib.cumsum(x)):
        assert made.shape == x.shape
    assert lib.argmax(x).shape == lib.cross_entropy(x, np.ones(leading, np.int64), reduction="none").shape == leading
    assert lib.linear(x, np.ones((4, 6), np.float32)).shape == lib.matmul(x, np.ones((6, 4), np.float32)).shape == (*leading, 4)
    assert lib.rope(np.ones((*leading, 3, 4), np.float32)).shape == (*leading, 3, 4)
    heads = np.ones((*leading, 2, 3, 4), np.float32)
    assert lib.attention(heads, heads, heads).shape == heads.shape
    assert [part.shape for part in lib.topk(x, 2)] == [(*leading, 2)] * 2
    assert not lib.matmul(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)).any()


@pytest.mark.parametrize("shape", [(7,), (1, 1), (2, 3, 5), (2, 1, 3, 33)])
def test_row_functions_take_any_leading_shape(backend, rng, shape):
    x = normal(rng, shape)
    close(lib.softmax(x), softmax(x))
    close(lib.log_softmax(x), np.log(softmax(x)))
    close(lib.cumsum(x), np.cumsum(x, axis=-1), scale=8)
    assert np.array_equal(lib.argmax(x), x.argmax(axis=-1))
    values, indices = lib.topk(x, 1)
    assert np.array_equal(values[..., 0], x.max(axis=-1))
    assert np.array_equal(indices[..., 0], x.argmax(axis=-1))
    wide = x.astype(F64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    close(lib.layer_norm(x, eps=1.0), centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1))
    close(lib.rms_norm(x, eps=1.0), wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1))


# --- activations ------------------------------------------------------------------------------


def test_silu_and_swiglu(backend, rng, dtype):
    x, y = normal(rng, (2, 3, 401), dtype)
    wide = x.astype(F64)
    close(lib.silu(x), wide * sigmoid(wide), dtype)
    close(lib.swiglu(x, y), wide * sigmoid(wide) * y, dtype)


@pytest.mark.parametrize("shape", [(5,), (9, 17), (2, 3, 1100)])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_bias_gelu(backend, rng, dtype, shape, approximate, with_bias):
    x, bias = normal(rng, shape, dtype), normal(rng, shape[-1], dtype)
    v = x.astype(F64) + (bias if with_bias else 0)
    want = 0.5 * v * (1 + erf(v / math.sqrt(2))) if approximate == "none" else 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    close(lib.bias_gelu(x, bias if with_bias else None, approximate=approximate), want, dtype, scale=4)


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9])
def test_dropout_keeps_the_mean_and_follows_its_seed(backend, rng, p):
    x = np.ones((10, 1000), F32)
    got = lib.dropout(x, p, seed=5)
    scale = F32(1 / (1 - p))
    assert set(np.unique(got)) <= {F32(0), scale}
    assert abs((got == 0).mean() - p) < 0.02
    assert np.array_equal(got, lib.dropout(x, p, seed=5))
    assert p == 0 or not np.array_equal(got, lib.dropout(x, p, seed=6))
    with pytest.raises(eas.ArgumentError, match="p is a probability below 1, got 1"):
        lib.dropout(x, 1.0)


# --- losses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [None, 16])
def test_log_softmax(backend, rng, dtype, block):
    x = 4 * normal(rng, (5, 77), dtype)
    close(lib.log_softmax(x, block=block), np.log(softmax(x)), dtype, scale=16)


@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_cross_entropy(backend, rng, block, kind):
    x, target = 4 * normal(rng, (3, 7, 77)), rng.integers(0, 77, (3, 7)).astype(kind)
    want = -np.take_along_axis(np.log(softmax(x)), target[..., None].astype(np.int64), -1)[..., 0]
    close(lib.cross_entropy(x, target, reduction="none", block=block), want, scale=16)
    assert abs(lib.cross_entropy(x, target, block=block) - want.mean()) < 1e-5
    assert abs(lib.cross_entropy(x, target, reduction="sum", block=block) - want.sum()) < 1e-4


def test_cross_entropy_leaves_out_what_is_ignored(backend, rng):
    x, target = normal(rng, (6, 9)), np.array([1, -100, 3, 8, -100, 0])
    want = -np.log(softmax(x))[np.arange(6), np.maximum(target, 0)]
    losses = lib.cross_entropy(x, target, reduction="none")
    assert losses[1] == losses[4] == 0
    kept = target != -100
    close(losses[kept], want[kept])
    assert abs(lib.cross_entropy(x, target) - want[kept].mean()) < 1e-6


def test_cross_entropy_refuses_what_is_no_class(backend, rng):
    with pytest.raises(eas.DeviceAssertion, match="target is no class"):
        lib.cross_entropy(normal(rng, (2, 5)), np.array([1, 5]))
    with pytest.raises(eas.ArgumentError, match=r"needs a class \(an integer\) for each row of \(2, 5\), got float32\[2\]"):
        lib.cross_entropy(normal(rng, (2, 5)), np.ones(2, F32))


# --- products ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [((3, 7, 5), (5, 9)), ((7, 5), (4, 5, 9)), ((2, 3, 7, 5), (2, 3, 5, 9)), ((2, 70, 65), (2, 65, 66))])
def test_matmul_of_stacks(backend, rng, dtype, a, b):
    x, y = normal(rng, a, dtype), normal(rng, b, dtype)
    want = x.astype(F64) @ y.astype(F64)
    close(lib.matmul(x, y), want, dtype, scale=math.sqrt(a[-1]) + 1)
    out = np.zeros((*want.shape[:-1], 2 * want.shape[-1]), dtype)[..., ::2]
    lib.matmul(x, y, out)
    close(out, want, dtype, scale=math.sqrt(a[-1]) + 1)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 65)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear(backend, rng, dtype, shape, with_bias):
    x, weight, bias = normal(rng, shape, dtype), normal(rng, (37, shape[-1]), dtype), normal(rng, 37, dtype)
    want = x.astype(F64) @ weight.T.astype(F64) + (bias if with_bias else 0)
    close(lib.linear(x, weight, bias if with_bias else None), want, dtype, scale=math.sqrt(shape[-1]) + 2)


@pytest.mark.parametrize("shape", [(5, 7), (67, 1100), (64, 64)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_int8_matvec(backend, rng, shape, batch):
    weight, x = normal(rng, shape), normal(rng, (*batch, shape[1]))
    q, scale = lib.quantise_int8(weight)
    assert q.dtype == np.int8
    assert np.abs(q * scale[:, None] - weight).max() <= 0.5001 * scale.max()
    want = x.astype(F64) @ (q.astype(F64) * scale[:, None]).T
    close(lib.int8_matvec(q, scale, x), want, scale=math.sqrt(shape[1]) * 4)


@pytest.mark.parametrize("k", [1, 100, 777, 1024, 1500, 4099])
def test_blocks_of_int8_rows_end_soon_behind_them(k):
    """Of which masked bytes are read one by one: 777 columns in a block of 1024 took five times as long."""
    _, bk = int8_tiles(np.zeros(k), 64, k)
    steps = -(-k // bk)
    assert bk <= INT8_COLS
    assert steps * bk - k < 16 * steps


def conv2d(x, w, stride, padding, dilation, groups):
    n, (o, cg, kh, kw) = x.shape[0], w.shape
    x = np.pad(x.astype(F64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    oh = (x.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    ow = (x.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, oh, ow))
    for f in range(o):
        first = f // (o // groups) * cg
        for i in range(kh):
            for j in range(kw):
                part = x[:, first : first + cg, i * dilation :, j * dilation :][:, :, : stride * oh : stride, : stride * ow : stride]
                y[:, f] += np.einsum("nchw,c->nhw", part, w[f, :, i, j].astype(F64))
    return y


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 0, 1, 4)])
def test_conv2d(backend, rng, stride, padding, dilation, groups):
    x, w, bias = normal(rng, (2, 4, 13, 11)), normal(rng, (8, 4 // groups, 3, 3)), normal(rng, 8)
    want = conv2d(x, w, stride, padding, dilation, groups) + bias[:, None, None]
    got = lib.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    close(got, want, scale=12)


def test_conv2d_of_one_image_and_a_flat_filter(backend, rng):
    x, w = normal(rng, (3, 9, 8)), normal(rng, (5, 3, 1, 1))
    close(lib.conv2d(x, w), np.einsum("chw,oc->ohw", x.astype(F64), w[:, :, 0, 0]), scale=4)


def test_transpose_of_stacks(backend, rng):
    x = normal(rng, (2, 3, 70, 33))
    assert np.array_equal(lib.transpose(x), x.swapaxes(-1, -2))


# --- attention --------------------------------------------------------------------------------


def attention(q, k, v, mask=None, causal=False):
    q, k, v = (a.astype(F64) for a in (q, k, v))
    group = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, group, axis=-3), np.repeat(v, group, axis=-3)
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(softmax(scores), nan=0)
    return weights @ v


@pytest.mark.parametrize(("heads", "key_heads"), [(1, 1), (4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", [None, (16, 8)])
def test_attention_shares_key_heads(backend, rng, heads, key_heads, causal, tiles):
    q, (k, v) = normal(rng, (2, heads, 37, 16)), normal(rng, (2, 2, key_heads, 37, 16))
    close(lib.attention(q, k, v, causal=causal, tiles=tiles), attention(q, k, v, causal=causal), scale=10)


@pytest.mark.parametrize("shape", [(37, 50), (1, 37, 50), (2, 3, 37, 50), (2, 1, 1, 50)])
@pytest.mark.parametrize("kind", [bool, F32])
def test_attention_masks(backend, rng, shape, kind):
    q, (k, v) = normal(rng, (2, 3, 37, 20)), normal(rng, (2, 2, 3, 50, 20))
    mask = rng.random(shape) < 0.7 if kind is bool else normal(rng, shape)
    close(lib.attention(q, k, v, mask=mask), attention(q, k, v, mask), scale=10)


def test_attention_gives_zeros_to_a_query_that_sees_nothing(backend, rng):
    q, k, v = normal(rng, (3, 1, 1, 20, 8))
    mask = np.ones((20, 20), bool)
    mask[3] = False
    got = lib.attention(q, k, v, mask=mask)
    assert not got[0, 0, 3].any()
    close(got, attention(q, k, v, mask), scale=10)


def test_attention_reads_and_writes_strided_heads(backend, rng):
    qkv = normal(rng, (2, 21, 3, 4, 16))  # [batch, n, q k v, heads, D], as one product makes it
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    out = np.zeros((2, 21, 4, 16), F32).transpose(0, 2, 1, 3)
    lib.attention(q, k, v, out)
    close(out, attention(q, k, v), scale=10)
    deep = lib.attention(q[None], k[None], v[None])
    assert deep.shape == (1, 2, 4, 21, 16)


def test_attention_f16(backend, rng):
    q, k, v = normal(rng, (3, 2, 2, 33, 16), F16)
    close(lib.attention(q, k, v), attention(q, k, v), F16)


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 40, 64), (1, 6)])
def test_rope(backend, rng, shape, interleaved):
    x = normal(rng, shape)
    n, d = shape[-2:]
    angle = (3 + np.arange(n))[:, None] * 10000.0 ** (-2 * np.arange(d // 2) / d)
    turn = np.exp(1j * angle)
    pairs = x[..., ::2] + 1j * x[..., 1::2] if interleaved else x[..., : d // 2] + 1j * x[..., d // 2 :]
    turned = pairs * turn
    want = np.stack([turned.real, turned.imag], -1).reshape(shape) if interleaved else np.concatenate([turned.real, turned.imag], -1)
    close(lib.rope(x, first=3, interleaved=interleaved), want, scale=64)


@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("k", [1, 5, 16])
@pytest.mark.parametrize("kind", [F32, np.int32, np.uint8])
def test_topk_takes_the_first_of_equals(backend, rng, block, k, kind):
    x = rng.integers(0, 30, (4, 77)).astype(kind)
    values, indices = lib.topk(x, k, block=block)
    order = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :k]
    assert np.array_equal(indices, order)
    assert np.array_equal(values, np.take_along_axis(x, order, 1))
    with pytest.raises(eas.ArgumentError, match="k is 78, but rows have 77 elements"):
        lib.topk(x, 78)


@pytest.mark.parametrize(("stride", "padding", "dilation", "size"), [(1, 1, 1, 3), (2, 3, 1, 7), (1, 2, 2, 3)])
def test_conv2d_of_rows_longer_than_a_tile(backend, rng, stride, padding, dilation, size):
    """Few channels are joined with the rows of a filter, unless its columns are apart."""
    x, w = normal(rng, (1, 3, 9, 150)), normal(rng, (5, 3, size, size))
    close(lib.conv2d(x, w, stride=stride, padding=padding, dilation=dilation), conv2d(x, w, stride, padding, dilation, 1), scale=16)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 1, 1), (1, 2, 2), (1, 0, 1)])
def test_conv2d_of_each_channel_by_itself(backend, rng, stride, padding, dilation):
    x, w, bias = normal(rng, (2, 3, 21, 70)), normal(rng, (6, 1, 3, 3)), normal(rng, 6)
    want = conv2d(x, w, stride, padding, dilation, 3) + bias[:, None, None]
    close(lib.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=3), want, scale=8)


def test_conv2d_of_channels_larger_than_a_block(backend, rng):
    """Whose blocks end within a row."""
    x, w = normal(rng, (2, 67, 73)), normal(rng, (2, 1, 3, 3))
    close(lib.conv2d(x, w, padding=1, groups=2), conv2d(x[None], w, 1, 1, 1, 2)[0], scale=8)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups", "size"), [(1, 1, 1, 1, 3), (2, 1, 1, 2, 3), (1, 0, 1, 1, 1), (3, 2, 2, 1, 2), (1, 2, 2, 1, 3), (1, 1, 1, 2, 2)])
def test_conv2d_of_many_channels(backend, rng, stride, padding, dilation, groups, size):
    x, w, bias = normal(rng, (2, 16 * groups, 7, 19)), normal(rng, (6 * groups, 16, size, size)), normal(rng, 6 * groups)
    want = conv2d(x, w, stride, padding, dilation, groups) + bias[:, None, None]
    got = lib.conv2d(x, w, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    close(got, want, scale=16)
