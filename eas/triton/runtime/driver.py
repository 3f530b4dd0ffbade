"""`triton.runtime.driver`: the device that kernels run on, in Triton's words."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from eas.base import config
from eas.base.backends import runs_metal


class GPUTarget(NamedTuple):
    """A device as Triton names it; ours is the CPU, or Metal."""

    backend: str
    arch: int | str
    warp_size: int


class _Utils:
    """Questions about the device."""

    @staticmethod
    def get_device_properties(device: Any = 0) -> dict[str, int]:
        """Figures by which libraries choose block sizes; those of a CPU core's caches stand for a GPU's memories."""
        return {
            "max_shared_mem": 1 << 18, "max_num_regs": 65536, "multiprocessor_count": os.cpu_count() or 1, "warpSize": 32,
            "sm_clock_rate": 1_000_000, "mem_clock_rate": 1_000_000, "mem_bus_width": 128,
        }  # fmt: skip


class Driver:
    """The one driver: kernels run where their arguments live."""

    utils = _Utils()

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("metal" if runs_metal(config.backend()) else "cpu", 0, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: Any) -> None:
        """Nothing: there is one device."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("mps" if self.get_current_target().backend == "metal" and torch.backends.mps.is_available() else "cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else {"i1": "int8_t", "fp32": "float", "fp64": "double"}.get(ty, ty)

    def get_benchmarker(self) -> Any:
        from eas.triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1 << 24, dtype=torch.int8)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()


class _DriverConfig:
    """`triton.runtime.driver`: the default driver and the active one are the same."""

    def __init__(self) -> None:
        self.default = self.active = Driver()

    def set_active(self, driver: Any) -> None:
        self.active = driver

    def reset_active(self) -> None:
        self.active = self.default


driver = _DriverConfig()
