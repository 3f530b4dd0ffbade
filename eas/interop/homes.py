"""Where the arguments of a launch live, and so which runtime runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eas.base import config
from eas.base.backends import runs_metal
from eas.base.errors import LaunchError
from eas.base.facts import Extent
from eas.interop.arg_view import ArgView, address_of
from eas.runtime import Runtime
from eas.runtime.launch_settings import setting_now

Views = Mapping[str, ArgView]


def launch_site(kernel: str, views: Views, get_runtime: Callable[[str | None], Runtime]) -> tuple[Runtime, Views]:
    """The runtime of `EAS_BACKEND`, as `get_runtime` finds it, and the arguments as it takes them; `auto` runs a kernel where they live."""
    devices: dict[str, list[str]] = {}
    for arg, v in views.items():
        devices.setdefault(v.device, []).append(f"`{arg}`")
    if len(devices) > 1:
        where = "; ".join(f"{', '.join(args)} on {device}" for device, args in devices.items())
        raise LaunchError(f"{kernel} got arguments on different devices: {where}", hint="move them to one device with .to(...)")
    if any(v.home for v in views.values()):
        from eas.interop.torch_mps import site_of_torch  # loaded with the first such tensor

        return site_of_torch(kernel, views)
    runtime = get_runtime("mps" if "mps" in devices and setting_now(config.backend) == "auto" else None)
    private = [f"`{arg}`" for arg, v in views.items() if v.is_private]
    if private and not runs_metal(runtime.name):
        raise LaunchError(f"{kernel} runs on {runtime.name}, and {', '.join(private)} is memory that only the GPU sees", hint='pass x.to("cpu"), or unset EAS_BACKEND')
    return runtime, views


def extent_of(memory: Any) -> Extent:
    """Where an argument of a runtime lies: a flat array, or what says so itself."""
    if isinstance(memory, np.ndarray):
        return Extent(0, address_of(memory), memory.nbytes, memory.size)
    extent: Extent = memory.extent
    return extent
