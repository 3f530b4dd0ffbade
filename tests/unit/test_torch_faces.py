"""eas.lib on torch tensors: values, gradients, opcheck, autocast, workers, saved modules, torch.compile."""

from __future__ import annotations

import io
import shutil
import warnings

import numpy as np
import pytest

import eas
from eas import lib

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from eas.lib.faces import torch as faces  # noqa: E402
from eas.torch.quick import quick  # noqa: E402

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler (g++)")


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def mask_of(n, m):
    return torch.rand(n, m) < 0.8


def packed_attention(qkv, scale):
    q, k, v = (part.transpose(-3, -2) for part in qkv.unbind(-3))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale).transpose(-3, -2)


# name -> (operator, arguments from a dtype, the same by torch)
CASES = {
    "softmax": (faces.softmax_op, lambda t: (normal(3, 4, 7, dtype=t),), lambda x: x.softmax(-1)),
    "log_softmax": (faces.log_softmax_op, lambda t: (normal(3, 4, 7, dtype=t),), lambda x: x.log_softmax(-1)),
    "layer_norm": (faces.layer_norm_op, lambda t: (normal(3, 4, 7, dtype=t), normal(7, dtype=t), normal(7, dtype=t), 2.0**-10), lambda x, w, b, eps: F.layer_norm(x, (7,), w, b, eps)),
    "layer_norm alone": (faces.layer_norm_op, lambda t: (normal(70, 7, dtype=t), None, None, 2.0**-10), lambda x, w, b, eps: F.layer_norm(x, (7,), w, b, eps)),
    "rms_norm": (faces.rms_norm_op, lambda t: (normal(3, 4, 7, dtype=t), normal(7, dtype=t), 2.0**-10), lambda x, w, eps: F.rms_norm(x, (7,), w, eps)),
    "bias_gelu": (faces.bias_gelu_op, lambda t: (normal(50, 7, dtype=t), normal(7, dtype=t), "none"), lambda x, b, a: F.gelu(x + b)),
    "gelu tanh": (faces.bias_gelu_op, lambda t: (normal(3, 4, 7, dtype=t), None, "tanh"), lambda x, b, a: F.gelu(x, approximate="tanh")),
    "silu": (faces.silu_op, lambda t: (normal(3, 7, dtype=t),), F.silu),
    "swiglu": (faces.swiglu_op, lambda t: (normal(3, 7, dtype=t), normal(3, 7, dtype=t)), lambda g, u: F.silu(g) * u),
    "cross_entropy": (faces.losses_op, lambda t: (normal(5, 7, dtype=t), torch.tensor([0, 6, -100, 3, 2]), -100), lambda x, y, i: F.cross_entropy(x, y, reduction="none")),
    "attention": (faces.attention_op, lambda t: (normal(2, 4, 5, 6, dtype=t), normal(2, 2, 7, 6, dtype=t), normal(2, 2, 7, 3, dtype=t), None, False, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, scale=s, enable_gqa=True)),
    "causal": (faces.attention_op, lambda t: (normal(1, 2, 37, 6, dtype=t), normal(1, 2, 37, 6, dtype=t), normal(1, 2, 37, 6, dtype=t), None, True, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s)),
    "causal, more keys": (faces.attention_op, lambda t: (normal(1, 4, 5, 3, dtype=t), normal(1, 2, 21, 3, dtype=t), normal(1, 2, 21, 3, dtype=t), None, True, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s, enable_gqa=True)),
    "causal, fewer keys": (faces.attention_op, lambda t: (normal(2, 19, 3, dtype=t), normal(2, 6, 3, dtype=t), normal(2, 6, 5, dtype=t), None, True, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s)),
    "added mask": (faces.attention_op, lambda t: (normal(1, 2, 5, 6, dtype=t), normal(1, 2, 7, 6, dtype=t), normal(1, 2, 7, 6, dtype=t), torch.randn(2, 1, 7, dtype=t), False, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=s)),
    "learned mask": (faces.attention_op, lambda t: (normal(2, 4, 5, 6, dtype=t), normal(2, 2, 7, 6, dtype=t), normal(2, 2, 7, 6, dtype=t), normal(4, 1, 7, dtype=t), False, 0.375, True), lambda q, k, v, m, c, s, _: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=s, enable_gqa=True)),
    "learned causal mask": (faces.attention_op, lambda t: (normal(1, 2, 37, 6, dtype=t), normal(1, 2, 37, 6, dtype=t), normal(1, 2, 37, 6, dtype=t), normal(37, 37, dtype=t), True, 0.375, True), lambda q, k, v, m, c, s, _: F.scaled_dot_product_attention(q, k, v, attn_mask=m.masked_fill(torch.ones(37, 37).triu(1).bool(), -float("inf")), scale=s)),
    "packed": (faces.attention_qkv_op, lambda t: (normal(2, 37, 3, 2, 6, dtype=t), True, 0.375), lambda x, c, s: packed_attention(x, s)),
    "packed, no batch": (faces.attention_qkv_op, lambda t: (normal(5, 3, 2, 6, dtype=t), True, 0.375), lambda x, c, s: packed_attention(x, s)),
    "masked": (faces.attention_op, lambda t: (normal(1, 2, 5, 6, dtype=t), normal(1, 2, 7, 6, dtype=t), normal(1, 2, 7, 6, dtype=t), mask_of(5, 7), False, 0.375), lambda q, k, v, m, c, s: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=s)),
}  # fmt: skip


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    torch.manual_seed(3)
    return request.param


