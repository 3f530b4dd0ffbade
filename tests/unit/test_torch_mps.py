"""torch tensors on mps, through both layers, on a stand-in for torch's MPS that runs the Metal text on the software Metal."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import lib, mk
from eas._torch_mps import TorchMpsRuntime, _words
from eas.command_line.doctor import torch_layer
from eas.interop import dlpack
from eas.interop.torch_mps import chosen_layer
from eas.interop.views import view
from eas.lib import gradients
from eas.runtime import debug, get_runtime
from eas.runtime.metal import MetalRuntime
from eas.torch import mps_stand_in as torch_mps_stand_in
from eas.torch.mps_stand_in import ShaderLibrary, stand_in
from tests.unit.fake_metal import NEEDS_EXTENSION

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
pytestmark = NEEDS_EXTENSION
if torch_mps_stand_in.why_unavailable() is None:
    torch_mps_stand_in.guard_device()  # while tests are collected: the first `backward()` of this process may be another file's


@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


@eas.kernel
def scalars_kernel(out, a, b, c, d):
    mk.store(out, 0, a.to(mk.f32))
    mk.store(out, 1, b.to(mk.f32))
    mk.store(out, 2, c)
    mk.store(out, 3, mk.where(d, 1.0, 0.0))


@eas.kernel
def grid_kernel(out, N):
    x, y, z = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    mk.store(out, (z * mk.num_programs(1) + y) * mk.num_programs(0) + x, x + 10 * y + 100 * z)


@eas.kernel
def checked_kernel(x, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.device_assert(mk.load(x, i, i < N) >= 0, "no negative numbers")


@eas.kernel
def rows_kernel(x, out, N: eas.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, N)
    mk.store(out, row * out.stride(0) + cols * out.stride(1), mk.load(x, row * x.stride(0) + cols * x.stride(1)) * 2)


@pytest.fixture
def mps(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "software")
    monkeypatch.setenv("EAS_BACKEND", "auto")
    monkeypatch.delenv("EAS_TORCH_LAYER", raising=False)
    with stand_in(get_runtime("mps")) as found:
        yield found


@pytest.fixture(params=["b", "a"])
def layer(request, mps, monkeypatch):
    monkeypatch.setenv("EAS_TORCH_LAYER", request.param)
    return request.param


def randn(*shape):
    return torch.randn(*shape).to("mps")


# --- the stand-in -----------------------------------------------------------------------------------


def test_tensors_of_the_stand_in_are_torchs_own(mps):
    x = torch.arange(12.0, device="mps").view(3, 4)
    assert type(x) is torch.Tensor
    assert (x.device.type, x.is_mps) == ("mps", True)
    assert x[1:, 2].storage_offset() == 6
    assert x[1:, 2]._base is not None
    assert torch.equal((x * 2 + 1).cpu(), torch.arange(12.0).view(3, 4) * 2 + 1)
    assert torch.arange(100_000, device="mps").sum().item() == 4_999_950_000
    with pytest.raises(Exception, match="mps"):
        x.numpy()


def test_shaders_take_the_arguments_that_torch_takes(mps):
    source = """#include <metal_stdlib>
    kernel void fill(device float *x [[buffer(0)]], constant float &a [[buffer(1)]], constant int &n [[buffer(2)]], constant long *w [[buffer(3)]], uint i [[thread_position_in_grid]]) {
        x[i] = a + float(n) + float(w[1]);
    }"""
    library = torch.mps.compile_shader(source)
    assert "fill" in dir(library)
    x = torch.zeros(10, device="mps")
    library.fill(x[2:], 0.5, 3, [1, 7], threads=5, group_size=4)
    assert mps.pending == 1
    assert x.cpu().tolist() == [0, 0, *[10.5] * 5, 0, 0, 0]
    with pytest.raises(RuntimeError, match="Unsupported argument type"):
        library.fill(x, "a", 3, [1, 7])
    with pytest.raises(RuntimeError, match="not on mps"):
        library.fill(torch.zeros(3), 0.5, 3, [1, 7])
    with pytest.raises(RuntimeError, match="setBytes takes 4096"):
        library.fill(x, 0.5, 3, [1] * 513)
    with pytest.raises(ValueError, match="Threadgroup size exceeds 1024 limit"):
        library.fill(x, 0.5, 3, [1, 7], threads=5000, group_size=2048)
    with pytest.raises(SyntaxError):
        ShaderLibrary("kernel void broken(")


# --- launches ---------------------------------------------------------------------------------------


def test_layer_b_runs_on_torchs_stream_and_waits_for_nothing(mps):
    x, y = randn(1000), randn(1000)
    z = torch.empty_like(x)
    add_kernel(x, y, z, 1000, BLOCK=256)
    assert (mps.pending, mps.synchronized) == (1, 0)
    total = z * 2
    assert mps.pending == 0, "torch's operators come after the kernel"
    assert torch.equal(total.cpu(), (x.cpu() + y.cpu()) * 2)
    add_kernel(x, y, z, 1000, BLOCK=256, _sync=False)
    eas.synchronize()
    assert mps.synchronized == 1


def test_views_and_in_place(layer, mps):
    x = torch.arange(100.0, device="mps")
    add_kernel(x[3:53], x[3:53], x[3:53], 50, BLOCK=32)
    want = torch.arange(100.0)
    want[3:53] *= 2
    assert torch.equal(x.cpu(), want)
    m, out = torch.arange(20.0, device="mps").view(4, 5), torch.zeros(4, 5, device="mps")
    add_kernel(m.t(), m.t(), out.t(), 20, BLOCK=32)
    assert torch.equal(out.cpu(), 2 * m.cpu())
    part = torch.zeros(4, 9, device="mps")
    rows_kernel[4](m[:, ::2], part[:, 1:4], N=4 - 1)
    assert torch.equal(part.cpu()[:, 1:4], 2 * m.cpu()[:, ::2])
    assert torch.equal(part.cpu()[:, 4:], torch.zeros(4, 5))


def keep_gpu_busy():
    """The GPU begins a tenth of a second later: what was launched and not waited for is seen."""
    hooks = get_runtime("mps").extension().hooks
    hooks.hold(True)
    threading.Timer(0.1, hooks.hold, [False]).start()


def test_layer_a_waits_before_and_after(mps, monkeypatch):
    monkeypatch.setenv("EAS_TORCH_LAYER", "a")
    x, z = randn(1000), torch.zeros(1000, device="mps")
    keep_gpu_busy()
    add_kernel(x, x, z, 1000, BLOCK=256, _sync=False)
    assert get_runtime("mps").native_stream(0).statistics["in_flight"] == 0, "finished before torch reads it"
    assert mps.synchronized >= 1
    assert torch.equal(z.cpu(), 2 * x.cpu()), "finished before torch reads it"
    before = mps.synchronized
    monkeypatch.setenv("EAS_TORCH_MPS_SYNC", "0")
    add_kernel(x, x, z, 1000, BLOCK=256)
    assert mps.synchronized == before


def test_layer_a_runs_on_memory_that_is_private_to_the_gpu(mps, monkeypatch):
    monkeypatch.setenv("EAS_TORCH_LAYER", "a")
    memory = {}  # torch may keep tensors in private buffers; those of the stand-in are shared

    def private_memory_of(tensor):
        if tensor.data_ptr() not in memory:
            memory[tensor.data_ptr()] = eas.tensor(tensor.cpu()).to("mps", storage="private")
        return view(memory[tensor.data_ptr()], "tensor")

    monkeypatch.setattr(dlpack, "memory_of", private_memory_of)
    x, z = randn(50).bfloat16(), torch.zeros(50, device="mps", dtype=torch.bfloat16)
    version = z._version
    keep_gpu_busy()
    add_kernel(x, x, z, 50, BLOCK=64, _sync=False)
    assert get_runtime("mps").native_stream(0).statistics["in_flight"] == 0, "finished before torch reads it"
    assert torch.equal(memory[z.data_ptr()].to_torch(), (x + x).cpu())
    assert z._version > version


def test_layer_a_that_nobody_asked_for_is_told_of_once(mps, monkeypatch, capfd):
    monkeypatch.delattr(torch.mps, "compile_shader")
    monkeypatch.setattr(debug, "_noted", set())
    x = randn(10)
    add_kernel(x, x, x, 10, BLOCK=16)
    assert "layer A" not in capfd.readouterr().err
    monkeypatch.setenv("EAS_DEBUG", "1")
    for _ in range(3):
        add_kernel(x, x, x, 10, BLOCK=16)
    told = capfd.readouterr().err
    assert told.count("go through layer A, which synchronises with torch: torch 2") == 1
    assert "has no torch.mps.compile_shader" in told
    assert torch_layer().startswith("A, memory is shared through DLPack")
    monkeypatch.setenv("EAS_TORCH_LAYER", "a")
    monkeypatch.setattr(debug, "_noted", set())
    add_kernel(x, x, x, 10, BLOCK=16)
    assert "layer A" not in capfd.readouterr().err, "asked for"


def test_fast_math_that_torch_does_not_have_is_told_of_once(mps):
    @eas.kernel(math_mode="fast")
    def quick_kernel(x, N, BLOCK: eas.constexpr):
        i = mk.arange(0, BLOCK)
        mk.store(x, i, mk.exp(mk.load(x, i, i < N)), i < N)

    x = randn(10)
    with pytest.warns(eas.KernelWarning, match="quick_kernel has math_mode=\"fast\", and torch compiles it with safe math"):
        quick_kernel(x, 10, BLOCK=16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick_kernel(x, 10, BLOCK=16)
        add_kernel(x, x, x, 10, BLOCK=16)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.setattr(torch, "__version__", "2.14.1+cpu"), "was checked for torch 2.13; this is 2.14.1"),
        (lambda m: m.setattr(torch_mps_stand_in, "RETURN_MPS", {"riscv64": b""}), "it is for Linux on riscv64"),
        (lambda m: m.setattr(torch_mps_stand_in, "META", 1), "has other tables of device guards or hooks than it expects"),
    ],
)
def test_the_stand_in_refuses_a_torch_that_it_does_not_know(change, reason, monkeypatch):
    change(monkeypatch)
    with pytest.raises(eas.BackendUnavailable, match=reason), stand_in(None):
        pass


def test_nobody_but_tests_and_verify_loads_the_stand_in():
    """Ordinary use does not: torch tensors, doctor, a launch that is refused because torch has no MPS."""
    script = """
