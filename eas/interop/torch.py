"""The memory of torch tensors, in both directions and without copies; torch is imported on use."""

from __future__ import annotations

import functools
from typing import Any

from numpy.typing import NDArray

from eas.base.dtypes import DType
from eas.base.errors import ArgumentError, BackendUnavailable
from eas.interop.arg_view import ArgView, is_torch_tensor
from eas.interop.torch_views import TORCH_ONLY
from eas.interop.views import view
from eas.runtime import get_runtime
from eas.runtime.copies import told

Array = NDArray[Any]

# dtype NumPy lacks -> the torch dtype of that format
_TORCH_NAMES = {dtype: name.removeprefix("torch.") for name, (dtype, _) in TORCH_ONLY.items()}


def torch_dtype(torch: Any, dtype: DType) -> Any:
    """How torch calls an element type."""
    return getattr(torch, _TORCH_NAMES.get(dtype) or dtype.np_compute.name)


def memory_of(tensor: object) -> ArgView:
    """The memory of a torch tensor, on the CPU or shared with Metal, detached from autograd.

    One that requires grad is read-only here while grad mode is on: autograd would miss writes.
    """
    if not is_torch_tensor(tensor):
        raise ArgumentError(
            f"from_torch takes a torch tensor, got {type(tensor).__name__}",
            hint="eas.tensor(x) takes NumPy arrays, lists and buffers too",
        )
    seen = view(tensor, "tensor")
    if seen.home:
        from eas.interop.torch_mps import shared_view  # loaded with the first such tensor

        seen = shared_view(seen)
    seen.readonly |= seen.requires_grad_leaf
    return seen


def within_reach(tensor: Any) -> Any:
    """A torch tensor as strided numbers in memory of the CPU or of Metal: itself, or a copy where it is elsewhere."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    is_near = tensor.device.type in ("cpu", "meta") or (tensor.device.type == "mps" and get_runtime("mps").is_available())
    return tensor if is_near else told("cpu", tensor.device.type, tensor.numel() * tensor.element_size(), lambda: tensor.detach().cpu())


def to_torch(array: Array, dtype: DType, device: object = None) -> Any:
    """A torch tensor on the memory of `array`, or a copy where torch cannot share it."""
    torch = _import_torch()
    # torch would let read-only memory be written, and it has no negative strides.
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = told("cpu", "cpu", array.nbytes, functools.partial(array.copy, order="C"))
    shared = torch.from_numpy(array)
    if dtype in _TORCH_NAMES:
        shared = shared.view(getattr(torch, _TORCH_NAMES[dtype]))
    return shared if device is None else shared.to(device)


def checked_device(device: object) -> Any:
    """The torch device of that name, or None for none; refused if it is that of Metal and torch has no MPS."""
    torch = _import_torch()
    if device is None:
        return None
    wanted = torch.device("mps" if device == "metal" else device)
    if wanted.type == "mps" and not torch.backends.mps.is_available():
        raise BackendUnavailable("to_torch(\"mps\") needs a torch with MPS, which this one is without", hint="x.to_torch() is a tensor on the CPU")
    return wanted


def from_dlpack(x: Any) -> Any:
    """A torch tensor on the memory of a DLPack producer."""
    return _import_torch().from_dlpack(x)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailable(
            "to_torch needs torch, which is not installed", hint="pip install torch"
        ) from error
    return torch
