"""Lazy tensors without a device: plans, caches, budgets, and errors at the line that wrote an op."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import eas
from eas.interop.pending import PENDING
from eas.lazy import handle, kernels, realise
from eas.lazy.node import Node
from eas.lazy.realise import plan_of


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")


def floats(*shape):
    return eas.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_a_plan_tells_nodes_kernels_cuts_and_buffers():
    x, w = floats(64, 32), floats(32, 48)
    y = (x.softmax(0) @ w).relu()
    plan = plan_of(y)
    assert [k.template for k in plan.kernels] == ["rows", "tile"]
    assert plan.kernels[1].name.startswith("t_64_48_32_")
    assert {n.op.name for n in plan.nodes} >= {"buffer", "matmul", "max", "exp", "sum"}
    (cut,) = plan.cuts
    assert "matrix product reads its operands many times" in cut.reason
    assert [(b.nbytes, b.first, b.last) for b in plan.buffers] == [(64 * 32 * 4, 0, 1), (64 * 48 * 4, 1, 2)]
    assert plan.kernels[0].module.name == "r_mul_div_sum_exp"
    assert all(n.loc is not None and n.loc.filename == __file__ for n in plan.nodes if n.op.name != "buffer")


def test_a_kernel_writes_onto_an_operand_that_ends_with_it():
    x, w, v = floats(64, 64), floats(64, 64), floats(64, 64)
    y = ((x @ w).softmax(0) @ v).relu()
    plan = plan_of(y)
    assert [b.reused_from for b in plan.buffers] == [None, plan.buffers[0].id, None]
    product = x.numpy() @ w.numpy()
    powers = np.exp(product - product.max(0))
    want = np.maximum(powers / powers.sum(0) @ v.numpy(), 0)
    for _ in range(3):
        np.testing.assert_allclose((((x @ w).softmax(0) @ v).relu()).numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_transformer_block_is_seven_kernels():
    tokens, width, heads = 16, 32, 4
    x = floats(2, tokens, width)
    wide = [floats(width, n * width) for n in (3, 1, 4)]
    back, bias = floats(4 * width, width), floats(width)
    normal = x.layer_norm(bias, bias)
    qkv = (normal @ wide[0]).reshape(2, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    mixed = qkv[0].attention(qkv[1], qkv[2]).permute(0, 2, 1, 3).reshape(2, tokens, width)
    x1 = x + (mixed @ wide[1] + bias)
    made = x1 + ((x1.layer_norm(bias, bias) @ wide[2]).gelu() @ back + bias)
    plan = plan_of(made)
    assert len(plan.kernels) <= 7, [(k.name, k.template) for k in plan.kernels]


def norm(x, weight, bias):
    away = x - x.mean(-1, keepdims=True)
    return away * ((away * away).mean(-1, keepdims=True) + 1e-5).rsqrt() * weight + bias


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_transformer_block_written_out_is_six_kernels(is_causal):
    tokens, width, heads = 16, 32, 4
    x = floats(2, tokens, width)
    wide = [floats(width, n * width) for n in (3, 1, 4)]
    back, bias = floats(4 * width, width), floats(width)
    qkv = (norm(x, bias, bias) @ wide[0]).reshape(2, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    scores = qkv[0] @ qkv[1].transpose(-1, -2) * (width // heads) ** -0.5
    if is_causal:
        places = eas.arange(tokens)
        scores = (places.reshape(tokens, 1) >= places).where(scores, -math.inf)
    mixed = (scores.softmax(-1) @ qkv[2]).transpose(1, 2).reshape(2, tokens, width)
    x1 = x + (mixed @ wide[1] + bias)
    made = x1 + ((norm(x1, bias, bias) @ wide[2]).gelu() @ back + bias)
    assert [k.template for k in plan_of(made).kernels] == ["tile"] * 6


def test_sizes_share_kernels():
    before = len(kernels._kernels)
    for n in range(1, 1000, 7):
        plan_of(floats(n) * 2 + 1)
    assert len(kernels._kernels) - before <= 4


def test_a_loop_does_not_grow_memory():
    x = floats(5000)
    for step in range(300):
        x = (x * 0.5 + 1).realize()
        if step == 100:
            gc.collect()
            nodes, plans, pins = sum(type(o) is Node for o in gc.get_objects()), len(realise._plans), len(PENDING)
    gc.collect()
    assert sum(type(o) is Node for o in gc.get_objects()) <= nodes
    assert (len(realise._plans), len(PENDING)) == (plans, pins)


def test_a_graph_past_its_budget_is_realised_with_a_warning(monkeypatch):
    monkeypatch.setattr(handle, "FIRST_LOOK", 4)
    monkeypatch.setattr(handle, "MAX_NODES", 20)
    x = floats(8)

    def grow(x):
        for _ in range(40):
            x = x + 1
        return x

    with pytest.warns(UserWarning, match=r"test_lazy.py:\d+.*call .realize\(\)"):
        x = grow(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(10):
            x = x + 1
    assert np.isfinite(x.numpy()).all()


def test_long_chains_do_not_recurse():
    x = floats(4)
    for _ in range(5000):
        x = x + 1
    assert plan_of(x).kernels
    assert x.numpy().shape == (4,)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda a: a + floats(3), "add got tensors of shapes"),
        (lambda a: a @ floats(3, 3), "matmul of shapes"),
        (lambda a: a.reshape(7) + 1, "cannot reshape"),
        (lambda a: (a + 1).sum(5), "axis 5 does not exist"),
        (lambda a: (a + 1) & 1, "needs integers or bools"),
        (lambda a: (a + 1)[9], "out of bounds"),
        (lambda a: eas.Tensor.cat([a + 1, floats(3)], 0), "cat along axis 0"),
        (lambda a: eas.Tensor.cat([]), "cat of nothing"),
        (lambda a: eas.Tensor.stack([a, floats(3)]), "stack of shapes"),
        (lambda a: a.pad([(1, 2)]), "pad of a tensor"),
        (lambda a: a.split(0), "parts of 0"),
        (lambda a: a.roll(1.5, 0), "roll by 1.5"),
        (lambda a: a.one_hot(3), "one_hot of f32"),
        (lambda a: a.maximum("b"), "max of a tensor and a str"),
        (lambda a: (a > 0).where("b", 1), "where of a tensor and a str"),
        (lambda a: a.bitcast("f16"), "two dtypes of one width"),
        (lambda a: a.popcount(), "needs integers"),
        (lambda a: a.transpose(0, 7), "axis 7 does not exist"),
        (lambda a: floats(4, 5).permute(0, 0), "permute got axes"),
        (lambda a: floats(4, 5)[9], "out of bounds"),
        (lambda a: floats(4, 5)[["a"]], "indexed with integers"),
        (lambda a: a.T.view(20), "no view of a tensor"),
        (lambda a: a.__setitem__(0, "b"), "takes numbers"),
        (lambda a: a.expand(3, 4, 5).__setitem__(0, 1), "read-only"),
        (lambda a: eas.Tensor.uniform(3, seed="a"), "a seed is a whole number"),
    ],
)
def test_an_error_names_the_line_that_wrote_the_op(wrong, text):
    with pytest.raises(eas.EasError, match=text) as caught:
        wrong(floats(4, 5) + 0)
    assert "test_lazy.py:" in str(caught.value)


def test_asking_what_a_view_is_computes_nothing():
    x = floats(6, 8) + 1
    views = [x.T, x[::2, 1:], x.flip(1), x.expand(2, 6, 8), x.reshape(48)]
    a = np.zeros((6, 8), np.float32)
    arrays = [a.T, a[::2, 1:], np.flip(a, 1), np.broadcast_to(a, (2, 6, 8)), a.reshape(48)]
    for view, array in zip(views, arrays, strict=True):
        assert (view.shape, view.strides, view.is_contiguous) == (array.shape, tuple(s // 4 for s in array.strides), array.flags.c_contiguous)
        assert (len(view), view.ndim, view.nbytes, view.contiguous().shape) == (len(array), array.ndim, array.nbytes, array.shape)
    assert not x._is_realised


def test_a_second_process_compiles_nothing(tmp_path):
    code = (
        "import numpy as np, eas, sys\n"
        "x = eas.tensor(np.ones((50, 300), np.float32))\n"
        "print(float(x.softmax().sum()))\n"
        "print('eas.codegen.llvm.generate' in sys.modules)\n"
    )
    env = {**os.environ, "EAS_CACHE_DIR": str(tmp_path), "EAS_BACKEND": "cpu", "EAS_VERIFY": "0"}
    told = [subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert [t[1] for t in told] == ["True", "False"], told
    assert told[0][0] == told[1][0]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ([0, 3], "index 3 is out of bounds for axis 0 of size 3"),
        ((0, np.array([1, -5])), "index -5 is out of bounds for axis 1 of size 4"),
        ([True, False], "a mask of 2 along axis 0 of size 3"),
        ([0.5], "got an array of float64"),
        (([0, 1], [0, 1, 2]), r"shapes \[2\] and \[3\], which do not broadcast"),
        (([0], [0], [0]), r"3 indices for a tensor of shape \[3, 4\]"),
        (True, r"got bool(.|\n)*x.where"),
    ],
)
def test_wrong_arrays_in_brackets_name_the_line(index, text):
    with pytest.raises(eas.EasError, match=text) as error:
        floats(3, 4)[index]
    assert "floats(3, 4)[index]" in str(error.value)
