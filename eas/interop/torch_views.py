"""torch tensors as arguments: memory of the CPU, or on mps what a launch may know of them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes
from eas.base.facts import Extent
from eas.interop.arg_view import ArgView, foreign_view, reach_of, refusal
from eas.interop.targets import as_dtype

Array = NDArray[Any]
_BASE = 1 << 40  # of `addresses`: a multiple of every alignment, and no address of this process is asked for

# Formats that NumPy lacks: the eas type, and the torch integer of that width.
TORCH_ONLY = {
    "torch.bfloat16": (dtypes.bf16, "uint16"),
    "torch.float8_e4m3fn": (dtypes.f8e4m3, "uint8"),
    "torch.float8_e5m2": (dtypes.f8e5m2, "uint8"),
}


def torch_view(tensor: Any, name: str) -> ArgView:
    torch = sys.modules["torch"]
    _check_torch(torch, tensor, name)
    if tensor.device.type == "mps":
        return TorchMpsView(name, tensor)
    data = tensor.detach() if tensor.requires_grad else tensor
    dtype, integer = TORCH_ONLY.get(str(tensor.dtype), (None, ""))
    if dtype is not None:
        data = data.view(getattr(torch, integer))
    try:
        array = data.numpy()
    except (RuntimeError, TypeError) as error:  # wrapped by vmap or torch.func, quantized, ...
        raise refusal(name, f"is a torch tensor without memory to share: {error}", "") from None
    seen = foreign_view(array, tensor, name)
    seen.dtype = dtype or seen.dtype
    seen.requires_grad_leaf = tensor.requires_grad and torch.is_grad_enabled()
    return seen


def _check_torch(torch: Any, tensor: Any, name: str) -> None:
    """Refuse tensors that are not strided numbers in memory of the CPU or of Metal."""
    device = tensor.device.type
    if tensor.layout is not torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise refusal(
            name,
            f"is a torch tensor of layout {layout}, a kernel needs a strided one",
            "pass x.to_dense()",
        )
    if device == "meta" or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        kind = type(tensor).__name__
        raise refusal(
            name, f"is a torch tensor without data ({kind} on {device})", "pass a real tensor"
        )
    if device not in ("cpu", "mps"):
        raise refusal(name, f"is a torch tensor on {device}, which eas cannot take", "pass x.cpu()")
    if tensor.is_quantized:
        raise refusal(
            name,
            f"is a quantised torch tensor ({tensor.dtype}), whose scales a kernel cannot see",
            "pass x.int_repr() or x.dequantize()",
        )
    if tensor.is_complex():
        raise refusal(
            name,
            f"is a torch tensor of {tensor.dtype}, which kernels cannot take",
            "pass torch.view_as_real(x)",
        )
    if tensor.is_neg():
        raise refusal(name, "is a torch tensor with its negative bit set", "pass x.resolve_neg()")
    try:
        nbytes = tensor.untyped_storage().nbytes()
    except NotImplementedError:  # a wrapper, as inside of vmap; whoever takes CPU memory refuses it
        if device == "mps":
            raise refusal(name, "is a torch tensor without memory to share", "") from None
        return
    if nbytes < _reach_nbytes(tensor):
        raise refusal(
            name,
            f"is a torch tensor of shape {tuple(tensor.shape)} whose storage was resized to {nbytes} bytes",
            "give it memory again with x.untyped_storage().resize_(nbytes)",
        )


def _reach_nbytes(tensor: Any) -> int:
    """How far into its storage a tensor reaches."""
    if not tensor.numel():
        return 0
    reach = tensor.numel() if tensor.is_contiguous() else reach_of(tensor.shape, tensor.stride())
    return int((tensor.storage_offset() + reach) * tensor.element_size())


class TorchMpsView(ArgView):
    """A torch tensor on mps: its place in its storage. `data_ptr()` is no address there, so nobody asks for it."""

    __slots__ = ("tensor",)

    def __init__(self, name: str, tensor: Any) -> None:
        torch = sys.modules["torch"]
        self.name, self.owner = name, tensor
        self.tensor = tensor.detach() if tensor.requires_grad else tensor
        self.dtype = as_dtype(tensor.dtype)
        self.device, self.offset, self.readonly = "mps", 0, False
        self.requires_grad_leaf = tensor.requires_grad and torch.is_grad_enabled()

    @property
    def array(self) -> Array:  # type: ignore[override]  # memory of the GPU, which no array of the host shows
        raise AssertionError(f"argument {self.name!r} is memory of torch's stream")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(self.tensor.stride())

    @property
    def is_contiguous(self) -> bool:
        return bool(self.tensor.is_contiguous())

    @property
    def home(self) -> object:
        return self.tensor.untyped_storage()._cdata

    @property
    def addresses(self) -> Array:
        steps = tuple(s * self.dtype.nbytes for s in self.strides)
        return np.asarray(_Layout(_BASE + self._begin, self.shape, steps, self.dtype.np_storage))

    @property
    def extent(self) -> Extent:
        size = reach_of(self.shape, self.strides)
        return Extent(self.home, self._begin, size * self.dtype.nbytes, size)

    @property
    def _begin(self) -> int:
        return int(self.tensor.storage_offset()) * self.dtype.nbytes

    def reach(self) -> TorchMemory:
        return TorchMemory(self.tensor, self.extent)

    def copied(self) -> TorchMemory:
        copy = self.tensor.clone(memory_format=sys.modules["torch"].contiguous_format)
        return TorchMpsView(self.name, copy).reach()

    def blank(self) -> TorchMemory:
        return self.copied()

    def write_back(self, copy: Any) -> None:
        with sys.modules["torch"].no_grad():
            self.tensor.copy_(copy.tensor.view(self.shape)) if isinstance(copy, TorchMemory) else self.tensor.fill_(copy)

    def named(self, name: str) -> TorchMpsView:
        return TorchMpsView(name, self.owner)

    def __repr__(self) -> str:
        return f"TorchMpsView({self.name}: {self.dtype}{list(self.shape)}, strides {self.strides})"


class TorchMemory:
    """An argument of a kernel on torch's stream: a tensor, of whose storage it may use what `extent` says."""

    __slots__ = ("extent", "tensor")

    def __init__(self, tensor: Any, extent: Extent) -> None:
        self.tensor, self.extent = tensor, extent


class _Layout:
    """What NumPy takes for memory, for questions of overlap; nobody looks at the elements."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {"version": 3, "shape": shape, "strides": strides, "typestr": dtype.str, "data": (address, True)}
