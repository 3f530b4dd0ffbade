"""Repeated launches on tensors, and with grids that are computed: native after a while, and the same."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime

pytestmark = pytest.mark.skipif(not get_runtime("cpu").is_available(), reason="needs the CPU backend")


@eas.kernel
def add(a, b, c, N, BLOCK: eas.constexpr = 64):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


@pytest.fixture(autouse=True)
def _cpu(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setattr(sys.modules["eas.kernel"], "LEARN_AFTER", 2)  # eas.kernel is the decorator


@pytest.fixture
def ordinary(monkeypatch):
    """A list that grows with every launch that Python makes."""
    from eas.runtime.cpu import CpuRuntime

    runs, run = [], CpuRuntime.run

    def counted(self, executable, *args, **options):
        runs.append(executable.name)
        return run(self, executable, *args, **options)

    monkeypatch.setattr(CpuRuntime, "run", counted)
    return runs


def fresh(kernel=add):
    return eas.Kernel(kernel.fn)


def warm(kernel, *args, **options):
    for _ in range(3):
        kernel(*args, **options)


def tensors(torch, dtype=None, n=100):
    values = torch.arange(n).to(dtype or torch.float32)
    return values, values * 2, torch.zeros_like(values)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8"])
def test_torch_tensors_are_launched_natively(ordinary, name):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch, getattr(torch, name), 40)
    kernel = fresh()
    warm(kernel, x, y, z, 40)
    count = len(ordinary)
    z.zero_()
    version = z._version
    kernel(x, y, z, 40)
    assert torch.equal(z, x + y)
    assert len(ordinary) == count
    assert z._version > version


def test_other_dtype_or_memory_is_seen_each_time(ordinary):
    torch = pytest.importorskip("torch")
    kernel = fresh()
    x, y, z = tensors(torch, torch.bfloat16)
    warm(kernel, x, y, z, 100)
    bits = [t.view(torch.uint16) for t in tensors(torch, torch.bfloat16)]
    kernel(*bits, 100)  # the same storage, other numbers
    assert torch.equal(bits[2].to(torch.int32), bits[0].to(torch.int32) + bits[1].to(torch.int32))
    arrays = [t.numpy().copy() for t in bits]
    kernel(*arrays, 100)
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])
    for value, t in enumerate((z, x, y)):
        t.set_(torch.full((200,), value, dtype=torch.bfloat16))  # the same object, other memory
    kernel(x, y, z, 200)
    assert torch.equal(z, torch.full_like(z, 3))


def test_strided_tensors_go_the_ordinary_way(ordinary):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch)
    kernel = fresh()
    warm(kernel, x, y, z, 100)
    wide = torch.arange(200.0)
    kernel(wide[::2], y, z, 100)
    assert torch.equal(z, wide[::2] + y)


def test_written_leaf_is_refused_after_native_launches():
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch)
    kernel = fresh()
    warm(kernel, x, y, z, 100)
    with pytest.raises(eas.LostWrite, match="requires grad"):
        kernel(x, y, z.requires_grad_(), 100)
    x.requires_grad_()
    out = torch.zeros(100)
    kernel(x, y, out, 100)
    assert torch.equal(out, (x + y).detach())


@pytest.mark.parametrize("wrong", ["sparse", "meta", "vmap", "nested"])
def test_tensors_without_memory_are_refused_after_native_launches(wrong):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch)
    kernel = fresh()
    warm(kernel, x, y, z, 100)
    if wrong == "vmap":
        with pytest.raises(eas.ArgumentError):
            torch.vmap(lambda t: kernel(t, y, z, 100))(x.expand(2, 100).contiguous())
        return
    given = {"sparse": x.to_sparse, "meta": lambda: x.to("meta"), "nested": lambda: torch.nested.nested_tensor([x, x])}[wrong]()
    with pytest.raises(eas.ArgumentError):
        kernel(given, y, z, 100)


def test_eas_tensors_are_launched_natively(ordinary):
    kernel = fresh()
    x, y, z = eas.arange(100.0), eas.ones((100,)), eas.zeros((100,))
    warm(kernel, x, y, z, 100)
    count = len(ordinary)
    for values in (x, eas.full((100,), 5.0)):
        kernel(values, y, z, 100)
        np.testing.assert_array_equal(z.numpy(), values.numpy() + 1)
    assert len(ordinary) == count


def test_torch_tensor_behind_an_eas_tensor_hears_of_writes():
    torch = pytest.importorskip("torch")
    out = torch.zeros(100)
    kernel = fresh()
    x, z = eas.ones((100,)), eas.from_torch(out)
    warm(kernel, x, x, z, 100)
    version = out._version
    kernel(x, x, z, 100)
    assert out._version > version
    assert out.sum() == 200


# --- grids ----------------------------------------------------------------------------------------


def arrays(n=100):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)


@pytest.mark.parametrize("grid", [2, (2,), [2], lambda meta: (mk.cdiv(100, meta["BLOCK"]),), lambda meta: mk.cdiv(meta["N"], meta["BLOCK"])], ids=["int", "tuple", "list", "lambda", "int lambda"])
def test_grid_of_any_form(ordinary, grid):
    kernel, (x, y, z) = fresh(), arrays()
    for _ in range(4):
        z[:] = 0
        kernel[grid](x, y, z, 100)
        np.testing.assert_array_equal(z, x + y)
    assert len(ordinary) <= 3 or isinstance(grid, list)


def test_grid_function_is_called_once_per_launch_and_sees_this_call():
    kernel, (x, y, z) = fresh(), arrays()
    seen = []

    def grid(meta):
        seen.append((meta["N"], meta["BLOCK"]))
        return (-(-meta["N"] // meta["BLOCK"]),)

    calls = [(100, {}), (100, {}), (100, {}), (50, {"BLOCK": 32}), (50, {"BLOCK": 32}), (50, {"BLOCK": 32}), (100, {})]
    for n, meta in calls:
        z[:] = 0
        kernel[grid](x, y, z, n, **meta)
        np.testing.assert_array_equal(z[:n], (x + y)[:n])
        assert not z[n:].any()
    assert seen == [(n, meta.get("BLOCK", 64)) for n, meta in calls]


def test_changed_defaults_reach_the_grid_function():
    def body(a, b, c, N, BLOCK: eas.constexpr = 64):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)

    kernel, (x, y, z) = eas.Kernel(body), arrays()
    warm(kernel, x, y, z, 100, _grid=lambda meta: (mk.cdiv(100, meta["BLOCK"]),))
    body.__defaults__ = (16,)
    z[:] = 0
    kernel(x, y, z, 100, _grid=lambda meta: (mk.cdiv(100, meta["BLOCK"]),))
    np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [((1,), {}, "missing"), ((1, 2, 3, 4, 5, 6), {}, "takes 5 arguments"), ((1, 2, 3, 4), {"M": 3}, "no argument `M`")],
)
def test_wrong_calls_with_a_grid_function_are_told_as_before(args, options, message):
    kernel, given = fresh(), arrays()
    warm(kernel, *given, 100)
    with pytest.raises(eas.ArgumentError, match=message):
        kernel[lambda meta: (meta["nothing"],)](*args, **options)
    with pytest.raises(eas.GridError, match="result of the _grid callable"):
        kernel[lambda meta: (2.5,)](*given, 100)
