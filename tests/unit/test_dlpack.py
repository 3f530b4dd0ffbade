"""DLPack exchange: who owns the memory when, which capsules are made and taken, what is refused."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from eas.base import dtypes, errors
from eas.interop import capsules, dlpack
from eas.tensor import arange, from_dlpack, ones, tensor, to_dlpack, zeros

ROOT = Path(__file__).parents[2]
NATIVE = [d for d in dtypes.ALL if d.np_storage == d.np_compute]
versioned_only = pytest.mark.skipif(not dlpack._NUMPY_HAS_VERSIONS, reason="NumPy 2.0 has DLPack 0")


class Producer:
    """A capsule as an object, or an older library's exporter."""

    def __init__(self, capsule, device=(1, 0)):
        self.capsule = capsule
        self.device = device

    def __dlpack__(self):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class Noted(bytearray):
    """Memory whose death can be seen."""


def noted_tensor():
    memory = Noted(np.arange(4.0).tobytes())
    return tensor(np.frombuffer(memory)), weakref.ref(memory)


def address(array):
    return array.__array_interface__["data"][0]


# --- NumPy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NATIVE)
def test_numpy_exchange_shares_memory(dtype):
    a = np.ones((2, 3), dtype.np_storage)[:, ::2]
    x = from_dlpack(a)
    assert (x.dtype, x.shape, x.strides) == (dtype, (2, 2), (3, 2))
    assert address(x._array) == address(a)
    assert x._array.flags.writeable
    back = np.from_dlpack(x)
    assert (back.dtype, address(back), back.strides) == (a.dtype, address(a), a.strides)


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("version", [None, pytest.param((1, 0), marks=versioned_only)])
def test_capsules_carry_every_dtype(dtype, version):
    x = ones(2, 3, dtype=dtype)
    back = from_dlpack(x.__dlpack__(max_version=version))
    assert (back.dtype, back.shape, address(back._array)) == (dtype, (2, 3), address(x._array))
    assert back._array.flags.writeable
    back.copy_(0)
    assert x.tolist() == [[0] * 3] * 2


def test_shapes_without_axes_or_elements():
    assert from_dlpack(tensor(2.5)).item() == 2.5
    assert from_dlpack(to_dlpack(tensor(2.5))).item() == 2.5
    assert from_dlpack(to_dlpack(zeros(0, 3))).shape == (0, 3)
    assert from_dlpack(to_dlpack(arange(6)[1::2])).tolist() == [1, 3, 5]


def test_device_is_the_cpu():
    assert ones(1).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        ones(1).__dlpack__(dl_device=(8, 0))


def test_copy_is_made_on_request():
    x = ones(2)
    copied = from_dlpack(x.__dlpack__(copy=True))
    assert address(copied._array) != address(x._array)
    assert address(from_dlpack(x.__dlpack__(copy=False))._array) == address(x._array)


@versioned_only
def test_read_only_memory_stays_read_only():
    a = np.zeros(2)
    a.flags.writeable = False
    x = from_dlpack(a)
    assert not x._array.flags.writeable
    assert not np.from_dlpack(x).flags.writeable
    with pytest.raises(BufferError, match="readonly"):
        x.__dlpack__()
    with pytest.raises(
        errors.ArgumentError, match=r"read-only tensor.*\n  hint: eas.to_dlpack\(x.clone"
    ):
        to_dlpack(x)


# --- ownership ----------------------------------------------------------------------------------


def test_an_unused_capsule_gives_the_memory_back():
    x, gone = noted_tensor()
    capsule = to_dlpack(x)
    del x
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("version", [None, pytest.param((1, 0), marks=versioned_only)])
@pytest.mark.parametrize("order", ["exporter first", "importer first", "capsule last"])
def test_memory_lives_until_the_last_holder_dies(order, version):
    x, gone = noted_tensor()
    capsule = x.__dlpack__(max_version=version)
    y = from_dlpack(capsule)
    if order != "capsule last":
        del capsule
    if order == "importer first":
        del y
        gc.collect()
        assert x.tolist() == [0, 1, 2, 3]
        del x
    else:
        del x
        gc.collect()
        part = y[1:]
        del y
        gc.collect()
        assert part.tolist() == [1, 2, 3]
        assert gone() is not None
        del part
    gc.collect()
    assert gone() is None


def test_a_capsule_is_used_once():
    capsule = to_dlpack(ones(2))
    from_dlpack(capsule)
    with pytest.raises(
        errors.ArgumentError, match="imported already\n  hint: export a new capsule"
    ):
        from_dlpack(capsule)


def test_a_refused_capsule_stays_usable(monkeypatch):
    capsule = to_dlpack(ones(2, dtype="bf16"))

    def refuse(_):
        raise BufferError("no")

    with monkeypatch.context() as patch:
        patch.setattr(np, "from_dlpack", refuse)
        with pytest.raises(errors.ArgumentError, match="NumPy cannot share the DLPack tensor: no"):
            from_dlpack(capsule)
    assert from_dlpack(capsule).dtype is dtypes.bf16


def peak_mib():
    resource = pytest.importorskip("resource")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_ten_thousand_exchanges_leak_nothing(dtype):
    pattern = ones(16384, dtype=dtype)

    def exchange(count):
        for _ in range(count):
            x = pattern.clone()
            from_dlpack(to_dlpack(x))
            from_dlpack(x)
            to_dlpack(x)

    exchange(100)
    before = peak_mib()
    exchange(10_000)
    assert peak_mib() - before < 16  # the memory alone would be 300 MiB and more


# --- torch --------------------------------------------------------------------------------------