import sys, numpy as np, torch, eas
from eas import lib
from eas.command_line import doctor
lib.softmax(torch.randn(4, 4))
doctor.report()
assert "eas.torch.mps_stand_in" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    users = {path.name for path in (ROOT / "eas").rglob("*.py") if "import mps_stand_in" in path.read_text() or "mps_stand_in import" in path.read_text()}
    assert users == {"torch_layers.py"}, "of verify"


def test_scalars_are_exact_bytes(layer):
    out = torch.zeros(4, device="mps")
    scalars_kernel[1](out, -7, 1 << 40, 0.1, True)
    assert out.cpu().tolist() == [-7.0, float(1 << 40), np.float32(0.1), 1.0]
    assert _words(torch, np.arange(12, dtype=np.uint8)) == [0x0706050403020100, 0x0B0A0908]


def test_many_scalars_travel_as_a_tensor(mps):
    words = _words(torch, np.zeros(4100, np.uint8))
    assert words.device.type == "mps"
    assert words.numel() == 513


def test_grids_of_three_axes(layer):
    out = torch.zeros(2 * 3 * 4, dtype=torch.int32, device="mps")
    grid_kernel[4, 3, 2](out, 24)
    want = [x + 10 * y + 100 * z for z in range(2) for y in range(3) for x in range(4)]
    assert out.cpu().tolist() == want