def first(made):
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_equal_torch(case, dtype):
    op, make, reference = case
    args = make(dtype)
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    got, want = first(op(*args)), reference(*args)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    seed = torch.randn_like(want)
    for mine, theirs in zip(torch.autograd.grad(got, leaves, seed), torch.autograd.grad(want, leaves, seed), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=2e-5)


def test_gradcheck(case):
    op, make, _ = case
    args = make(torch.float64)
    many = sum(a.numel() for a in args if isinstance(a, torch.Tensor) and a.requires_grad) > 1000
    assert torch.autograd.gradcheck(lambda *a: first(op(*a)), args, fast_mode=many)  # many: along random directions


def test_torch_func_grad(case):
    """torch.func.grad, and vmap over it, give what autograd gives."""
    op, make, reference = case
    args = [a.detach() if isinstance(a, torch.Tensor) else a for a in make(torch.float32)]

    def total(fn):
        return lambda x: (first(fn(x, *args[1:])) ** 2).sum()

    want = torch.func.grad(total(reference))(args[0])
    torch.testing.assert_close(torch.func.grad(total(op))(args[0]), want, atol=2e-5, rtol=2e-5)
    for mine in torch.vmap(torch.func.grad(total(op)))(torch.stack([args[0]] * 2)):
        torch.testing.assert_close(mine, want, atol=2e-5, rtol=2e-5)


def test_derivatives_that_do_not_exist_are_refused_at_every_level():
    def fn(x):
        return lib.softmax(x)[0]

    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    with pytest.raises(eas.ArgumentError, match="eas::softmax has no second derivative"):
        torch.func.grad(lambda b: torch.func.grad(fn)(b).sum())(x)
    with pytest.raises(eas.ArgumentError, match=r"eas::softmax has no forward derivative, and argument 'x' carries a tangent(.|\n)*hint: use reverse mode"):
        torch.func.jvp(fn, (x,), (x,))
    with pytest.raises(eas.ArgumentError, match="has no forward derivative"):
        torch.func.hessian(fn)(x)
    # The value of an inner level is recorded by the outer one.
    value = torch.func.grad_and_value(lambda a: fn(a * w))(x)[1]
    (got,), (want,) = torch.autograd.grad(value, w), torch.autograd.grad((x * w).softmax(-1)[0], w)
    torch.testing.assert_close(got, want)


def test_opcheck(case):
    op, make, _ = case
    assert set(torch.library.opcheck(op, make(torch.float32)).values()) == {"SUCCESS"}


def repeated(fn, *args, times=6):
    """The results and gradients of a call often enough that its launches are native replays."""
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    for _ in range(times):
        made = fn(*args)
        found = (made.detach().clone(), *torch.autograd.grad(made.sum(), leaves)) if leaves else (made,)
    return found


