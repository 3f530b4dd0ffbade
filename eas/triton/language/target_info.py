"""`triton.language.target_info`: questions about the device; none of ours is of NVIDIA or AMD."""

from __future__ import annotations

from typing import Any


def current_target() -> Any:
    """What kernels run on."""
    from eas.triton.runtime.driver import driver

    return driver.active.get_current_target()


def is_cuda() -> bool:
    return False


def is_hip() -> bool:
    return False


def is_hip_cdna3() -> bool:
    return False


def is_hip_cdna4() -> bool:
    return False


def cuda_capability_geq(major: Any, minor: Any = 0) -> bool:
    return False
