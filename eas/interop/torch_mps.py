"""torch tensors on mps: what a launch may know of them, and the two ways to reach their memory.

Layer B runs kernels on torch's own stream (`eas._torch_mps`). Layer A shares memory through DLPack and runs them on
a stream of ours, after torch's has ended and before torch's goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas import _torch_mps
from eas.base import config
from eas.base.errors import BackendUnavailable, LaunchError
from eas.base.facts import Extent
from eas.interop.targets import as_dtype
from eas.interop.views import ArgView, reach_of
from eas.runtime import Runtime, get_runtime
from eas.runtime.debug import note_once

Array = NDArray[Any]
_BASE = 1 << 40  # of `addresses`: a multiple of every alignment, and no address of this process is asked for


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


# --- which layer ------------------------------------------------------------------------------------


def site_of_torch(kernel: str, views: Mapping[str, ArgView]) -> tuple[Runtime, Mapping[str, ArgView]]:
    """Torch's stream for tensors of torch alone, if layer B is wanted and there; else ours, on shared memory."""
    backend = config.backend()
    if backend not in ("auto", "mps", "metal"):
        names = ", ".join(f"`{n}`" for n, v in views.items() if v.home)
        raise LaunchError(f"{kernel} got torch tensors on mps ({names}), and EAS_BACKEND={backend}", hint="unset EAS_BACKEND, or pass x.cpu()")
    layer, why = chosen_layer()
    if layer == "a" and config.torch_layer() == "auto":
        note_once(1, f"torch tensors on mps go through layer A, which synchronises with torch: {why}")
    if layer == "b" and all(v.home for v in views.values()):
        return _torch_mps.runtime(), views
    return get_runtime("mps"), {name: shared_view(v) if isinstance(v, TorchMpsView) else v for name, v in views.items()}


def chosen_layer() -> tuple[str, str]:
    """`a` or `b`, and why; `EAS_TORCH_LAYER=b` is an error where torch lacks what it needs."""
    wanted, missing = config.torch_layer(), _torch_mps.why_unavailable()
    if wanted == "a":
        return "a", "EAS_TORCH_LAYER=a"
    if missing is None:
        return "b", f"EAS_TORCH_LAYER={wanted}, and torch has compile_shader"
    if wanted == "b":
        raise BackendUnavailable(f"EAS_TORCH_LAYER=b, but {missing}", hint="EAS_TORCH_LAYER=a shares memory through DLPack")
    return "a", missing


# --- layer A ----------------------------------------------------------------------------------------


def shared_view(seen: ArgView) -> ArgView:
    """The memory of a torch tensor, which torch's stream has left, shared through DLPack."""
    from eas.interop import dlpack
    from eas.interop.private import PrivateView, SharedPrivateView

    assert isinstance(seen, TorchMpsView), seen
    torch = sys.modules["torch"]
    if config.torch_mps_sync():
        torch.mps.synchronize()
    found = dlpack.memory_of(seen.tensor)
    if isinstance(found, PrivateView):
        return SharedPrivateView(seen.name, seen.dtype, found.array, seen.owner, found.home_device, readonly=found.readonly, requires_grad_leaf=seen.requires_grad_leaf)
    return SharedView(seen.name, seen.dtype, found.array, seen.owner, readonly=found.readonly, device="mps", requires_grad_leaf=seen.requires_grad_leaf)


class SharedView(ArgView):
    """Memory that torch's stream uses, too: our launches on it end before torch goes on."""

    __slots__ = ()
    must_finish = True