def test_replays_know_what_differs():
    """Calls that differ in one respect only, after many that do not."""
    torch.manual_seed(3)
    x, w, b = normal(6, 40), normal(40), normal(40)
    variants = [(x, w, b, 1e-5), (x, w, None, 1e-5), (x, None, b, 1e-5), (x, w, b, 0.5), (x.double(), w.double(), b.double(), 1e-5), (x.T.contiguous().T, w, b, 1e-5), (x[:, None], w, b, 1e-5)]
    for given in [*variants, *variants]:
        mine = repeated(lib.layer_norm, *[a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in given])
        theirs = repeated(lambda x, w, b, e: F.layer_norm(x, (40,), w, b, e), *[a.detach().requires_grad_() if isinstance(a, torch.Tensor) else a for a in given], times=1)
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("nbytes", [0, 400])
def test_replays_refuse_memory_that_has_gone(nbytes):
    repeated(lib.layer_norm, torch.randn(6, 40))
    for x in (torch.randn(6, 40), torch.randn(2, 6, 40)[1]):
        x.untyped_storage().resize_(nbytes)
        with pytest.raises(eas.EasError, match="storage"):
            lib.layer_norm(x)


def test_replays_follow_the_backend(monkeypatch):
    qkv = torch.randn(1, 9, 3, 2, 4)
    want = repeated(lambda x: lib.attention_qkv(x, causal=True), qkv)[0]
    monkeypatch.setenv("EAS_BACKEND", "interp")
    torch.testing.assert_close(lib.attention_qkv(qkv, causal=True), want)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.numpy(), lambda x: eas.tensor(x)], ids=["torch", "numpy", "eas"])
def test_packed_attention_of_any_array(make):
    qkv = torch.randn(2, 2, 7, 3, 2, 4)
    got = lib.attention_qkv(make(qkv), causal=True)
    torch.testing.assert_close(torch.as_tensor(np.asarray(got)), packed_attention(qkv, 0.5))
    with pytest.raises(eas.ArgumentError, match=r"attention_qkv needs \[..., n, 3, heads, D\], got \(7, 2, 4\)"):
        lib.attention_qkv(make(qkv[0, 0, :, 0]))
    with pytest.raises(eas.ArgumentError, match=r"attention_qkv needs (.)*, got \(\)"):
        lib.attention_qkv(make(torch.ones(())))


def test_quick_calls_give_the_same_as_operators(case):
    """Without the dispatcher: the same bits, the same gradients, the same refusal of a second derivative."""
    op, make, _ = case
    args = make(torch.float32)
    call, leaves = quick(op), [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    ways = []
    for run in (op, call):
        made = first(run(*args))
        assert made.requires_grad
        ways.append((made.detach(), *torch.autograd.grad(made, leaves, torch.ones_like(made))))
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(*ways, strict=True))
    assert type(first(call(*args)).grad_fn).__name__ != type(first(op(*args)).grad_fn).__name__  # it took the short way
    with torch.no_grad():
        assert not first(call(*args)).requires_grad
    for run in (op, call):
        grad, *_ = torch.autograd.grad((first(run(*args)) ** 2).sum(), leaves, create_graph=True)
        with pytest.raises(eas.ArgumentError, match="has no second derivative"):
            torch.autograd.grad(grad.sum(), leaves)
    if isinstance(op(*args), tuple):
        assert not any(t.requires_grad for made in (op(*args), call(*args)) for t in made[1:])  # it has no gradient