def test_assertions_name_the_kernel(layer):
    checked_kernel(torch.ones(10, device="mps"), 10, BLOCK=16)
    with pytest.raises(eas.KernelError, match="no negative numbers"):
        checked_kernel(-torch.ones(10, device="mps"), 10, BLOCK=16)


def test_tensors_without_elements(layer):
    out = torch.ones(3, device="mps")
    add_kernel(torch.empty(0, device="mps"), torch.empty(0, device="mps"), out, 0, BLOCK=16, _grid=1)
    assert out.cpu().tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.uint8])
def test_dtypes(layer, dtype):
    x = torch.arange(20, device="mps").to(dtype)
    z = torch.empty_like(x)
    add_kernel(x, x, z, 20, BLOCK=32)
    assert torch.equal(z.cpu(), (x + x).cpu())


def test_facts_come_from_offsets_and_storages(mps, monkeypatch):
    seen = []
    real = TorchMpsRuntime.run
    monkeypatch.setattr(TorchMpsRuntime, "run", lambda self, executable, *args, **kwargs: (seen.append({str(f) for f in executable.facts}), real(self, executable, *args, **kwargs))[1])
    x = torch.zeros(256, device="mps")
    add_kernel(x[:64], x[64:128], x[128:192], 64, BLOCK=64)
    add_kernel(x[:64], x[1:65], x[128:192], 64, BLOCK=64)
    add_kernel(x[:64], x[64:128], x[32:96], 64, BLOCK=64)
    add_kernel(torch.zeros(64, device="mps"), torch.zeros(64, device="mps"), torch.zeros(64, device="mps"), 64, BLOCK=64)
    assert "disjoint" in seen[0]
    assert {"aligned_64(a)", "aligned_64(b)"} <= seen[0]
    assert "aligned_64(b)" not in seen[1]
    assert "disjoint" not in seen[2]
    assert "disjoint" in seen[3], "other storages are other memory"


