"""Functions of the library with `out=`: a plan per types, shapes and numbers takes them, and nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import lib

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("learns_soon")


def arrays(*shape, count=2):
    values = np.random.default_rng(sum(shape)).standard_normal((count, *shape)).astype(np.float32)
    return *values, np.zeros(shape, np.float32)


CALLS = {
    "add": (lambda x, y, out: lib.add(x, y, out=out), lambda x, y: x + y),
    "softmax": (lambda x, y, out: lib.softmax(x, out=out), lambda x, y: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "cumsum": (lambda x, y, out: lib.cumsum(x, out=out), lambda x, y: np.cumsum(x, -1)),
    "silu": (lambda x, y, out: lib.silu(x, out=out), lambda x, y: x / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["numpy", "eas"])
def test_calls_of_one_kind_are_taken_by_a_plan(name, kind, monkeypatch):
    call, want = CALLS[name]
    function, made = getattr(lib, name), (lambda a: a) if kind == "numpy" else eas.tensor
    shape = (3, 37 + len(kind))
    for _ in range(8):
        x, y, out = map(made, arrays(*shape))
        assert call(x, y, out) is out
    assert len(function._table)
    checked, call_python = [], type(function).__call__
    monkeypatch.setattr(function, "_fn", lambda *args, **kwargs: checked.append(args))
    assert call_python(function, *map(made, arrays(2, 3))) is None  # so that calls which Python looks at are seen
    checked.clear()
    for scale in (1, 2):
        x, y, out = arrays(*shape)
        given = [made(x * np.float32(scale)), made(y), made(out)]
        assert call(*given) is given[2]
        np.testing.assert_allclose(np.asarray(given[2]), want(x * scale, y), rtol=1e-5, atol=1e-5)
    assert not checked


def test_other_shapes_types_and_memory_are_seen_each_time():
    x, y, out = arrays(6, 41)
    for _ in range(8):
        lib.add(x, y, out=out)
    with pytest.raises(eas.ArgumentError, match="add needs equal arrays"):
        lib.add(x, y[:5], out=out)
    with pytest.raises(eas.ArgumentError, match="add needs equal arrays"):
        lib.add(x, y.astype(np.float64), out=out)
    with pytest.raises(eas.ArgumentError, match="out is float32"):
        lib.add(x, y, out=out[:3])
    frozen = out.copy()
    frozen.flags.writeable = False
    with pytest.raises(eas.LostWrite, match="read-only"):
        lib.add(x, y, out=frozen)
    with pytest.raises(TypeError):
        lib.add(x, y, out, None)  # by name only
    for _ in range(6):
        want = x + y
        assert lib.add(x, y, out=x) is x  # in place: another variant
        np.testing.assert_array_equal(x, want)
    wide = np.zeros((6, 82), np.float32)
    lib.add(x, y, out=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], x + y)
    assert not wide[:, 1::2].any()
    np.testing.assert_array_equal(lib.add(x, y), x + y)
    for block in (64, 128, 64):
        lib.add(x, y, out=out, block=block)
        np.testing.assert_array_equal(out, x + y)


def test_lazy_operands_are_computed_first():
    x, y, out = (eas.tensor(a) for a in arrays(5, 43))
    for _ in range(8):
        lib.add(x + 1, y, out=out)
        np.testing.assert_allclose(out.numpy(), x.numpy() + 1 + y.numpy(), rtol=1e-6)
    before = out * 2  # not computed yet: it reads what `out` is now
    want = out.numpy() * 2
    for _ in range(3):
        lib.add(x, x, out=out)
    np.testing.assert_array_equal(before.numpy(), want)


def test_torch_tensors_with_gradients_are_refused_after_plans_of_arrays():
    torch = pytest.importorskip("torch")
    x, y, out = arrays(4, 47)
    for _ in range(8):
        lib.add(x, y, out=out)
    given = torch.from_numpy(x.copy()).requires_grad_()
    with pytest.raises(eas.ArgumentError, match="has no gradient"):
        lib.add(given, torch.from_numpy(y), out=torch.zeros(4, 47))
    made = torch.zeros(4, 47)
    assert lib.add(torch.from_numpy(x), torch.from_numpy(y), out=made) is made
    np.testing.assert_array_equal(made.numpy(), x + y)


def test_a_setting_that_changes_is_seen(monkeypatch, ordinary):
    x, y, out = arrays(3, 53)
    for _ in range(8):
        lib.add(x, y, out=out)
    monkeypatch.setenv("EAS_BACKEND", "interp")
    out[:] = 0
    lib.add(x, y, out=out)
    np.testing.assert_array_equal(out, x + y)
    monkeypatch.setenv("EAS_BACKEND", "nowhere")
    with pytest.raises(eas.EasError, match="EAS_BACKEND"):
        lib.add(x, y, out=out)
