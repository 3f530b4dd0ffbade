"""Repeated launches on tensors, and with grids that are computed: native after a while, and the same."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime

pytestmark = [
    pytest.mark.skipif(not get_runtime("cpu").is_available(), reason="needs the CPU backend"),
    pytest.mark.usefixtures("learns_soon"),
]


@eas.kernel
def add(a, b, c, N, BLOCK: eas.constexpr = 64):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


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


def test_tensors_given_by_name_are_launched_natively(ordinary):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch)
    kernel = fresh()
    warm(kernel, x, b=y, c=z, N=100)
    count = len(ordinary)
    for named in ({"b": y, "c": z, "N": 100}, {"N": 100, "c": z, "b": y}):
        z.zero_()
        kernel(x, **named)
        assert torch.equal(z, x + y)
    z.zero_()
    kernel(c=z, b=x, a=x, N=100)
    assert torch.equal(z, x + x)
    kernel(x, b=z, c=y, N=100)
    assert torch.equal(y, 3 * x)
    assert len(ordinary) == count


def test_parameters_are_launched_natively_but_not_classes_of_others(by_python):
    torch = pytest.importorskip("torch")
    x, y, z = tensors(torch)
    weight, kernel = torch.nn.Parameter(x), fresh()
    warm(kernel, weight, y, z, 100)
    count = len(by_python)
    for given in (weight, torch.nn.Parameter(x + 1)):
        kernel(given, y, z, 100)
        assert torch.equal(z, given.detach() + y)
    assert len(by_python) == count
    with pytest.raises(eas.LostWrite, match="requires grad"):
        kernel(x, y, weight, 100)
    assert len(by_python) == count + 1

    class Own(torch.Tensor):
        pass

    warm(kernel, x.as_subclass(Own), y, z, 100)
    assert len(by_python) == count + 4
    assert torch.equal(z, x + y)


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


@pytest.fixture
def by_python(monkeypatch):
    """A list that grows with every launch that Python looks at."""
    seen, bind = [], eas.Kernel._bind
    monkeypatch.setattr(eas.Kernel, "_bind", lambda self, *given: seen.append(given) or bind(self, *given))
    return seen


def test_launchers_look_into_eas_tensors_themselves(ordinary, by_python):
    x, y, z = eas.arange(100, dtype="f32"), eas.ones(100), eas.zeros(100)
    kernel = fresh()
    warm(kernel, x, y, z, 100)
    count = len(ordinary)
    by_python.clear()
    for shared in (z, eas.tensor(np.zeros(100, np.float32)), eas.empty(10, 10)):
        kernel(x, y, shared, 100)
        assert (shared.numpy().ravel() == np.arange(1, 101)).all()
        kernel(x.numpy(), y, shared.numpy(), 100)  # arrays and tensors in one call
        assert (shared.numpy().ravel() == np.arange(1, 101)).all()
    assert len(ordinary) == count
    assert not by_python


def test_tensors_that_differ_from_those_learnt_are_looked_at(by_python):
    x, y, z = eas.arange(64, dtype="f32"), eas.ones(64), eas.zeros(64)
    kernel = fresh()
    warm(kernel, x, y, z, 64)
    by_python.clear()
    kernel(x.to("i32"), eas.ones(64, dtype="i32"), wide := eas.zeros(64, dtype="i32"), 64)
    assert wide.tolist() == list(range(1, 65))
    turned = eas.zeros(64, 2)
    kernel(x, y, turned[:, 0], 64)
    assert turned[:, 0].tolist() == list(range(1, 65))
    frozen = eas.tensor(np.zeros(64, np.float32))
    frozen._array.flags.writeable = False
    with pytest.raises(eas.LostWrite, match="read-only"):
        kernel(x, y, frozen, 64)

    class Other(eas.Tensor):
        pass

    other = Other(z._array, z.dtype)
    kernel(x, x, other, 64)
    assert z.tolist() == list(range(0, 128, 2))
    assert len(by_python) == 4


def test_arrays_of_the_storage_of_bf16_are_no_bf16_after_native_launches(by_python):
    x, z = eas.ones(64, dtype="bf16"), eas.zeros(64, dtype="bf16")
    kernel = fresh()
    warm(kernel, x, x, z, 64)
    kernel(x, x, z, 64)
    assert z.tolist() == [2.0] * 64
    raw, total = np.full(64, 3, np.uint16), np.zeros(64, np.uint16)
    kernel(raw, raw, total, 64)
    assert (total == 6).all()


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


# --- kernels that ask for strides -------------------------------------------------------------------


@eas.kernel
def double_rows(x, y, M, N, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    row = mk.program_id(0)
    mask = cols < N
    mk.store(y, row * y.stride(0) + cols * y.stride(1), mk.load(x, row * x.stride(0) + cols * x.stride(-1), mask) * 2, mask)


LAYOUTS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "gaps": lambda a: a[1:, ::2],
    "one column": lambda a: a[:, 3:4],
}


@pytest.mark.parametrize("kind", ["numpy", "torch", "eas", "bfloat16"])
def test_strided_launches_are_native_whatever_the_strides(by_python, kind):
    torch = pytest.importorskip("torch") if kind in ("torch", "bfloat16") else None

    def made(values):
        if kind == "eas":
            return eas.tensor(values)
        return values if torch is None else torch.from_numpy(values).to(torch.bfloat16 if kind == "bfloat16" else torch.float32)

    kernel = eas.Kernel(double_rows.fn)
    for turn in range(5):
        for pick in LAYOUTS.values():
            base = np.zeros((16, 16), np.float32)
            x, memory = pick(made(np.arange(256, dtype=np.float32).reshape(16, 16) % 32)), made(base)
            y = pick(memory)
            m, n = x.shape
            before = len(by_python)
            kernel[m](x, y, m, n, BLOCK=16)
            assert turn < 4 or len(by_python) == before
            want = x * 2 if kind != "eas" else x.numpy() * 2
            np.testing.assert_array_equal(np.asarray(y.float() if torch else y), np.asarray(want.float() if torch else want))
            total = memory.float().sum() if torch else np.asarray(memory).sum()
            assert total == np.asarray(want.float() if torch else want).sum()  # nothing else was written


def test_strided_memory_that_cannot_be_written_is_refused_after_native_launches(by_python):
    kernel, x, y = eas.Kernel(double_rows.fn), np.ones((4, 6), np.float32), np.zeros((4, 6), np.float32)
    for _ in range(5):
        kernel[4](x, y, 4, 6, BLOCK=8)
    count = len(by_python)
    kernel[4](x, y, 4, 6, BLOCK=8)
    assert len(by_python) == count
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(12, np.float32), (4, 6), (8, 4))
    with pytest.raises(eas.LostWrite, match="several of its elements share memory"):
        kernel[4](x, overlapping, 4, 6, BLOCK=8)
    frozen = np.zeros((4, 6), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(eas.LostWrite, match="read-only"):
        kernel[4](x, frozen, 4, 6, BLOCK=8)
    with pytest.raises(eas.ArgumentError, match="negative strides"):
        kernel[4](x[:, ::-1], y, 4, 6, BLOCK=8)
    with pytest.raises(eas.ArgumentError, match=r"asks for x.stride\(0\)|asks for x.stride\(-1\)"):
        kernel[4](np.ones((), np.float32), y, 4, 6, BLOCK=8)
    kernel[4](np.broadcast_to(np.float32(3), (4, 6)), y, 4, 6, BLOCK=8)  # the same element, read often
    assert (y == 6).all()


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


# --- whatever memory: the launch after many is that of a first one -------------------------------------


def outcome(kernel, make, *args, **options):
    """The error of a launch on memory made anew, or what all of that memory holds then."""
    x, y, memory = make()
    try:
        kernel(x, y, *args, **options)
    except eas.EasError as error:
        return type(error), str(error)
    return [np.asarray(m).tobytes() for m in memory]


def test_strides_of_every_kind_are_those_of_a_first_launch():
    """Elements that overlap by one, share all their memory, or leave gaps, where they are read and where they are written."""
    known = eas.Kernel(double_rows.fn)
    for _ in range(5):
        known[4](np.ones((4, 6), np.float32), np.zeros((4, 6), np.float32), 4, 6, BLOCK=8)

    def places(memory, steps):
        return np.lib.stride_tricks.as_strided(memory, (4, 6), [4 * step for step in steps])

    for steps in [(row, column) for row in range(9) for column in range(4)] + [(1, 4), (2, 4), (3, 4), (4, 4), (1, 7)]:
        for is_written in (False, True):

            def make(steps=steps, is_written=is_written):
                apart, plain = np.arange(64, dtype=np.float32), np.ones((4, 6), np.float32)
                x, y = (plain, places(apart, steps)) if is_written else (places(apart, steps), plain)
                return x, y, (apart, plain)

            launch = (4, 6)
            first = outcome(eas.Kernel(double_rows.fn)[4], make, *launch, BLOCK=8)
            assert outcome(known[4], make, *launch, BLOCK=8) == first, (steps, is_written)


ODD_TENSORS = {
    "negative bit": lambda torch, t: torch._neg_view(t),
    "gaps": lambda torch, t: torch.stack([t, t], 1)[:, 0],
    "reversed": lambda torch, t: t.flip(0),
    "one element": lambda torch, t: torch.ones(1).expand(100),
    "shifted": lambda torch, t: torch.cat([t, t])[7:107],
    "leaf": lambda torch, t: t.clone().requires_grad_(),
    "matrix": lambda torch, t: t.reshape(10, 10).t(),
    "other dtype": lambda torch, t: t.double(),
    "imaginary part": lambda torch, t: torch.complex(t, t).imag,
    "negative imaginary part": lambda torch, t: torch.complex(t, t).conj().imag,
}


@pytest.mark.parametrize("odd", ODD_TENSORS)
@pytest.mark.parametrize("place", [0, 2])
def test_odd_tensors_are_those_of_a_first_launch(odd, place):
    torch = pytest.importorskip("torch")
    known = fresh()
    warm(known, *tensors(torch), 100)
    found = []
    for kernel in (known, fresh()):
        given = list(tensors(torch))
        given[place] = ODD_TENSORS[odd](torch, given[place])
        try:
            kernel(*given, 100)
            found.append([t.detach().resolve_neg().numpy().tolist() for t in given])
        except eas.EasError as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]