def test_refusals(mps, monkeypatch):
    x = randn(10)
    with pytest.raises(eas.LaunchError, match="different devices"):
        add_kernel(x, x, np.zeros(10, np.float32), 10, BLOCK=16)
    with pytest.raises(eas.LostWrite, match="requires grad"):
        add_kernel(x, x, randn(10).requires_grad_(), 10, BLOCK=16)
    with pytest.raises(eas.LostWrite, match="share memory"):
        add_kernel(x, x, randn(1).expand(10), 10, BLOCK=16)
    m = randn(4, 4)
    with pytest.raises(eas.LostWrite, match="share memory and one of them is written"):
        add_kernel(m.t(), m, m, 16, BLOCK=16)
    add_kernel(m[:, 0], m[:, 1], m[:, 2], 4, BLOCK=16)  # side by side in one storage
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    with pytest.raises(eas.LaunchError, match="EAS_BACKEND=cpu"):
        add_kernel(x, x, randn(10), 10, BLOCK=16)


def test_layer_is_chosen_by_what_torch_has(mps, monkeypatch):
    assert chosen_layer()[0] == "b"
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "1")
    assert chosen_layer()[0] == "a"
    assert "fast math" in chosen_layer()[1]
    monkeypatch.setenv("EAS_TORCH_LAYER", "b")
    with pytest.raises(eas.BackendUnavailable, match=r"EAS_TORCH_LAYER=b, but PYTORCH_MPS_FAST_MATH"):
        add_kernel(randn(4), randn(4), randn(4), 4, BLOCK=16)
    monkeypatch.delenv("PYTORCH_MPS_FAST_MATH")
    monkeypatch.delattr(torch.mps, "compile_shader")
    monkeypatch.setenv("EAS_TORCH_LAYER", "auto")
    assert "2.7" in chosen_layer()[1]


def test_tensors_of_torch_and_eas_together_share_memory(mps):
    x, e = randn(100), eas.ones(100, device="mps")
    z = torch.zeros(100, device="mps")
    add_kernel(x, e, z, 100, BLOCK=64)
    assert torch.equal(z.cpu(), x.cpu() + 1)


