"""The devices on which a tensor can live; a runtime with memory of its own adds one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from eas.errors import BackendUnavailable, EasError
from eas.interop.dlpack_metal import METAL
from eas.interop.pool import POOL, MemoryStats
from eas.loading import load
from eas.runtime import get_runtime, require

Array = NDArray[Any]


class UnknownDevice(EasError, ValueError):
    """A device of that name does not exist."""


@dataclass(frozen=True, slots=True)
class Device:
    """Memory that kernels of one kind can use, and that the CPU can see.

    Shared Metal buffers and those of the software Metal are host memory, so a tensor is a NumPy
    array on every device. The base of that array is the runtime's buffer object.
    """

    name: str
    dlpack_type: int
    """kDLCPU is 1, kDLMetal 8."""
    allocate: Callable[[int], Array]
    """New memory as bytes."""
    stats: Callable[[], MemoryStats]
    release: Callable[[], int]
    """Give memory that no tensor uses back to the system; the number of bytes that were."""
    synchronize: Callable[[], None] = lambda: None
    """Afterwards the CPU sees what launched kernels have written."""

    @property
    def dlpack_device(self) -> tuple[int, int]:
        return (self.dlpack_type, 0)


CPU = Device("cpu", 1, POOL.allocate, POOL.stats, POOL.release)
_ALIASES = {"metal": "mps"}
_devices = {"cpu": CPU}
_simulated: dict[str, Device] = {}


def add_device(device: Device) -> None:
    """Tensors may live on `device` from now on."""
    _devices[device.name] = device


def device_of(device: object) -> Device:
    """The device that a name such as `"cpu"`, `"mps:0"` or a torch device stands for."""
    name, _, index = str(device).partition(":")
    name = _ALIASES.get(name, name)
    found = _devices.get(name)
    if found is not None and index in ("", "0"):
        return found
    if name == "mps" and index in ("", "0"):
        return _metal_device()
    raise UnknownDevice(f"there is no device named {str(device)!r}", hint='device="cpu"')


def memory_stats(device: object = "cpu") -> MemoryStats:
    """How much memory of a device the tensors of this process use, and how much its pool keeps for later."""
    return device_of(device).stats()


def empty_cache() -> int:
    """Give memory that no tensor uses back, on all devices; the number of bytes that were."""
    return sum(device.release() for device in list(_devices.values()))


def _metal() -> Device:
    """The GPU: shared buffers, which the CPU sees as memory of its own."""
    load("eas.runtime.metal")
    from eas.runtime.metal import MetalRuntime

    runtime = require(get_runtime("mps"))
    assert isinstance(runtime, MetalRuntime)
    memory = runtime.memory
    add_device(Device("mps", METAL, memory.allocate, lambda: MemoryStats(*memory.counts()), memory.release, runtime.synchronize))
    return _devices["mps"]


def _metal_device() -> Device:
    """The Metal device: the GPU, or host memory under `EAS_BACKEND=sim`."""
    runtime = get_runtime()
    if runtime.name == "mps" or (runtime.name != "sim" and get_runtime("mps").is_available()):
        return _metal()
    if runtime.name != "sim":
        raise BackendUnavailable(
            f"there is no Metal device on the {runtime.name} backend",
            hint='device="cpu", or EAS_BACKEND=sim for the software Metal',
        )
    require(runtime)
    made = _simulated.get(runtime.name)
    if made is None:
        made = _simulated[runtime.name] = Device("mps", CPU.dlpack_type, POOL.allocate, POOL.stats, POOL.release, runtime.synchronize)
    return made