def test_quick_calls_leave_to_torch_what_is_not_only_autograd():
    x, w = torch.randn(4, 8), torch.ones(8)
    with torch.autocast("cpu", torch.bfloat16):
        assert lib.layer_norm(x.bfloat16(), w).dtype is torch.float32
    assert lib.layer_norm(x.to("meta"), w.to("meta")).is_meta
    seen = []

    class Listening(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Listening():
        lib.softmax(x)
    assert "eas.softmax.default" in seen
    assert torch.equal(torch.vmap(lib.softmax)(x), lib.softmax(x))
    with torch.profiler.profile() as profile:
        lib.layer_norm(x, w)
    assert "eas::layer_norm" in [event.key for event in profile.key_averages()]
    with torch.inference_mode():
        assert lib.layer_norm(x, w).is_inference()


@pytest.mark.parametrize("call", [lib.layer_norm, lambda x, w: torch.ops.eas.layer_norm(x, w, None, 1e-5)], ids=["lib", "operator"])
def test_tensors_on_different_devices_are_refused(call):
    with pytest.raises(eas.ArgumentError, match=r"eas::layer_norm got tensors on different devices: `weight` on meta; `x` on cpu(.|\n)*hint: move them"):
        call(torch.randn(4, 8), torch.ones(8, device="meta"))


@pytest.mark.parametrize("fn", [lib.layer_norm, lib.softmax, lib.silu, lib.bias_gelu])
def test_sparse_and_quantised_tensors_are_refused(fn):
    with pytest.raises(eas.ArgumentError, match=r"of layout sparse_coo, a kernel needs a strided one(.|\n)*hint: pass x.to_dense"):
        fn(torch.eye(4).to_sparse())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_tensor(torch.ones(4, 4), 0.1, 0, torch.qint8)
    with pytest.raises(eas.ArgumentError, match="quantised"):
        fn(quantised)


def test_integers_and_other_arrays_are_refused_in_words_of_the_caller():
    whole, x = torch.ones(3, 4, dtype=torch.int32), torch.ones(3, 4)
    for fn in (lib.softmax, lib.log_softmax, lib.layer_norm, lib.rms_norm, lib.bias_gelu, lib.silu):
        for given in (whole, whole.numpy()):
            with pytest.raises(eas.ArgumentError, match=f"{fn.__name__} needs floats, got int32"):
                fn(given)
    for weight in (np.ones(4, np.float32), eas.ones(4)):
        with pytest.raises(eas.ArgumentError, match=r"eas::layer_norm takes torch tensors, got (numpy|eas.tensor)(.|\n)*hint: pass torch tensors only"):
            lib.layer_norm(x, weight)


def test_vmap_equals_a_loop():
    x, w = torch.randn(4, 3, 7), torch.randn(7)
    assert torch.equal(torch.vmap(lambda r: lib.layer_norm(r, w), in_dims=1)(x), torch.stack([lib.layer_norm(x[:, i], w) for i in range(3)]))
    many = torch.randn(5, 7)
    got = torch.vmap(lambda v: lib.layer_norm(x, v))(many)
    assert torch.equal(got, torch.stack([lib.layer_norm(x, v) for v in many]))


# --- the functions of eas.lib -------------------------------------------------------------------


def test_lib_returns_what_it_is_given():
    x = torch.randn(4, 6)
    for fn in (lib.softmax, lib.cumsum, lib.silu, lib.transpose, lambda a: lib.topk(a, 2)[0], lib.argmax, lib.sum):
        assert isinstance(fn(x), torch.Tensor)
        assert np.allclose(np.asarray(fn(x.numpy())), fn(x).numpy(), atol=1e-6)
        assert isinstance(fn(eas.from_torch(x)), eas.Tensor) or fn is lib.sum
    out = torch.zeros(4, 6)
    assert lib.add(x, x, out) is out
    assert torch.equal(out, 2 * x)
    lib.softmax(x, out=out)
    assert torch.allclose(out, x.softmax(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_floats(dtype):
    x, w = torch.randn(3, 40).to(dtype), torch.randn(40, 40).to(dtype)
    for got, want in ((lib.softmax(x), x.softmax(-1)), (lib.rms_norm(x), F.rms_norm(x, (40,))), (lib.matmul(x, w), x @ w), (lib.cumsum(x), x.float().cumsum(-1).to(dtype)), (lib.linear(x, w), F.linear(x, w))):
        assert got.dtype is dtype
        torch.testing.assert_close(got.float(), want.float(), atol=0.1, rtol=0.02)
    assert lib.sum(x).dtype is torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_narrow_floats(dtype):
    torch.manual_seed(5)
    x, w, b = (torch.randn(s).to(dtype).requires_grad_() for s in ((6, 40), (40,), (40,)))
    eps, h = 2.0**-10, x[None, None]
    for got, want in (
        (lib.layer_norm(x, w, b), F.layer_norm(x, (40,), w, b)),
        (lib.rms_norm(x, w, eps), F.rms_norm(x, (40,), w, eps)),
        (lib.bias_gelu(x, b), F.gelu(x + b)),
        (lib.attention(h, h, h, causal=True), F.scaled_dot_product_attention(h, h, h, is_causal=True)),
    ):
        torch.testing.assert_close(got, want, atol=0.03, rtol=0.02)
        seed = torch.randn_like(want)
        ours, theirs = (torch.autograd.grad(made, (x, w, b), seed, allow_unused=True) for made in (got, want))
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                assert mine.dtype is dtype
                torch.testing.assert_close(mine, other, atol=0.06, rtol=0.03)


def test_functions_without_a_gradient_say_so():
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(eas.ArgumentError, match=r"eas.lib.cumsum has no gradient(.|\n)*hint: pass x.detach\(\)"):
        lib.cumsum(x)
    assert lib.argmax(x).shape == (3,)
    with torch.no_grad():
        assert lib.cumsum(x).shape == (3, 4)


@pytest.mark.parametrize("shape", [(3, 5), (), (0,), (2, 0)])
def test_gelu_of_any_shape_has_a_gradient(shape):
    x = torch.randn(shape, requires_grad=True)
    y = lib.gelu(x, 2.0, 0.5, approximate="tanh")
    want = F.gelu(2 * x + 0.5, approximate="tanh")
    torch.testing.assert_close(y, want)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), torch.autograd.grad(want.sum(), x))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_reductions(reduction):
    x, target = normal(6, 9), torch.tensor([1, 2, -100, 8, 0, 4])
    got, want = lib.cross_entropy(x, target, reduction=reduction), F.cross_entropy(x, target, reduction=reduction)
    torch.testing.assert_close(got, want)


# --- torch as it is used ------------------------------------------------------------------------


class Block(nn.Module):
    """A layer made of eas operators."""

    def __init__(self, width=16):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        y = lib.layer_norm(x, self.weight, self.bias)
        y = self.down(lib.bias_gelu(F.linear(y, self.up.weight), self.up.bias))
        heads = y.view(*y.shape[:-1], 2, -1).transpose(-3, -2)
        return x + lib.attention(heads, heads, heads, causal=True).transpose(-3, -2).reshape(y.shape)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    block = Block()
    x = torch.randn(2, 5, 16)
    with torch.autocast("cpu", dtype):
        y = block(x)
        loss = lib.cross_entropy(y.flatten(0, 1), torch.arange(10))
    assert loss.dtype is torch.float32
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in block.parameters())
    torch.testing.assert_close(y.float(), block(x), atol=0.1, rtol=0.1)