def test_tensors_are_shared_both_ways(mps):
    x = randn(4, 5)
    shared = eas.tensor(x, device="mps")
    assert shared.device == "mps"
    shared.copy_(1.5)
    assert x.cpu().tolist() == [[1.5] * 5] * 4
    back = shared[1:].to_torch("mps")
    assert back.device.type == "mps"


# --- operators and the library ----------------------------------------------------------------------


def test_operators_record_gradients(layer):
    for name, args in (("softmax", ()), ("log_softmax", ()), ("layer_norm", (4, 4)), ("rms_norm", (4,)), ("silu", ()), ("bias_gelu", (4,))):
        x = torch.randn(6, 4)
        rest = [torch.randn(n) for n in args]
        grad = torch.randn(6, 4)
        here = [t.clone().requires_grad_() for t in (x, *rest)]
        want = getattr(lib, name)(*here)
        want.backward(grad)
        there = [t.to("mps").requires_grad_() for t in (x, *rest)]
        made = getattr(lib, name)(*there)
        assert made.device.type == "mps", name
        torch.testing.assert_close(made.detach().cpu(), want.detach())
        made.backward(grad.to("mps"))  # in the thread that torch has for the device
        for ours, t in zip(there, here, strict=True):
            torch.testing.assert_close(ours.grad.cpu(), t.grad)


def test_the_engine_of_gradients_may_have_run_before(mps):
    x = torch.ones(3, requires_grad=True)
    x.square().sum().backward()
    there = randn(3).requires_grad_()
    there.square().sum().backward()
    assert torch.equal(there.grad.cpu(), 2 * there.detach().cpu())


def test_attention_and_its_gradient(layer):
    q, k, v, grad = (torch.randn(2, 4, 33, 16) for _ in range(4))
    here = [t.clone().requires_grad_() for t in (q, k, v)]
    want = lib.attention(*here, causal=True)
    want.backward(grad)
    there = [t.to("mps").requires_grad_() for t in (q, k, v)]
    made = lib.attention(*there, causal=True)
    torch.testing.assert_close(made.detach().cpu(), want.detach(), atol=1e-5, rtol=1e-4)
    made.backward(grad.to("mps"))
    for ours, t in zip(there, here, strict=True):
        torch.testing.assert_close(ours.grad.cpu(), t.grad, atol=1e-4, rtol=1e-3)


CALLS = {
    "add": lambda x, y: lib.add(x, x),
    "argmax": lambda x, y: lib.argmax(x),
    "bias_gelu": lambda x, y: lib.bias_gelu(x),
    "conv2d": lambda x, y: lib.conv2d(x.reshape(1, 2, 8, 16), y[:9].reshape(1, 1, 3, 3).expand(2, 1, 3, 3).contiguous(), groups=2),
    "cross_entropy": lambda x, y: lib.cross_entropy(x, x.argmax(-1)),
    "cumsum": lambda x, y: lib.cumsum(x),
    "dropout": lambda x, y: lib.dropout(x, 0.5, 3),
    "gelu": lambda x, y: lib.gelu(x),
    "histogram": lambda x, y: lib.histogram((x * 3).to(torch.int32), 5),
    "int8_matvec": lambda x, y: lib.int8_matvec((x * 10).to(torch.int8), x[:, 0].contiguous(), y),
    "linear": lambda x, y: lib.linear(x, x),
    "matmul": lambda x, y: lib.matmul(x.view(2, 4, 32), x.view(2, 4, 32).transpose(1, 2).contiguous()),
    "quantise_int8": lambda x, y: lib.quantise_int8(x)[0],
    "rope": lambda x, y: lib.rope(x),
    "sum": lambda x, y: lib.sum(x),
    "swiglu": lambda x, y: lib.swiglu(x, x),
    "topk": lambda x, y: lib.topk(x, 3)[1],
    "transpose": lambda x, y: lib.transpose(x),
    "attention_qkv": lambda x, y: lib.attention_qkv(x.reshape(1, 4, 3 - 2, 2, 32).expand(1, 4, 3, 2, 32).contiguous()),
}


