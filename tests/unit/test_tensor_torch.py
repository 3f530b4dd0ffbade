"""`eas.Tensor` and torch on the CPU: shared memory, autograd, and what is refused."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eas.base import dtypes, errors
from eas.tensor import arange, empty, from_torch, ones, tensor, to_torch

ROOT = Path(__file__).parents[2]


def address(array):
    return array.__array_interface__["data"][0]


def readonly(array):
    array = array.view()
    array.flags.writeable = False
    return array


def torch_dtype(torch, dtype):
    names = {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "bf16": "bfloat16"}
    return getattr(torch, names.get(dtype.name, dtype.np_storage.name))


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_torch_shares_memory_both_ways(dtype):
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 3).to(torch_dtype(torch, dtype))
    for x in (tensor(t), from_torch(t)):
        assert x.dtype is dtype
        assert address(x._array) == t.data_ptr()
        back = to_torch(x)
        assert (back.dtype, back.data_ptr(), back.shape) == (t.dtype, t.data_ptr(), t.shape)
    assert tensor(t.T).strides == (1, 3)
    assert tensor(t[1, 1:]).to_torch().data_ptr() == t[1, 1:].data_ptr()


def test_bf16_values_agree_with_torch():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert torch.equal(tensor(values).to("bf16").to_torch(), torch.tensor(values).bfloat16())
    assert empty(1, dtype=torch.bfloat16).dtype is dtypes.bf16
    assert tensor(values).to(torch.float16).dtype is dtypes.f16
    assert tensor(values).to(torch.device("cpu")).dtype is dtypes.f32


def test_torch_memory_outlives_either_side():
    torch = pytest.importorskip("torch")
    x = from_torch(torch.arange(1000.0))
    gc.collect()
    assert x[999].item() == 999
    t = x.to_torch()
    del x
    gc.collect()
    assert t[999] == 999
    t = arange(1000).to_torch()
    gc.collect()
    assert t[999] == 999


def test_autograd_does_not_miss_writes():
    torch = pytest.importorskip("torch")
    t = torch.ones(3, requires_grad=True)
    assert from_torch(t).__eas_view__().readonly
    assert from_torch(t.detach()).copy_([1, 2, 3]).tolist() == t.tolist()
    with torch.no_grad():
        x = from_torch(t)
    version = t._version
    x[1:].copy_(0)
    assert t._version == version + 1
    assert t.tolist() == [1, 0, 0]


def test_what_torch_cannot_share_is_copied():
    pytest.importorskip("torch")
    turned = ones(3)[::-1]  # torch has no negative strides
    turned.to_torch().fill_(5)
    assert turned.tolist() == [1, 1, 1]
    constant = readonly(np.zeros(2))  # torch would let it be written
    tensor(constant).to_torch().fill_(5)
    assert constant.tolist() == [0, 0]


def test_what_torch_cannot_share_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.ArgumentError, match="from_torch takes a torch tensor, got ndarray"):
        from_torch(np.zeros(2))
    with pytest.raises(errors.ArgumentError, match="on meta"):
        from_torch(torch.empty(2, device="meta"))
    with pytest.raises(errors.ArgumentError, match="layout sparse_coo"):
        tensor(torch.eye(2).to_sparse())


def test_without_torch_to_torch_says_so():
    code = """
import sys
sys.modules["torch"] = None
from eas.tensor import ones
try:
    ones(2).to_torch()
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (
        done.stdout == "to_torch needs torch, which is not installed\n  hint: pip install torch\n"
    )