def test_saved_modules_load():
    block, x = Block(), torch.randn(2, 5, 16)
    file = io.BytesIO()
    torch.save(block.state_dict(), file)
    file.seek(0)
    other = Block()
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), block(x))
    file = io.BytesIO()
    torch.save(block, file)
    file.seek(0)
    whole = torch.load(file, weights_only=False)
    assert torch.equal(whole(x), block(x))


class Rows(torch.utils.data.Dataset):
    """Samples that are made by an eas kernel, in the worker."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return lib.softmax(torch.arange(600.0).view(2, 300) % (i + 2))


def test_data_loader_workers():
    lib.softmax(torch.randn(400, 300))  # the pool of the parent has started
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of fork in a process with threads
        got = torch.cat(list(loader))
    want = torch.stack([(torch.arange(600.0).view(2, 300) % (i + 2)).softmax(-1) for i in range(8)])
    torch.testing.assert_close(got, want)


@needs_compiler
def test_compile_of_a_module():
    torch.manual_seed(1)
    block, x = Block(), torch.randn(2, 5, 16)

    def loss_of(x):
        return lib.cross_entropy(block(x).flatten(0, 1), torch.arange(10))

    want = loss_of(x)
    want.backward()
    grads = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    got = torch.compile(loss_of, fullgraph=True)(x)
    got.backward()
    torch.testing.assert_close(got, want)
    for mine, theirs in zip(block.parameters(), grads, strict=True):
        torch.testing.assert_close(mine.grad, theirs)
