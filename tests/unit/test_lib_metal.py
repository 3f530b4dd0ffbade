"""eas.lib on tensors of an Apple GPU under EAS_BACKEND=auto: every function chooses blocks that fit a threadgroup there."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import lib
from eas._torch_mps import TorchMpsRuntime
from eas.lib.sizes import on_metal
from eas.runtime import get_runtime, metal
from eas.runtime.metal import MetalRuntime
from eas.schedule.gpu.target import APPLE7
from eas.torch.mps_stand_in import stand_in
from tests.unit.fake_metal import NEEDS_EXTENSION

pytestmark = NEEDS_EXTENSION
ROWS = [(5, 7), (64, 1000), (4, 8192), (2, 50257)]
PRODUCTS = [(1, 1000, 900), (700, 1000, 1), (64, 64, 64), (300, 500, 700), (4096, 4096, 4096)]
HEADS = [(100, 1000, 128), (40, 40, 512)]


@pytest.fixture
def launches(monkeypatch):
    """What would run on the GPU: the generated Metal code of every launch."""
    seen = []

    def run(self, executable, args, grid, **options):
        seen.append(executable.metal)

    monkeypatch.setenv("EAS_METAL", "software")
    monkeypatch.setenv("EAS_BACKEND", "auto")
    monkeypatch.setenv("EAS_VERIFY", "0")  # the same kernels are verified in tests/backend
    monkeypatch.setattr(MetalRuntime, "run", run)
    # Launches that another test of this process has repeated would go past `run`.
    monkeypatch.setattr(metal._NOTHING_PENDING, "value", 1)
    return seen


def on_mps(*shape, dtype="f32"):
    return eas.empty(*shape, device="mps", dtype=dtype)


def _of_rows(name, **options):
    return lambda new: [lambda s=s: getattr(lib, name)(new(*s), **options) for s in ROWS]


def _of_products(new):
    for m, k, n in PRODUCTS:
        yield lambda m=m, k=k, n=n: lib.matmul(new(m, k), new(k, n))
        yield lambda m=m, k=k, n=n: lib.matmul(new(3, m, k), new(3, k, n))
        yield lambda m=m, k=k, n=n: lib.matmul(new(3, m, k), new(k, n))


def _of_heads(new):
    for n, m, d in HEADS:
        for causal in (False, True):
            yield lambda n=n, m=m, d=d, causal=causal: lib.attention(new(4, n, d), new(4, m, d), new(4, m, d), causal=causal)
            yield lambda n=n, m=m, d=d, causal=causal: lib.attention(new(2, 4, n, d), new(2, 2, m, d), new(2, 2, m, d), causal=causal)
        yield lambda n=n, m=m, d=d: lib.attention(new(2, 4, n, d), new(2, 2, m, d), new(2, 2, m, d), mask=new(n, m))


def _of_images(new):
    for c, h, o, k, groups in ((3, 224, 64, 7, 1), (64, 56, 64, 3, 1), (32, 14, 32, 3, 32), (1, 5, 1, 3, 1)):
        yield lambda c=c, h=h, o=o, k=k, g=groups: lib.conv2d(new(2, c, h, h), new(o, c // g, k, k), new(o), padding=1, groups=g)


CASES = {
    **{name: _of_rows(name) for name in ("silu", "gelu", "dropout", "softmax", "log_softmax", "cumsum", "argmax", "sum")},
    "add": lambda new: [lambda s=s: lib.add(new(*s), new(*s)) for s in ROWS],
    "swiglu": lambda new: [lambda s=s: lib.swiglu(new(*s), new(*s)) for s in ROWS],
    "bias_gelu": lambda new: [lambda s=s: lib.bias_gelu(new(*s), new(s[1])) for s in ROWS],
    "layer_norm": lambda new: [lambda s=s: lib.layer_norm(new(*s), new(s[1]), new(s[1])) for s in ROWS],
    "rms_norm": lambda new: [lambda s=s: lib.rms_norm(new(*s), new(s[1])) for s in ROWS],
    "cross_entropy": lambda new: [lambda s=s: lib.cross_entropy(new(*s), new(s[0], dtype="i64"), reduction="none") for s in ROWS],
    "topk": lambda new: [lambda s=s, k=k: lib.topk(new(*s), k) for s in (*ROWS, (3, 32000)) for k in (1, 8, 50, 1000) if k <= s[1]],
    "transpose": lambda new: [lambda s=s: lib.transpose(new(*s)) for s in (*ROWS, (3, 500, 700))],
    "rope": lambda new: [lambda d=d: lib.rope(new(2, 3, 100, d)) for d in (2, 64, 256)],
    "histogram": lambda new: [lambda n=n: lib.histogram(new(100_000, dtype="i32"), n) for n in (10, 1000, 8192, 100_000)],
    "matmul": _of_products,
    "linear": lambda new: [lambda m=m, k=k, n=n: lib.linear(new(m, k), new(n, k), new(n)) for m, k, n in PRODUCTS],
    "int8_matvec": lambda new: [lambda m=m, k=k, n=n: lib.int8_matvec(new(n, k, dtype="i8"), new(n), new(m, k)) for m, k, n in PRODUCTS],
    "attention": _of_heads,
    "attention_qkv": lambda new: [lambda n=n, d=d: lib.attention_qkv(new(2, n, 3, 4, d)) for n, _, d in HEADS],
    "conv2d": _of_images,
}
NO_LAUNCH = {"quantise_int8"}  # NumPy does it


def test_every_function_of_the_library_is_here():
    assert {*CASES, *NO_LAUNCH} == set(lib.__all__)


@pytest.mark.parametrize(("name", "dtype"), [*((name, "f32") for name in CASES), ("linear", "f16"), ("attention", "f16")])
def test_blocks_fit_a_threadgroup(launches, name, dtype):
    def new(*shape, dtype=dtype):
        return on_mps(*shape, dtype=dtype)

    for call in CASES[name](new):
        call()
        for code in launches:
            assert code.threadgroup_nbytes <= APPLE7.threadgroup_nbytes
            assert code.threads <= APPLE7.max_threads
        assert launches, "it ran somewhere else"
        launches.clear()


@pytest.mark.parametrize("name", ["linear", "topk", "layer_norm", "bias_gelu", "int8_matvec"])
def test_blocks_fit_for_tensors_of_torch(launches, monkeypatch, name):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(TorchMpsRuntime, "run", lambda self, executable, *args, **kwargs: launches.append(executable.metal))
    kinds = {"f32": torch.float32, "i8": torch.int8}
    with stand_in(get_runtime("mps")):
        some = torch.empty(2, device="mps")
        assert on_metal(some)
        assert not on_metal(some.cpu())
        for call in CASES[name](lambda *shape, dtype="f32": torch.empty(shape, dtype=kinds[dtype], device="mps")):
            call()
    assert launches
    assert max(code.threadgroup_nbytes for code in launches) <= APPLE7.threadgroup_nbytes


def test_kernels_run_where_their_arguments_live(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "software")
    monkeypatch.setenv("EAS_BACKEND", "auto")
    runtime = get_runtime("mps")

    def commits():
        return sum(stream.statistics["commits"] for stream in runtime._streams.values())

    before = commits()
    x = np.arange(10, dtype=np.float32)
    for _ in range(6):  # native launchers of the CPU are learnt meanwhile
        assert np.array_equal(lib.add(x, x), x + x)
    assert commits() == before
    given = eas.tensor(x, device="mps")
    for count in range(6):
        made = lib.add(given, given)
        assert made.device == "mps"
        assert np.array_equal(made.numpy(), x + x)
        assert commits() == before + count + 1, "by native launchers as well"
    assert get_runtime().name == "cpu"


@pytest.mark.parametrize(("dtype", "k"), [(np.float32, 8), (np.float32, 50), (np.float16, 1), (np.int32, 50), (np.int64, 8), (np.uint8, 50)])
def test_topk_of_long_rows_is_stable(monkeypatch, dtype, k):
    monkeypatch.setenv("EAS_METAL", "software")
    x = (np.random.default_rng(0).standard_normal((3, 32_000)) * 50).astype(dtype)
    if dtype is np.float32:
        x[1, 777] = np.nan
    values, indices = lib.topk(eas.tensor(x, device="mps"), k)
    want = np.argsort(-np.nan_to_num(x.astype(np.float64), nan=np.inf), axis=-1, kind="stable")[:, :k]
    assert np.array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, -1))


def test_topk_says_how_many_fit(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "software")
    with pytest.raises(eas.ArgumentError, match=r"k is 5000: of rows of 20000 f32 elements, Metal finds up to 2048"):
        lib.topk(on_mps(1, 20_000), 5000)


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.int64])
def test_histogram_of_many_bins(monkeypatch, dtype):
    monkeypatch.setenv("EAS_METAL", "software")
    keys = np.random.default_rng(0).integers(0, 20_005, 30_000).astype(dtype)
    counts = lib.histogram(eas.tensor(keys, device="mps"), 20_000)
    assert np.array_equal(counts.numpy(), np.bincount(keys[keys < 20_000], minlength=20_000))


def test_sum_of_a_tensor_on_the_gpu(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "software")
    assert lib.sum(eas.ones(300, 1000, device="mps")) == 300_000