TORCH_DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_torch_exchange_shares_memory(name):
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 3).to(getattr(torch, name))
    for source in (t, torch.utils.dlpack.to_dlpack(t)):
        x = from_dlpack(source)
        assert address(x._array) == t.data_ptr()
        assert x._array.flags.writeable
        for back in (torch.from_dlpack(x), torch.utils.dlpack.from_dlpack(to_dlpack(x))):
            assert (back.dtype, back.data_ptr(), back.shape) == (t.dtype, t.data_ptr(), t.shape)


def test_bf16_round_trip_with_torch_keeps_bits():
    torch = pytest.importorskip("torch")
    t = torch.randn(100).bfloat16()
    x = from_dlpack(t)
    assert x.tolist() == t.tolist()
    assert torch.equal(torch.from_dlpack(x.clone()), t)


def test_torch_offsets_and_strides_are_honoured():
    torch = pytest.importorskip("torch")
    t = torch.arange(24).reshape(2, 3, 4)[1:, :, ::2].transpose(1, 2)
    x = from_dlpack(t)
    assert (x.tolist(), x.strides) == (t.tolist(), t.stride())
    assert from_dlpack(torch.empty(0, 2)).shape == (0, 2)


def test_torch_owns_what_it_took():
    torch = pytest.importorskip("torch")
    x, gone = noted_tensor()
    t = torch.utils.dlpack.from_dlpack(to_dlpack(x))
    u = torch.from_dlpack(x)
    del x
    gc.collect()
    assert t.tolist() == u.tolist() == [0, 1, 2, 3]
    del t
    gc.collect()
    assert gone() is not None
    del u
    gc.collect()
    assert gone() is None


def test_tensors_that_require_grad_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.ArgumentError, match=r"the Tensor cannot share its memory: .*detach"):
        from_dlpack(torch.ones(2, requires_grad=True))


def test_memory_may_outlive_the_interpreter():
    pytest.importorskip("torch")
    code = """
import torch
from eas.tensor import ones, to_dlpack, from_dlpack
torch.kept = torch.utils.dlpack.from_dlpack(to_dlpack(ones(100, dtype="bf16")))
from_dlpack.kept = from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(100).bfloat16()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- other producers, refusals ------------------------------------------------------------------


def test_older_producers_are_asked_without_a_version():
    x = ones(3, dtype="bf16")
    assert from_dlpack(Producer(to_dlpack(x))).dtype is dtypes.bf16
    assert tensor(Producer(to_dlpack(x))).tolist() == [1, 1, 1]


def test_arrays_that_their_library_never_changes_are_read_only():
    immutable = type("Array", (Producer,), {"__module__": "jaxlib._jax"})
    x = from_dlpack(immutable(to_dlpack(ones(2))))
    assert not x._array.flags.writeable
    assert x.__eas_view__().readonly


def test_other_devices_are_refused():
    with pytest.raises(errors.ArgumentError, match=r"the Producer lives on Metal, .* CPU memory"):
        from_dlpack(Producer(None, device=(8, 0)))
    with pytest.raises(errors.ArgumentError, match="DLPack device 99"):
        from_dlpack(Producer(None, device=(99, 0)))
    capsule = to_dlpack(ones(2))
    capsules.content_of(capsule)[0].device_type = 2
    with pytest.raises(errors.ArgumentError, match="the capsule lives on CUDA"):
        from_dlpack(capsule)


def test_foreign_dtypes_are_refused():
    with pytest.raises(errors.ArgumentError, match="no dtype for DLPack type code 5 with 128 bits"):
        from_dlpack(np.zeros(2, complex))
    capsule = to_dlpack(ones(2))
    capsules.content_of(capsule)[0].lanes = 4
    with pytest.raises(errors.ArgumentError, match="4 lanes"):
        from_dlpack(capsule)


@versioned_only
def test_a_later_major_version_is_refused():
    capsule = ones(2).__dlpack__(max_version=(1, 0))
    managed = capsules.ManagedVersioned.from_address(capsules.pointer(capsule, b"dltensor_versioned"))
    managed.major = 2
    with pytest.raises(errors.ArgumentError, match=r"follows DLPack 2\.\d+, eas reads version 1"):
        from_dlpack(capsule)
    managed.major = 1  # so that NumPy's destructor knows the capsule again


def test_what_does_not_speak_dlpack_is_refused():
    with pytest.raises(errors.ArgumentError, match="an object with __dlpack__, got list"):
        from_dlpack([1, 2])
    stranger = sys.modules["datetime"].datetime_CAPI if "datetime" in sys.modules else None
    if stranger is not None:
        with pytest.raises(errors.ArgumentError, match="holds no DLPack tensor"):
            from_dlpack(stranger)


def test_exports_that_a_consumer_could_not_take_are_refused():
    """torch ends the process at negative strides."""
    x = arange(6, dtype="f32").reshape(2, 3)
    with pytest.raises(BufferError, match="cannot take negative strides"):
        x[::-1].__dlpack__()
    assert from_dlpack(x[::-1].__dlpack__(copy=True)).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert from_dlpack(x[:1][::-1]).tolist() == [[0, 1, 2]]  # of one element there is no order
    with pytest.raises(errors.ArgumentError, match=r"stream 7(.|\n)*hint: stream=None"):
        x.__dlpack__(stream=7)


def test_torch_tensors_that_cannot_be_shared_say_why():
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.ArgumentError, match="without data"):
        from_dlpack(torch.ones(3, device="meta"))
    with pytest.raises(errors.ArgumentError, match=r"sparse_coo(.|\n)*to_dense"):
        from_dlpack(torch.eye(3).to_sparse())