@pytest.mark.parametrize("name", CALLS)
def test_library_gives_what_it_was_given(mps, name):
    x, y = torch.randn(8, 32), torch.randn(32)
    want = CALLS[name](x, y)
    made = CALLS[name](x.to("mps"), y.to("mps"))
    assert made.device.type == "mps"
    assert made.shape == want.shape
    assert made.dtype == want.dtype
    torch.testing.assert_close(made.cpu(), want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["bias_gelu", "cross_entropy", "gelu", "swiglu"])
def test_library_goes_back(mps, name):
    x, y = torch.randn(8, 32), torch.randn(32)
    slopes = []
    for device in ("cpu", "mps"):
        there = [t.detach().to(device).requires_grad_() for t in (x.clone(), y.clone())]
        CALLS[name](*there).square().sum().backward()
        slopes.append([t.grad.cpu() for t in there if t.grad is not None])
    assert slopes[0]
    torch.testing.assert_close(slopes[1], slopes[0], atol=1e-4, rtol=1e-3)


def test_library_writes_out(mps):
    x, out = randn(4, 8), torch.zeros(4, 8, device="mps")
    assert lib.softmax(x, out) is out
    torch.testing.assert_close(out.cpu(), torch.softmax(x.cpu(), -1))


def test_every_function_has_a_case():
    others = {"softmax", "log_softmax", "layer_norm", "rms_norm", "silu", "attention"}
    assert {*CALLS, *others} == set(lib.__all__)


def test_own_operators_compiled_and_under_autocast(mps):
    @eas.torch_op("eas_test_mps::twice", vmap="elementwise", autocast=torch.float16)
    def twice(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add_kernel(x, x, out, x.numel(), BLOCK=64)
        return out

    x = randn(70)
    assert torch.equal(twice(x).cpu(), 2 * x.cpu())
    compiled = torch.compile(lambda t: twice(t) + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x).cpu(), 2 * x.cpu() + 1)
    with torch.autocast("mps", dtype=torch.float16):
        assert twice(x).dtype == torch.float16


def test_gradients_compiled_and_under_autocast(mps):
    x = randn(6, 40)
    there = x.clone().requires_grad_()
    torch.compile(lambda t: lib.softmax(t * 2).square().sum(), backend="aot_eager", fullgraph=True)(there).backward()
    here = x.cpu().requires_grad_()
    torch.softmax(here * 2, -1).square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad)
    there.grad = None
    with torch.autocast("mps", dtype=torch.float16):
        lib.softmax((there @ there.detach().T) / 8).square().sum().backward()
    assert there.grad.dtype == torch.float32
    here.grad = None
    torch.softmax((here @ here.detach().T) / 8, -1).square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), here.grad, atol=2e-2, rtol=2e-2)


def test_autotune_measures_and_restores(mps):
    tuned = eas.autotune([eas.Config({"BLOCK": b}) for b in (64, 128)], key=["N"], warmup=1, repeat=1)(eas.kernel(add_kernel.fn))
    x, z = randn(100), torch.zeros(100, device="mps")
    tuned(x, z, z, 100)
    assert torch.equal(z.cpu(), x.cpu())


def test_gradient_kernels_of_long_rows_fit(mps, monkeypatch):
    seen = []
    monkeypatch.setattr(MetalRuntime, "run", lambda self, executable, *args, **kwargs: seen.append(executable.metal.threadgroup_nbytes))
    for cols in (1000, 50257):
        x = eas.empty(2, cols, device="mps")
        gradients.softmax_backward(x, x, x)
        launch, grid, rest = gradients.norm_backward_launch((2, cols), 1e-5, centred=True)
        launch[grid](x, x, x[0], x, x, x, *rest)
    assert len(seen) == 4
    assert max(seen) <= 32768
