"""Launches on torch tensors on mps: the two ways to reach their memory.

Layer B runs kernels on torch's own stream (`eas._torch_mps`). Layer A shares memory through DLPack and runs them on
a stream of ours, after torch's has ended and before torch's goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from eas import _torch_mps
from eas.base import config
from eas.base.errors import BackendUnavailable, LaunchError
from eas.interop import dlpack
from eas.interop.arg_view import ArgView
from eas.interop.private import PrivateView, SharedPrivateView
from eas.interop.torch_views import TorchMpsView
from eas.runtime import Runtime, get_runtime
from eas.runtime.debug import note_once

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
