"""Where the arguments of a launch live, and so which runtime runs it."""

from __future__ import annotations

from collections.abc import Mapping

from eas import config
from eas.errors import LaunchError
from eas.interop.views import ArgView
from eas.runtime import Runtime, get_runtime
from eas.runtime.launch_settings import setting_now


def runtime_for(kernel: str, views: Mapping[str, ArgView]) -> Runtime:
    """The runtime of `EAS_BACKEND`; `auto` runs a kernel where its arguments live, all of them in one place."""
    devices: dict[str, list[str]] = {}
    for arg, v in views.items():
        devices.setdefault(v.device, []).append(f"`{arg}`")
    if len(devices) > 1:
        where = "; ".join(f"{', '.join(args)} on {device}" for device, args in devices.items())
        raise LaunchError(f"{kernel} got arguments on different devices: {where}", hint="move them to one device with .to(...)")
    return get_runtime("mps" if "mps" in devices and setting_now(config.backend) == "auto" else None)
