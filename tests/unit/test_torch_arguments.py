"""torch tensors as arguments of kernels: shared whatever their strides and dtype, refused in clear words."""

from __future__ import annotations

import warnings

import pytest

import eas
from eas import mk

torch = pytest.importorskip("torch")


@eas.kernel
def double(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * 2, offs < N)


@eas.kernel
def copy(x, y, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N), offs < N)


def run(kernel, x, y):
    kernel(x, y, x.numel(), BLOCK=8)
    return y


DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_written_in_place(name):
    x = (torch.arange(11) % 2).to(getattr(torch, name))
    y = torch.zeros(11).to(x.dtype)
    place = y.data_ptr()
    run(copy, x, y)
    assert y.data_ptr() == place
    assert y.view(torch.uint8).tolist() == x.view(torch.uint8).tolist()


@pytest.mark.parametrize(
    "pick",
    [
        lambda t: t.T,
        lambda t: t[1:, ::2],
        lambda t: t.unfold(0, 2, 2),
        lambda t: t.permute(1, 0)[::3],
        lambda t: t[3],
        lambda t: t[2, 3],
    ],
)
def test_strided_tensors_are_read_and_written(pick):
    x, base = torch.randn(6, 8), torch.zeros(6, 8)
    part = pick(base)
    run(double, pick(x), part)
    assert torch.equal(part, pick(x) * 2)
    assert base.count_nonzero() == part.numel()


def test_modules_and_views_stay_in_place():
    layer = torch.nn.Linear(4, 3)
    with torch.no_grad():
        run(double, layer.weight, layer.weight)
    out = torch.empty(12)
    run(copy, layer.weight, out)
    assert torch.equal(out.view(3, 4), layer.weight)


def test_from_torch_and_back_share_memory():
    t = torch.arange(12.0).view(3, 4)[:, 1:]
    x = eas.from_torch(t)
    assert (x.numpy().ctypes.data, x.strides) == (t.data_ptr(), t.stride())
    back = eas.to_torch(x)
    assert (back.data_ptr(), back.stride()) == (t.data_ptr(), t.stride())


# --- refusals -----------------------------------------------------------------------------------


def quantised():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(8), 0.1, 0, torch.qint8)


def resized(nbytes):
    t = torch.ones(8)
    t.untyped_storage().resize_(nbytes)
    return t


def shrunk_view():
    """Its length fits what is left of the storage, its place does not."""
    t = torch.ones(16)[8:]
    t.untyped_storage().resize_(60)
    return t


def learn():
    """From now on launches like this one take the short way."""
    for _ in range(3):
        double(torch.ones(8), torch.empty(8), 8, BLOCK=8)


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(3), torch.ones(5)])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(8, device="meta"), r"argument 'x' is a torch tensor without data \(Tensor on meta\)(.|\n)*hint: pass a real tensor"),
        (lambda: torch.ones(8).to_sparse(), r"of layout sparse_coo, a kernel needs a strided one(.|\n)*hint: pass x.to_dense\(\)"),
        (nested, "of layout nested, a kernel needs a strided one"),
        (quantised, r"is a quantised torch tensor \(torch.qint8\)(.|\n)*hint: pass x.int_repr\(\) or x.dequantize\(\)"),
        (lambda: resized(0), r"of shape \(8,\) whose storage was resized to 0 bytes(.|\n)*hint: give it memory again"),
        (lambda: resized(20), r"whose storage was resized to 20 bytes"),
        (shrunk_view, r"whose storage was resized to 60 bytes"),
        (lambda: torch.ones(8, dtype=torch.complex64), r"of torch.complex64, which kernels cannot take(.|\n)*hint: pass torch.view_as_real"),
        (lambda: torch.ones(8, dtype=torch.complex64).conj().imag, r"negative bit set(.|\n)*hint: pass x.resolve_neg\(\)"),
        (lambda: torch._neg_view(torch.ones(8)), "negative bit set"),
    ],
    ids=["meta", "sparse", "nested", "quantised", "resized", "shrunk", "shrunk view", "complex", "negative", "negative view"],
)  # fmt: skip
@pytest.mark.parametrize("is_learnt", [False, True])
def test_tensors_without_plain_memory_are_refused(make, text, is_learnt):
    if is_learnt:
        learn()
    with pytest.raises(eas.ArgumentError, match=text):
        double(make(), torch.empty(8), 8, BLOCK=8)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.empty(8, requires_grad=True), r"writes argument 'y', a torch tensor that requires grad: autograd would miss the write(.|\n)*hint: pass y.detach\(\)"),
        (lambda: torch.empty(1).expand(8), r"writes argument 'y', but several of its elements share memory \(shape \(8,\), strides \(0,\)\)"),
        (lambda: torch.empty(9).as_strided((4, 2), (2, 0)), "several of its elements share memory"),
        (lambda: torch.empty(9).as_strided((4, 2), (1, 1)), "several of its elements share memory"),
    ],
    ids=["leaf", "expanded", "zero stride", "overlapping"],
)  # fmt: skip
@pytest.mark.parametrize("is_learnt", [False, True])
def test_writes_that_would_be_lost_are_refused(make, text, is_learnt):
    if is_learnt:
        learn()
    with pytest.raises(eas.LostWrite, match=text):
        double(torch.ones(8), make(), 8, BLOCK=8)


def test_a_result_that_requires_grad_is_refused_and_detached_is_fine():
    y = torch.ones(8, requires_grad=True) * 1
    with pytest.raises(eas.LostWrite, match="requires grad"):
        run(double, torch.ones(8), y)
    assert run(double, torch.ones(8), y.detach()).tolist() == [2] * 8
    assert y.tolist() == [2] * 8


def test_strided_output_that_overlaps_an_input_is_refused():
    t = torch.arange(16.0)
    with pytest.raises(eas.LostWrite, match="arguments 'x' and 'y' share memory and one of them is written"):
        run(double, t[:8], t[0:16:2])


def test_wrong_dtype_names_the_kernel_line():
    with pytest.raises(eas.TypeMismatch, match=r"is f32 and does not become i32 without a cast(.|\n)*mk.store"):
        run(double, torch.ones(8), torch.empty(8, dtype=torch.int32))


def test_autograd_sees_a_write_by_a_kernel():
    w = torch.ones(8, requires_grad=True)
    x = torch.ones(8)
    loss = (w * x).sum()
    run(double, torch.ones(8), x)  # changes what the multiplication has saved
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_fake_tensors_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(8)
    with pytest.raises(eas.ArgumentError, match=r"without data \(FakeTensor on cpu\)"):
        double(x, x, 8, BLOCK=8)
